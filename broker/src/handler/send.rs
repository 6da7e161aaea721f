//! Sends (10, 310): the checks in RocketMQ's order, the final property string, one append, the
//! answer. A message never waits for a thread here; what needs a disk first (a topic to create)
//! goes to the pool and comes back to the same code.

mod properties;
mod target;

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::limits::PROPERTIES_LEN_MAX;
use broker_protocol::message_id::{MessageId, offset_id};
use broker_protocol::request::send::{SendMessage, SendMessageRefused, SendMessageResponse};
use broker_protocol::{properties as property, sys_flag};
use broker_store::{AppendError, Appended, Flushed, NewRecord, Queue, Store};

use crate::config::{BrokerConfig, Live};
use crate::groups::Groups;
use crate::net::{Later, Peer, Reply};
use crate::pool::Pool;
use crate::registration::Told;
use crate::schedule::{DelayLevels, divert};
use crate::stats::Stats;
use crate::topics::{Topic, Topics};

pub(super) use properties::PropertyFacts;
pub(super) use target::{Creation, Halt, Target, choose_queue};

/// How long the answer to a request that makes a topic waits for name servers to know it: clients
/// ask for the route next. One that is away is not waited for.
pub const ROUTE_PATIENCE: Duration = Duration::from_millis(500);

/// What sends need of the broker.
#[derive(Debug)]
pub struct SendPath {
    /// Settings, read anew for each request.
    pub config: Arc<Live>,
    /// Where messages go.
    pub store: Store,
    /// Whether answers wait for the disk (SYNC_FLUSH).
    pub sync_flush: bool,
    /// Where they may go.
    pub topics: Arc<Topics>,
    /// The groups whose retry topics are sent to.
    pub groups: Arc<Groups>,
    /// The delay levels of this broker.
    pub levels: DelayLevels,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Threads that create topics.
    pub pool: Pool,
    /// Whether name servers know a topic that a send has made.
    pub told: Arc<Told>,
    /// The broker's address as records and message ids show it.
    pub store_host: SocketAddr,
    /// Set when the broker stops: sends are refused with a code that makes clients go elsewhere.
    pub stopping: AtomicBool,
}

/// Why a send stored nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i32,
    pub(super) remark: Cow<'static, str>,
}

impl Refusal {
    pub(super) fn new(code: i32, remark: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, remark: remark.into() }
    }

    pub(super) fn illegal(remark: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::new(response::MESSAGE_ILLEGAL, remark)
    }
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Refusal {
        let code = match error {
            AppendError::NotWritable(_) => response::SERVICE_NOT_AVAILABLE,
            AppendError::Illegal(_) | AppendError::PropertiesTooLong { .. } => {
                response::MESSAGE_ILLEGAL
            }
            AppendError::NoFile(_) => response::SYSTEM_ERROR,
        };
        Refusal::new(code, error.to_string())
    }
}

/// What a send stored: the answer is made of it.
#[derive(Debug)]
pub(super) struct Stored {
    /// The first record, or the only one.
    pub(super) first: Appended,
    /// The end of the last one in the log.
    pub(super) end: u64,
    /// The queue that the answer names.
    pub(super) queue_id: i32,
    /// Whether the sender waits for the disk.
    pub(super) waits: bool,
    /// The ids of a batch; a single message's id is made from `first`.
    pub(super) batch_ids: Option<String>,
}

