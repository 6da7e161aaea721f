//! Finding messages: by key (12), by their place in the log (33); and looking into a queue (321).

use broker_protocol::body::{ConsumeQueueAnswer, ConsumeQueueUnit};
use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::record::RecordView;
use broker_protocol::request::query::{QueryConsumeQueue, QueryMessage, ViewMessage};
use broker_store::{Store, Unit};
use bytes::{Bytes, BytesMut};

use super::Refusal;
use super::refusal::json_answer;
use crate::clients::Clients;
use crate::net::Answer;

/// How many messages a query by unique id answers, whatever the client asks.
const UNIQUE_KEY_ANSWERS: usize = 32;

/// Most units that one look into a queue answers.
const UNITS_MAX: i32 = 1_000;

/// 12: messages whose keys or unique id are the one asked for.
pub fn by_key(store: &Store, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: QueryMessage<'_> = request.ext.decode()?;
    let wanted = if header.unique_key == Some(true) {
        UNIQUE_KEY_ANSWERS
    } else {
        let most = store.config().max_msgs_num_batch;
        usize::try_from(header.max_num).unwrap_or(0).min(most)
    };
    let (begin, end) = (header.begin_timestamp, header.end_timestamp);
    let mut found = store.query_index(&header.topic, &header.key, wanted, begin, end);
    // The newest were looked for; they are shown in the order they came.
    found.messages.sort_by_key(place_of);
    let answer = if found.messages.is_empty() {
        let remark = "can not find message, maybe time range not correct";
        Answer::error(response::QUERY_NOT_FOUND, remark)
    } else {
        Answer { body: joined(&found.messages), ..Answer::ok() }
    };
    let answer = answer
        .with("indexLastUpdatePhyoffset", found.last_update_physical)
        .with("indexLastUpdateTimestamp", found.last_update_timestamp);
    Ok(answer)
}

/// Where a record says that it lies.
fn place_of(record: &Bytes) -> i64 {
    RecordView::parse(record).map_or(0, |record| record.physical_offset)
}

fn joined(messages: &[Bytes]) -> Bytes {
    if let [only] = messages {
        return only.clone();
    }
    let mut body = BytesMut::with_capacity(messages.iter().map(Bytes::len).sum());
    messages.iter().for_each(|message| body.extend_from_slice(message));
    body.freeze()
}

/// 33: one message by its place in the log, whatever host its id says.
pub fn by_offset(store: &Store, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: ViewMessage<'_> = request.ext.decode()?;
    let found = u64::try_from(header.offset).ok().and_then(|offset| store.message_at(offset));
    let body = found.ok_or_else(|| {
        Refusal::error(format!("can not find message by the offset, {}", header.offset))
    })?;
    Ok(Answer { body, ..Answer::ok() })
}

/// 321: the entries of a queue, and whether a group's filter lets each through.
pub fn consume_queue(
    store: &Store,
    clients: &Clients,
    request: &Frame<'_>,
) -> Result<Answer, Refusal> {
    let header: QueryConsumeQueue<'_> = request.ext.decode()?;
    let queue = store.find_queue(&header.topic, header.queue_id).ok_or_else(|| {
        Refusal::error(format!("{}@{} is not exist!", header.queue_id, header.topic))
    })?;
    if !(queue.min_offset()..queue.max_offset()).contains(&header.index) {
        let remark =
            format!("Index {} of {}@{} is not exist!", header.index, header.queue_id, header.topic);
        return Ok(Answer { remark: Some(remark), ..Answer::ok() });
    }
    let count = usize::try_from(header.count.clamp(0, UNITS_MAX)).unwrap_or(0);
    let units =
        if count == 0 { Vec::new() } else { store.queue_units(&queue, header.index, count) };
    let group = header.consumer_group.as_deref();
    let subscription = group
        .and_then(|group| clients.consumer_group(group))
        .and_then(|group| group.subscription(&header.topic));
    let lets_through =
        |unit: &Unit| subscription.as_ref().is_some_and(|s| s.filter.matches(unit.tags_code));
    let entry = |unit: &Unit| ConsumeQueueUnit {
        physic_offset: i64::try_from(unit.physical_offset).unwrap_or(i64::MAX),
        physic_size: i32::try_from(unit.size).unwrap_or(i32::MAX),
        tags_code: unit.tags_code,
        eval: lets_through(unit),
        ..ConsumeQueueUnit::default()
    };
    let offline = group
        .filter(|_| subscription.is_none())
        .map(|group| format!("{group}@{} is not online!", header.topic));
    json_answer(&ConsumeQueueAnswer {
        queue_data: units.iter().map(entry).collect(),
        min_queue_index: queue.min_offset(),
        max_queue_index: queue.max_offset(),
        subscription_data: subscription.as_ref().map(|s| s.data.clone()),
        filter_data: offline,
    })
}
