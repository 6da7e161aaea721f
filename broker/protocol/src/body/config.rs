//! Files that have no other home: offsets and key-value configuration. `topics.json` is
//! [`super::TopicConfigs`], `subscriptionGroup.json` [`super::SubscriptionGroups`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Progress of consumer groups: `consumerOffset.json` and the answer to code 43.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerOffsetTable {
    /// Next offset by queue, by `topic@group`.
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

/// Progress of the delay levels: `delayOffset.json` and the answer to code 45.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DelayOffsetTable {
    /// Next offset by level, counted from 1.
    pub offset_table: BTreeMap<i32, i64>,
}

/// A name server's key-value configuration: `kvConfig.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KvConfigTable {
    /// Value by key, by namespace.
    pub config_table: BTreeMap<String, BTreeMap<String, String>>,
}
