//! Sending messages: single ones, batches of one topic, and batches of mixed topics.
//!
//! Nothing is sent twice: whether a send whose answer was lost is to be repeated is for the caller
//! to decide.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_protocol::code::{request, response};
use broker_protocol::header::{Header, WithExtra};
use broker_protocol::name::AUTO_CREATE_TOPIC;
use broker_protocol::properties::{name, push};
use broker_protocol::record::write_batch_message;
use broker_protocol::request::send::{SendMessage, SendMessageResponse};

use crate::client::{Client, now_millis};
use crate::connection::Reply;
use crate::error::ClientError;
use crate::message::Message;
use crate::route::{Destination, Route};

/// Queues per broker that a topic gets when it is made by a first send.
const NEW_TOPIC_QUEUES: i32 = 4;

/// Sends messages as a member of a producer group.
#[derive(Debug)]
pub struct Producer {
    client: Client,
    group: String,
    /// Turns through the queues of a topic.
    turn: AtomicUsize,
    /// Longest wait for an answer.
    pub answer_within: Duration,
}

/// How safe a stored message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendStatus {
    /// As safe as the broker's configuration promises.
    Stored,
    /// Stored, but not flushed to disk in time.
    FlushDiskTimeout,
    /// Stored on the master; there is no slave that could have it in time.
    SlaveNotAvailable,
    /// Stored on the master; no slave had it in time.
    FlushSlaveTimeout,
}

/// What the broker says about a stored message, or about a batch.
#[derive(Clone, Debug)]
pub struct SendReceipt {
    /// How safe it is.
    pub status: SendStatus,
    /// The broker that stored it.
    pub address: String,
    /// Unique ids, one for each message, as this client made them.
    pub unique_ids: Vec<String>,
    /// Offset ids, one for each message.
    pub offset_ids: Vec<String>,
    /// Queue that it went to; of a mixed batch the first message's.
    pub queue_id: i32,
    /// Position in the queue; of a batch the first message's.
    pub queue_offset: i64,
    /// Transaction id, if the broker gave one.
    pub transaction_id: Option<String>,
}

/// A request whose answer is a receipt.
struct Prepared {
    code: i32,
    properties: String,
    body: Vec<u8>,
    unique_ids: Vec<String>,
}

impl Producer {
    /// A producer of `group`, known to brokers from its first heartbeat or transaction.
    pub fn new(client: &Client, group: &str) -> Self {
        Self {
            client: client.clone(),
            group: client.namespace().wrap(group).into_owned(),
            turn: AtomicUsize::new(0),
            answer_within: client.options().connection.answer_within,
        }
    }

    /// Sends one message to the next queue of its topic in turn. As with Java's client, a topic
    /// that no broker has is routed as the template topic is, whose brokers then make it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the broker did not store it. After [`ClientError::Timeout`]
    /// or [`ClientError::Closed`] it may be stored.
    pub async fn send(&self, message: &Message) -> Result<SendReceipt, ClientError> {
        let to = self.next_destination(&message.topic).await?;
        self.send_to(&to, message).await
    }

    /// Sends one message to a queue of a broker.
    pub async fn send_to(
        &self,
        to: &Destination,
        message: &Message,
    ) -> Result<SendReceipt, ClientError> {
        let prepared = self.prepare(message)?;
        self.store(to, message, prepared, None).await
    }

    /// Sends one message to a queue and waits for no answer: it may get lost unnoticed. Its
    /// unique id.
    pub async fn send_oneway(
        &self,
        to: &Destination,
        message: &Message,
    ) -> Result<String, ClientError> {
        let prepared = self.prepare(message)?;
        let topic = self.client.namespace().wrap(&message.topic);
        let header = self.header(&topic, to.queue_id, message, &prepared);
        let connection = self.client.connection(&to.address).await?;
        connection.oneway(prepared.code, &header, &prepared.body).await?;
        Ok(prepared.unique_ids.concat())
    }

    /// Sends messages of one topic to a queue, all stored or none.
    ///
    /// # Errors
    /// As for [`Producer::send`]; [`ClientError::Invalid`] for no messages or different topics.
    pub async fn send_batch(
        &self,
        to: &Destination,
        messages: &[Message],
    ) -> Result<SendReceipt, ClientError> {
        let Some(first) = messages.first() else {
            return Err(ClientError::Invalid("a batch without messages".to_owned()));
        };
        if let Some(other) = messages.iter().find(|m| m.topic != first.topic) {
            let text = format!("a batch for topics {} and {}", first.topic, other.topic);
            return Err(ClientError::Invalid(text));
        }
        let prepared = self.prepare_batch(messages.iter().map(|message| (message, None)))?;
        self.store(to, first, prepared, None).await
    }

    /// Sends messages of any topics and queues of one broker in one request, all stored or none.
    /// Only Tandem's brokers understand this.
    pub async fn send_mixed(
        &self,
        address: &str,
        messages: &[(i32, Message)],
    ) -> Result<SendReceipt, ClientError> {
        let Some((queue_id, first)) = messages.first() else {
            return Err(ClientError::Invalid("a batch without messages".to_owned()));
        };
        let to = Destination { address: address.to_owned(), queue_id: *queue_id };
        let each = messages.iter().map(|(queue_id, message)| (message, Some(*queue_id)));
        let prepared = self.prepare_batch(each)?;
        self.store(&to, first, prepared, Some(&[("tandemMixed", "true")])).await
    }

