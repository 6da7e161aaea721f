//! What changes the tables: brokers that register, leave, fall silent; operators that delete a
//! topic or take write permission away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_protocol::body::{DataVersion, TopicConfig, TopicConfigs};
use broker_protocol::name;
use parking_lot::RwLockUpgradableReadGuard;
use thiserror::Error;

use super::{
    BROKER_NAMES_MAX, Broker, MEMBERS_MAX, Member, MemberKey, Queues, Routes, TOPICS_MAX, Tables,
};

/// The master's id.
const MASTER: i64 = 0;
/// Longest broker name, cluster name or address, in bytes.
const NAME_LEN_MAX: usize = 255;

/// One registration, decoded.
#[derive(Debug)]
pub struct Registration<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The broker's name.
    pub broker_name: &'a str,
    /// 0 for the master.
    pub broker_id: i64,
    /// Where clients reach it.
    pub address: &'a str,
    /// Where slaves reach it.
    pub ha_address: &'a str,
    /// Its topics with their version; a slave's are ignored, their version is kept.
    pub topics: &'a TopicConfigs,
    /// Topics that are not in a full table are gone. False for senders that split their table.
    pub removes_absent: bool,
    /// The connection that it came by.
    pub connection: u64,
    /// Silence after which the broker is taken out.
    pub expires_after: Duration,
}

/// What a registered slave is told about its master; nothing for a master.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registered {
    /// Where clients reach the master.
    pub master_address: Option<Arc<str>>,
    /// Where slaves reach the master.
    pub master_ha_address: Option<Arc<str>>,
}

/// Why a registration is refused. The text is fit for the answer's remark.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// Newer topics were registered under the same name and id, by a process still connected.
    #[error(
        "register broker failed: {address} has registered newer topics as this broker and is still connected"
    )]
    Stale {
        /// That process' address.
        address: Arc<str>,
    },
    /// A name is missing or too long, or the id negative.
    #[error("register broker failed: {0} is missing, too long or negative")]
    Field(&'static str),
    /// A topic's name is empty or too long.
    #[error("register broker failed: the topic name {0:?} is empty or longer than 255 bytes")]
    Topic(String),
    /// The tables hold as much as they may.
    #[error("register broker failed: the name server knows {0} already")]
    Full(&'static str),
}

impl Registration<'_> {
    fn check(&self) -> Result<(), RegisterError> {
        for (field, text) in [
            ("clusterName", self.cluster),
            ("brokerName", self.broker_name),
            ("brokerAddr", self.address),
        ] {
            if text.trim().is_empty() || text.len() > NAME_LEN_MAX {
                return Err(RegisterError::Field(field));
            }
        }
        if self.ha_address.len() > NAME_LEN_MAX {
            return Err(RegisterError::Field("haServerAddr"));
        }
        if self.broker_id < MASTER {
            return Err(RegisterError::Field("brokerId"));
        }
        let is_bad = |topic: &&Arc<str>| topic.trim().is_empty() || topic.len() > NAME_LEN_MAX;
        match self.topics.topic_config_table.keys().find(is_bad) {
            Some(topic) => Err(RegisterError::Topic(format!("{topic:.64}"))),
            None => Ok(()),
        }
    }

    /// Whether the table is all that the broker has, not the change of a topic or two: each broker
    /// makes the self-test topic when it starts, and no administrator can change it.
    fn is_full(&self) -> bool {
        self.topics.topic_config_table.contains_key(name::SELF_TEST_TOPIC)
    }
}

