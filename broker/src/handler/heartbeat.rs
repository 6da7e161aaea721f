//! Clients that come, stay and leave (34, 35), who of a group is there (38), and whether a
//! subscription is understood (46). Whoever shares queues out is told at once when a group changes
//! (40).

use std::sync::Arc;

use broker_protocol::body::{CheckClientConfig, ConsumerData, ConsumerIdList, HeartbeatData};
use broker_protocol::code::{request as code, response};
use broker_protocol::frame::Frame;
use broker_protocol::header::{EmptyHeader, NoHeader};
use broker_protocol::request::client::{
    GetConsumerListByGroup, NotifyConsumerIdsChanged, UnregisterClient,
};
use broker_protocol::tags::TagFilter;
use broker_protocol::{json, name};

use super::refusal::read_body;
use super::{Refusal, UNIT_SUB};
use crate::clients::{Clients, ConsumerGroup, Effects, Sender};
use crate::config::BrokerConfig;
use crate::groups::{Groups, check_group_name};
use crate::net::{Peer, Reply};
use crate::topics::Topics;

/// Longest name of a producer group or client, in bytes. What producers call themselves is checked
/// no further: it never becomes a topic.
const CLIENT_NAME_MAX: usize = 1_024;

/// What heartbeats need of the broker.
#[derive(Debug, Clone, Copy)]
pub struct Membership<'b> {
    /// Who is online.
    pub clients: &'b Clients,
    /// The groups' settings.
    pub groups: &'b Groups,
    /// Where retry topics are.
    pub topics: &'b Topics,
    /// Settings.
    pub config: &'b BrokerConfig,
}

impl Membership<'_> {
    /// Reads a heartbeat and refuses names that nothing could be stored under.
    pub fn read(request: &Frame<'_>) -> Result<HeartbeatData, Refusal> {
        let heartbeat: HeartbeatData = read_body(request)?;
        if heartbeat.client_id.trim().is_empty() {
            return Err(Refusal::error("the heartbeat names no client: clientID is missing"));
        }
        for consumer in &heartbeat.consumer_data_set {
            check_group_name(&consumer.group_name).map_err(|error| {
                let group = shortened(&consumer.group_name);
                Refusal::error(format!("consumer group [{group}]: {error}"))
            })?;
        }
        let names = heartbeat.producer_data_set.iter().map(|producer| &producer.group_name);
        for name in names.chain([&heartbeat.client_id]) {
            if name.len() > CLIENT_NAME_MAX {
                let most = format!("at most {CLIENT_NAME_MAX} bytes are allowed");
                return Err(Refusal::error(format!("[{}] is too long: {most}", shortened(name))));
            }
        }
        Ok(heartbeat)
    }

    /// Whether the heartbeat needs a group or retry topic that is not there yet. Making one waits
    /// for the disk.
    #[must_use]
    pub fn needs_disk(&self, heartbeat: &HeartbeatData) -> bool {
        let missing = |consumer: &ConsumerData| match self.groups.find(&consumer.group_name) {
            None => {
                self.config.auto_create_subscription_group
                    || name::is_system_group(&consumer.group_name)
            }
            Some(group) => {
                group.config().retry_queue_nums > 0
                    && self.topics.find(&name::retry_topic(&consumer.group_name)).is_none()
            }
        };
        heartbeat.consumer_data_set.iter().any(missing)
    }

    /// Makes the groups and retry topics that the heartbeat needs. A retry topic is announced to
    /// the name servers at once, because the consumers look for it next. `now` is in milliseconds.
    pub fn prepare(&self, heartbeat: &HeartbeatData, now: i64) -> Result<(), Refusal> {
        for consumer in &heartbeat.consumer_data_set {
            let auto_create = self.config.auto_create_subscription_group;
            let group = self.groups.find_or_create(&consumer.group_name, auto_create, now);
            // Without settings the group is online all the same, and its pulls are refused.
            let Some(group) = group.map_err(Refusal::error)? else { continue };
            let queues = group.config().retry_queue_nums;
            if queues > 0 {
                let sys_flag = if consumer.unit_mode { UNIT_SUB } else { 0 };
                self.topics
                    .create_retry(&consumer.group_name, queues, sys_flag, now)
                    .map_err(Refusal::error)?;
            }
        }
        Ok(())
    }

    /// 34: registers the client and tells groups that changed. `now` is in milliseconds.
    pub fn register(
        &self,
        peer: &Arc<Peer>,
        sender: Sender,
        heartbeat: &HeartbeatData,
        now: i64,
    ) -> Result<(), Refusal> {
        let effects = self.clients.heartbeat(peer, sender, heartbeat, now);
        self.tell(&effects.map_err(Refusal::error)?);
        Ok(())
    }

    /// 35: the client leaves one or two of its groups.
    pub fn unregister(
        &self,
        peer: &Arc<Peer>,
        request: &Frame<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Refusal> {
        let header: UnregisterClient<'_> = request.ext.decode()?;
        let (producer, consumer) = (&header.producer_group, &header.consumer_group);
        self.tell(&self.clients.unregister(peer, producer.as_deref(), consumer.as_deref()));
        reply.ok(&EmptyHeader);
        Ok(())
    }

    /// The client's connection is gone.
    pub fn closed(&self, peer: &Peer) {
        self.tell(&self.clients.closed(peer));
    }

    /// Drops whoever was silent for too long. `now` is in milliseconds.
    pub fn expire(&self, now: i64) {
        let effects = self.clients.expire(now);
        for peer in &effects.silent {
            tracing::info!(peer = &*peer.address_text, "closing a client that is silent");
            peer.close();
        }
        self.tell(&effects);
    }

    /// Tells the members of changed groups (40), unless broker or group want none of it.
    fn tell(&self, effects: &Effects) {
        if !self.config.notify_consumer_ids_changed_enable {
            return;
        }
        for group in &effects.changed {
            let settings = self.groups.find(group.name());
            if settings.is_none_or(|g| g.config().notify_consumer_ids_changed_enable) {
                notify_members(group);
            }
        }
    }
}

