//! What operators ask about consumers and producers: who is connected (203, 204, 328), how far
//! groups have read (208, 303, 308, 317, 43, 45), who reads a topic (300), and copying progress
//! from group to group (314). All of it reads tables or old records, on the pool.

mod progress;

use std::sync::Arc;

use broker_protocol::body::{
    Connection, ConsumerConnection, GroupList, ProducerConnection, ProducerInfo, ProducerTable,
};
use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::request::group::{
    CloneGroupOffset, GetConsumerConnectionList, GetProducerConnectionList,
};
use broker_protocol::request::topic::TopicOf;

use super::Refusal;
use super::refusal::json_answer;
use crate::clients::Clients;
use crate::net::{Answer, Peer};
use crate::offsets::ConsumerOffsets;
use crate::schedule::Schedule;
use crate::topics::Topics;

pub use progress::Progress;

/// 203: a group's members and subscriptions.
pub fn connections(clients: &Clients, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: GetConsumerConnectionList<'_> = request.ext.decode()?;
    let group = clients.consumer_group(&header.consumer_group).ok_or_else(|| {
        let remark = format!("the consumer group[{}] not online", header.consumer_group);
        Refusal::new(response::CONSUMER_NOT_ONLINE, remark)
    })?;
    let connection =
        |m: crate::clients::Member| connection(&m.peer, m.client_id, m.language, m.version);
    let subscriptions = group.subscriptions();
    let table = subscriptions.iter().map(|s| (Arc::clone(&s.data.topic), s.data.clone()));
    json_answer(&ConsumerConnection {
        connection_set: group.members().into_iter().map(connection).collect(),
        consume_from_where: group.consume_from_where(),
        consume_type: group.consume_type(),
        message_model: group.message_model(),
        subscription_table: table.collect(),
    })
}

/// 204: a producer group's members.
pub fn producer_connections(clients: &Clients, request: &Frame<'_>) -> Result<Answer, Refusal> {
    let header: GetProducerConnectionList<'_> = request.ext.decode()?;
    let producers = clients.producers(&header.producer_group);
    if producers.is_empty() {
        let remark = format!("the producer group[{}] not exist", header.producer_group);
        return Err(Refusal::error(remark));
    }
    let connection =
        |p: crate::clients::Producer| connection(&p.peer, p.client_id, p.language, p.version);
    let connection_set = producers.into_iter().map(connection).collect();
    json_answer(&ProducerConnection { connection_set })
}

fn connection(
    peer: &Peer,
    client_id: Arc<str>,
    language: broker_protocol::version::Language,
    version: i32,
) -> Connection {
    let client_addr = Arc::clone(&peer.address_text);
    Connection { client_addr, client_id, language: language.name().into(), version }
}

/// 328: all producers.
pub fn all_producers(clients: &Clients) -> Result<Answer, Refusal> {
    let info = |producer: &crate::clients::Producer| ProducerInfo {
        client_id: Arc::clone(&producer.client_id),
        language: producer.language.name().into(),
        last_update_timestamp: producer.heard_at,
        remote_ip: Arc::clone(&producer.peer.address_text),
        version: producer.version,
    };
    let groups = clients.all_producers();
    let data = groups
        .iter()
        .map(|(group, members)| (Arc::clone(group), members.iter().map(info).collect()));
    json_answer(&ProducerTable { data: data.collect() })
}

/// 300: the groups that subscribe to a topic or have read it.
pub fn groups_reading(
    clients: &Clients,
    offsets: &ConsumerOffsets,
    request: &Frame<'_>,
) -> Result<Answer, Refusal> {
    let header: TopicOf<'_> = request.ext.decode()?;
    let mut group_list = clients.groups_reading(&header.topic);
    group_list.extend(offsets.groups_of(&header.topic));
    group_list.sort_unstable();
    group_list.dedup();
    json_answer(&GroupList { group_list })
}

/// 43: the progress of every group.
pub fn all_offsets(offsets: &ConsumerOffsets) -> Result<Answer, Refusal> {
    json_answer(&offsets.snapshot())
}

/// 45: the progress of every delay level.
pub fn all_delay_offsets(schedule: &Schedule) -> Result<Answer, Refusal> {
    json_answer(&schedule.snapshot())
}

/// 314: gives one group the progress of another.
pub fn clone_offsets(
    clients: &Clients,
    offsets: &ConsumerOffsets,
    topics: &Topics,
    request: &Frame<'_>,
) -> Result<Answer, Refusal> {
    let header: CloneGroupOffset<'_> = request.ext.decode()?;
    let wanted = match header.topic.as_deref() {
        Some(topic) if !topic.trim().is_empty() => vec![Arc::from(topic)],
        _ => offsets.topics_of(&header.src_group),
    };
    for topic in wanted {
        if topics.find(&topic).is_none() {
            tracing::warn!(
                topic = &*topic,
                "progress on a topic that does not exist is not copied"
            );
            continue;
        }
        let target = clients.consumer_group(&header.dest_group);
        // While the group reads other topics only, its members would never use this progress.
        let reads_others = target.is_some_and(|group| {
            !group.subscriptions().is_empty() && group.subscription(&topic).is_none()
        });
        if !header.offline && reads_others {
            tracing::warn!(
                topic = &*topic,
                group = &*header.dest_group,
                "progress on a topic that the group does not subscribe to is not copied"
            );
            continue;
        }
        offsets
            .clone_group(&header.src_group, &header.dest_group, &topic)
            .map_err(Refusal::error)?;
    }
    offsets.persist().map_err(Refusal::error)?;
    Ok(Answer::ok())
}
