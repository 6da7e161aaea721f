//! What a name server answers: routes, clusters, lists of topics, tables.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

/// The brokers of one name: the master has id 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// Address by id.
    pub broker_addrs: BTreeMap<i64, Arc<str>>,
    /// The name.
    pub broker_name: Arc<str>,
    /// The cluster.
    pub cluster: Arc<str>,
}

/// A topic's queues on the brokers of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// The brokers' name.
    pub broker_name: Arc<str>,
    /// Bits of [`crate::perm`].
    pub perm: i32,
    /// Queues that consumers read.
    pub read_queue_nums: i32,
    /// Bits: 1 unit, 2 subscribed from another unit.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Queues that producers write.
    pub write_queue_nums: i32,
}

/// Where a topic lives: the answer to code 105.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// The brokers.
    pub broker_datas: Vec<BrokerData>,
    /// Filter servers by broker address; none in our time.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// For an ordered topic, how many queues each broker has: `broker-a:4;broker-b:4`.
    pub order_topic_conf: Option<String>,
    /// The queues.
    pub queue_datas: Vec<QueueData>,
}

/// All brokers: the answer to code 106.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// The brokers by name.
    pub broker_addr_table: BTreeMap<Arc<str>, BrokerData>,
    /// The brokers' names by cluster.
    pub cluster_addr_table: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

/// A list of topics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// Some broker's address, in the few answers that name one.
    pub broker_addr: Option<Arc<str>>,
    /// The topics.
    pub topic_list: Vec<Arc<str>>,
}

/// A table of texts: runtime info (28), key-value configuration (219), order settings (103).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KvTable {
    /// Value by key.
    pub table: BTreeMap<String, String>,
}
