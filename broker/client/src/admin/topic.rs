//! Topics of a broker.

use broker_protocol::body::{GroupList, TopicConfig, TopicConfigs, TopicStatsTable};
use broker_protocol::code::request;
use broker_protocol::header::NoHeader;
use broker_protocol::name::AUTO_CREATE_TOPIC;
use broker_protocol::request::topic::{CreateTopic, TopicOf};

use super::Admin;
use crate::error::ClientError;

impl Admin<'_> {
    /// Makes a topic on a broker, or changes it.
    pub async fn update_topic(
        &self,
        address: &str,
        topic: &TopicConfig,
    ) -> Result<(), ClientError> {
        let header = CreateTopic {
            topic: (&*topic.topic_name).into(),
            default_topic: Some(AUTO_CREATE_TOPIC.into()),
            read_queue_nums: topic.read_queue_nums,
            write_queue_nums: topic.write_queue_nums,
            perm: topic.perm,
            topic_filter_type: Some(topic.topic_filter_type.as_str().into()),
            topic_sys_flag: Some(topic.topic_sys_flag),
            order: topic.order,
            attributes: None,
            force: None,
        };
        self.client.call(address, request::UPDATE_AND_CREATE_TOPIC, &header, &[]).await?;
        Ok(())
    }

    /// Deletes a topic on a broker; its messages are freed in the background.
    pub async fn delete_topic(&self, address: &str, topic: &str) -> Result<(), ClientError> {
        let header = TopicOf { topic: topic.into() };
        self.client.call(address, request::DELETE_TOPIC_IN_BROKER, &header, &[]).await?;
        Ok(())
    }

    /// All topics of a broker.
    pub async fn topic_configs(&self, address: &str) -> Result<TopicConfigs, ClientError> {
        let reply =
            self.client.call(address, request::GET_ALL_TOPIC_CONFIG, &NoHeader, &[]).await?;
        reply.json()
    }

    /// The groups that subscribe to a topic or have progress in it.
    pub async fn topic_groups(&self, address: &str, topic: &str) -> Result<GroupList, ClientError> {
        let header = TopicOf { topic: topic.into() };
        let code = request::QUERY_TOPIC_CONSUME_BY_WHO;
        self.client.call(address, code, &header, &[]).await?.json()
    }

    /// Offsets and last store time of each queue of a topic.
    pub async fn topic_stats(
        &self,
        address: &str,
        topic: &str,
    ) -> Result<TopicStatsTable, ClientError> {
        let header = TopicOf { topic: topic.into() };
        let reply = self.client.call(address, request::GET_TOPIC_STATS_INFO, &header, &[]).await?;
        reply.json()
    }
}
