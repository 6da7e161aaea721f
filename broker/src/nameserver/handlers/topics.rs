//! Lists of topics and brokers, and what operators do to them.

use broker_protocol::request::{name_server as header, topic};

use super::{decode, json_body};
use crate::nameserver::State;
use crate::net::{Answer, OwnedFrame};

/// 106: all brokers and clusters.
pub(in crate::nameserver) fn cluster_info(state: &State, _request: &mut OwnedFrame) -> Answer {
    json_body(&state.routes.clusters())
}

/// 206: all topics.
pub(in crate::nameserver) fn all_topics(state: &State, _request: &mut OwnedFrame) -> Answer {
    json_body(&state.routes.topics())
}

/// 224: the topics of one cluster.
pub(in crate::nameserver) fn topics_of_cluster(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<header::GetTopicsByCluster<'_>>(&request.frame()) {
        Ok(header) => json_body(&state.routes.topics_of_cluster(&header.cluster)),
        Err(answer) => answer,
    }
}

/// 304: the topics that are named after clusters and brokers.
pub(in crate::nameserver) fn system_topics(state: &State, _request: &mut OwnedFrame) -> Answer {
    json_body(&state.routes.system_topics())
}

/// 311: the topics that belong to a unit.
pub(in crate::nameserver) fn unit_topics(state: &State, _request: &mut OwnedFrame) -> Answer {
    json_body(&state.routes.unit_topics())
}

/// 312: the topics that other units subscribe to.
pub(in crate::nameserver) fn unit_sub_topics(state: &State, _request: &mut OwnedFrame) -> Answer {
    json_body(&state.routes.unit_sub_topics())
}

/// 313: the topics of no unit that other units subscribe to.
pub(in crate::nameserver) fn unit_sub_ununit_topics(
    state: &State,
    _request: &mut OwnedFrame,
) -> Answer {
    json_body(&state.routes.unit_sub_ununit_topics())
}

/// 216: forget a topic.
pub(in crate::nameserver) fn delete_topic(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<topic::DeleteTopicInNameServer<'_>>(&request.frame()) {
        Ok(header) => {
            state.routes.delete_topic(&header.topic);
            Answer::ok()
        }
        Err(answer) => answer,
    }
}

/// 205: take write permission from a broker.
pub(in crate::nameserver) fn wipe_write_perm(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<header::BrokerNameOf<'_>>(&request.frame()) {
        Ok(header) => {
            let count = state.routes.wipe_write_perm(&header.broker_name);
            tracing::info!(broker = &*header.broker_name, topics = count, "write permission wiped");
            Answer::ok().with("wipeTopicCount", count)
        }
        Err(answer) => answer,
    }
}

/// 327: give write permission back to a broker.
pub(in crate::nameserver) fn add_write_perm(state: &State, request: &mut OwnedFrame) -> Answer {
    match decode::<header::BrokerNameOf<'_>>(&request.frame()) {
        Ok(header) => {
            let count = state.routes.add_write_perm(&header.broker_name);
            tracing::info!(broker = &*header.broker_name, topics = count, "write permission added");
            Answer::ok().with("addTopicCount", count)
        }
        Err(answer) => answer,
    }
}
