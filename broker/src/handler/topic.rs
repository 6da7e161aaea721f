//! Topics by admin command: make or change (17), delete (215), list (21, 305), their queues' ends
//! (202), and what cleans up after them (306, 316, 329).

use std::sync::Arc;

use broker_protocol::body::{
    MessageQueue, TopicConfig, TopicFilterType, TopicList, TopicOffset, TopicStatsTable,
};
use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::request::topic::{CreateTopic, TopicOf};
use broker_store::{Queue, Store};

use super::Refusal;
use super::refusal::json_answer;
use crate::net::Answer;
use crate::offsets::ConsumerOffsets;
use crate::topics::Topics;

/// 17: makes a topic or changes its settings.
pub fn update(topics: &Topics, now: i64, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: CreateTopic<'_> = request.ext.decode()?;
    refuse_system_topic(topics, &header.topic)?;
    let filter_type = header.topic_filter_type.as_deref();
    if !matches!(filter_type, Some("SINGLE_TAG" | "MULTI_TAG")) {
        let given = filter_type.unwrap_or("null");
        return Err(Refusal::error(format!("topicFilterType = [{given}] value invalid")));
    }
    let config = TopicConfig {
        topic_name: header.topic.as_ref().into(),
        read_queue_nums: header.read_queue_nums,
        write_queue_nums: header.write_queue_nums,
        perm: header.perm,
        topic_filter_type: filter_type
            .map_or_else(TopicFilterType::default, TopicFilterType::from_name),
        topic_sys_flag: header.topic_sys_flag.unwrap_or(0),
        order: header.order,
    };
    topics.update(config, now).map_err(Refusal::error)?;
    tracing::info!(topic = &*header.topic, "topic set by an operator");
    Ok(Answer::ok())
}

/// 215: deletes a topic here: its settings, its queues and every group's progress on it, so that a
/// topic made again under the name starts at 0.
pub fn delete(
    topics: &Topics,
    offsets: &ConsumerOffsets,
    store: &Store,
    now: i64,
    request: &Frame<'_>,
) -> Result<Answer, Refusal> {
    let header: TopicOf<'_> = request.ext.decode()?;
    if header.topic.trim().is_empty() {
        return Err(Refusal::error("The specified topic is blank."));
    }
    refuse_system_topic(topics, &header.topic)?;
    topics.delete(&header.topic, now).map_err(Refusal::error)?;
    store.delete_topic(&header.topic).map_err(Refusal::error)?;
    offsets.remove_topic(&header.topic);
    offsets.persist().map_err(Refusal::error)?;
    tracing::info!(topic = &*header.topic, "topic deleted by an operator");
    Ok(Answer::ok())
}

fn refuse_system_topic(topics: &Topics, topic: &str) -> Result<(), Refusal> {
    if topics.is_system(topic) {
        return Err(Refusal::error(format!("The topic[{topic}] is conflict with system topic.")));
    }
    Ok(())
}

/// 21: all topics with their version.
pub fn all(topics: &Topics) -> Result<Answer, Refusal> {
    json_answer(&topics.snapshot())
}

/// 305: the topics that the system keeps for itself.
pub fn system(topics: &Topics) -> Result<Answer, Refusal> {
    json_answer(&TopicList { topic_list: topics.system_topics(), broker_addr: None })
}

/// 202: begin, end and last store time of each queue.
pub fn stats(
    topics: &Topics,
    store: &Store,
    broker_name: &str,
    request: &Frame<'_>,
) -> Result<Answer, Refusal> {
    let header: TopicOf<'_> = request.ext.decode()?;
    let topic = topics.find(&header.topic).ok_or_else(|| no_such_topic(&header.topic))?;
    let broker_name: Arc<str> = broker_name.into();
    let status = |queue_id| {
        let queue = MessageQueue::new(Arc::clone(topic.name()), Arc::clone(&broker_name), queue_id);
        (queue, queue_status(store, &header.topic, queue_id))
    };
    let queues = 0..topic.settings().queue_count();
    json_answer(&TopicStatsTable { offset_table: queues.map(status).collect() })
}

fn queue_status(store: &Store, topic: &str, queue_id: i32) -> TopicOffset {
    let Some(queue) = store.find_queue(topic, queue_id) else { return TopicOffset::default() };
    let (min_offset, max_offset) = (queue.min_offset(), queue.max_offset());
    let last_update_timestamp = store_time_at(store, &queue, max_offset - 1).unwrap_or(0);
    TopicOffset { min_offset, max_offset, last_update_timestamp }
}

/// TOPIC_NOT_EXIST in the words that operators know.
pub(super) fn no_such_topic(topic: &str) -> Refusal {
    Refusal::new(response::TOPIC_NOT_EXIST, format!("topic[{topic}] not exist"))
}

/// When the message at an offset was stored; `None` when there is none. Reads a record, so callers
/// run on the pool.
pub fn store_time_at(store: &Store, queue: &Queue, offset: i64) -> Option<i64> {
    if offset < queue.min_offset() {
        return None;
    }
    let unit = *store.queue_units(queue, offset, 1).first()?;
    let bytes = store.record_at(unit.physical_offset, unit.size)?;
    let record = broker_protocol::record::RecordView::parse(&bytes).ok()?;
    Some(record.store_timestamp)
}

/// 306: removes the ConsumeQueue files whose messages are gone.
pub fn clean_expired_queues(store: &Store) -> Result<Answer, Refusal> {
    store.clean_expired_queues().map_err(Refusal::error)?;
    Ok(Answer::ok())
}

/// 316: removes the queues of topics that do not exist. Only this explicit command does: unreadable
/// settings alone never cost a message.
pub fn clean_unused(topics: &Topics, store: &Store) -> Result<Answer, Refusal> {
    store
        .clean_unused(|topic| topics.find(topic).is_some() || topics.is_system(topic))
        .map_err(Refusal::error)?;
    Ok(Answer::ok())
}

/// 329: removes expired commit log files now.
pub fn delete_expired(store: &Store) -> Answer {
    store.delete_expired_now();
    Answer::ok()
}
