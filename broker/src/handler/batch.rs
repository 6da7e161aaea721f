//! Batches (320): one request, several records, stored all or none and one behind the other.
//!
//! An ordinary batch has one topic and queue and is stored as RocketMQ does, byte for byte. Our own
//! extension: with the header field `tandemMixed=true` each message may name its topic and queue in
//! the properties TANDEM_TOPIC and TANDEM_QUEUE, which are not stored.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use broker_protocol::frame::Frame;
use broker_protocol::limits::PROPERTIES_LEN_MAX;
use broker_protocol::message_id::offset_id;
use broker_protocol::properties::{self, Properties, name};
use broker_protocol::record::BatchMessages;
use broker_protocol::request::send::SendMessage;
use broker_store::{Appended, NewRecord, Queue};

use super::send::{
    Creation, Halt, PropertyFacts, Refusal, SendPath, Stored, Target, check_no_transaction,
    choose_queue, properties_too_long, push_cluster, stored_sys_flag,
};
use crate::config::BrokerConfig;
use crate::net::Peer;
use crate::topics::Topic;

/// Header field that lets the messages of a batch go to different queues.
const MIXED: &str = "tandemMixed";
/// Messages in one batch.
const MESSAGES_MAX: usize = 32_768;

/// One message of the batch, on its way to become a record.
struct Part<'a> {
    topic: Arc<Topic>,
    queue: Arc<Queue>,
    flag: i32,
    body: &'a [u8],
    /// Its final properties, as a range of the common buffer.
    properties: Range<usize>,
}

/// Stores the batch.
pub(super) fn store(
    path: &SendPath,
    config: &BrokerConfig,
    peer: &Peer,
    header: &SendMessage<'_>,
    request: &Frame<'_>,
    creation: Creation,
) -> Result<Stored, Halt> {
    if broker_protocol::name::group_of_retry(&header.topic).is_some() {
        return Err(Refusal::illegal("a batch can't be sent to a retry topic").into());
    }
    let most = path.store.config().max_message_size;
    if request.body.len() > most {
        let length = request.body.len();
        let remark = format!("the batch has {length} bytes, at most {most} are allowed");
        return Err(Refusal::illegal(remark).into());
    }
    let mixed = request.ext.find(MIXED).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let common = Common::read(header, config)?;
    let topic = path.topic(config, &header.topic, header, creation)?;
    let queue_id = choose_queue(&topic, header.queue_id, peer)?;
    let home = Target { topic, queue_id, dead_letter: false };

    let mut buffer = Vec::with_capacity(request.body.len());
    let mut parts = Vec::new();
    let mut first_queue_id = queue_id;
    for message in BatchMessages::new(request.body) {
        let message = message.map_err(|error| Refusal::illegal(error.to_string()))?;
        if parts.len() == MESSAGES_MAX {
            let remark = format!("a batch holds at most {MESSAGES_MAX} messages");
            return Err(Refusal::illegal(remark).into());
        }
        let place = common.finish(message.properties, mixed, header.sys_flag, &mut buffer)?;
        let (topic, queue_id) = match place.topic {
            Some(topic) if *topic != **home.topic.name() => {
                (path.topic(config, topic, header, creation)?, place.queue_id.unwrap_or(-1))
            }
            _ => (Arc::clone(&home.topic), place.queue_id.unwrap_or(home.queue_id)),
        };
        let queue_id = choose_queue(&topic, queue_id, peer)?;
        if parts.is_empty() {
            first_queue_id = queue_id;
        }
        let queue = path.queue(&topic, queue_id);
        let (flag, body) = (message.flag, message.body);
        parts.push(Part { topic, queue, flag, body, properties: place.properties });
    }
    if parts.is_empty() {
        return Err(Refusal::illegal("the batch holds no message").into());
    }
    let appended = append(path, peer, header, &parts, &buffer)?;
    Ok(stored(path, &appended, first_queue_id, &common))
}

