//! Which producers and consumers are online, by connection. Heartbeats enter here, and
//! unregistrations, closed connections and silence leave. Who must be told of a change is returned,
//! not done: sending is the handlers' work.
//!
//! All changes go through one lock over the connections; readers (every pull) take only the read
//! lock of the table they ask and of the group they want.

mod consumer_group;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahash::RandomState;
use broker_protocol::body::{ConsumerData, HeartbeatData};
use broker_protocol::version::Language;
use parking_lot::{Mutex, RwLock};

use crate::net::Peer;

pub use consumer_group::{ConsumerGroup, Member, Subscription};

/// Silence after which a client is taken for gone, in milliseconds. Clients send a heartbeat every
/// 30 s.
pub const CLIENT_LIFETIME_MS: i64 = 120_000;

/// How many groups one connection may register for, producers and consumers together.
pub const GROUPS_PER_CONNECTION_MAX: usize = 8_192;

type Table<V> = HashMap<Arc<str>, V, RandomState>;

/// Everybody who is online.
#[derive(Debug, Default)]
pub struct Clients {
    /// What each connection registered for: the end of a connection finds its groups without a
    /// search.
    connections: Mutex<HashMap<u64, Registered, RandomState>>,
    consumers: RwLock<Table<Arc<ConsumerGroup>>>,
    producers: RwLock<Table<Vec<Producer>>>,
}

#[derive(Debug, Default)]
struct Registered {
    consumer_groups: HashSet<Arc<str>, RandomState>,
    producer_groups: HashSet<Arc<str>, RandomState>,
}

impl Registered {
    fn count(&self) -> usize {
        self.consumer_groups.len() + self.producer_groups.len()
    }

    fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

/// One producer that is online.
#[derive(Debug, Clone)]
pub struct Producer {
    /// Its connection.
    pub peer: Arc<Peer>,
    /// The id it calls itself by.
    pub client_id: Arc<str>,
    /// Its language.
    pub language: Language,
    /// The protocol version it reports.
    pub version: i32,
    /// When it was last heard of, in milliseconds.
    pub heard_at: i64,
}

/// What a client says of itself in the frame's head, beside the body of its heartbeat.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// Its language.
    pub language: Language,
    /// The protocol version it reports.
    pub version: i32,
}

/// What a change did that others must hear of.
#[derive(Debug, Default)]
pub struct Effects {
    /// Groups whose members or topics changed and that still have members.
    pub changed: Vec<Arc<ConsumerGroup>>,
    /// Connections that are silent and must be closed.
    pub silent: Vec<Arc<Peer>>,
}

/// The heartbeat names more groups than a connection may register for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a connection may register for no more than {GROUPS_PER_CONNECTION_MAX} groups")]
pub struct TooManyGroups;

impl Clients {
    /// Nobody online.
    #[must_use]
    pub fn new() -> Clients {
        Clients::default()
    }

    /// Takes a heartbeat at `now` (milliseconds). One that arrives after its connection has gone
    /// registers nobody.
    ///
    /// # Errors
    /// [`TooManyGroups`]; nothing has changed then.
    pub fn heartbeat(
        &self,
        peer: &Arc<Peer>,
        sender: Sender,
        heartbeat: &HeartbeatData,
        now: i64,
    ) -> Result<Effects, TooManyGroups> {
        let mut connections = self.connections.lock();
        // `closed` takes the same lock after the peer was marked, so a peer that is alive here will
        // be removed there.
        if !peer.is_alive() {
            return Ok(Effects::default());
        }
        let named = heartbeat.consumer_data_set.len() + heartbeat.producer_data_set.len();
        let known = connections.get(&peer.id).map_or(0, Registered::count);
        if named.max(known) > GROUPS_PER_CONNECTION_MAX {
            return Err(TooManyGroups);
        }
        let registered = connections.entry(peer.id).or_default();
        let client_id = &heartbeat.client_id;
        for data in &heartbeat.producer_data_set {
            let producer = Producer {
                peer: peer.clone(),
                client_id: client_id.clone(),
                language: sender.language,
                version: sender.version,
                heard_at: now,
            };
            self.register_producer(&data.group_name, producer);
            registered.producer_groups.insert(Arc::clone(&data.group_name));
        }
        let mut effects = Effects::default();
        for data in &heartbeat.consumer_data_set {
            let member = Member {
                peer: peer.clone(),
                client_id: client_id.clone(),
                language: sender.language,
                version: sender.version,
                heard_at: now,
            };
            let (group, changed) = self.register_consumer(data, member);
            registered.consumer_groups.insert(group.name().clone());
            if changed {
                effects.changed.push(group);
            }
        }
        if registered.is_empty() {
            connections.remove(&peer.id);
        }
        Ok(effects)
    }

    fn register_producer(&self, group: &Arc<str>, producer: Producer) {
        let mut producers = self.producers.write();
        let members = producers.entry(Arc::clone(group)).or_default();
        match members.iter_mut().find(|known| known.peer.id == producer.peer.id) {
            Some(known) => *known = producer,
            None => members.push(producer),
        }
    }

    fn register_consumer(&self, data: &ConsumerData, member: Member) -> (Arc<ConsumerGroup>, bool) {
        let known = self.consumers.read().get(&data.group_name).cloned();
        // Only this function adds groups, and it runs under the lock over the connections: nobody
        // can be faster.
        let group = known.unwrap_or_else(|| {
            let name = Arc::clone(&data.group_name);
            let group = Arc::new(ConsumerGroup::new(Arc::clone(&name)));
            self.consumers.write().insert(name, Arc::clone(&group));
            group
        });
        let changed = group.register(member, data);
        (group, changed)
    }

