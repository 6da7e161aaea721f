//! Consumer groups' settings.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use super::DataVersion;

/// A consumer group's settings on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// The id of the broker that the group reads from.
    pub broker_id: i64,
    /// Whether members may consume in broadcasting mode.
    pub consume_broadcast_enable: bool,
    /// Whether members may consume at all.
    pub consume_enable: bool,
    /// Whether new members begin at the start of a queue; kept, but no broker reads it.
    pub consume_from_min_enable: bool,
    /// The group.
    pub group_name: Arc<str>,
    /// Whether members are told when others come or go.
    pub notify_consumer_ids_changed_enable: bool,
    /// How often a message is given back before it goes to the dead-letter topic.
    pub retry_max_times: i32,
    /// Queues of the retry topic; none switches retries off.
    pub retry_queue_nums: i32,
    /// The id of the broker that a slow group is sent to.
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> SubscriptionGroupConfig {
        SubscriptionGroupConfig {
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            group_name: Arc::from(""),
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            which_broker_when_consume_slowly: 1,
        }
    }
}

impl SubscriptionGroupConfig {
    /// The settings of a group that nobody set up.
    #[must_use]
    pub fn new(group: impl Into<Arc<str>>) -> SubscriptionGroupConfig {
        SubscriptionGroupConfig { group_name: group.into(), ..SubscriptionGroupConfig::default() }
    }
}

/// A broker's groups: the answer to code 201, and `subscriptionGroup.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroups {
    /// The table's version.
    pub data_version: DataVersion,
    /// The settings by group.
    pub subscription_group_table: BTreeMap<Arc<str>, Arc<SubscriptionGroupConfig>>,
}

/// A list of groups: the answer to code 300.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    /// The groups.
    pub group_list: Vec<Arc<str>>,
}
