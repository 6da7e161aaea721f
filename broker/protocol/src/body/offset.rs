//! Offsets by queue, as requests and answers carry them.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::MessageQueue;

/// Offsets by queue: the body of code 220 and the answer to code 222.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueOffsets {
    /// Offset by queue.
    pub offset_table: BTreeMap<MessageQueue, i64>,
}

impl QueueOffsets {
    /// The form that C++ clients read: a list.
    #[must_use]
    pub fn to_list(&self) -> QueueOffsetList {
        let of_queue = |(queue, offset): (&MessageQueue, &i64)| OffsetOfQueue {
            broker_name: queue.broker_name.clone(),
            offset: *offset,
            queue_id: queue.queue_id,
            topic: queue.topic.clone(),
        };
        QueueOffsetList { offset_table: self.offset_table.iter().map(of_queue).collect() }
    }
}

/// Offsets by queue in the form that C++ clients read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueOffsetList {
    /// Offset by queue.
    pub offset_table: Vec<OffsetOfQueue>,
}

/// One line of a [`QueueOffsetList`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetOfQueue {
    /// The broker's name.
    pub broker_name: Arc<str>,
    /// The offset.
    pub offset: i64,
    /// The queue.
    pub queue_id: i32,
    /// The topic.
    pub topic: Arc<str>,
}

/// One client's offsets by queue: a client's answer to code 221.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// Offset by queue.
    pub message_queue_table: BTreeMap<MessageQueue, i64>,
}

/// All clients' offsets by queue: the answer to code 223.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatus {
    /// Offsets by client and queue.
    pub consumer_table: BTreeMap<Arc<str>, BTreeMap<MessageQueue, i64>>,
    /// Always empty in this answer.
    pub message_queue_table: BTreeMap<MessageQueue, i64>,
}

/// Offsets by queue id: the answer to code 308.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorrectionOffsets {
    /// Offset by queue id.
    pub correction_offsets: BTreeMap<i32, i64>,
}
