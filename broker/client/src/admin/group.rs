//! Consumer and producer groups of a broker.

use std::collections::BTreeMap;

use broker_protocol::body::{
    ConsumeStats, ConsumerConnection, ConsumerIdList, ConsumerStatus, MessageQueue,
    ProducerConnection, QueueOffsets, SubscriptionGroupConfig, SubscriptionGroups,
};
use broker_protocol::code::request;
use broker_protocol::header::NoHeader;
use broker_protocol::request::client::GetConsumerListByGroup;
use broker_protocol::request::group::{
    CloneGroupOffset, DeleteSubscriptionGroup, GetConsumeStats, GetConsumerConnectionList,
    GetConsumerRunningInfo, GetConsumerStatus, GetProducerConnectionList, ResetOffset,
};
use bytes::Bytes;

use super::Admin;
use crate::error::ClientError;

impl Admin<'_> {
    /// Makes a consumer group on a broker, or changes it.
    pub async fn update_group(
        &self,
        address: &str,
        group: &SubscriptionGroupConfig,
    ) -> Result<(), ClientError> {
        let body = broker_protocol::json::to_vec(group)
            .map_err(|error| ClientError::Invalid(error.to_string()))?;
        let code = request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
        self.client.call(address, code, &NoHeader, &body).await?;
        Ok(())
    }

    /// All consumer groups of a broker.
    pub async fn groups(&self, address: &str) -> Result<SubscriptionGroups, ClientError> {
        let code = request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG;
        self.client.call(address, code, &NoHeader, &[]).await?.json()
    }

    /// Deletes a consumer group on a broker; with `offsets` its progress, too.
    pub async fn delete_group(
        &self,
        address: &str,
        group: &str,
        offsets: bool,
    ) -> Result<(), ClientError> {
        let header = DeleteSubscriptionGroup { group_name: group.into(), remove_offset: offsets };
        self.client.call(address, request::DELETE_SUBSCRIPTIONGROUP, &header, &[]).await?;
        Ok(())
    }

    /// The progress of a group, in one topic or in all.
    pub async fn consume_stats(
        &self,
        address: &str,
        group: &str,
        topic: Option<&str>,
    ) -> Result<ConsumeStats, ClientError> {
        let header = GetConsumeStats {
            consumer_group: group.into(),
            topic: topic.map(Into::into),
            topic_list: None,
        };
        self.client.call(address, request::GET_CONSUME_STATS, &header, &[]).await?.json()
    }

    /// Client ids of a group's members. A group without members is refused by 4.9 brokers.
    pub async fn consumer_ids(
        &self,
        address: &str,
        group: &str,
    ) -> Result<ConsumerIdList, ClientError> {
        let header = GetConsumerListByGroup { consumer_group: group.into() };
        let code = request::GET_CONSUMER_LIST_BY_GROUP;
        self.client.call(address, code, &header, &[]).await?.json()
    }

    /// A consumer group's members and what they subscribe to.
    pub async fn consumer_connections(
        &self,
        address: &str,
        group: &str,
    ) -> Result<ConsumerConnection, ClientError> {
        let header = GetConsumerConnectionList { consumer_group: group.into() };
        let code = request::GET_CONSUMER_CONNECTION_LIST;
        self.client.call(address, code, &header, &[]).await?.json()
    }

    /// A producer group's members.
    pub async fn producer_connections(
        &self,
        address: &str,
        group: &str,
    ) -> Result<ProducerConnection, ClientError> {
        let header = GetProducerConnectionList { producer_group: group.into() };
        let code = request::GET_PRODUCER_CONNECTION_LIST;
        self.client.call(address, code, &header, &[]).await?.json()
    }

    /// What a member of a consumer group says about itself, as JSON text: the broker asks it.
    pub async fn consumer_running_info(
        &self,
        address: &str,
        group: &str,
        client_id: &str,
    ) -> Result<Bytes, ClientError> {
        let header = GetConsumerRunningInfo {
            consumer_group: group.into(),
            client_id: client_id.into(),
            jstack_enable: false,
        };
        let code = request::GET_CONSUMER_RUNNING_INFO;
        Ok(self.client.call(address, code, &header, &[]).await?.body)
    }

    /// Makes a group's members go on at the first message stored at or after `timestamp` (in
    /// milliseconds of Unix time; -1 for the end): the new offsets. Without `force` progress only
    /// moves back.
    pub async fn reset_offset(
        &self,
        address: &str,
        group: &str,
        topic: &str,
        timestamp: i64,
        force: bool,
    ) -> Result<BTreeMap<MessageQueue, i64>, ClientError> {
        let header = ResetOffset {
            topic: topic.into(),
            group: group.into(),
            timestamp,
            is_force: force,
            queue_id: None,
            offset: None,
        };
        let code = request::INVOKE_BROKER_TO_RESET_OFFSET;
        let reply = self.client.call(address, code, &header, &[]).await?;
        Ok(reply.json::<QueueOffsets>()?.offset_table)
    }

    /// The offsets that a group's members (or one of them) say they are at.
    pub async fn consumer_status(
        &self,
        address: &str,
        group: &str,
        topic: &str,
        client_id: Option<&str>,
    ) -> Result<ConsumerStatus, ClientError> {
        let header = GetConsumerStatus {
            topic: topic.into(),
            group: group.into(),
            client_id: client_id.map(Into::into),
        };
        let code = request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS;
        self.client.call(address, code, &header, &[]).await?.json()
    }

    /// Gives a group the progress of another one, in one topic or in all.
    pub async fn clone_group_offset(
        &self,
        address: &str,
        from: &str,
        to: &str,
        topic: Option<&str>,
    ) -> Result<(), ClientError> {
        let header = CloneGroupOffset {
            src_group: from.into(),
            dest_group: to.into(),
            topic: topic.map(Into::into),
            offline: false,
        };
        self.client.call(address, request::CLONE_GROUP_OFFSET, &header, &[]).await?;
        Ok(())
    }
}