impl Routes {
    /// Takes a broker in, or notes that it is still there.
    ///
    /// # Errors
    /// See [`RegisterError`]; nothing has changed then.
    pub fn register(
        &self,
        registration: &Registration<'_>,
        now: Instant,
    ) -> Result<Registered, RegisterError> {
        registration.check()?;
        // Readers go on while the tables are compared: most of a table is as it was.
        let tables = self.tables.upgradable_read();
        tables.check_room(registration)?;
        let stale = tables.stale(registration);
        let changes = if stale.is_none() { tables.changes(registration) } else { None };
        let mut tables = RwLockUpgradableReadGuard::upgrade(tables);
        if let Some(stale) = stale {
            return Err(tables.refuse(registration, stale, now));
        }
        let name = tables.enter(registration, now);
        if let Some(changes) = changes {
            tables.apply(&name, registration, changes);
        }
        if registration.broker_id == MASTER {
            return Ok(Registered::default());
        }
        let master = tables.brokers.get(&name).and_then(|broker| broker.members.get(&MASTER));
        Ok(Registered {
            master_address: master.map(|master| Arc::clone(&master.address)),
            master_ha_address: master.map(|master| Arc::clone(&master.ha_address)),
        })
    }

    /// Takes a broker out on its own wish. An orderly leave of a master ends a wipe of its write
    /// permission too: operators wipe, stop, upgrade and start a broker, and expect it to serve.
    pub fn unregister(&self, key: MemberKey<'_>, broker_id: i64) {
        let mut tables = self.tables.write();
        let left = tables.remove_members(|name, id, member| {
            **name == *key.broker_name && id == broker_id && *member.address == *key.address
        });
        if !left.is_empty() && broker_id == MASTER {
            tables.wiped.remove(key.broker_name);
        }
    }

    /// Takes out the brokers that registered by a connection which is closed now.
    pub fn disconnected(&self, connection: u64) {
        // Most connections are clients': looking costs readers nothing.
        let is_brokers = {
            let tables = self.tables.read();
            let mut members = tables.brokers.values().flat_map(|broker| broker.members.values());
            members.any(|member| member.connection == connection)
        };
        if is_brokers {
            self.tables.write().remove_members(|_, _, member| member.connection == connection);
        }
    }

    /// Takes out the brokers that have been silent too long; returns their connections.
    pub fn expire(&self, now: Instant) -> Vec<u64> {
        let is_over =
            |member: &Member| now.saturating_duration_since(member.heard_at) > member.expires_after;
        let any = {
            let tables = self.tables.read();
            tables.brokers.values().flat_map(|broker| broker.members.values()).any(is_over)
        };
        if !any {
            return Vec::new();
        }
        self.tables.write().remove_members(|_, _, member| is_over(member))
    }

    /// Notes that a broker whose topics have not changed is still there.
    pub fn heard(&self, key: MemberKey<'_>, now: Instant) {
        let mut tables = self.tables.write();
        let Some(broker) = tables.brokers.get_mut(key.broker_name) else { return };
        for member in broker.members.values_mut().filter(|member| *member.address == *key.address) {
            member.heard_at = now;
        }
    }

    /// Forgets a topic, until a broker that has it registers a change.
    pub fn delete_topic(&self, topic: &str) {
        let mut tables = self.tables.write();
        let Some(names) = tables.topics.remove(topic) else { return };
        for name in names {
            if let Some(broker) = tables.brokers.get_mut(&name) {
                broker.topics.remove(topic);
            }
        }
    }

    /// Takes write permission from all topics of a broker, those that it registers later included,
    /// until [`Self::add_write_perm`]. Returns how many topics had it until now.
    pub fn wipe_write_perm(&self, broker_name: &str) -> usize {
        let mut tables = self.tables.write();
        let Some((name, broker)) = tables.brokers.get_key_value(broker_name) else { return 0 };
        let (name, count) = (Arc::clone(name), broker.writable_topics());
        if tables.wiped.insert(name) { count } else { 0 }
    }

    /// Gives the topics of a broker back the permissions that the broker says they have. Returns
    /// how many topics can be written again.
    pub fn add_write_perm(&self, broker_name: &str) -> usize {
        let mut tables = self.tables.write();
        if !tables.wiped.remove(broker_name) {
            return 0;
        }
        tables.brokers.get(broker_name).map_or(0, Broker::writable_topics)
    }
}

