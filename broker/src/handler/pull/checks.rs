//! What a pull must pass before anything is read, in RocketMQ's order: each failure has a code that
//! clients act on.

use std::sync::Arc;
use std::time::Duration;

use broker_protocol::body::MessageModel;
use broker_protocol::code::response;
use broker_protocol::perm;
use broker_protocol::request::pull::{self, PullMessage};
use broker_protocol::tags::TagFilter;

use super::{Filter, HOLD_TIME_MAX, Halt, Pull, PullPath};
use crate::config::BrokerConfig;
use crate::groups::Group;
use crate::net::Peer;
use crate::topics::Topic;

fn refused<T>(code: i32, remark: impl Into<String>) -> Result<T, Halt> {
    Err(Halt::Refused(code, remark.into()))
}

impl PullPath {
    /// All checks; the pull is ready to be read when they pass.
    pub(super) fn check(
        &self,
        config: &BrokerConfig,
        header: &PullMessage<'_>,
        peer: &Peer,
        may_wait: bool,
    ) -> Result<Pull, Halt> {
        if !perm::is_readable(config.broker_permission) {
            let remark = format!("the broker[{}] pulling message is forbidden", config.broker_ip1);
            return refused(response::NO_PERMISSION, remark);
        }
        let group = self.check_group(config, &header.consumer_group, may_wait)?;
        let topic = self.check_topic(header, peer)?;
        let filter = self.check_subscription(header, &group)?;
        let queue_id = header.queue_id;
        let queue = topic.settings().queue(queue_id, || self.store.queue(topic.name(), queue_id));
        Ok(Pull {
            group,
            topic,
            queue,
            offset: header.queue_offset,
            max_messages: header.max_msg_nums,
            filter,
            hold_time: hold_time(config, header),
        })
    }

    fn check_group(
        &self,
        config: &BrokerConfig,
        name: &str,
        may_wait: bool,
    ) -> Result<Arc<Group>, Halt> {
        let group = match self.groups.find(name) {
            Some(group) => group,
            None if !may_wait => return Err(Halt::NeedsDisk),
            None => {
                let auto_create = config.auto_create_subscription_group;
                match self.groups.find_or_create(name, auto_create, crate::handler::now_ms()) {
                    Ok(Some(group)) => group,
                    Ok(None) => {
                        let remark = format!("subscription group [{name}] does not exist");
                        return refused(response::SUBSCRIPTION_GROUP_NOT_EXIST, remark);
                    }
                    Err(error) => {
                        return refused(response::SUBSCRIPTION_GROUP_NOT_EXIST, error.to_string());
                    }
                }
            }
        };
        if group.config().consume_enable {
            Ok(group)
        } else {
            let remark = format!("subscription group no permission, {name}");
            refused(response::NO_PERMISSION, remark)
        }
    }

    fn check_topic(&self, header: &PullMessage<'_>, peer: &Peer) -> Result<Arc<Topic>, Halt> {
        let name = &*header.topic;
        let Some(topic) = self.topics.find(name) else {
            let remark = format!("topic[{name}] not exist, apply first please!");
            return refused(response::TOPIC_NOT_EXIST, remark);
        };
        let settings = topic.settings();
        if !perm::is_readable(settings.config.perm) {
            let remark = format!("the topic[{name}] pulling message is forbidden");
            return refused(response::NO_PERMISSION, remark);
        }
        let queues = settings.config.read_queue_nums;
        if header.queue_id < 0 || header.queue_id >= queues {
            let remark = format!(
                "queueId[{}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{queues}] \
                 consumer:[{}]",
                header.queue_id, peer.address_text
            );
            return refused(response::SYSTEM_ERROR, remark);
        }
        drop(settings);
        Ok(topic)
    }

    fn check_subscription(&self, header: &PullMessage<'_>, group: &Group) -> Result<Filter, Halt> {
        if header.sys_flag & pull::SUBSCRIPTION != 0 {
            return check_own_filter(header);
        }
        let Some(online) = self.clients.consumer_group(&header.consumer_group) else {
            let remark = "the consumer's group info not exist";
            return refused(response::SUBSCRIPTION_NOT_EXIST, remark);
        };
        if online.message_model() == MessageModel::Broadcasting
            && !group.config().consume_broadcast_enable
        {
            let name = group.name();
            let remark = format!("the consumer group[{name}] can not consume by broadcast way");
            return refused(response::NO_PERMISSION, remark);
        }
        let Some(subscription) = online.subscription(&header.topic) else {
            let remark = "the consumer's subscription not exist";
            return refused(response::SUBSCRIPTION_NOT_EXIST, remark);
        };
        if subscription.data.sub_version < header.sub_version {
            let remark = "the consumer's subscription not latest";
            return refused(response::SUBSCRIPTION_NOT_LATEST, remark);
        }
        if subscription.data.class_filter_mode {
            return refused(response::SUBSCRIPTION_PARSE_FAILED, "class filters are not supported");
        }
        check_expression_type(Some(&*subscription.data.expression_type))?;
        Ok(Filter::Group(subscription))
    }
}

fn check_own_filter(header: &PullMessage<'_>) -> Result<Filter, Halt> {
    check_expression_type(header.expression_type.as_deref())?;
    match TagFilter::parse(header.subscription.as_deref().unwrap_or_default()) {
        Ok(filter) => Ok(Filter::Request(filter)),
        Err(_) => {
            refused(response::SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
        }
    }
}

/// SQL filters are refused as long as nothing evaluates them: to let everything through would hand
/// out messages that were not asked for.
fn check_expression_type(expression_type: Option<&str>) -> Result<(), Halt> {
    match expression_type {
        None | Some("" | "TAG") => Ok(()),
        Some(other) => {
            let remark = format!("filters of type {other} are not supported yet; use TAG");
            refused(response::SUBSCRIPTION_PARSE_FAILED, remark)
        }
    }
}

fn hold_time(config: &BrokerConfig, header: &PullMessage<'_>) -> Option<Duration> {
    if header.sys_flag & pull::SUSPEND == 0 {
        return None;
    }
    let time = if config.long_polling_enable {
        u64::try_from(header.suspend_timeout_millis).unwrap_or(0)
    } else {
        config.short_polling_time_mills
    };
    Some(Duration::from_millis(time).min(HOLD_TIME_MAX))
}
