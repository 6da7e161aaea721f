//! Clients: heartbeats, connections, queue locks.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{MessageQueue, wire_enum::wire_enum};

wire_enum! {
    /// How a group's members get messages.
    ConsumeType, default Passively {
        /// The application pulls.
        Actively = "CONSUME_ACTIVELY",
        /// The client pulls and calls the application.
        Passively = "CONSUME_PASSIVELY",
        /// The client pops (5.x).
        Pop = "CONSUME_POP",
    }
}

wire_enum! {
    /// Whether a group's members share messages or each get all.
    MessageModel, default Clustering {
        /// Each gets all.
        Broadcasting = "BROADCASTING",
        /// They share.
        Clustering = "CLUSTERING",
    }
}

wire_enum! {
    /// Where a new group begins.
    ConsumeFromWhere, default LastOffset {
        /// At the end.
        LastOffset = "CONSUME_FROM_LAST_OFFSET",
        /// At the end; an old name.
        LastOffsetAndFromMinWhenBootFirst =
            "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        /// At the start; an old name.
        MinOffset = "CONSUME_FROM_MIN_OFFSET",
        /// At the end; an old name.
        MaxOffset = "CONSUME_FROM_MAX_OFFSET",
        /// At the start.
        FirstOffset = "CONSUME_FROM_FIRST_OFFSET",
        /// At the first message since a time.
        Timestamp = "CONSUME_FROM_TIMESTAMP",
    }
}

/// What a group wants of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Whether a filter class is uploaded; no broker serves that any more.
    pub class_filter_mode: bool,
    /// Java's hashes of the tags.
    pub code_set: Vec<i32>,
    /// `TAG` or `SQL92`.
    pub expression_type: String,
    /// The expression: `*`, or tags separated by `||`.
    pub sub_string: String,
    /// When the client made it, in milliseconds of Unix time: the newest of a group counts.
    pub sub_version: i64,
    /// The tags.
    pub tags_set: Vec<String>,
    /// The topic.
    pub topic: Arc<str>,
}

impl Default for SubscriptionData {
    fn default() -> SubscriptionData {
        SubscriptionData {
            class_filter_mode: false,
            code_set: Vec::new(),
            expression_type: "TAG".to_owned(),
            sub_string: String::new(),
            sub_version: 0,
            tags_set: Vec::new(),
            topic: Arc::from(""),
        }
    }
}

/// A group that a client consumes for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where a new group begins.
    pub consume_from_where: ConsumeFromWhere,
    /// How its members get messages.
    pub consume_type: ConsumeType,
    /// The group.
    pub group_name: Arc<str>,
    /// Whether its members share messages.
    pub message_model: MessageModel,
    /// What the client wants of each topic.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Whether the client runs in unit mode.
    pub unit_mode: bool,
}

/// A group that a client produces for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// The group.
    pub group_name: Arc<str>,
}

/// A client's heartbeat: the body of code 34.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// The client.
    #[serde(rename = "clientID")]
    pub client_id: Arc<str>,
    /// The groups that it consumes for.
    pub consumer_data_set: Vec<ConsumerData>,
    /// The groups that it produces for.
    pub producer_data_set: Vec<ProducerData>,
}

/// A client's connection, as a broker lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// Its address.
    pub client_addr: Arc<str>,
    /// The client.
    pub client_id: Arc<str>,
    /// The language of its library, as [`crate::version::Language`] names it.
    pub language: Cow<'static, str>,
    /// The version of its library.
    pub version: i32,
}

/// A consumer group's members: the answer to code 203.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    /// The members.
    pub connection_set: Vec<Connection>,
    /// Where the group begins when new.
    pub consume_from_where: ConsumeFromWhere,
    /// How its members get messages.
    pub consume_type: ConsumeType,
    /// Whether they share messages.
    pub message_model: MessageModel,
    /// What the group wants, by topic.
    pub subscription_table: BTreeMap<Arc<str>, SubscriptionData>,
}

/// A producer group's members: the answer to code 204.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    /// The members.
    pub connection_set: Vec<Connection>,
}

/// A producer, as code 328 lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    /// The client.
    pub client_id: Arc<str>,
    /// The language of its library.
    pub language: Cow<'static, str>,
    /// When it was last heard of, in milliseconds of Unix time.
    pub last_update_timestamp: i64,
    /// Its address.
    #[serde(rename = "remoteIP")]
    pub remote_ip: Arc<str>,
    /// The version of its library.
    pub version: i32,
}

/// All producers by group: the answer to code 328.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerTable {
    /// The producers by group.
    pub data: BTreeMap<Arc<str>, Vec<ProducerInfo>>,
}

/// The ids of a group's members: the answer to code 38.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerIdList {
    /// The ids.
    pub consumer_id_list: Vec<Arc<str>>,
}

/// A client's question whether its subscription is understood: the body of code 46.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClientConfig {
    /// The client.
    pub client_id: Arc<str>,
    /// The group.
    pub group: Arc<str>,
    /// The subscription.
    pub subscription_data: Option<SubscriptionData>,
}

/// Queues that a client wants to lock or to let go: the body of codes 41 and 42.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatch {
    /// The client.
    pub client_id: Arc<str>,
    /// The group.
    pub consumer_group: Arc<str>,
    /// The queues.
    pub mq_set: Vec<MessageQueue>,
}

/// The queues that a client holds: the answer to code 41.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockedQueues {
    /// The queues.
    #[serde(rename = "lockOKMQSet")]
    pub lock_ok_mq_set: Vec<MessageQueue>,
}
