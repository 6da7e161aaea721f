//! Which broker is where and which topic is on which broker. Kept in memory alone: brokers say it
//! again every half minute, so a restarted name server knows it soon.
//!
//! Nothing here speaks to a socket or reads a clock; a connection is a number and the time is
//! handed in. [`register`] changes the tables, this file reads them.

mod register;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::{HashMap, HashSet};
use broker_protocol::body::{
    BrokerData, ClusterInfo, DataVersion, QueueData, TopicList, TopicRouteData,
};
use broker_protocol::perm;
use parking_lot::RwLock;

pub use register::{RegisterError, Registered, Registration};

/// Bit of a topic's system flag: it belongs to a unit.
const UNIT: i32 = 1;
/// Bit of a topic's system flag: groups of other units subscribe to it.
const UNIT_SUB: i32 = 2;

/// Broker names that may be known at once.
const BROKER_NAMES_MAX: usize = 10_000;
/// Addresses that may be known under one broker name.
const MEMBERS_MAX: usize = 64;
/// Topics that may be known in all.
const TOPICS_MAX: usize = 1_000_000;

/// The tables. Readers go side by side; a registration holds them up while it is put in, not while
/// it is decoded.
#[derive(Debug, Default)]
pub struct Routes {
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// By broker name; the map is sorted so that answers are.
    brokers: BTreeMap<Arc<str>, Broker>,
    /// For each topic, the names of the brokers that have it, sorted.
    topics: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Broker names whose write permission an operator took away.
    wiped: HashSet<Arc<str>>,
}

/// The processes that share one broker name: a master, id 0, and its slaves.
#[derive(Debug)]
struct Broker {
    cluster: Arc<str>,
    members: BTreeMap<i64, Member>,
    /// What the master registered, by topic.
    topics: HashMap<Arc<str>, Queues>,
    /// The version of `topics`; none before a master registered.
    topics_version: Option<DataVersion>,
    /// False after an increment: topics of increments that got lost may be missing.
    topics_complete: bool,
}

/// One process.
#[derive(Debug)]
struct Member {
    address: Arc<str>,
    ha_address: Arc<str>,
    version: DataVersion,
    connection: u64,
    heard_at: Instant,
    expires_after: Duration,
}

/// A topic's settings on one broker, as its master registered them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Queues {
    perm: i32,
    read: i32,
    write: i32,
    sys_flag: i32,
}

/// Where to look at the name server's copy of a broker.
#[derive(Debug, Clone, Copy)]
pub struct MemberKey<'a> {
    /// The broker's name.
    pub broker_name: &'a str,
    /// Its address.
    pub address: &'a str,
}

impl Routes {
    /// The brokers and queues of a topic; none when no broker has it. The order configuration is
    /// the caller's to add.
    #[must_use]
    pub fn of_topic(&self, topic: &str) -> Option<TopicRouteData> {
        let tables = self.tables.read();
        let names = tables.topics.get(topic)?;
        let mut route = TopicRouteData::default();
        for name in names {
            let Some((name, broker)) = tables.brokers.get_key_value(name) else { continue };
            let Some(queues) = broker.topics.get(topic) else { continue };
            route.broker_datas.push(broker.data(name));
            route.queue_datas.push(QueueData {
                broker_name: Arc::clone(name),
                perm: tables.effective_perm(name, *queues),
                read_queue_nums: queues.read,
                topic_sys_flag: queues.sys_flag,
                write_queue_nums: queues.write,
            });
        }
        (!route.queue_datas.is_empty()).then_some(route)
    }

    /// All brokers and clusters.
    #[must_use]
    pub fn clusters(&self) -> ClusterInfo {
        let tables = self.tables.read();
        let mut info = ClusterInfo::default();
        for (name, broker) in &tables.brokers {
            info.broker_addr_table.insert(Arc::clone(name), broker.data(name));
            let names = info.cluster_addr_table.entry(Arc::clone(&broker.cluster)).or_default();
            names.push(Arc::clone(name));
        }
        info
    }

