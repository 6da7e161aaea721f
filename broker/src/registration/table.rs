//! What a name server is told: all topics, or only those that changed since it was told last.

use std::sync::Arc;

use broker_protocol::body::{self, KvTable, RegisterError, TopicConfig, TopicConfigs};
use broker_protocol::limits::FRAME_MAX;
use broker_protocol::request::name_server::RegisterBroker;
use broker_protocol::{perm, record};
use parking_lot::Mutex;

use super::Identity;
use crate::topics::Topics;

/// A body longer than this is sent compressed: some tens of thousands of topics pass the limit of a
/// frame otherwise. The compressed form is older than 4.9 and leaves out the order mark and the sys
/// flag of a topic, so small tables do without.
const COMPRESS_ABOVE: usize = FRAME_MAX / 4;

/// Room in a frame for all but the body.
const HEADER_ROOM: usize = 64 * 1024;

/// The topics as they are announced at one moment.
#[derive(Debug)]
pub(super) struct Served {
    broker_permission: i32,
    configs: TopicConfigs,
}

/// The last [`Served`], so that several name servers share it.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<Option<Arc<Served>>>);

/// One registration, ready to be sent.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) header: RegisterBroker<'a>,
    pub(super) body: Vec<u8>,
}

impl Cache {
    pub(super) fn current(&self, topics: &Topics, broker_permission: i32) -> Arc<Served> {
        let mut last = self.0.lock();
        if let Some(last) = &*last
            && last.broker_permission == broker_permission
            && last.configs.data_version == topics.data_version()
        {
            return last.clone();
        }
        let mut configs = topics.snapshot();
        if !perm::is_readable(broker_permission) || !perm::is_writable(broker_permission) {
            for config in configs.topic_config_table.values_mut() {
                Arc::make_mut(config).perm &= broker_permission;
            }
        }
        let served = Arc::new(Served { broker_permission, configs });
        *last = Some(served.clone());
        served
    }
}

/// The registration that brings a name server from `known` to `served`; `None` when it has that
/// already. Without `known` it holds every topic.
pub(super) fn request<'a>(
    identity: &'a Identity,
    served: &Served,
    known: Option<&Served>,
) -> Result<Option<Request<'a>>, RegisterError> {
    if known.is_some_and(|known| known.is_same(served)) {
        return Ok(None);
    }
    let changed = known.and_then(|known| changed(&known.configs, &served.configs));
    let body = body::RegisterBroker {
        topic_config_serialize_wrapper: changed.unwrap_or_else(|| served.configs.clone()),
        ..body::RegisterBroker::default()
    };
    let plain = body.encode()?;
    let compressed = plain.len() > COMPRESS_ABOVE;
    let body = if compressed { body.encode_compressed()? } else { plain };
    if body.len() > FRAME_MAX - HEADER_ROOM {
        return Err(RegisterError::TooLarge);
    }
    let header = RegisterBroker {
        broker_name: identity.broker_name.as_str().into(),
        broker_addr: identity.broker_address.as_str().into(),
        cluster_name: identity.cluster_name.as_str().into(),
        ha_server_addr: identity.ha_address.as_str().into(),
        broker_id: identity.broker_id,
        compressed,
        // The top bit is never set.
        body_crc32: record::crc(&body).cast_signed(),
        enable_acting_master: None,
        heartbeat_timeout_millis: None,
        zone_name: None,
    };
    Ok(Some(Request { header, body }))
}

impl Served {
    #[cfg(test)]
    pub(super) fn perms(&self) -> impl Iterator<Item = i32> {
        self.configs.topic_config_table.values().map(|config| config.perm)
    }

    fn is_same(&self, other: &Served) -> bool {
        self.broker_permission == other.broker_permission
            && self.configs.data_version == other.configs.data_version
    }
}

/// The topics that are new or different; `None` when that says less than the whole table: a name
/// server learns only from the whole of it that a topic is gone.
fn changed(known: &TopicConfigs, served: &TopicConfigs) -> Option<TopicConfigs> {
    let (known, now) = (&known.topic_config_table, &served.topic_config_table);
    if known.keys().any(|name| !now.contains_key(name)) {
        return None;
    }
    let differs =
        |name: &Arc<str>, config: &TopicConfig| known.get(name).map(|k| &**k) != Some(config);
    let changed = now.iter().filter(|(name, config)| differs(name, config));
    let topic_config_table = changed.map(|(name, config)| (name.clone(), config.clone())).collect();
    Some(TopicConfigs { topic_config_table, data_version: served.data_version })
}

/// Takes over which topics the name server's list calls ordered, as brokers of RocketMQ do. Writes
/// the topics' file, so it runs on the pool. `now` is in milliseconds.
pub(super) fn mark_order_topics(topics: &Topics, list: &KvTable, now: i64) {
    for topic in topics.all() {
        let config = topic.config();
        let order = list.table.contains_key(&*config.topic_name);
        if config.order == order || topics.is_system(&config.topic_name) {
            continue;
        }
        let name = Arc::clone(&config.topic_name);
        if let Err(error) = topics.update(TopicConfig { order, ..(*config).clone() }, now) {
            tracing::error!(topic = &*name, %error, "the order mark of a topic is not kept");
        }
    }
}

#[cfg(test)]
mod tests;
