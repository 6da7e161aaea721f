//! Pulling messages and keeping a group's progress; by hand, without rebalancing.

use std::time::Duration;

use broker_protocol::body::{
    ConsumeFromWhere, ConsumeType, ConsumerData, HeartbeatData, LockBatch, LockedQueues,
    MessageModel, MessageQueue, ProducerData, SubscriptionData,
};
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;
use broker_protocol::request::client::UnregisterClient;
use broker_protocol::request::offset::UpdateConsumerOffset;
use broker_protocol::request::pull::{self, PullMessage, PullMessageResponse};
use broker_protocol::request::send::ConsumerSendMsgBack;
use broker_protocol::tags::{java_string_hash, tags};

use crate::client::{Client, now_millis};
use crate::error::ClientError;
use crate::message::StoredMessage;

/// Beyond the time that a broker may hold a pull, for the answer to arrive.
const PULL_GRACE: Duration = Duration::from_secs(10);

/// What a consumer is.
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// Group, without namespace.
    pub group: String,
    /// What it subscribes to.
    pub subscriptions: Vec<Subscription>,
    /// How its members get messages, as heartbeats say.
    pub consume_type: ConsumeType,
    /// Whether members share the messages or each get all.
    pub message_model: MessageModel,
    /// Where a member begins when the group has no progress, as heartbeats say.
    pub from: ConsumeFromWhere,
    /// Version of the subscriptions: a broker keeps the newest. Default: now, in milliseconds.
    pub version: i64,
}

/// A subscription to one topic.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Topic, without namespace.
    pub topic: String,
    /// `*`, or tags as `a || b`.
    pub expression: String,
}

impl ConsumerOptions {
    /// A group that shares messages, as Java's push consumer registers it.
    pub fn pushed(group: &str) -> Self {
        Self {
            group: group.to_owned(),
            subscriptions: Vec::new(),
            consume_type: ConsumeType::Passively,
            message_model: MessageModel::Clustering,
            from: ConsumeFromWhere::LastOffset,
            version: now_millis(),
        }
    }

    /// The same with a subscription more.
    #[must_use]
    pub fn subscribe(mut self, topic: &str, expression: &str) -> Self {
        let subscription =
            Subscription { topic: topic.to_owned(), expression: expression.to_owned() };
        self.subscriptions.push(subscription);
        self
    }
}

/// A member of a consumer group.
#[derive(Clone, Debug)]
pub struct Consumer {
    client: Client,
    group: String,
    options: ConsumerOptions,
}

/// One pull.
#[derive(Clone, Debug)]
pub struct Pull<'a> {
    /// Topic as the broker knows it.
    pub topic: &'a str,
    /// Queue of the topic.
    pub queue_id: i32,
    /// First offset wanted.
    pub offset: i64,
    /// Most messages wanted.
    pub max: i32,
    /// How long the broker may wait for a message when there is none; `None`: not at all.
    pub hold: Option<Duration>,
    /// Filter of this pull alone. `None`: the group's subscription, as the last heartbeat said.
    pub expression: Option<&'a str>,
    /// Progress to report along with the pull.
    pub commit: Option<i64>,
}

/// The answer to a pull.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// What the broker found.
    pub status: PullStatus,
    /// Offset to pull next.
    pub next_offset: i64,
    /// First offset of the queue.
    pub min_offset: i64,
    /// Offset of the queue's next message.
    pub max_offset: i64,
    /// Id of the broker to pull from next.
    pub suggested_broker: i64,
    /// The broker's own word for the status.
    pub remark: Option<String>,
    /// Messages in the order of the queue.
    pub messages: Vec<StoredMessage>,
}

/// What a broker found at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullStatus {
    /// Messages.
    Found,
    /// Nothing new (19).
    NoNewMessage,
    /// Messages, but none that the filter lets through (20).
    NoMatchedMessage,
    /// The offset is outside the queue (21).
    OffsetMoved,
}

impl Consumer {
    /// A consumer; brokers know it from its first heartbeat.
    pub fn new(client: &Client, options: ConsumerOptions) -> Self {
        let group = client.namespace().wrap(&options.group).into_owned();
        Self { client: client.clone(), group, options }
    }

    /// Group as brokers know it.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Tells a broker that this consumer is there and what it subscribes to. To be repeated at
    /// least every two minutes.
    pub async fn heartbeat(&self, address: &str) -> Result<(), ClientError> {
        let data = heartbeat_data(&self.client, &self.options);
        send_heartbeat(&self.client, address, &data).await
    }

