//! Where a send goes: the checks before anything is looked at twice, the topic (made when the rules
//! allow), the queue, and the way to the dead letters.

use std::sync::Arc;

use broker_protocol::code::response;
use broker_protocol::request::send::SendMessage;
use broker_protocol::{name, perm};

use super::{Refusal, SendPath};
use crate::config::BrokerConfig;
use crate::groups::Group;
use crate::handler::now_ms;
use crate::net::Peer;
use crate::topics::{CreateOnSend, Topic, TopicError};

/// Sys flag of topics that a producer bound to a unit creates.
const UNIT: i32 = 1;
/// Sys flag of retry topics of consumers bound to a unit.
const UNIT_SUB: i32 = 2;

/// Whether this thread may wait for a disk to create a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::handler) enum Creation {
    /// It may.
    Allowed,
    /// It may not: the request must go to the pool.
    NeedsDisk,
}

/// Why a send goes no further here.
#[derive(Debug)]
pub(in crate::handler) enum Halt {
    /// It is refused.
    Refused(Refusal),
    /// It must be tried again on a thread that may wait for a disk.
    NeedsDisk,
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Halt {
        Halt::Refused(refusal)
    }
}

impl From<TopicError> for Halt {
    fn from(error: TopicError) -> Halt {
        Halt::Refused(Refusal::new(response::SYSTEM_ERROR, error.to_string()))
    }
}

/// Where a message goes.
#[derive(Debug)]
pub(in crate::handler) struct Target {
    pub(in crate::handler) topic: Arc<Topic>,
    pub(in crate::handler) queue_id: i32,
    /// The message was meant for a retry topic, and its attempts are used up.
    pub(in crate::handler) dead_letter: bool,
}

/// Whether the broker takes sends at all.
pub(super) fn check_accepts(config: &BrokerConfig) -> Result<(), Refusal> {
    let since = config.start_accept_send_request_time_stamp;
    if since > 0 && now_ms() < since {
        let remark = format!("broker unable to service, until {since} ms since 1970");
        return Err(Refusal::new(response::SYSTEM_ERROR, remark));
    }
    if !perm::is_writable(config.broker_permission) {
        let remark = format!("the broker[{}] sending message is forbidden", config.broker_ip1);
        return Err(Refusal::new(response::NO_PERMISSION, remark));
    }
    Ok(())
}

impl SendPath {
    /// The topic and queue that the header names, or the dead letters.
    pub(super) fn target(
        &self,
        config: &BrokerConfig,
        header: &SendMessage<'_>,
        peer: &Peer,
        creation: Creation,
    ) -> Result<Target, Halt> {
        let Some(group) = name::group_of_retry(&header.topic) else {
            let topic = self.topic(config, &header.topic, header, creation)?;
            let queue_id = choose_queue(&topic, header.queue_id, peer)?;
            return Ok(Target { topic, queue_id, dead_letter: false });
        };
        // The group first: a retry topic of nobody is not made.
        let group = self.retrying_group(config, group, creation)?;
        let topic = self.topic(config, &header.topic, header, creation)?;
        let queue_id = choose_queue(&topic, header.queue_id, peer)?;
        self.retry_or_dead(header, &group, topic, queue_id, creation)
    }

    /// The topic called `topic`, made on this send if the rules allow.
    pub(in crate::handler) fn topic(
        &self,
        config: &BrokerConfig,
        topic: &str,
        header: &SendMessage<'_>,
        creation: Creation,
    ) -> Result<Arc<Topic>, Halt> {
        if let Some(topic) = self.topics.find(topic) {
            // RocketMQ leaves the permission to the routes; a route may be out of date.
            let writable = perm::is_writable(topic.settings().config.perm);
            let takes = topic.is_sendable() && writable;
            return if takes { Ok(topic) } else { Err(forbidden(&topic.name()[..])) };
        }
        if let Err(error) = name::check_topic(topic) {
            return Err(Refusal::new(response::SYSTEM_ERROR, error.to_string()).into());
        }
        if name::is_unsendable(topic) {
            return Err(forbidden(topic));
        }
        if creation == Creation::NeedsDisk {
            return Err(Halt::NeedsDisk);
        }
        let unit_mode = header.unit_mode == Some(true);
        let is_retry = name::group_of_retry(topic).is_some();
        let sys_flag = match (unit_mode, is_retry) {
            (false, _) => 0,
            (true, false) => UNIT,
            (true, true) => UNIT_SUB,
        };
        let wanted = CreateOnSend {
            topic,
            default_topic: &header.default_topic,
            queues: header.default_topic_queue_nums,
            sys_flag,
            auto_create: config.auto_create_topic_enable,
        };
        if let Some(created) = self.topics.create_on_send(wanted, now_ms())? {
            return Ok(created);
        }
        if let Some(group) = name::group_of_retry(topic) {
            return Ok(self.topics.create_retry(group, 1, sys_flag, now_ms())?);
        }
        let remark = format!(
            "topic[{topic}] not exist, apply first please! It can be created on its first send \
             when autoCreateTopicEnable is true and its default topic allows"
        );
        Err(Refusal::new(response::TOPIC_NOT_EXIST, remark).into())
    }

