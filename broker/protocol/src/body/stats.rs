//! Progress and figures for administrators.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{MessageQueue, SubscriptionData};

/// A group's progress in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetWrapper {
    /// The queue's end.
    pub broker_offset: i64,
    /// The group's next offset.
    pub consumer_offset: i64,
    /// When the last consumed message was stored, in milliseconds of Unix time; 0 if unknown.
    pub last_timestamp: i64,
}

/// A group's progress: the answer to code 208.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages consumed a second.
    pub consume_tps: f64,
    /// Progress by queue.
    pub offset_table: BTreeMap<MessageQueue, OffsetWrapper>,
}

impl ConsumeStats {
    /// Messages that the group has not consumed.
    #[must_use]
    pub fn total_diff(&self) -> i64 {
        self.offset_table.values().map(|of| of.broker_offset - of.consumer_offset).sum()
    }
}

/// All groups' progress on one broker: the answer to code 317.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatsList {
    /// The broker's address.
    pub broker_addr: Arc<str>,
    /// For each group, its progress topic by topic.
    pub consume_stats_list: Vec<BTreeMap<Arc<str>, Vec<ConsumeStats>>>,
    /// Messages that all groups have not consumed.
    pub total_diff: i64,
}

/// The bounds of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicOffset {
    /// When its last message was stored, in milliseconds of Unix time; 0 if it has none.
    pub last_update_timestamp: i64,
    /// Its end.
    pub max_offset: i64,
    /// Its beginning.
    pub min_offset: i64,
}

/// The bounds of a topic's queues: the answer to code 202.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStatsTable {
    /// Bounds by queue.
    pub offset_table: BTreeMap<MessageQueue, TopicOffset>,
}

/// Times of a queue's messages for one group. Texts are local times, `yyyy-MM-dd#HH:mm:ss:SSS`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueTimeSpan {
    /// When the last consumed message was stored, in milliseconds of Unix time.
    pub consume_time_stamp: i64,
    /// The same as text.
    pub consume_time_stamp_str: Option<String>,
    /// How far the group lies behind, in milliseconds.
    pub delay_time: i64,
    /// When the last message was stored, in milliseconds of Unix time.
    pub max_time_stamp: i64,
    /// The same as text.
    pub max_time_stamp_str: Option<String>,
    /// The queue.
    pub message_queue: MessageQueue,
    /// When the first message was stored, in milliseconds of Unix time.
    pub min_time_stamp: i64,
    /// The same as text.
    pub min_time_stamp_str: Option<String>,
}

/// Times of a topic's messages for one group: the answer to code 303.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpans {
    /// Times by queue.
    pub consume_time_span_set: Vec<QueueTimeSpan>,
}

/// One figure over one span of time.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsItem {
    /// Average of one count.
    pub avgpt: f64,
    /// Sum.
    pub sum: i64,
    /// Sum a second.
    pub tps: f64,
}

/// One figure over a day, an hour and a minute: the answer to code 315.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsData {
    /// Over the last day.
    pub stats_day: BrokerStatsItem,
    /// Over the last hour.
    pub stats_hour: BrokerStatsItem,
    /// Over the last minute.
    pub stats_minute: BrokerStatsItem,
}

/// One unit of a ConsumeQueue, as code 321 shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueUnit {
    /// The bits of an SQL filter, as text.
    pub bit_map: Option<String>,
    /// Whether the group's filter lets the message through.
    pub eval: bool,
    /// The unit's extension, as JSON text.
    pub extend_data_json: Option<String>,
    /// Why `eval` could not be found out.
    pub msg: Option<String>,
    /// Where the record lies.
    pub physic_offset: i64,
    /// How long it is.
    pub physic_size: i32,
    /// Its tags code.
    pub tags_code: i64,
}

/// A stretch of a ConsumeQueue: the answer to code 321.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueAnswer {
    /// The group's SQL filter, as text.
    pub filter_data: Option<String>,
    /// The queue's end.
    pub max_queue_index: i64,
    /// The queue's beginning.
    pub min_queue_index: i64,
    /// The units asked for.
    pub queue_data: Vec<ConsumeQueueUnit>,
    /// The group's subscription.
    pub subscription_data: Option<SubscriptionData>,
}