    /// Tells a broker that this consumer is gone.
    pub async fn unregister(&self, address: &str) -> Result<(), ClientError> {
        let header = UnregisterClient {
            client_id: self.client.id().into(),
            producer_group: None,
            consumer_group: Some(self.group.as_str().into()),
        };
        self.client.call(address, request::UNREGISTER_CLIENT, &header, &[]).await?;
        Ok(())
    }

    /// Pulls from one queue of a broker.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for other codes than the four of [`PullStatus`].
    pub async fn pull(&self, address: &str, pull: &Pull<'_>) -> Result<Pulled, ClientError> {
        let hold = pull.hold.unwrap_or_default();
        let connection = self.client.connection(address).await?;
        let within = hold + PULL_GRACE;
        let header = self.pull_header(pull, hold);
        let code = request::PULL_MESSAGE;
        let mut reply = connection.call_within(code, &header, &[], within).await?;
        let status = match reply.code {
            response::SUCCESS => PullStatus::Found,
            response::PULL_NOT_FOUND => PullStatus::NoNewMessage,
            response::PULL_RETRY_IMMEDIATELY => PullStatus::NoMatchedMessage,
            response::PULL_OFFSET_MOVED => PullStatus::OffsetMoved,
            _ => return Err(reply.refusal(code)),
        };
        let header: PullMessageResponse = reply.header()?;
        let messages =
            StoredMessage::parse_all(&reply.body).map_err(|error| reply.malformed(error))?;
        Ok(Pulled {
            status,
            next_offset: header.next_begin_offset,
            min_offset: header.min_offset,
            max_offset: header.max_offset,
            suggested_broker: header.suggest_which_broker_id,
            remark: reply.remark,
            messages,
        })
    }

    fn pull_header<'a>(&'a self, pull: &Pull<'a>, hold: Duration) -> PullMessage<'a> {
        let mut sys_flag = 0;
        for (wanted, bit) in [
            (pull.commit.is_some(), pull::COMMIT_OFFSET),
            (pull.hold.is_some(), pull::SUSPEND),
            (pull.expression.is_some(), pull::SUBSCRIPTION),
        ] {
            sys_flag |= if wanted { bit } else { 0 };
        }
        PullMessage {
            consumer_group: self.group.as_str().into(),
            topic: pull.topic.into(),
            queue_id: pull.queue_id,
            queue_offset: pull.offset,
            max_msg_nums: pull.max,
            sys_flag,
            commit_offset: pull.commit.unwrap_or(0),
            suspend_timeout_millis: i64::try_from(hold.as_millis()).unwrap_or(i64::MAX),
            subscription: pull.expression.map(Into::into),
            // A filter of its own has no version that could be older than the group's.
            sub_version: if pull.expression.is_some() { 0 } else { self.options.version },
            expression_type: Some("TAG".into()),
            max_msg_bytes: None,
            request_source: None,
            proxy_forward_client_id: None,
        }
    }

    /// Reports progress; nothing is answered. `Ok` means that it is queued to be sent.
    pub async fn commit_oneway(
        &self,
        address: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
    ) -> Result<(), ClientError> {
        let header = UpdateConsumerOffset {
            consumer_group: self.group.as_str().into(),
            topic: topic.into(),
            queue_id,
            commit_offset: offset,
        };
        let connection = self.client.connection(address).await?;
        connection.oneway(request::UPDATE_CONSUMER_OFFSET, &header, &[]).await
    }

    /// The group's progress in a queue.
    pub async fn committed(
        &self,
        address: &str,
        topic: &str,
        queue_id: i32,
    ) -> Result<Option<i64>, ClientError> {
        self.client.admin().consumer_offset(address, &self.group, topic, queue_id).await
    }

    /// Reports progress and waits for the answer.
    pub async fn commit(
        &self,
        address: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
    ) -> Result<(), ClientError> {
        let admin = self.client.admin();
        admin.update_consumer_offset(address, &self.group, topic, queue_id, offset).await
    }

    /// Locks queues for this consumer: those that it holds now.
    pub async fn lock(
        &self,
        address: &str,
        queues: &[MessageQueue],
    ) -> Result<Vec<MessageQueue>, ClientError> {
        let body = self.lock_body(queues)?;
        let reply = self.client.call(address, request::LOCK_BATCH_MQ, &NoHeader, &body).await?;
        Ok(reply.json::<LockedQueues>()?.lock_ok_mq_set)
    }

    /// Lets locked queues go.
    pub async fn unlock(&self, address: &str, queues: &[MessageQueue]) -> Result<(), ClientError> {
        let body = self.lock_body(queues)?;
        self.client.call(address, request::UNLOCK_BATCH_MQ, &NoHeader, &body).await?;
        Ok(())
    }