    /// Takes the connection out of the groups that it names, as a client does when it closes.
    pub fn unregister(
        &self,
        peer: &Peer,
        producer_group: Option<&str>,
        consumer_group: Option<&str>,
    ) -> Effects {
        let mut connections = self.connections.lock();
        let mut effects = Effects::default();
        let Some(registered) = connections.get_mut(&peer.id) else { return effects };
        if let Some(group) = producer_group
            && registered.producer_groups.remove(group)
        {
            self.remove_producer(peer.id, group);
        }
        if let Some(group) = consumer_group
            && registered.consumer_groups.remove(group)
        {
            effects.changed.extend(self.remove_consumer(peer.id, group));
        }
        if registered.is_empty() {
            connections.remove(&peer.id);
        }
        effects
    }

    /// Takes a connection that is gone out of all its groups.
    pub fn closed(&self, peer: &Peer) -> Effects {
        let mut connections = self.connections.lock();
        let mut effects = Effects::default();
        let Some(registered) = connections.remove(&peer.id) else { return effects };
        for group in &registered.producer_groups {
            self.remove_producer(peer.id, group);
        }
        for group in &registered.consumer_groups {
            effects.changed.extend(self.remove_consumer(peer.id, group));
        }
        effects
    }

    /// Takes out whoever was silent for longer than [`CLIENT_LIFETIME_MS`]. `now` is in
    /// milliseconds.
    pub fn expire(&self, now: i64) -> Effects {
        let mut connections = self.connections.lock();
        let silent_since = now - CLIENT_LIFETIME_MS;
        let mut effects = Effects::default();
        let mut silent: HashMap<u64, Arc<Peer>> = HashMap::new();
        let groups: Vec<Arc<ConsumerGroup>> = self.consumers.read().values().cloned().collect();
        for group in groups {
            let gone = group.silent_members(silent_since);
            let mut changed = None;
            for member in gone {
                changed = self.remove_consumer(member.peer.id, group.name());
                if let Some(registered) = connections.get_mut(&member.peer.id) {
                    registered.consumer_groups.remove(group.name());
                }
                silent.insert(member.peer.id, member.peer);
            }
            effects.changed.extend(changed);
        }
        self.producers.write().retain(|name, members| {
            members.retain(|member| {
                let lives = member.heard_at >= silent_since;
                if !lives {
                    if let Some(registered) = connections.get_mut(&member.peer.id) {
                        registered.producer_groups.remove(name);
                    }
                    silent.insert(member.peer.id, member.peer.clone());
                }
                lives
            });
            !members.is_empty()
        });
        connections.retain(|_, registered| !registered.is_empty());
        // A connection that is silent in one group but heard in another (a client that stopped one
        // of its consumers without a word) stays open.
        silent.retain(|id, _| !connections.contains_key(id));
        effects.silent = silent.into_values().collect();
        effects
    }

    fn remove_producer(&self, peer_id: u64, group: &str) {
        let mut producers = self.producers.write();
        let Some(members) = producers.get_mut(group) else { return };
        members.retain(|member| member.peer.id != peer_id);
        if members.is_empty() {
            producers.remove(group);
        }
    }

    /// The group, if it still has members to tell.
    fn remove_consumer(&self, peer_id: u64, name: &str) -> Option<Arc<ConsumerGroup>> {
        let group = self.consumers.read().get(name).cloned()?;
        if group.remove(peer_id) {
            self.consumers.write().remove(name);
            return None;
        }
        Some(group)
    }

    /// The consumer group, if any of its members is online.
    #[must_use]
    pub fn consumer_group(&self, name: &str) -> Option<Arc<ConsumerGroup>> {
        self.consumers.read().get(name).cloned()
    }

    /// The producers of the group that are online.
    #[must_use]
    pub fn producers(&self, group: &str) -> Vec<Producer> {
        let producers = self.producers.read();
        let members = producers.get(group).map_or(&[][..], Vec::as_slice);
        members.iter().filter(|member| member.peer.is_alive()).cloned().collect()
    }

    /// All producers that are online, by group, in no order.
    #[must_use]
    pub fn all_producers(&self) -> Vec<(Arc<str>, Vec<Producer>)> {
        let producers = self.producers.read();
        producers.iter().map(|(name, members)| (name.clone(), members.clone())).collect()
    }

    /// All consumer groups with members online, in no order.
    #[must_use]
    pub fn consumer_groups(&self) -> Vec<Arc<ConsumerGroup>> {
        self.consumers.read().values().cloned().collect()
    }

    /// The names of the online groups that subscribe to the topic, in no order.
    #[must_use]
    pub fn groups_reading(&self, topic: &str) -> Vec<Arc<str>> {
        let groups = self.consumers.read();
        let reads = |group: &ConsumerGroup| group.subscription(topic).is_some();
        groups.values().filter(|g| reads(g)).map(|g| g.name().clone()).collect()
    }

    /// How many connections are registered for anything, and how many producer and consumer groups
    /// are online.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            connections: self.connections.lock().len(),
            producer_groups: self.producers.read().len(),
            consumer_groups: self.consumers.read().len(),
        }
    }
}

/// How much is online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Connections that registered for a group.
    pub connections: usize,
    /// Producer groups with a member.
    pub producer_groups: usize,
    /// Consumer groups with a member.
    pub consumer_groups: usize,
}

#[cfg(test)]
mod tests;
