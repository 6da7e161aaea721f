//! One function a request code. All but the route run on the name server's threads.

mod config;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use broker_protocol::body::{self, DataVersion};
use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::header::{FromExt, NoHeader};
use broker_protocol::json::{self, JsonError};
use broker_protocol::record;
use broker_protocol::request::name_server as header;
use broker_protocol::version;
use serde::Serialize;

use super::State;
use super::kv_config::ORDER_TOPIC_CONFIG;
use super::routes::{MemberKey, Registration};
use crate::net::{Answer, OwnedFrame, Peer, Reply};

pub(super) use config::{delete_kv, find_kv, list_kv, put_kv, show_config, update_config};
pub(super) use topics::{
    add_write_perm, all_topics, cluster_info, delete_topic, system_topics, topics_of_cluster,
    unit_sub_topics, unit_sub_ununit_topics, unit_topics, wipe_write_perm,
};

/// What Apache's name server says in its 4.9 line; clients match on the code, people on the text.
const NO_ROUTE: &str = "No topic route info in name server for the topic: ";
const NO_ROUTE_HELP: &str = "\nSee http://rocketmq.apache.org/docs/faq/ for further details.";

/// 105: where a topic is. Runs on the connection's task.
pub(super) fn route_of_topic(state: &State, frame: &Frame<'_>, reply: &mut Reply<'_>) {
    let header = match frame.ext.decode::<header::GetRouteInfo<'_>>() {
        Ok(header) => header,
        Err(error) => return reply.error(response::SYSTEM_ERROR, &error.to_string()),
    };
    let Some(mut route) = state.routes.of_topic(&header.topic) else {
        let remark = format!("{NO_ROUTE}{}{NO_ROUTE_HELP}", header.topic);
        return reply.error(response::TOPIC_NOT_EXIST, &remark);
    };
    if state.config.load().order_message_enable {
        route.order_topic_conf = state.kv.find(ORDER_TOPIC_CONFIG, &header.topic);
    }
    let is_standard = frame.head.version >= version::V4_9_4
        || header.accept_standard_json_only.unwrap_or_default();
    let body = if is_standard { json::to_vec_standard(&route) } else { json::to_vec(&route) };
    match body {
        Ok(body) => reply.with_body(response::SUCCESS, None, &NoHeader, &body),
        Err(error) => reply.error(response::SYSTEM_ERROR, &error.to_string()),
    }
}

/// 103: a broker registers.
pub(super) fn register_broker(state: &State, peer: &Arc<Peer>, request: &mut OwnedFrame) -> Answer {
    let frame = request.frame();
    let header = match decode::<header::RegisterBroker<'_>>(&frame) {
        Ok(header) => header,
        Err(answer) => return answer,
    };
    let crc = header.body_crc32;
    if crc != 0 && i64::from(crc) != i64::from(record::crc(frame.body)) {
        return Answer::error(response::SYSTEM_ERROR, "crc32 not match");
    }
    let registered = match body::RegisterBroker::decode(frame.body, header.compressed) {
        Ok(registered) => registered,
        Err(error) => return Answer::error(response::SYSTEM_ERROR, error.to_string()),
    };
    let expires_after = header
        .heartbeat_timeout_millis
        .and_then(|ms| u64::try_from(ms).ok())
        .filter(|ms| *ms > 0)
        .unwrap_or_else(|| state.config.load().broker_expiry_mills);
    let registration = Registration {
        cluster: &header.cluster_name,
        broker_name: &header.broker_name,
        broker_id: header.broker_id,
        address: &header.broker_addr,
        ha_address: &header.ha_server_addr,
        topics: &registered.topic_config_serialize_wrapper,
        // 5.x can split its table over several registrations.
        removes_absent: frame.head.version < version::V5_0_0,
        connection: peer.id,
        expires_after: Duration::from_millis(expires_after),
    };
    state.remember(peer);
    let outcome = state.routes.register(&registration, state.clock.instant());
    if !peer.is_alive() {
        // It closed meanwhile, and the note of that may have come before this entry.
        state.connection_closed(peer.id);
    }
    match outcome {
        Ok(outcome) => {
            let mut answer = Answer::ok_empty_header();
            answer.ext.extend(outcome.master_ha_address.map(|it| ("haServerAddr", it.to_string())));
            answer.ext.extend(outcome.master_address.map(|it| ("masterAddr", it.to_string())));
            let order = state.kv.namespace(ORDER_TOPIC_CONFIG);
            with_body(answer, order.as_ref())
        }
        Err(error) => {
            tracing::warn!(
                broker = &*header.broker_name,
                address = &*header.broker_addr,
                %error,
                "registration refused"
            );
            Answer::error(response::SYSTEM_ERROR, error.to_string())
        }
    }
}

/// 104: a broker leaves.
pub(super) fn unregister_broker(state: &State, request: &mut OwnedFrame) -> Answer {
    let frame = request.frame();
    match decode::<header::UnregisterBroker<'_>>(&frame) {
        Ok(header) => {
            let (broker_name, address) = (&*header.broker_name, &*header.broker_addr);
            state.routes.unregister(MemberKey { broker_name, address }, header.broker_id);
            Answer::ok()
        }
        Err(answer) => answer,
    }
}

/// 322: whether what is known of a broker is what the broker has.
pub(super) fn query_data_version(state: &State, request: &mut OwnedFrame) -> Answer {
    let frame = request.frame();
    let header = match decode::<header::QueryDataVersion<'_>>(&frame) {
        Ok(header) => header,
        Err(answer) => return answer,
    };
    let asked: DataVersion = match json::from_slice(frame.body) {
        Ok(version) => version,
        Err(error) => return bad_body(&error),
    };
    let key = MemberKey { broker_name: &header.broker_name, address: &header.broker_addr };
    let known = state.routes.version_of(key);
    let changed = known != Some(asked);
    if !changed {
        state.routes.heard(key, state.clock.instant());
    }
    with_body(Answer::ok().with("changed", changed), known.as_ref())
}

/// The header, or the answer that says what is wrong with it.
fn decode<'a, H: FromExt<'a>>(frame: &Frame<'a>) -> Result<H, Answer> {
    let header = frame.ext.decode::<H>();
    header.map_err(|error| Answer::error(response::SYSTEM_ERROR, error.to_string()))
}

fn bad_body(error: &JsonError) -> Answer {
    Answer::error(response::SYSTEM_ERROR, format!("the body is broken: {error}"))
}

/// The answer with a JSON body, or without one.
fn with_body<T: Serialize>(answer: Answer, body: Option<&T>) -> Answer {
    match body.map(json::to_vec) {
        None => answer,
        Some(Ok(body)) => Answer { body: body.into(), ..answer },
        Some(Err(error)) => Answer::error(response::SYSTEM_ERROR, error.to_string()),
    }
}

/// SUCCESS with a JSON body.
fn json_body<T: Serialize>(body: &T) -> Answer {
    with_body(Answer::ok(), Some(body))
}
