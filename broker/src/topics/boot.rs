//! The topics that exist from the first start on, whatever the file says.

use broker_protocol::body::TopicConfig;
use broker_protocol::{name, perm};

/// What the set of boot topics depends on.
#[derive(Debug, Clone, Copy)]
pub struct BootTopics<'a> {
    /// brokerClusterName; names a topic, and with `_REPLY_TOPIC` another.
    pub cluster: &'a str,
    /// brokerName; names a topic.
    pub broker: &'a str,
    /// Queues of TBW102: what automatically created topics get at most.
    pub default_queues: i32,
    /// Levels of messageDelayLevel: the delay topic has one queue for each.
    pub delay_levels: i32,
    /// Whether TBW102 exists.
    pub auto_create: bool,
    /// Whether the cluster's topic may be written and read.
    pub cluster_topic: bool,
    /// Whether the broker's topic may be written and read.
    pub broker_topic: bool,
    /// The topic of message traces, where traces are on.
    pub trace_topic: Option<&'a str>,
}

impl BootTopics<'_> {
    pub(super) fn configs(&self) -> Vec<TopicConfig> {
        let read_write = perm::READ | perm::WRITE;
        let inherited = |open: bool| perm::INHERIT | if open { read_write } else { 0 };
        let mut topics = vec![
            topic(name::SELF_TEST_TOPIC, 1, read_write),
            topic(name::BENCHMARK_TOPIC, 1024, read_write),
            topic(self.cluster, 16, inherited(self.cluster_topic)),
            topic(self.broker, 1, inherited(self.broker_topic)),
            topic(name::OFFSET_MOVED_TOPIC, 1, read_write),
            topic(name::SCHEDULE_TOPIC, self.delay_levels, read_write),
            topic(&reply_topic(self.cluster), 1, read_write),
        ];
        if self.auto_create {
            topics.push(topic(name::AUTO_CREATE_TOPIC, self.default_queues, inherited(true)));
        }
        topics.extend(self.trace_topic.map(|trace| topic(trace, 1, read_write)));
        topics
    }

    pub(super) fn own_system_topics(&self) -> [String; 3] {
        [self.cluster.to_owned(), self.broker.to_owned(), reply_topic(self.cluster)]
    }
}

fn reply_topic(cluster: &str) -> String {
    format!("{cluster}_REPLY_TOPIC")
}

fn topic(name: &str, queues: i32, perm: i32) -> TopicConfig {
    TopicConfig { perm, ..TopicConfig::new(name, queues) }
}