thread_local! {
    /// The property string under construction; lives for one append.
    static PROPERTIES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl SendPath {
    /// Serves 10, 310 and 320.
    pub fn handle(self: &Arc<Self>, peer: &Arc<Peer>, request: &Frame<'_>, reply: &mut Reply<'_>) {
        match self.serve(peer, request, Creation::NeedsDisk) {
            Ok(stored) => self.answer(stored, reply),
            Err(Halt::Refused(refusal)) => {
                let config = self.config.broker();
                self.stats.put_failures.add(1);
                let header = refused_header(&config);
                reply.with_body(refusal.code, Some(&refusal.remark), &header, &[]);
            }
            Err(Halt::NeedsDisk) => {
                let path = Arc::clone(self);
                let peer = Arc::clone(peer);
                self.pool.serve(request, reply, move |request, later| {
                    path.answer_from_pool(&peer, &request.frame(), later);
                });
            }
        }
    }

    fn answer_from_pool(self: &Arc<Self>, peer: &Peer, request: &Frame<'_>, later: Later) {
        match self.serve(peer, request, Creation::Allowed) {
            Ok(stored) => {
                self.told.wait_for(self.topics.change_count(), ROUTE_PATIENCE);
                self.answer_later(stored, later);
            }
            Err(halt) => {
                let refusal = match halt {
                    Halt::Refused(refusal) => refusal,
                    Halt::NeedsDisk => {
                        Refusal::new(response::SYSTEM_ERROR, "the topic can't be created now")
                    }
                };
                self.refuse_later(&refusal, later);
            }
        }
    }

    fn serve(&self, peer: &Peer, request: &Frame<'_>, creation: Creation) -> Result<Stored, Halt> {
        let header: SendMessage<'_> = request
            .ext
            .decode()
            .map_err(|error| Refusal::new(response::SYSTEM_ERROR, error.to_string()))?;
        let config = self.config.broker();
        self.check_service(&config)?;
        if header.batch == Some(true) {
            return super::batch::store(self, &config, peer, &header, request, creation);
        }
        let target = self.target(&config, &header, peer, creation)?;
        PROPERTIES.with_borrow_mut(|properties| {
            Ok(self.store_one(&config, peer, &header, request.body, &target, properties)?)
        })
    }

    /// What refuses sends of every kind, whatever they hold.
    fn check_service(&self, config: &BrokerConfig) -> Result<(), Refusal> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(Refusal::new(
                response::SERVICE_NOT_AVAILABLE,
                "the broker is shutting down",
            ));
        }
        target::check_accepts(config)
    }

    fn store_one(
        &self,
        config: &BrokerConfig,
        peer: &Peer,
        header: &SendMessage<'_>,
        body: &[u8],
        target: &Target,
        properties: &mut Vec<u8>,
    ) -> Result<Stored, Refusal> {
        let sent = header.properties.as_deref().unwrap_or_default().as_bytes();
        let facts = properties::finish(sent, target.dead_letter, properties)?;
        check_no_transaction(&facts, header.sys_flag)?;
        let mut queue = None;
        if facts.delay_level > 0 {
            if let Some(wait) = facts.wait {
                property::push(properties, property::name::WAIT_STORE_MSG_OK, wait);
            }
            let level = facts.delay_level;
            let (topic, queue_id) =
                divert(&self.levels, level, target.topic.name(), target.queue_id, properties);
            queue = Some(self.store.queue(topic, queue_id));
        }
        push_cluster(properties, &config.broker_cluster_name);
        if properties.len() > PROPERTIES_LEN_MAX {
            return Err(properties_too_long(properties.len()));
        }
        let queue = queue.unwrap_or_else(|| self.queue(&target.topic, target.queue_id));
        let appended = self.store.append(&NewRecord {
            queue: &queue,
            flag: header.flag,
            sys_flag: stored_sys_flag(header.sys_flag, &target.topic),
            born_timestamp: header.born_timestamp,
            born_host: peer.address,
            store_host: self.store_host,
            reconsume_times: header.reconsume_times.unwrap_or(0),
            prepared_transaction_offset: 0,
            body,
            properties,
        })?;
        self.count(&target.topic, 1, u64::from(appended.size));
        Ok(Stored {
            end: appended.end(),
            first: appended,
            queue_id: target.queue_id,
            waits: facts.waits(),
            batch_ids: None,
        })
    }

    /// The handle of a queue of the topic.
    pub(super) fn queue(&self, topic: &Topic, queue_id: i32) -> Arc<Queue> {
        topic.settings().queue(queue_id, || self.store.queue(topic.name(), queue_id))
    }

    /// Counts what one topic took.
    pub(super) fn count(&self, topic: &Topic, messages: u64, bytes: u64) {
        topic.counters.puts.add(messages);
        topic.counters.put_bytes.add(bytes);
        self.stats.puts.add(messages);
    }

    fn answer(self: &Arc<Self>, stored: Stored, reply: &mut Reply<'_>) {
        if self.waits_for_disk(&stored) {
            let later = reply.later();
            self.answer_when_flushed(stored, later);
            return;
        }
        let config = self.config.broker();
        let id = offset_id(self.store_host, stored.first.physical_offset);
        reply.ok(&stored_header(&config, &stored, &id));
    }

    fn answer_later(self: &Arc<Self>, stored: Stored, later: Later) {
        if self.waits_for_disk(&stored) {
            self.answer_when_flushed(stored, later);
        } else {
            self.send_stored(response::SUCCESS, &stored, later);
        }
    }

    fn waits_for_disk(&self, stored: &Stored) -> bool {
        stored.waits && self.sync_flush
    }

    fn answer_when_flushed(self: &Arc<Self>, stored: Stored, later: Later) {
        let patience = Duration::from_millis(self.store.config().sync_flush_timeout);
        let path = Arc::clone(self);
        let end = stored.end;
        self.store.when_flushed(end, Instant::now() + patience, move |flushed| match flushed {
            Flushed::Done => path.send_stored(response::SUCCESS, &stored, later),
            Flushed::TimedOut => path.send_stored(response::FLUSH_DISK_TIMEOUT, &stored, later),
            Flushed::Failed => {
                let remark = "the disk could not be written; the message is not safe";
                path.refuse_later(&Refusal::new(response::SERVICE_NOT_AVAILABLE, remark), later);
            }
        });
    }

    fn send_stored(&self, code: i32, stored: &Stored, later: Later) {
        let config = self.config.broker();
        let id = offset_id(self.store_host, stored.first.physical_offset);
        let remark = (code == response::FLUSH_DISK_TIMEOUT).then_some("the flush took too long");
        later.with_slices(code, remark, &stored_header(&config, stored, &id), Vec::new());
    }

    fn refuse_later(&self, refusal: &Refusal, later: Later) {
        self.stats.put_failures.add(1);
        let config = self.config.broker();
        let header = refused_header(&config);
        later.with_slices(refusal.code, Some(&refusal.remark), &header, Vec::new());
    }
}