    /// The group whose retry topic is sent to.
    fn retrying_group(
        &self,
        config: &BrokerConfig,
        group: &str,
        creation: Creation,
    ) -> Result<Arc<Group>, Halt> {
        if let Some(known) = self.groups.find(group) {
            return Ok(known);
        }
        if creation == Creation::NeedsDisk {
            return Err(Halt::NeedsDisk);
        }
        let refused = |remark: String| Refusal::new(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark);
        let auto_create = config.auto_create_subscription_group;
        let made = self.groups.find_or_create(group, auto_create, now_ms());
        let made = made.map_err(|error| refused(error.to_string()))?;
        Ok(made.ok_or_else(|| refused(format!("subscription group not exist, {group}")))?)
    }

    /// A send to a retry topic: how consumers give a message back when the proper way fails. When
    /// its attempts are used up it becomes a dead letter.
    fn retry_or_dead(
        &self,
        header: &SendMessage<'_>,
        group: &Group,
        topic: Arc<Topic>,
        queue_id: i32,
        creation: Creation,
    ) -> Result<Target, Halt> {
        let most = header.max_reconsume_times.unwrap_or(group.config().retry_max_times);
        if header.reconsume_times.unwrap_or(0) < most {
            return Ok(Target { topic, queue_id, dead_letter: false });
        }
        let topic = match self.topics.find(&name::dlq_topic(group.name())) {
            Some(topic) => topic,
            None if creation == Creation::NeedsDisk => return Err(Halt::NeedsDisk),
            None => self.topics.create_dlq(group.name(), now_ms())?,
        };
        Ok(Target { topic, queue_id: 0, dead_letter: true })
    }
}

/// The queue a message goes to: the one asked for, or any writable one when it is below 0. A queue
/// that can only be read is on its way out (its topic has shrunk), and gets nothing new from
/// senders whose route is out of date.
pub(in crate::handler) fn choose_queue(
    topic: &Topic,
    asked: i32,
    peer: &Peer,
) -> Result<i32, Refusal> {
    let settings = topic.settings();
    if asked >= settings.config.write_queue_nums {
        let remark = format!(
            "request queueId[{asked}] is illegal, {} Producer: {}",
            settings.text(),
            peer.address_text
        );
        return Err(Refusal::new(response::SYSTEM_ERROR, remark));
    }
    if asked >= 0 {
        return Ok(asked);
    }
    if settings.config.write_queue_nums <= 0 {
        let remark = format!("topic[{}] has no queue to write to", topic.name());
        return Err(Refusal::new(response::SYSTEM_ERROR, remark));
    }
    Ok(fastrand::i32(0..settings.config.write_queue_nums))
}

fn forbidden(topic: &str) -> Halt {
    let remark = format!("Sending message to topic[{topic}] is forbidden.");
    Refusal::new(response::NO_PERMISSION, remark).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_may_not_be_written_refuses() {
        let mut config = BrokerConfig { broker_permission: 4, ..BrokerConfig::default() };
        assert_eq!(check_accepts(&config).unwrap_err().code, response::NO_PERMISSION);
        config.broker_permission = 6;
        assert_eq!(check_accepts(&config), Ok(()));
    }

    #[test]
    fn a_broker_may_be_told_to_wait() {
        let config = BrokerConfig {
            start_accept_send_request_time_stamp: now_ms() + 60_000,
            ..BrokerConfig::default()
        };
        assert_eq!(check_accepts(&config).unwrap_err().code, response::SYSTEM_ERROR);
        let config =
            BrokerConfig { start_accept_send_request_time_stamp: 1, ..BrokerConfig::default() };
        assert_eq!(check_accepts(&config), Ok(()));
    }
}