impl Tables {
    fn check_room(&self, registration: &Registration<'_>) -> Result<(), RegisterError> {
        let Some(broker) = self.brokers.get(registration.broker_name) else {
            let full = self.brokers.len() >= BROKER_NAMES_MAX;
            return if full { Err(RegisterError::Full("too many brokers")) } else { Ok(()) };
        };
        let is_new = !broker.members.contains_key(&registration.broker_id);
        if is_new && broker.members.len() >= MEMBERS_MAX {
            return Err(RegisterError::Full("too many brokers of this name"));
        }
        Ok(())
    }

    /// Whether a table is older than the known one: of a process that another has replaced, or
    /// overtaken on its way. A known process that is gone has left no entry to compare with.
    fn stale(&self, registration: &Registration<'_>) -> Option<Stale> {
        let broker = self.brokers.get(registration.broker_name)?;
        let member = broker.members.get(&registration.broker_id)?;
        let (version, known) = (registration.topics.data_version, member.version);
        let is_same_process = member.connection == registration.connection;
        let is_older = if is_same_process {
            // One process counts its changes; its clock may be set back between two of them. What
            // has no version has none to compare.
            version != known
                && version != DataVersion::default()
                && version.counter <= known.counter
                && version.timestamp <= known.timestamp
        } else {
            let key = |of: DataVersion| (of.state_version, of.timestamp, of.counter);
            key(version) < key(known)
        };
        is_older.then_some(Stale { is_same_process })
    }

    /// The error for a stale table, which may still show that its sender lives.
    fn refuse(
        &mut self,
        registration: &Registration<'_>,
        stale: Stale,
        now: Instant,
    ) -> RegisterError {
        let broker = self.brokers.get_mut(registration.broker_name);
        let member = broker.and_then(|broker| broker.members.get_mut(&registration.broker_id));
        let Some(member) = member else {
            return RegisterError::Stale { address: Arc::from("another process") };
        };
        if stale.is_same_process {
            member.heard_at = now;
        }
        RegisterError::Stale { address: Arc::clone(&member.address) }
    }

    /// What a master's table changes; none for a slave's.
    fn changes<'r>(&self, registration: &'r Registration<'_>) -> Option<Changes<'r>> {
        if registration.broker_id != MASTER {
            return None;
        }
        let new = &registration.topics.topic_config_table;
        let is_full = registration.is_full();
        let all = new.iter().map(|(topic, config)| (topic, Queues::of(config)));
        let Some(broker) = self.brokers.get(registration.broker_name) else {
            return Some(Changes { gone: Vec::new(), set: all.collect(), is_complete: is_full });
        };
        let version = registration.topics.data_version;
        let is_known = broker.topics_version == Some(version) && version != DataVersion::default();
        if is_known && (broker.topics_complete || !is_full) {
            // No topic has come or gone, but the broker's own permission may mask others now.
            let differs = |topic: &Arc<str>, queues: &Queues| {
                broker.topics.get(topic).is_some_and(|known| known != queues)
            };
            let set = all.filter(|(topic, queues)| differs(topic, queues)).collect();
            let is_complete = broker.topics_complete;
            return Some(Changes { gone: Vec::new(), set, is_complete });
        }
        let is_gone =
            |topic: &&Arc<str>| is_full && registration.removes_absent && !new.contains_key(*topic);
        Some(Changes {
            gone: broker.topics.keys().filter(is_gone).cloned().collect(),
            set: all.filter(|(topic, q)| broker.topics.get(*topic) != Some(q)).collect(),
            is_complete: is_full,
        })
    }

