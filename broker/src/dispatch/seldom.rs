//! The code table of everything but sends and pulls. What only looks at memory is served on the
//! connection's task; what may wait for a disk goes to the pool; what asks another client goes to a
//! task that waits for its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_protocol::code::{request as code, response};
use broker_protocol::frame::Frame;
use broker_protocol::header::{EmptyHeader, NoHeader};
use broker_store::Flushed;
use broker_store::config::FlushDiskType;

use super::Rooms;
use crate::clients::Sender;
use crate::handler::consumer::{self, Progress};
use crate::handler::heartbeat::{self, Membership};
use crate::handler::reset_offset::{self, Reset};
use crate::handler::runtime::Runtime;
use crate::handler::send::ROUTE_PATIENCE;
use crate::handler::send_back::{GivenBack, SendBack};
use crate::handler::{Refusal, config, group, now_ms, offset, query, queue_lock, stats, topic};
use crate::net::{Answer, Later, OwnedFrame, Peer, Reply};

type Handled = Result<Answer, Refusal>;

/// Serves the request; false when no handler has its code.
pub(super) fn handle(
    rooms: &Arc<Rooms>,
    peer: &Arc<Peer>,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> bool {
    if let Some(done) = at_once(rooms, peer, request, reply) {
        if let Err(refusal) = done {
            let (code, remark) = (refusal.code, Some(&*refusal.remark));
            match request.head.code {
                // RocketMQ shows an object of fields here, with none in it.
                code::QUERY_CONSUMER_OFFSET
                | code::UPDATE_CONSUMER_OFFSET
                | code::UNREGISTER_CLIENT
                | code::GET_CONSUMER_LIST_BY_GROUP => {
                    reply.with_body(code, remark, &EmptyHeader, &[]);
                }
                _ => reply.with_body(code, remark, &NoHeader, &[]),
            }
        }
        return true;
    }
    match request.head.code {
        code::CONSUMER_SEND_MSG_BACK => {
            let at_work = Arc::clone(rooms);
            rooms.pool.serve(request, reply, move |request, later| {
                send_back(&at_work, &request.frame(), later);
            });
        }
        code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS
        | code::GET_CONSUMER_RUNNING_INFO
        | code::CONSUME_MESSAGE_DIRECTLY => ask_client(rooms, request, reply),
        other => {
            let Some(handler) = on_pool(other) else { return false };
            let at_work = Arc::clone(rooms);
            rooms.pool.answer(request, reply, move |request| {
                let answer = handler(&at_work, request).unwrap_or_else(Answer::from);
                if other == code::UPDATE_AND_CREATE_TOPIC {
                    let_routes_follow(&at_work);
                }
                answer
            });
        }
    }
    true
}

/// The connection of a client is gone.
pub(super) fn closed(rooms: &Rooms, peer: &Peer) {
    with_members(rooms, |membership| membership.closed(peer));
}

/// Drops clients that were silent for too long, and locks that nobody renewed.
pub(super) fn expire(rooms: &Rooms) {
    let now = now_ms();
    with_members(rooms, |membership| membership.expire(now));
    rooms.queue_locks.expire(now);
}

fn with_members<R>(rooms: &Rooms, work: impl FnOnce(Membership<'_>) -> R) -> R {
    let config = rooms.config.broker();
    let (clients, groups, topics) = (&*rooms.clients, &*rooms.groups, &*rooms.topics);
    work(Membership { clients, groups, topics, config: &config })
}

/// What needs only memory; `None` when the code is not of this kind.
fn at_once(
    rooms: &Arc<Rooms>,
    peer: &Arc<Peer>,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> Option<Result<(), Refusal>> {
    Some(match request.head.code {
        code::HEART_BEAT => heart_beat(rooms, peer, request, reply),
        code::UNREGISTER_CLIENT => {
            with_members(rooms, |membership| membership.unregister(peer, request, reply))
        }
        code::GET_CONSUMER_LIST_BY_GROUP => heartbeat::member_ids(&rooms.clients, request, reply),
        code::CHECK_CLIENT_CONFIG => heartbeat::check_subscription(request, reply),
        code::QUERY_CONSUMER_OFFSET => {
            offset::query_at_once(&rooms.offsets, &rooms.store, request, reply)?
        }
        code::UPDATE_CONSUMER_OFFSET => {
            offset::update(&rooms.offsets, &rooms.topics, request, reply)
        }
        code::GET_MAX_OFFSET => offset::max(&rooms.store, request, reply),
        code::GET_MIN_OFFSET => offset::min(&rooms.store, request, reply),
        code::LOCK_BATCH_MQ => queue_lock::lock(&rooms.queue_locks, now_ms(), request, reply),
        code::UNLOCK_BATCH_MQ => queue_lock::unlock(&rooms.queue_locks, request, reply),
        _ => return None,
    })
}

/// A heartbeat only looks at memory, unless it brings a group or retry topic that is not there yet.
fn heart_beat(
    rooms: &Arc<Rooms>,
    peer: &Arc<Peer>,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let heartbeat = Membership::read(request)?;
    let sender = Sender { language: request.head.language, version: request.head.version };
    if !with_members(rooms, |membership| membership.needs_disk(&heartbeat)) {
        with_members(rooms, |m| m.register(peer, sender, &heartbeat, now_ms()))?;
        reply.ok(&NoHeader);
        return Ok(());
    }
    let (at_work, peer) = (Arc::clone(rooms), Arc::clone(peer));
    rooms.pool.run_or_refuse(reply.later(), move |later| {
        let done = with_members(&at_work, |membership| {
            membership.prepare(&heartbeat, now_ms())?;
            let_routes_follow(&at_work);
            membership.register(&peer, sender, &heartbeat, now_ms())
        });
        match done {
            Ok(()) => later.ok(&NoHeader),
            Err(refusal) => later.error(refusal.code, &refusal.remark),
        }
    });
    Ok(())
}

/// Name servers get to know of a topic before the client that made it can ask them for its route.
fn let_routes_follow(rooms: &Rooms) {
    rooms.send.told.wait_for(rooms.topics.change_count(), ROUTE_PATIENCE);
}

/// The handlers that may wait for a disk, by code.
fn on_pool(code: i32) -> Option<fn(&Rooms, &mut OwnedFrame) -> Handled> {
    Some(match code {
        code::QUERY_CONSUMER_OFFSET => {
            |rooms, request| offset::query(&rooms.offsets, &rooms.store, &request.frame())
        }
        code::QUERY_MESSAGE => |rooms, request| query::by_key(&rooms.store, &request.frame()),
        code::VIEW_MESSAGE_BY_ID => {
            |rooms, request| query::by_offset(&rooms.store, &request.frame())
        }
        code::QUERY_CONSUME_QUEUE => {
            |rooms, request| query::consume_queue(&rooms.store, &rooms.clients, &request.frame())
        }
        code::SEARCH_OFFSET_BY_TIMESTAMP => {
            |rooms, request| offset::search_by_time(&rooms.store, &request.frame())
        }
        code::GET_EARLIEST_MSG_STORETIME => {
            |rooms, request| offset::earliest_store_time(&rooms.store, &request.frame())
        }
        code::UPDATE_AND_CREATE_TOPIC => {
            |rooms, request| topic::update(&rooms.topics, now_ms(), &request.frame())
        }
        code::DELETE_TOPIC_IN_BROKER => |rooms, request| {
            let (topics, offsets, store) = (&rooms.topics, &rooms.offsets, &rooms.store);
            topic::delete(topics, offsets, store, now_ms(), &request.frame())
        },
        code::GET_ALL_TOPIC_CONFIG => |rooms, _| topic::all(&rooms.topics),
        code::GET_TOPIC_STATS_INFO => |rooms, request| {
            let name = &rooms.broker_name;
            topic::stats(&rooms.topics, &rooms.store, name, &request.frame())
        },
        code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => |rooms, _| topic::system(&rooms.topics),
        code::CLEAN_EXPIRED_CONSUMEQUEUE => |rooms, _| topic::clean_expired_queues(&rooms.store),
        code::CLEAN_UNUSED_TOPIC => |rooms, _| topic::clean_unused(&rooms.topics, &rooms.store),
        code::DELETE_EXPIRED_COMMITLOG => |rooms, _| Ok(topic::delete_expired(&rooms.store)),
        code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => {
            |rooms, request| group::update(&rooms.groups, now_ms(), &request.frame())
        }
        code::DELETE_SUBSCRIPTIONGROUP => |rooms, request| {
            let (groups, offsets) = (&rooms.groups, &rooms.offsets);
            group::delete(groups, offsets, &rooms.topics, now_ms(), &request.frame())
        },
        code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => |rooms, _| group::all(&rooms.groups),
        _ => return for_operators(code),
    })
}

/// The rest of [`on_pool`]: what only operators ask.
fn for_operators(code: i32) -> Option<fn(&Rooms, &mut OwnedFrame) -> Handled> {
    Some(match code {
        code::GET_BROKER_CONFIG => |rooms, _| config::read(&rooms.config, &rooms.store),
        code::UPDATE_BROKER_CONFIG => update_config,
        code::GET_BROKER_RUNTIME_INFO => |rooms, _| runtime_info(rooms),
        code::VIEW_BROKER_STATS_DATA => |rooms, request| {
            let cluster = &rooms.config.broker().broker_cluster_name;
            stats::view(&rooms.rates, cluster, &request.frame())
        },
        code::GET_CONSUMER_CONNECTION_LIST => {
            |rooms, request| consumer::connections(&rooms.clients, &request.frame())
        }
        code::GET_PRODUCER_CONNECTION_LIST => {
            |rooms, request| consumer::producer_connections(&rooms.clients, &request.frame())
        }
        code::GET_ALL_PRODUCER_INFO => |rooms, _| consumer::all_producers(&rooms.clients),
        code::GET_CONSUME_STATS => |rooms, request| progress(rooms).of_group(&request.frame()),
        code::GET_BROKER_CONSUME_STATS => |rooms, request| progress(rooms).of_all(&request.frame()),
        code::QUERY_CONSUME_TIME_SPAN => {
            |rooms, request| progress(rooms).time_spans(&request.frame())
        }
        code::QUERY_CORRECTION_OFFSET => {
            |rooms, request| progress(rooms).corrections(&request.frame())
        }
        code::QUERY_TOPIC_CONSUME_BY_WHO => |rooms, request| {
            consumer::groups_reading(&rooms.clients, &rooms.offsets, &request.frame())
        },
        code::CLONE_GROUP_OFFSET => |rooms, request| {
            let (clients, offsets) = (&rooms.clients, &rooms.offsets);
            consumer::clone_offsets(clients, offsets, &rooms.topics, &request.frame())
        },
        code::GET_ALL_CONSUMER_OFFSET => |rooms, _| consumer::all_offsets(&rooms.offsets),
        code::GET_ALL_DELAY_OFFSET => |rooms, _| consumer::all_delay_offsets(&rooms.schedule),
        code::INVOKE_BROKER_TO_RESET_OFFSET => |rooms, request| {
            let reset = Reset {
                clients: &rooms.clients,
                offsets: &rooms.offsets,
                topics: &rooms.topics,
                store: &rooms.store,
                broker_name: &rooms.broker_name,
            };
            reset.serve(request)
        },
        _ => return None,
    })
}

fn progress(rooms: &Rooms) -> Progress<'_> {
    Progress {
        offsets: &rooms.offsets,
        clients: &rooms.clients,
        groups: &rooms.groups,
        topics: &rooms.topics,
        store: &rooms.store,
        rates: &rooms.rates,
        broker_name: &rooms.broker_name,
        broker_address: &rooms.address,
        now: now_ms(),
    }
}

fn update_config(rooms: &Rooms, request: &mut OwnedFrame) -> Handled {
    let changed = config::update(&rooms.config, &rooms.store, now_ms(), &request.frame())?;
    if changed.registration {
        rooms.registration.register_now();
    }
    Ok(Answer { remark: changed.remark, ..Answer::ok() })
}

fn runtime_info(rooms: &Rooms) -> Handled {
    let commit_log = rooms.store.config().commit_log_folder();
    let runtime = Runtime {
        store: rooms.store.status(),
        commit_log: (&commit_log, &**rooms.store.files()),
        rates: &rooms.rates,
        stats: &rooms.stats,
        levels: rooms.schedule.status(),
        pool: &rooms.pool,
        cold_reads: &rooms.pull.cold_reads,
        accepts_sends_from: rooms.config.broker().start_accept_send_request_time_stamp,
        now: now_ms(),
    };
    runtime.answer()
}

/// Stores what a consumer gives back. Its own progress moves past the message next, so under
/// SYNC_FLUSH the answer waits for the disk.
fn send_back(rooms: &Rooms, request: &Frame<'_>, later: Later) {
    let config = rooms.config.broker();
    let send_back = SendBack {
        config: &config,
        store: &rooms.store,
        topics: &rooms.topics,
        groups: &rooms.groups,
        levels: &rooms.send.levels,
        store_host: rooms.send.store_host,
        now: now_ms(),
    };
    let appended = match send_back.serve(request) {
        Ok(GivenBack::Stored(appended)) => appended,
        Ok(GivenBack::Dropped) => return later.ok(&NoHeader),
        Err(refusal) => return later.error(refusal.code, &refusal.remark),
    };
    let store_config = rooms.store.config();
    if store_config.flush_disk_type != FlushDiskType::SyncFlush {
        return later.ok(&NoHeader);
    }
    let patience = Duration::from_millis(store_config.sync_flush_timeout);
    let end = appended.end();
    rooms.store.when_flushed(end, Instant::now() + patience, move |flushed| match flushed {
        // Late is not lost: the copy is stored, and giving the message back again would double it.
        Flushed::Done | Flushed::TimedOut => later.ok(&NoHeader),
        Flushed::Failed => {
            let remark = "the disk could not be written; the message is not safe";
            later.error(response::SERVICE_NOT_AVAILABLE, remark);
        }
    });
}

/// Asks a client on behalf of who sent the request.
fn ask_client(rooms: &Arc<Rooms>, request: &Frame<'_>, reply: &mut Reply<'_>) {
    let code = request.head.code;
    let rooms_of_task = Arc::clone(rooms);
    let tasks = tokio::runtime::Handle::current();
    if code != code::CONSUME_MESSAGE_DIRECTLY {
        let (request, later) = (OwnedFrame::copy(request), reply.later());
        tasks.spawn(async move {
            let clients = &rooms_of_task.clients;
            let handled = if code == code::GET_CONSUMER_RUNNING_INFO {
                reset_offset::running_info(clients, request).await
            } else {
                reset_offset::consumer_status(clients, request).await
            };
            later.answer(handled.unwrap_or_else(Answer::from));
        });
        return;
    }
    // The message may have to come from the disk first.
    rooms.pool.serve(request, reply, move |request, later| {
        let message = match reset_offset::message_to_consume(&rooms_of_task.store, request) {
            Ok(message) => message,
            Err(refusal) => return later.answer(refusal.into()),
        };
        let request = request.clone();
        tasks.spawn(async move {
            let (clients, name) = (&rooms_of_task.clients, &rooms_of_task.broker_name);
            let asked = reset_offset::consume_directly(clients, name, message, request).await;
            later.answer(asked.unwrap_or_else(Answer::from));
        });
    });
}
