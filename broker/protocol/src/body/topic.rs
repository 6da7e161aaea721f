//! Topics and queues.

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, de};

use super::wire_enum::wire_enum;
use crate::{json, perm};

/// The version of a table that one process keeps and others copy. Versions of different processes
/// compare by time first, then by count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Changes since the table was made.
    pub counter: i64,
    /// The state machine's version (5.x); 4.9 knows none, which is 0 and isn't written.
    #[serde(skip_serializing_if = "is_zero")]
    pub state_version: i64,
    /// When the last change was made, in milliseconds of Unix time.
    pub timestamp: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

impl DataVersion {
    /// Counts one more change, made at `now_ms`.
    pub fn advance(&mut self, now_ms: i64) {
        self.counter += 1;
        self.timestamp = now_ms;
    }
}

wire_enum! {
    /// How many tags a message of a topic carries.
    TopicFilterType, default SingleTag {
        /// One.
        SingleTag = "SINGLE_TAG",
        /// Several.
        MultiTag = "MULTI_TAG",
    }
}

/// A topic's settings on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// Whether producers keep to the order of queues.
    pub order: bool,
    /// Bits of [`perm`].
    pub perm: i32,
    /// Queues that consumers read.
    pub read_queue_nums: i32,
    /// How many tags a message carries.
    pub topic_filter_type: TopicFilterType,
    /// The topic.
    pub topic_name: Arc<str>,
    /// Bits: 1 unit, 2 subscribed from another unit.
    pub topic_sys_flag: i32,
    /// Queues that producers write.
    pub write_queue_nums: i32,
}

impl Default for TopicConfig {
    fn default() -> TopicConfig {
        TopicConfig::new(Arc::from(""), 16)
    }
}

impl TopicConfig {
    /// A topic that may be read and written, with `queues` of both kinds.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, queues: i32) -> TopicConfig {
        TopicConfig {
            order: false,
            perm: perm::READ | perm::WRITE,
            read_queue_nums: queues,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_name: topic.into(),
            topic_sys_flag: 0,
            write_queue_nums: queues,
        }
    }

    /// The text of a compressed registration: five words. `order` and `topic_sys_flag` are not in it.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!(
            "{} {} {} {} {}",
            self.topic_name,
            self.read_queue_nums,
            self.write_queue_nums,
            self.perm,
            self.topic_filter_type.as_str()
        )
    }

    /// Reads the text of a compressed registration; what 5.x appends is ignored.
    #[must_use]
    pub fn from_text(text: &str) -> Option<TopicConfig> {
        let mut words = text.split(' ');
        let topic = words.next().filter(|topic| !topic.is_empty())?;
        let read_queue_nums = words.next()?.parse().ok()?;
        let write_queue_nums = words.next()?.parse().ok()?;
        let perm = words.next()?.parse().ok()?;
        let topic_filter_type = TopicFilterType::from_name(words.next()?);
        Some(TopicConfig {
            perm,
            read_queue_nums,
            topic_filter_type,
            write_queue_nums,
            ..TopicConfig::new(topic, 0)
        })
    }
}

/// A broker's topics: the answer to code 21, a part of its registration, and `topics.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigs {
    /// The table's version.
    pub data_version: DataVersion,
    /// The settings by topic.
    pub topic_config_table: BTreeMap<Arc<str>, Arc<TopicConfig>>,
}

/// One queue of a topic on one broker. Ordered as Java orders them, which clients agree on when
/// they share queues out: topic, broker, queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageQueue {
    /// The broker's name.
    pub broker_name: Arc<str>,
    /// The queue.
    pub queue_id: i32,
    /// The topic.
    pub topic: Arc<str>,
}

impl MessageQueue {
    /// The queue `queue_id` of `topic` on `broker_name`.
    #[must_use]
    pub fn new(
        topic: impl Into<Arc<str>>,
        broker_name: impl Into<Arc<str>>,
        queue_id: i32,
    ) -> MessageQueue {
        MessageQueue { broker_name: broker_name.into(), queue_id, topic: topic.into() }
    }
}

impl Ord for MessageQueue {
    fn cmp(&self, other: &MessageQueue) -> Ordering {
        (&self.topic, &self.broker_name, self.queue_id).cmp(&(
            &other.topic,
            &other.broker_name,
            other.queue_id,
        ))
    }
}

impl PartialOrd for MessageQueue {
    fn partial_cmp(&self, other: &MessageQueue) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'de> Deserialize<'de> for MessageQueue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<MessageQueue, D::Error> {
        from.deserialize_any(QueueVisitor)
    }
}

/// Reads a queue as an object, or, when it is the key of a map, as the text of one.
struct QueueVisitor;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QueueFields {
    broker_name: Arc<str>,
    queue_id: i32,
    topic: Arc<str>,
}

impl<'de> de::Visitor<'de> for QueueVisitor {
    type Value = MessageQueue;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a message queue")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<MessageQueue, A::Error> {
        let fields = QueueFields::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let QueueFields { broker_name, queue_id, topic } = fields;
        Ok(MessageQueue { broker_name, queue_id, topic })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MessageQueue, E> {
        let QueueFields { broker_name, queue_id, topic } =
            json::from_slice(text.as_bytes()).map_err(E::custom)?;
        Ok(MessageQueue { broker_name, queue_id, topic })
    }
}