    /// Puts the process into its broker; returns the broker's name.
    fn enter(&mut self, registration: &Registration<'_>, now: Instant) -> Arc<str> {
        let known = self.brokers.get_key_value(registration.broker_name);
        let name = known.map_or_else(|| registration.broker_name.into(), |(name, _)| name.clone());
        let broker = self.brokers.entry(Arc::clone(&name)).or_insert_with(|| Broker {
            cluster: registration.cluster.into(),
            members: Default::default(),
            topics: Default::default(),
            topics_version: None,
            topics_complete: false,
        });
        if *broker.cluster != *registration.cluster {
            broker.cluster = registration.cluster.into();
        }
        // A process whose role has changed comes under another id.
        broker.members.retain(|id, member| {
            *id == registration.broker_id || *member.address != *registration.address
        });
        let member = Member {
            address: registration.address.into(),
            ha_address: registration.ha_address.into(),
            version: registration.topics.data_version,
            connection: registration.connection,
            heard_at: now,
            expires_after: registration.expires_after,
        };
        if broker.members.insert(registration.broker_id, member).is_none() {
            tracing::info!(
                broker = &*name,
                id = registration.broker_id,
                address = registration.address,
                "broker registered"
            );
        }
        name
    }

    /// Puts a master's changes in.
    fn apply(&mut self, name: &Arc<str>, registration: &Registration<'_>, changes: Changes<'_>) {
        for topic in &changes.gone {
            self.unlist(name, topic);
        }
        let mut listed = Vec::with_capacity(changes.set.len());
        for (topic, queues) in changes.set {
            let Some(topic) = self.list(name, topic) else {
                tracing::warn!(broker = &**name, "too many topics, the rest is left out");
                break;
            };
            listed.push((topic, queues));
        }
        let Some(broker) = self.brokers.get_mut(name) else { return };
        for topic in &changes.gone {
            broker.topics.remove(topic);
        }
        broker.topics.extend(listed);
        broker.topics_version = Some(registration.topics.data_version);
        broker.topics_complete = changes.is_complete;
    }

    /// Notes that a broker has a topic; returns the name as all tables share it, or none when there
    /// is no room for one more.
    fn list(&mut self, name: &Arc<str>, topic: &Arc<str>) -> Option<Arc<str>> {
        let topic = match self.topics.get_key_value(topic) {
            Some((known, _)) => Arc::clone(known),
            None if self.topics.len() >= TOPICS_MAX => return None,
            None => Arc::clone(topic),
        };
        let names = self.topics.entry(Arc::clone(&topic)).or_default();
        if let Err(at) = names.binary_search(name) {
            names.insert(at, Arc::clone(name));
        }
        Some(topic)
    }

    /// Notes that a broker has a topic no more.
    fn unlist(&mut self, name: &Arc<str>, topic: &Arc<str>) {
        if let Some(names) = self.topics.get_mut(topic) {
            names.retain(|known| known != name);
            if names.is_empty() {
                self.topics.remove(topic);
            }
        }
    }

    /// Takes processes out, and brokers of which none is left; returns the processes' connections.
    fn remove_members(&mut self, is_gone: impl Fn(&Arc<str>, i64, &Member) -> bool) -> Vec<u64> {
        let mut connections = Vec::new();
        let mut empty = Vec::new();
        for (name, broker) in &mut self.brokers {
            broker.members.retain(|id, member| {
                if !is_gone(name, *id, member) {
                    return true;
                }
                tracing::info!(broker = &**name, id, address = &*member.address, "broker is gone");
                connections.push(member.connection);
                false
            });
            if broker.members.is_empty() {
                empty.push(Arc::clone(name));
            }
        }
        for name in empty {
            let Some(broker) = self.brokers.remove(&name) else { continue };
            for topic in broker.topics.keys() {
                self.unlist(&name, topic);
            }
        }
        connections
    }
}

/// A table that is older than the known one.
#[derive(Debug, Clone, Copy)]
struct Stale {
    /// It came by the connection of the known one.
    is_same_process: bool,
}

/// What a master's table changes.
#[derive(Debug)]
struct Changes<'r> {
    gone: Vec<Arc<str>>,
    set: Vec<(&'r Arc<str>, Queues)>,
    /// Whether nothing is missing afterwards.
    is_complete: bool,
}

impl Queues {
    fn of(config: &TopicConfig) -> Queues {
        Queues {
            perm: config.perm,
            read: config.read_queue_nums,
            write: config.write_queue_nums,
            sys_flag: config.topic_sys_flag,
        }
    }
}
