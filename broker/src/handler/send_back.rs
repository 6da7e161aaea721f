//! A consumer gives a message back (36): it comes again after a delay, or goes to the dead letters
//! when it came often enough.

use std::net::SocketAddr;
use std::sync::Arc;

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::limits::PROPERTIES_LEN_MAX;
use broker_protocol::message_id::offset_id;
use broker_protocol::perm;
use broker_protocol::properties::{self, Properties, name as property};
use broker_protocol::record::RecordView;
use broker_protocol::request::send::ConsumerSendMsgBack;
use broker_store::{AppendError, Appended, NewRecord, Store};

use super::{Refusal, UNIT_SUB};
use crate::config::BrokerConfig;
use crate::groups::Groups;
use crate::schedule::{DelayLevels, divert};
use crate::topics::{Topic, Topics};

/// First version of clients whose own limit of attempts counts.
const OWN_LIMIT_SINCE: i32 = broker_protocol::version::V3_4_9;

/// The level of a first attempt where the client leaves the choice to the broker; each further
/// attempt waits one level longer.
const FIRST_LEVEL: i32 = 3;

/// Properties of the message's last wait and of its first copy, which the new record has anew or
/// not at all. Those of light queues are among them: a copy must not enter them again.
const NOT_COPIED: [&str; 8] = [
    property::DELAY_TIME_LEVEL,
    property::REAL_TOPIC,
    property::REAL_QUEUE_ID,
    property::RETRY_TOPIC,
    property::ORIGIN_MESSAGE_ID,
    property::WAIT_STORE_MSG_OK,
    property::INNER_MULTI_DISPATCH,
    property::INNER_MULTI_QUEUE_OFFSET,
];

/// Properties that brokers add and consumption does without. A message whose own properties fill a
/// record to the brim comes back without them.
const DISPENSABLE: [&str; 3] =
    [property::ORIGIN_MESSAGE_ID, property::WAIT_STORE_MSG_OK, property::CLUSTER];

/// What a send-back needs of the broker.
#[derive(Debug)]
pub struct SendBack<'b> {
    /// Settings.
    pub config: &'b BrokerConfig,
    /// Where the message lies and goes.
    pub store: &'b Store,
    /// Where retry and dead-letter topics are made.
    pub topics: &'b Topics,
    /// The group's settings.
    pub groups: &'b Groups,
    /// The delays.
    pub levels: &'b DelayLevels,
    /// The broker's address as records show it.
    pub store_host: SocketAddr,
    /// Milliseconds since 1970.
    pub now: i64,
}

/// What became of the message.
#[derive(Debug)]
pub enum GivenBack {
    /// It was stored anew, in this record.
    Stored(Appended),
    /// The group has no retry queues: nothing was stored.
    Dropped,
}

