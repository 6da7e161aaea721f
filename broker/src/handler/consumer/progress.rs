//! How far groups have read, measured against the queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_protocol::body::{
    ConsumeStats, ConsumeStatsList, ConsumeTimeSpans, CorrectionOffsets, MessageQueue,
    OffsetWrapper, QueueTimeSpan,
};
use broker_protocol::frame::Frame;
use broker_protocol::request::admin::GetBrokerConsumeStats;
use broker_protocol::request::group::{GetConsumeStats, QueryCorrectionOffset, TopicAndGroup};
use broker_store::Store;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::clients::Clients;
use crate::groups::Groups;
use crate::handler::Refusal;
use crate::handler::refusal::json_answer;
use crate::handler::topic::{no_such_topic, store_time_at};
use crate::net::Answer;
use crate::offsets::ConsumerOffsets;
use crate::rates::Rates;
use crate::topics::{Topic, Topics};

/// What answers about progress are made of.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'b> {
    /// Progress as committed.
    pub offsets: &'b ConsumerOffsets,
    /// Who reads what.
    pub clients: &'b Clients,
    /// Which groups exist.
    pub groups: &'b Groups,
    /// Which topics exist.
    pub topics: &'b Topics,
    /// The queues.
    pub store: &'b Store,
    /// How fast groups read.
    pub rates: &'b Rates,
    /// brokerName, as queues are named by.
    pub broker_name: &'b Arc<str>,
    /// The broker's address for clients.
    pub broker_address: &'b str,
    /// Milliseconds since 1970.
    pub now: i64,
}