fn append(
    path: &SendPath,
    peer: &Peer,
    header: &SendMessage<'_>,
    parts: &[Part<'_>],
    buffer: &[u8],
) -> Result<Vec<Appended>, Refusal> {
    let records: Vec<NewRecord<'_>> = parts
        .iter()
        .map(|part| NewRecord {
            queue: &part.queue,
            flag: part.flag,
            sys_flag: stored_sys_flag(header.sys_flag, &part.topic),
            born_timestamp: header.born_timestamp,
            born_host: peer.address,
            store_host: path.store_host,
            reconsume_times: header.reconsume_times.unwrap_or(0),
            prepared_transaction_offset: 0,
            body: part.body,
            properties: buffer.get(part.properties.clone()).unwrap_or_default(),
        })
        .collect();
    let mut appended = Vec::with_capacity(records.len());
    path.store.append_batch(&records, &mut appended)?;
    for (part, appended) in parts.iter().zip(&appended) {
        path.count(&part.topic, 1, u64::from(appended.size));
    }
    Ok(appended)
}

fn stored(path: &SendPath, appended: &[Appended], queue_id: i32, common: &Common<'_>) -> Stored {
    let mut ids = String::with_capacity(appended.len() * 33);
    for appended in appended {
        if !ids.is_empty() {
            ids.push(',');
        }
        // Writing into a string can't fail.
        let _ = ids.write_str(offset_id(path.store_host, appended.physical_offset).as_str());
    }
    Stored {
        first: appended[0],
        end: appended[appended.len() - 1].end(),
        queue_id,
        waits: common.facts.waits(),
        batch_ids: Some(ids),
    }
}

/// What all messages of the batch have in common.
struct Common<'a> {
    facts: PropertyFacts<'a>,
    /// Properties of the batch as each record gets them, the cluster's name included.
    properties: Vec<u8>,
    cluster: &'a str,
}

/// Where a message's properties are, and where it wants to go.
struct Place<'a> {
    properties: Range<usize>,
    topic: Option<&'a str>,
    queue_id: Option<i32>,
}

impl<'a> Common<'a> {
    fn read(header: &'a SendMessage<'_>, config: &'a BrokerConfig) -> Result<Common<'a>, Refusal> {
        let sent = header.properties.as_deref().unwrap_or_default().as_bytes();
        let mut facts = PropertyFacts::default();
        let mut properties = Vec::with_capacity(sent.len() + 64);
        for (key, value) in Properties::new(sent).iter() {
            facts.note(key, value)?;
            if key != name::CLUSTER.as_bytes() {
                properties::push(&mut properties, key, value);
            }
        }
        check(&facts, header.sys_flag)?;
        push_cluster(&mut properties, &config.broker_cluster_name);
        Ok(Common { facts, properties, cluster: &config.broker_cluster_name })
    }

    /// Appends the final properties of one message to `buffer`: its own, then the batch's.
    fn finish<'m>(
        &self,
        own: Properties<'m>,
        mixed: bool,
        sys_flag: i32,
        buffer: &mut Vec<u8>,
    ) -> Result<Place<'m>, Refusal> {
        let start = buffer.len();
        let mut facts = PropertyFacts::default();
        let (mut topic, mut queue_id) = (None, None);
        for (key, value) in own.iter() {
            facts.note(key, value)?;
            if mixed && key == name::TANDEM_TOPIC.as_bytes() {
                let text = std::str::from_utf8(value);
                topic = Some(text.map_err(|_| Refusal::illegal("TANDEM_TOPIC must be UTF-8"))?);
            } else if mixed && key == name::TANDEM_QUEUE.as_bytes() {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let wrong = || Refusal::illegal("TANDEM_QUEUE must be a whole number");
                queue_id = Some(number.ok_or_else(wrong)?);
            }
        }
        check(&facts, sys_flag)?;
        if topic.is_some() || queue_id.is_some() {
            let removed = [name::TANDEM_TOPIC.as_bytes(), name::TANDEM_QUEUE.as_bytes()];
            buffer.extend(own.without(|key| removed.contains(&key)));
        } else {
            buffer.extend_from_slice(own.raw());
        }
        self.append_to(start, buffer)?;
        Ok(Place { properties: start..buffer.len(), topic, queue_id })
    }

    /// Appends the batch's properties to those that `buffer` holds from `start` on. What is full
    /// already goes without them: they say nothing that the broker does not know itself.
    fn append_to(&self, start: usize, buffer: &mut Vec<u8>) -> Result<(), Refusal> {
        let length = buffer.len() - start;
        if length > PROPERTIES_LEN_MAX {
            return Err(properties_too_long(length));
        }
        let separated = length == 0 || buffer.last() == Some(&properties::PROPERTY_SEPARATOR);
        let separator = usize::from(!separated);
        if length + separator + self.properties.len() <= PROPERTIES_LEN_MAX {
            if !separated {
                buffer.push(properties::PROPERTY_SEPARATOR);
            }
            buffer.extend_from_slice(&self.properties);
        } else {
            tracing::debug!(cluster = self.cluster, "a message's properties leave no room");
        }
        Ok(())
    }
}

fn check(facts: &PropertyFacts<'_>, sys_flag: i32) -> Result<(), Refusal> {
    if facts.delay_level > 0 {
        return Err(Refusal::illegal("a message of a batch can't be delayed"));
    }
    check_no_transaction(facts, sys_flag)
}