    /// The next queue of a topic in turn, over all brokers that take sends.
    ///
    /// # Errors
    /// [`ClientError::NoBroker`] and what asking for a route may bring.
    pub async fn next_destination(&self, topic: &str) -> Result<Destination, ClientError> {
        let topic = self.client.namespace().wrap(topic);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        match self.client.route(&topic).await {
            Ok(route) => in_turn(&route.destinations(), turn),
            Err(error) if error.is_topic_missing() => {
                let template = self.client.route(AUTO_CREATE_TOPIC).await?;
                in_turn(&new_topic_destinations(&template), turn)
            }
            Err(error) => return Err(error),
        }
        .ok_or_else(|| ClientError::NoBroker {
            topic: topic.into_owned(),
            reason: "no master with a writable queue",
        })
    }

    fn prepare(&self, message: &Message) -> Result<Prepared, ClientError> {
        let unique_id = self.client.unique_id().as_str().to_owned();
        Ok(Prepared {
            code: request::SEND_MESSAGE_V2,
            properties: text(message.property_string(&unique_id))?,
            body: message.body.to_vec(),
            unique_ids: vec![unique_id],
        })
    }

    /// The queue of a message that has one of its own goes into its properties.
    fn prepare_batch<'m>(
        &self,
        messages: impl Iterator<Item = (&'m Message, Option<i32>)>,
    ) -> Result<Prepared, ClientError> {
        let mut body = Vec::new();
        let mut unique_ids = Vec::new();
        let mut wait = false;
        for (message, own_queue) in messages {
            let unique_id = self.client.unique_id().as_str().to_owned();
            let mut properties = message.property_string(&unique_id);
            if let Some(queue_id) = own_queue {
                let topic = self.client.namespace().wrap(&message.topic);
                push(&mut properties, name::TANDEM_TOPIC, topic.as_ref());
                push(&mut properties, name::TANDEM_QUEUE, queue_id.to_string());
            }
            write_batch_message(&mut body, message.flag, &message.body, &properties)
                .map_err(|error| ClientError::Invalid(error.to_string()))?;
            unique_ids.push(unique_id);
            wait |= message.wait_store;
        }
        let mut properties = Vec::new();
        push(&mut properties, name::WAIT_STORE_MSG_OK, if wait { "true" } else { "false" });
        let properties = text(properties)?;
        Ok(Prepared { code: request::SEND_BATCH_MESSAGE, properties, body, unique_ids })
    }

    fn header<'a>(
        &'a self,
        topic: &'a str,
        queue_id: i32,
        message: &Message,
        prepared: &'a Prepared,
    ) -> SendMessage<'a> {
        SendMessage {
            producer_group: self.group.as_str().into(),
            topic: topic.into(),
            default_topic: AUTO_CREATE_TOPIC.into(),
            default_topic_queue_nums: NEW_TOPIC_QUEUES,
            queue_id,
            sys_flag: message.sys_flag,
            born_timestamp: now_millis(),
            flag: message.flag,
            properties: Some(prepared.properties.as_str().into()),
            reconsume_times: Some(0),
            unit_mode: Some(false),
            max_reconsume_times: None,
            batch: Some(prepared.code == request::SEND_BATCH_MESSAGE),
            broker_name: None,
        }
    }

    async fn store(
        &self,
        to: &Destination,
        message: &Message,
        prepared: Prepared,
        extra: Option<&[(&str, &str)]>,
    ) -> Result<SendReceipt, ClientError> {
        let topic = self.client.namespace().wrap(&message.topic);
        let header = self.header(&topic, to.queue_id, message, &prepared);
        let reply = match extra {
            None => self.call(to, &prepared, &header).await?,
            Some(extra) => {
                let header = WithExtra { header: &header, extra };
                self.call(to, &prepared, &header).await?
            }
        };
        receipt(reply, prepared)
    }

    async fn call<H: Header + ?Sized>(
        &self,
        to: &Destination,
        prepared: &Prepared,
        header: &H,
    ) -> Result<Reply, ClientError> {
        let connection = self.client.connection(&to.address).await?;
        connection.call_within(prepared.code, header, &prepared.body, self.answer_within).await
    }
}

fn receipt(mut reply: Reply, prepared: Prepared) -> Result<SendReceipt, ClientError> {
    let status = match reply.code {
        response::SUCCESS => SendStatus::Stored,
        response::FLUSH_DISK_TIMEOUT => SendStatus::FlushDiskTimeout,
        response::SLAVE_NOT_AVAILABLE => SendStatus::SlaveNotAvailable,
        response::FLUSH_SLAVE_TIMEOUT => SendStatus::FlushSlaveTimeout,
        _ => return Err(reply.refusal(prepared.code)),
    };
    let address = reply.address().to_owned();
    let header: SendMessageResponse<'_> = reply.header()?;
    Ok(SendReceipt {
        status,
        address,
        unique_ids: prepared.unique_ids,
        offset_ids: header.msg_id.split(',').map(str::to_owned).collect(),
        queue_id: header.queue_id,
        queue_offset: header.queue_offset,
        transaction_id: header.transaction_id.map(|id| id.into_owned()),
    })
}

fn text(properties: Vec<u8>) -> Result<String, ClientError> {
    // It was put together from strings.
    String::from_utf8(properties).map_err(|error| ClientError::Invalid(error.to_string()))
}

fn in_turn(destinations: &[Destination], turn: usize) -> Option<Destination> {
    destinations.get(turn % destinations.len().max(1)).cloned()
}

/// Where a topic that does not exist yet may be sent: the template's brokers, with as many queues
/// as the new topic will get.
fn new_topic_destinations(template: &Route) -> Vec<Destination> {
    let mut destinations = template.destinations();
    destinations.retain(|to| to.queue_id < NEW_TOPIC_QUEUES);
    destinations
}