fn notify_members(group: &ConsumerGroup) {
    let header = NotifyConsumerIdsChanged { consumer_group: group.name().as_ref().into() };
    for member in group.members() {
        // A member whose connection has just gone needs no notice.
        let _ = member.peer.request_oneway(code::NOTIFY_CONSUMER_IDS_CHANGED, &header, Vec::new());
    }
}

/// 38: the client ids of a group's members.
pub fn member_ids(
    clients: &Clients,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let header: GetConsumerListByGroup<'_> = request.ext.decode()?;
    let group = clients.consumer_group(&header.consumer_group);
    let ids = group.map_or_else(Vec::new, |group| group.client_ids());
    if ids.is_empty() {
        let remark = format!("no consumer for this group, {}", header.consumer_group);
        return Err(Refusal::error(remark));
    }
    let body = json::to_vec(&ConsumerIdList { consumer_id_list: ids })?;
    reply.with_body(response::SUCCESS, None, &EmptyHeader, &body);
    Ok(())
}

/// 46: whether the client's subscription is understood.
pub fn check_subscription(request: &Frame<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let asked: CheckClientConfig = read_body(request)?;
    let parse_failed = |remark: String| Refusal::new(response::SUBSCRIPTION_PARSE_FAILED, remark);
    if let Some(subscription) = asked.subscription_data {
        if !matches!(&*subscription.expression_type, "" | "TAG") {
            let remark = "The broker does not support consumer to filter message by";
            return Err(parse_failed(format!("{remark} {}", subscription.expression_type)));
        }
        TagFilter::parse(&subscription.sub_string).map_err(|e| parse_failed(e.to_string()))?;
    }
    reply.ok(&NoHeader);
    Ok(())
}

/// A name from a client, cut to what fits into a remark.
fn shortened(name: &str) -> String {
    name.chars().take(200).collect()
}

#[cfg(test)]
mod tests;