impl Progress<'_> {
    /// 208: a group's progress, on one topic or all that it has read.
    pub fn of_group(&self, request: &Frame<'_>) -> Result<Answer, Refusal> {
        let header: GetConsumeStats<'_> = request.ext.decode()?;
        let group = &*header.consumer_group;
        let one = header.topic.as_deref().filter(|topic| !topic.trim().is_empty());
        let several = header.topic_list.as_deref().filter(|topics| !topics.trim().is_empty());
        let wanted: Vec<Arc<str>> = match (one, several) {
            (Some(topic), _) => vec![Arc::from(topic)],
            (None, Some(topics)) => topics.split(';').map(Arc::from).collect(),
            (None, None) => self.offsets.topics_of(group),
        };
        let mut stats = ConsumeStats::default();
        for topic in wanted {
            if let Some(topic) = self.read_topic(group, &topic) {
                self.add(&mut stats, group, &topic);
            }
        }
        json_answer(&stats)
    }

    /// 317: the progress of every group, topic by topic.
    pub fn of_all(&self, request: &Frame<'_>) -> Result<Answer, Refusal> {
        let header: GetBrokerConsumeStats = request.ext.decode()?;
        let mut list = ConsumeStatsList {
            broker_addr: self.broker_address.into(),
            ..ConsumeStatsList::default()
        };
        for group in self.groups.all() {
            let mut of_group = Vec::new();
            for topic in self.offsets.topics_of(group.name()) {
                let Some(topic) = self.read_topic(group.name(), &topic) else { continue };
                if header.is_order && !topic.config().order {
                    continue;
                }
                let mut stats = ConsumeStats::default();
                self.add(&mut stats, group.name(), &topic);
                list.total_diff += stats.total_diff();
                of_group.push(stats);
            }
            list.consume_stats_list.push(BTreeMap::from([(Arc::clone(group.name()), of_group)]));
        }
        json_answer(&list)
    }

    /// The topic, if it exists and the group, where it is online, still subscribes to it.
    fn read_topic(&self, group: &str, topic: &str) -> Option<Arc<Topic>> {
        let left = self.clients.consumer_group(group).is_some_and(|group| {
            group.subscription(topic).is_none() && !group.subscriptions().is_empty()
        });
        if left {
            return None;
        }
        self.topics.find(topic)
    }

    fn add(&self, stats: &mut ConsumeStats, group: &str, topic: &Topic) {
        for queue_id in 0..topic.settings().queue_count() {
            let queue = self.queue(topic, queue_id);
            stats.offset_table.insert(queue, self.on_queue(group, topic, queue_id));
        }
        stats.consume_tps += self.rates.group_get_tps(topic.name(), group);
    }

    fn queue(&self, topic: &Topic, queue_id: i32) -> MessageQueue {
        MessageQueue::new(Arc::clone(topic.name()), Arc::clone(self.broker_name), queue_id)
    }

    fn on_queue(&self, group: &str, topic: &Topic, queue_id: i32) -> OffsetWrapper {
        let consumer_offset = self.offsets.query(group, topic.name(), queue_id).unwrap_or(0);
        let Some(queue) = self.store.find_queue(topic.name(), queue_id) else {
            return OffsetWrapper { consumer_offset, ..OffsetWrapper::default() };
        };
        let last_timestamp = store_time_at(self.store, &queue, consumer_offset - 1).unwrap_or(0);
        OffsetWrapper { broker_offset: queue.max_offset(), consumer_offset, last_timestamp }
    }

    /// 303: how old, for a group, the messages of a topic are.
    pub fn time_spans(&self, request: &Frame<'_>) -> Result<Answer, Refusal> {
        let header: TopicAndGroup<'_> = request.ext.decode()?;
        let topic = self.topics.find(&header.topic).ok_or_else(|| no_such_topic(&header.topic))?;
        let queues = 0..topic.settings().queue_count();
        let spans = queues.map(|queue_id| self.time_span(&header.group, &topic, queue_id));
        json_answer(&ConsumeTimeSpans { consume_time_span_set: spans.collect() })
    }

    fn time_span(&self, group: &str, topic: &Topic, queue_id: i32) -> QueueTimeSpan {
        let mut span = QueueTimeSpan {
            message_queue: self.queue(topic, queue_id),
            min_time_stamp: -1,
            max_time_stamp: -1,
            consume_time_stamp: -1,
            ..QueueTimeSpan::default()
        };
        if let Some(queue) = self.store.find_queue(topic.name(), queue_id) {
            let time_at = |offset| store_time_at(self.store, &queue, offset);
            let consumed = self.offsets.query(group, topic.name(), queue_id).unwrap_or(-1);
            span.min_time_stamp = self.store.earliest_store_time(&queue);
            span.max_time_stamp = time_at(queue.max_offset() - 1).unwrap_or(-1);
            span.consume_time_stamp = match time_at(consumed - 1) {
                Some(time) if consumed > 0 => time,
                _ => span.min_time_stamp,
            };
            if let Some(next) = time_at(consumed.max(queue.min_offset())) {
                span.delay_time = self.now - next;
            }
        }
        span.min_time_stamp_str = Some(time_text(span.min_time_stamp));
        span.max_time_stamp_str = Some(time_text(span.max_time_stamp));
        span.consume_time_stamp_str = Some(time_text(span.consume_time_stamp));
        span
    }

    /// 308: the lowest progress of all groups on each queue of a topic; where the compared group is
    /// behind that, a number that no progress reaches.
    pub fn corrections(&self, request: &Frame<'_>) -> Result<Answer, Refusal> {
        let header: QueryCorrectionOffset<'_> = request.ext.decode()?;
        let left_out: Vec<&str> =
            header.filter_groups.as_deref().unwrap_or_default().split(',').collect();
        let mut lowest: BTreeMap<i32, i64> = BTreeMap::new();
        for group in self.offsets.groups_of(&header.topic) {
            if left_out.contains(&&*group) {
                continue;
            }
            for (queue_id, offset) in self.offsets.queues_of(&group, &header.topic) {
                let queue = self.store.find_queue(&header.topic, queue_id);
                if offset >= queue.map_or(0, |queue| queue.min_offset()) {
                    let known = lowest.entry(queue_id).or_insert(offset);
                    *known = offset.min(*known);
                }
            }
        }
        for (queue_id, offset) in self.offsets.queues_of(&header.compare_group, &header.topic) {
            if lowest.get(&queue_id).is_none_or(|lowest| *lowest > offset) {
                lowest.insert(queue_id, i64::MAX);
            }
        }
        json_answer(&CorrectionOffsets { correction_offsets: lowest })
    }
}

/// A time as 4.9 writes it into answers, in local time.
fn time_text(milliseconds: i64) -> String {
    let Ok(time) = Timestamp::from_millisecond(milliseconds) else { return String::new() };
    TimeZone::system().to_datetime(time).strftime("%Y-%m-%d#%H:%M:%S:%3f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_operators_know_them() {
        let text = time_text(1_700_000_000_123);
        assert_eq!((text.len(), &text[10..11], &text[20..]), (23, "#", "123"), "{text}");
    }
}
