//! The JSON bodies of requests and answers, and the shapes of the broker's config files, by
//! subject. Each field has the wire's name in camel case; what is missing, null or unknown is
//! tolerated everywhere, so bodies of other versions are read.
//!
//! Fields stand in the order in which fastjson writes them. Two bodies have no type here because a
//! broker passes them on unread: a consumer's running info (307) and the outcome of consuming a
//! message directly (309).

mod client;
mod config;
mod group;
mod offset;
mod register;
mod route;
mod stats;
mod topic;
mod wire_enum;

pub use client::{
    CheckClientConfig, Connection, ConsumeFromWhere, ConsumeType, ConsumerConnection, ConsumerData,
    ConsumerIdList, HeartbeatData, LockBatch, LockedQueues, MessageModel, ProducerConnection,
    ProducerData, ProducerInfo, ProducerTable, SubscriptionData,
};
pub use config::{ConsumerOffsetTable, DelayOffsetTable, KvConfigTable};
pub use group::{GroupList, SubscriptionGroupConfig, SubscriptionGroups};
pub use offset::{
    ConsumerStatus, CorrectionOffsets, OffsetOfQueue, QueueOffsetList, QueueOffsets, QueueStatus,
};
pub use register::{RegisterBroker, RegisterError};
pub use route::{BrokerData, ClusterInfo, KvTable, QueueData, TopicList, TopicRouteData};
pub use stats::{
    BrokerStatsData, BrokerStatsItem, ConsumeQueueAnswer, ConsumeQueueUnit, ConsumeStats,
    ConsumeStatsList, ConsumeTimeSpans, OffsetWrapper, QueueTimeSpan, TopicOffset, TopicStatsTable,
};
pub use topic::{DataVersion, MessageQueue, TopicConfig, TopicConfigs, TopicFilterType};

#[cfg(test)]
mod tests;