impl SendBack<'_> {
    /// Stores the message anew. May make topics and reads an old record, so it runs on the pool.
    ///
    /// # Errors
    /// The answer for the client; nothing was stored then.
    pub fn serve(&self, request: &Frame<'_>) -> Result<GivenBack, Refusal> {
        let header: ConsumerSendMsgBack<'_> = request.ext.decode()?;
        let not_there =
            |remark: String| Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark);
        let auto_create = self.config.auto_create_subscription_group;
        let group_handle = self
            .groups
            .find_or_create(&header.group, auto_create, self.now)
            .map_err(|error| not_there(error.to_string()))?
            .ok_or_else(|| not_there(format!("subscription group not exist, {}", header.group)))?;
        let group = group_handle.config();
        if !perm::is_writable(self.config.broker_permission) {
            let remark =
                format!("the broker[{}] sending message is forbidden", self.config.broker_ip1);
            return Err(Refusal::new(response::NO_PERMISSION, remark));
        }
        if group.retry_queue_nums <= 0 {
            return Ok(GivenBack::Dropped);
        }
        let sys_flag = if header.unit_mode { UNIT_SUB } else { 0 };
        let retry = self
            .topics
            .create_retry(&header.group, group.retry_queue_nums, sys_flag, self.now)
            .map_err(Refusal::error)?;
        if !perm::is_writable(retry.config().perm) {
            let remark = format!("the topic[{}] sending message is forbidden", retry.name());
            return Err(Refusal::new(response::NO_PERMISSION, remark));
        }
        let bytes = u64::try_from(header.offset).ok().and_then(|at| self.store.message_at(at));
        let bytes = bytes.ok_or_else(|| {
            Refusal::error(format!("look message by offset failed, {}", header.offset))
        })?;
        let message = RecordView::parse(&bytes).map_err(Refusal::error)?;
        let own_limit =
            header.max_reconsume_times.filter(|_| request.head.version >= OWN_LIMIT_SINCE);
        let limit = own_limit.unwrap_or(group.retry_max_times);
        let dead = message.reconsume_times >= limit || header.delay_level < 0;
        let appended = if dead {
            let topic = self.topics.create_dlq(&header.group, self.now).map_err(Refusal::error)?;
            self.store_dead(&message, &topic)?
        } else {
            self.store_retry(&message, &retry, header.delay_level)?
        };
        self.count(origin_topic(&message), group_handle.name());
        Ok(GivenBack::Stored(appended))
    }

    fn count(&self, topic: &str, group: &Arc<str>) {
        // A topic that was deleted meanwhile counts nothing any more.
        let Some(topic) = self.topics.find(topic) else { return };
        topic.counters.reader(group).send_backs.add(1);
    }

    /// The copy for the dead letters is there at once: it keeps no delay.
    fn store_dead(&self, message: &RecordView<'_>, topic: &Topic) -> Result<Appended, Refusal> {
        let properties = Self::copied_properties(message, &[]);
        self.append(message, topic.name(), 0, properties)
    }

    fn store_retry(
        &self,
        message: &RecordView<'_>,
        topic: &Topic,
        asked_level: i32,
    ) -> Result<Appended, Refusal> {
        let level =
            if asked_level == 0 { FIRST_LEVEL + message.reconsume_times } else { asked_level };
        let queues = topic.config().write_queue_nums.max(1);
        let queue_id = fastrand::i32(0..queues);
        let level_text = level.to_string();
        let mut properties =
            Self::copied_properties(message, &[(property::DELAY_TIME_LEVEL, &level_text)]);
        let (topic, queue_id) = divert(self.levels, level, topic.name(), queue_id, &mut properties);
        self.append(message, topic, queue_id, properties)
    }

    /// The message's properties without those of its last wait, with where it came from first.
    fn copied_properties(message: &RecordView<'_>, more: &[(&str, &str)]) -> Vec<u8> {
        let origin = origin_topic(message);
        let first_id =
            offset_id(message.store_host, message.physical_offset.max(0).cast_unsigned());
        let origin_id = message.properties.get(property::ORIGIN_MESSAGE_ID).unwrap_or(&first_id);
        let mut copied = message.properties.without(|name| is_one_of(name, &NOT_COPIED));
        properties::push(&mut copied, property::RETRY_TOPIC, origin);
        properties::push(&mut copied, property::ORIGIN_MESSAGE_ID, origin_id);
        properties::push(&mut copied, property::WAIT_STORE_MSG_OK, "false");
        for (name, value) in more {
            properties::push(&mut copied, name, value);
        }
        copied
    }

    fn append(
        &self,
        message: &RecordView<'_>,
        topic: &str,
        queue_id: i32,
        mut properties: Vec<u8>,
    ) -> Result<Appended, Refusal> {
        if properties.len() > PROPERTIES_LEN_MAX {
            properties = Properties::new(&properties).without(|name| is_one_of(name, &DISPENSABLE));
        }
        let queue = self.store.queue(topic, queue_id);
        let record = NewRecord {
            queue: &queue,
            flag: message.flag,
            sys_flag: message.sys_flag,
            born_timestamp: message.born_timestamp,
            born_host: message.born_host,
            store_host: self.store_host,
            reconsume_times: message.reconsume_times.saturating_add(1),
            prepared_transaction_offset: 0,
            body: message.body,
            properties: &properties,
        };
        self.store.append_again(&record).map_err(|error| {
            let code = match error {
                AppendError::NotWritable(_) => response::SERVICE_NOT_AVAILABLE,
                AppendError::NoFile(_) => response::SYSTEM_ERROR,
                AppendError::Illegal(_) | AppendError::PropertiesTooLong { .. } => {
                    response::MESSAGE_ILLEGAL
                }
            };
            tracing::error!(topic, %error, "a message that was given back is not stored");
            Refusal::new(code, error.to_string())
        })
    }
}

/// The topic that the message was sent to, however often it was given back since.
fn origin_topic<'r>(message: &RecordView<'r>) -> &'r str {
    message.properties.get(property::RETRY_TOPIC).unwrap_or(message.topic)
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names.iter().any(|one| one.as_bytes() == name)
}

#[cfg(test)]
mod tests;
