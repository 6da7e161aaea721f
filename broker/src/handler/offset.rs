//! Offsets: a group's progress (14, 15), the ends of a queue (30, 31) and its times (29, 32).

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::header::EmptyHeader;
use broker_protocol::request::offset::{
    GetMaxOffset, OffsetResponse, QueryConsumerOffset, QueueOf, SearchOffsetByTimestamp,
    UpdateConsumerOffset,
};
use broker_protocol::tags::TagFilter;
use broker_store::{ColdReads, Queue, Read, ReadStatus, Store};

use super::Refusal;
use super::topic::no_such_topic;
use crate::net::{Answer, Reply};
use crate::offsets::ConsumerOffsets;
use crate::topics::Topics;

/// 14: the group's progress on a queue. A group without progress begins at 0 where the first
/// message is still at hand; otherwise the client decides by itself (22). Newer clients may ask to
/// decide in any case; brokers of 4.9 do not know that wish, and a client that decides begins
/// behind messages that were sent while it started.
///
/// `None`: nothing is answered, it takes a look at the disk, which is for [`query`].
pub fn query_at_once(
    offsets: &ConsumerOffsets,
    store: &Store,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> Option<Result<(), Refusal>> {
    let offset = progress(offsets, store, request, ColdReads::Refuse).transpose()?;
    Some(offset.map(|offset| reply.ok(&OffsetResponse { offset })))
}

/// The same on the pool, where the disk may be read.
pub fn query(
    offsets: &ConsumerOffsets,
    store: &Store,
    request: &Frame<'_>,
) -> Result<Answer, Refusal> {
    let offset = progress(offsets, store, request, ColdReads::Allow)?;
    Ok(Answer::ok().with("offset", offset.ok_or_else(no_progress)?))
}

fn progress(
    offsets: &ConsumerOffsets,
    store: &Store,
    request: &Frame<'_>,
    cold: ColdReads,
) -> Result<Option<i64>, Refusal> {
    let header: QueryConsumerOffset<'_> = request.ext.decode()?;
    let known = offsets.query(&header.consumer_group, &header.topic, header.queue_id);
    if known.is_some() {
        return Ok(known);
    }
    match starts_at_hand(store, &header.topic, header.queue_id, cold) {
        Some(true) => Ok(Some(0)),
        Some(false) => Err(no_progress()),
        None => Ok(None),
    }
}

fn no_progress() -> Refusal {
    let remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first";
    Refusal::new(response::QUERY_NOT_FOUND, remark)
}

/// Whether a queue starts at 0 and its first message, if there is any, counts as in memory. `None`
/// when it takes a look at the disk and `cold` forbids it: the files of a queue that was idle for
/// a while are closed, which says nothing about how old its messages are.
fn starts_at_hand(store: &Store, topic: &str, queue_id: i32, cold: ColdReads) -> Option<bool> {
    let Some(queue) = store.find_queue(topic, queue_id) else { return Some(true) };
    if queue.min_offset() > 0 {
        return Some(false);
    }
    let first = Read { offset: 0, max_messages: 1, filter: &TagFilter::All, cold };
    let outcome = store.read(&queue, &first);
    (outcome.status != ReadStatus::Cold).then_some(!outcome.suggest_slave)
}

/// 15: the group reports its progress. On a topic that is gone there is none to keep: it would be
/// wrong for a topic made again under the name.
pub fn update(
    offsets: &ConsumerOffsets,
    topics: &Topics,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let header: UpdateConsumerOffset<'_> = request.ext.decode()?;
    if topics.find(&header.topic).is_none() {
        return Err(no_such_topic(&header.topic));
    }
    offsets
        .commit(&header.consumer_group, &header.topic, header.queue_id, header.commit_offset)
        .map_err(|error| Refusal::new(response::SYSTEM_ERROR, error.to_string()))?;
    reply.ok(&EmptyHeader);
    Ok(())
}

/// 30: the end of a queue.
pub fn max(store: &Store, request: &Frame<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let header: GetMaxOffset<'_> = request.ext.decode()?;
    let queue = store.find_queue(&header.topic, header.queue_id);
    reply.ok(&OffsetResponse { offset: queue.map_or(0, |queue| queue.max_offset()) });
    Ok(())
}

/// 31: the begin of a queue.
pub fn min(store: &Store, request: &Frame<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let header: QueueOf<'_> = request.ext.decode()?;
    let queue = store.find_queue(&header.topic, header.queue_id);
    reply.ok(&OffsetResponse { offset: queue.map_or(0, |queue| queue.min_offset()) });
    Ok(())
}

/// 29: the offset that belongs to a time. Reads old records, so it runs on the pool.
pub fn search_by_time(store: &Store, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: SearchOffsetByTimestamp<'_> = request.ext.decode()?;
    let upper = header.boundary_type.is_some_and(|kind| kind.eq_ignore_ascii_case("upper"));
    let queue = store.find_queue(&header.topic, header.queue_id);
    let offset = queue.map_or(0, |queue| boundary(store, &queue, header.timestamp, upper));
    Ok(Answer::ok().with("offset", offset))
}

/// Lower: the first message stored at the time or later. Upper: the last one stored until then.
fn boundary(store: &Store, queue: &Queue, timestamp: i64, upper: bool) -> i64 {
    if !upper {
        return store.offset_by_time(queue, timestamp);
    }
    let after = store.offset_by_time(queue, timestamp.saturating_add(1));
    if after <= queue.min_offset() { 0 } else { after - 1 }
}

/// 32: when the first message of a queue was stored; -1 for an empty queue. Reads an old record, so
/// it runs on the pool.
pub fn earliest_store_time(store: &Store, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: QueueOf<'_> = request.ext.decode()?;
    let queue = store.find_queue(&header.topic, header.queue_id);
    let timestamp = queue.map_or(-1, |queue| store.earliest_store_time(&queue));
    Ok(Answer::ok().with("timestamp", timestamp))
}
