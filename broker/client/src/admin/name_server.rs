//! What name servers know.

use broker_protocol::body::{ClusterInfo, TopicList, TopicRouteData};
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;
use broker_protocol::request::name_server::{
    AddWritePermResponse, BrokerNameOf, GetKvConfigResponse, GetRouteInfo, KvKey, PutKvConfig,
    WipeWritePermResponse,
};
use broker_protocol::request::topic::DeleteTopicInNameServer;

use super::Admin;
use crate::error::ClientError;

impl Admin<'_> {
    /// All brokers and clusters.
    pub async fn cluster_info(&self) -> Result<ClusterInfo, ClientError> {
        let code = request::GET_BROKER_CLUSTER_INFO;
        self.client.call_name_server(code, &NoHeader, &[]).await?.json()
    }

    /// The route of a topic; `None` when no broker has it.
    pub async fn topic_route(&self, topic: &str) -> Result<Option<TopicRouteData>, ClientError> {
        let header = GetRouteInfo { topic: topic.into(), accept_standard_json_only: None };
        let code = request::GET_ROUTEINFO_BY_TOPIC;
        match self.client.call_name_server(code, &header, &[]).await {
            Ok(reply) => reply.json().map(Some),
            Err(error) if error.is_topic_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Names of all topics.
    pub async fn topics(&self) -> Result<TopicList, ClientError> {
        let code = request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER;
        self.client.call_name_server(code, &NoHeader, &[]).await?.json()
    }

    /// Makes one name server forget a topic.
    pub async fn delete_topic_in_name_server(
        &self,
        name_server: &str,
        topic: &str,
    ) -> Result<(), ClientError> {
        let header = DeleteTopicInNameServer { topic: topic.into(), cluster_name: None };
        self.client.call(name_server, request::DELETE_TOPIC_IN_NAMESRV, &header, &[]).await?;
        Ok(())
    }

    /// Sets a value of a name server's key-value configuration.
    pub async fn put_kv(
        &self,
        name_server: &str,
        namespace: &str,
        key: &str,
        value: &str,
    ) -> Result<(), ClientError> {
        let header =
            PutKvConfig { namespace: namespace.into(), key: key.into(), value: value.into() };
        self.client.call(name_server, request::PUT_KV_CONFIG, &header, &[]).await?;
        Ok(())
    }

    /// A value of the key-value configuration.
    pub async fn kv(&self, namespace: &str, key: &str) -> Result<Option<String>, ClientError> {
        let header = KvKey { namespace: namespace.into(), key: key.into() };
        match self.client.call_name_server(request::GET_KV_CONFIG, &header, &[]).await {
            Ok(mut reply) => {
                let header: GetKvConfigResponse<'_> = reply.header()?;
                Ok(header.value.map(|value| value.into_owned()))
            }
            Err(error) if error.code() == Some(response::QUERY_NOT_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a value of a name server's key-value configuration.
    pub async fn delete_kv(
        &self,
        name_server: &str,
        namespace: &str,
        key: &str,
    ) -> Result<(), ClientError> {
        let header = KvKey { namespace: namespace.into(), key: key.into() };
        self.client.call(name_server, request::DELETE_KV_CONFIG, &header, &[]).await?;
        Ok(())
    }

    /// Takes the write permission of all of a broker's queues out of one name server's routes; how
    /// many topics that were.
    pub async fn wipe_write_permission(
        &self,
        name_server: &str,
        broker_name: &str,
    ) -> Result<i32, ClientError> {
        let header = BrokerNameOf { broker_name: broker_name.into() };
        let code = request::WIPE_WRITE_PERM_OF_BROKER;
        let mut reply = self.client.call(name_server, code, &header, &[]).await?;
        Ok(reply.header::<WipeWritePermResponse>()?.wipe_topic_count)
    }

    /// Gives the write permission back; how many topics that were.
    pub async fn add_write_permission(
        &self,
        name_server: &str,
        broker_name: &str,
    ) -> Result<i32, ClientError> {
        let header = BrokerNameOf { broker_name: broker_name.into() };
        let code = request::ADD_WRITE_PERM_OF_BROKER;
        let mut reply = self.client.call(name_server, code, &header, &[]).await?;
        Ok(reply.header::<AddWritePermResponse>()?.add_topic_count)
    }
}