/// Transactions are refused as long as nobody would ever decide about them.
pub(super) fn check_no_transaction(facts: &PropertyFacts<'_>, flag: i32) -> Result<(), Refusal> {
    if facts.transaction || sys_flag::transaction(flag) != 0 {
        let remark = "transactions are not supported yet";
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    Ok(())
}

pub(super) fn properties_too_long(length: usize) -> Refusal {
    let max = PROPERTIES_LEN_MAX;
    Refusal::illegal(format!("the properties have {length} bytes, at most {max} are allowed"))
}

/// The sender's flag with the topic's own bit. The address bits are the broker's to set.
pub(super) fn stored_sys_flag(sent: i32, topic: &Topic) -> i32 {
    let multi_tags = if topic.settings().multi_tags() { sys_flag::MULTI_TAGS } else { 0 };
    (sent | multi_tags) & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6)
}

/// Adds the cluster's name, which repliers read. A property string that is full goes without it:
/// the sender's limit does not shrink by what we add.
pub(super) fn push_cluster(properties: &mut Vec<u8>, cluster: &str) {
    let room = 2 + property::name::CLUSTER.len() + cluster.len();
    if properties.len() + room <= PROPERTIES_LEN_MAX {
        property::push(properties, property::name::CLUSTER, cluster);
    }
}

fn stored_header<'a>(
    config: &'a BrokerConfig,
    stored: &'a Stored,
    id: &'a MessageId,
) -> SendMessageResponse<'a> {
    SendMessageResponse {
        queue_id: stored.queue_id,
        trace_on: Some(trace_on(config)),
        msg_region: Some(Cow::Borrowed(&config.region_id)),
        msg_id: Cow::Borrowed(stored.batch_ids.as_deref().unwrap_or(id.as_str())),
        queue_offset: stored.first.queue_offset,
        transaction_id: None,
        batch_uniq_id: None,
        recall_handle: None,
    }
}

fn refused_header(config: &BrokerConfig) -> SendMessageRefused<'_> {
    SendMessageRefused {
        trace_on: Some(trace_on(config)),
        msg_region: Some(Cow::Borrowed(&config.region_id)),
    }
}

fn trace_on(config: &BrokerConfig) -> Cow<'static, str> {
    Cow::Borrowed(if config.trace_on { "true" } else { "false" })
}