    /// All topics, sorted.
    #[must_use]
    pub fn topics(&self) -> TopicList {
        sorted(self.tables.read().topics.keys().cloned().collect())
    }

    /// The topics of a cluster's brokers, sorted.
    #[must_use]
    pub fn topics_of_cluster(&self, cluster: &str) -> TopicList {
        let tables = self.tables.read();
        let of_cluster = tables.brokers.values().filter(|broker| *broker.cluster == *cluster);
        let topics: BTreeSet<&Arc<str>> =
            of_cluster.flat_map(|broker| broker.topics.keys()).collect();
        sorted(topics.into_iter().cloned().collect())
    }

    /// The topics that exist for the system's sake everywhere: each cluster's and each broker's
    /// name; with some broker's address, whom mqadmin asks for the rest.
    #[must_use]
    pub fn system_topics(&self) -> TopicList {
        let tables = self.tables.read();
        let mut topics: BTreeSet<&Arc<str>> = tables.brokers.keys().collect();
        topics.extend(tables.brokers.values().map(|broker| &broker.cluster));
        let mut members = tables.brokers.values().flat_map(|broker| broker.members.values());
        TopicList {
            broker_addr: members.next().map(|member| Arc::clone(&member.address)),
            topic_list: topics.into_iter().cloned().collect(),
        }
    }

    /// The topics that belong to a unit, sorted.
    #[must_use]
    pub fn unit_topics(&self) -> TopicList {
        self.topics_by_flag(|flag| flag & UNIT != 0)
    }

    /// The topics that groups of other units subscribe to, sorted.
    #[must_use]
    pub fn unit_sub_topics(&self) -> TopicList {
        self.topics_by_flag(|flag| flag & UNIT_SUB != 0)
    }

    /// The topics of no unit that groups of other units subscribe to, sorted.
    #[must_use]
    pub fn unit_sub_ununit_topics(&self) -> TopicList {
        self.topics_by_flag(|flag| flag & UNIT == 0 && flag & UNIT_SUB != 0)
    }

    /// Topics whose system flag on their first broker is wanted.
    fn topics_by_flag(&self, wanted: impl Fn(i32) -> bool) -> TopicList {
        let tables = self.tables.read();
        let is_wanted = |topic: &Arc<str>, names: &[Arc<str>]| {
            let first = names.first().and_then(|name| tables.brokers.get(name));
            first.and_then(|broker| broker.topics.get(topic)).is_some_and(|q| wanted(q.sys_flag))
        };
        let found = tables.topics.iter().filter(|(topic, names)| is_wanted(topic, names));
        sorted(found.map(|(topic, _)| Arc::clone(topic)).collect())
    }

    /// The version of what a broker registered; none when it is not known.
    #[must_use]
    pub fn version_of(&self, key: MemberKey<'_>) -> Option<DataVersion> {
        let tables = self.tables.read();
        let mut members = tables.brokers.get(key.broker_name)?.members.values();
        members.find(|member| *member.address == *key.address).map(|member| member.version)
    }
}

impl Tables {
    /// What a topic's clients may do on a broker now.
    fn effective_perm(&self, broker_name: &str, queues: Queues) -> i32 {
        if self.wiped.contains(broker_name) { queues.perm & !perm::WRITE } else { queues.perm }
    }
}

impl Broker {
    /// Topics that may be written when nobody has taken the permission away.
    fn writable_topics(&self) -> usize {
        self.topics.values().filter(|queues| perm::is_writable(queues.perm)).count()
    }

    fn data(&self, name: &Arc<str>) -> BrokerData {
        let address = |(id, member): (&i64, &Member)| (*id, Arc::clone(&member.address));
        BrokerData {
            broker_addrs: self.members.iter().map(address).collect(),
            broker_name: Arc::clone(name),
            cluster: Arc::clone(&self.cluster),
        }
    }
}

fn sorted(mut topics: Vec<Arc<str>>) -> TopicList {
    topics.sort_unstable();
    TopicList { broker_addr: None, topic_list: topics }
}