    fn lock_body(&self, queues: &[MessageQueue]) -> Result<Vec<u8>, ClientError> {
        let body = LockBatch {
            client_id: self.client.id().into(),
            consumer_group: self.group.as_str().into(),
            mq_set: queues.to_vec(),
        };
        to_json(&body)
    }

    /// Gives a message back, to get it again later: after the delay of `level`, of the broker's
    /// choice for 0, or never (straight to the dead letters) below 0.
    pub async fn send_back(
        &self,
        address: &str,
        message: &StoredMessage,
        level: i32,
    ) -> Result<(), ClientError> {
        let header = ConsumerSendMsgBack {
            offset: message.physical_offset,
            group: self.group.as_str().into(),
            delay_level: level,
            origin_msg_id: message.unique_id().map(Into::into),
            origin_topic: Some(message.topic.as_str().into()),
            unit_mode: false,
            max_reconsume_times: Some(16),
        };
        self.client.call(address, request::CONSUMER_SEND_MSG_BACK, &header, &[]).await?;
        Ok(())
    }
}

impl Client {
    /// Tells a broker that this client produces for a group.
    pub async fn producer_heartbeat(&self, address: &str, group: &str) -> Result<(), ClientError> {
        let group = self.namespace().wrap(group);
        let data = HeartbeatData {
            client_id: self.id().into(),
            consumer_data_set: Vec::new(),
            producer_data_set: vec![ProducerData { group_name: (&*group).into() }],
        };
        send_heartbeat(self, address, &data).await
    }
}

/// The heartbeat of a consumer.
pub fn heartbeat_data(client: &Client, options: &ConsumerOptions) -> HeartbeatData {
    let namespace = client.namespace();
    let subscriptions = options.subscriptions.iter().map(|subscription| {
        let topic = namespace.wrap(&subscription.topic);
        subscription_data(&topic, &subscription.expression, options.version)
    });
    let group = namespace.wrap(&options.group);
    HeartbeatData {
        client_id: client.id().into(),
        consumer_data_set: vec![ConsumerData {
            consume_from_where: options.from,
            consume_type: options.consume_type,
            group_name: (&*group).into(),
            message_model: options.message_model,
            subscription_data_set: subscriptions.collect(),
            unit_mode: false,
        }],
        producer_data_set: Vec::new(),
    }
}

fn subscription_data(topic: &str, expression: &str, version: i64) -> SubscriptionData {
    let all = matches!(expression.trim(), "" | "*");
    let tags: Vec<&str> = if all { Vec::new() } else { tags(expression).collect() };
    SubscriptionData {
        class_filter_mode: false,
        code_set: tags.iter().map(|tag| java_string_hash(tag)).collect(),
        expression_type: "TAG".to_owned(),
        sub_string: if all { "*".to_owned() } else { expression.to_owned() },
        sub_version: version,
        tags_set: tags.into_iter().map(str::to_owned).collect(),
        topic: topic.into(),
    }
}

async fn send_heartbeat(
    client: &Client,
    address: &str,
    data: &HeartbeatData,
) -> Result<(), ClientError> {
    client.call(address, request::HEART_BEAT, &NoHeader, &to_json(data)?).await?;
    Ok(())
}

fn to_json<T: serde::Serialize>(body: &T) -> Result<Vec<u8>, ClientError> {
    broker_protocol::json::to_vec(body).map_err(|error| ClientError::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientOptions;

    #[test]
    fn subscriptions_name_tags_and_their_hashes() {
        let data = subscription_data("T", "TagA || TagB", 7);
        assert_eq!(data.tags_set, ["TagA", "TagB"]);
        assert_eq!(data.code_set, [2_598_919, 2_598_920]);
        for all in ["*", ""] {
            let data = subscription_data("T", all, 7);
            assert_eq!((data.sub_string.as_str(), data.tags_set.len()), ("*", 0));
        }
    }

    #[test]
    fn heartbeats_name_the_group_with_its_namespace() {
        let client = Client::new(ClientOptions {
            namespace: crate::Namespace::new("shop"),
            ..ClientOptions::default()
        });
        let data = heartbeat_data(&client, &ConsumerOptions::pushed("g").subscribe("T", "*"));
        let consumer = &data.consumer_data_set[0];
        assert_eq!(&*consumer.group_name, "shop%g");
        assert_eq!(&*consumer.subscription_data_set[0].topic, "shop%T");
        assert_eq!(&*data.client_id, client.id());
    }
}
