//! Collects what a scrape shows from the tables. It reads counters and frontiers and takes no lock that a
//! message needs for longer than a look-up.

use std::collections::BTreeMap;

use broker_protocol::name;
use broker_store::Store;

use crate::clients::Clients;
use crate::config::BrokerConfig;
use crate::groups::Groups;
use crate::handler::topic::store_time_at;
use crate::metrics::{Figures, GroupFigures, TopicFigures};
use crate::offsets::ConsumerOffsets;
use crate::topics::{Topic, Topics};

/// The tables that figures are read from.
#[derive(Debug, Clone, Copy)]
pub struct Tables<'a> {
    /// Settings.
    pub config: &'a BrokerConfig,
    /// Messages.
    pub store: &'a Store,
    /// Topics.
    pub topics: &'a Topics,
    /// Consumer groups.
    pub groups: &'a Groups,
    /// Their progress.
    pub offsets: &'a ConsumerOffsets,
    /// Who is online.
    pub clients: &'a Clients,
}

/// All figures of the tables at `now` (milliseconds since 1970). Reads the record at a group's progress for its
/// age, so it belongs on a thread that may block.
pub fn collect(tables: Tables<'_>, now: i64) -> Figures {
    let Tables { config, store, topics, groups, offsets, clients } = tables;
    let status = store.status();
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut figures = Figures {
        cluster: config.broker_cluster_name.clone(),
        broker: config.broker_name.clone(),
        producers: producers(clients),
        consumers: consumers(clients),
        permission: i64::from(config.broker_permission),
        group_count: i64::try_from(groups.count()).unwrap_or(i64::MAX),
        storage_bytes: signed(status.max_offset.saturating_sub(status.min_offset)),
        flush_behind_bytes: signed(status.flush_behind()),
        dispatch_behind_bytes: signed(status.dispatch_behind()),
        reserve_time_ms: if status.earliest_ms < 0 { 0 } else { (now - status.earliest_ms).max(0) },
        disk_ratio: status.commit_log_disk_ratio,
        writable: status.not_writable.is_none(),
        ..Figures::default()
    };
    for topic in topics.all() {
        figures.topics.push(TopicFigures {
            topic: topic.name().to_string(),
            system: topics.is_system(topic.name()),
            messages_in: topic.counters.puts.get(),
            bytes_in: topic.counters.put_bytes.get(),
        });
        of_groups(&topic, store, offsets, now, &mut figures.groups);
    }
    figures
}

/// A line for each group that has read the topic or has progress in it.
fn of_groups(
    topic: &Topic,
    store: &Store,
    offsets: &ConsumerOffsets,
    now: i64,
    into: &mut Vec<GroupFigures>,
) {
    let mut lines: BTreeMap<String, GroupFigures> = BTreeMap::new();
    for (group, counters) in topic.counters.readers() {
        let line = lines.entry(group.to_string()).or_default();
        line.messages_out = counters.gets.get();
        line.bytes_out = counters.get_bytes.get();
    }
    for group in offsets.groups_of(topic.name()) {
        lines.entry(group.to_string()).or_default();
    }
    for (group, mut line) in lines {
        let committed = offsets.queues_of(&group, topic.name());
        if !committed.is_empty() {
            let behind = behind(topic, store, &committed);
            line.lag = Some(behind.messages);
            line.lag_ms = Some(behind.oldest_ms.map_or(0, |stored| (now - stored).max(0)));
        }
        line.retry = name::group_of_retry(topic.name()).is_some();
        line.topic = topic.name().to_string();
        line.group = group;
        into.push(line);
    }
}

#[derive(Default)]
struct Behind {
    messages: i64,
    /// Store time of the oldest message that is not committed.
    oldest_ms: Option<i64>,
}

fn behind(topic: &Topic, store: &Store, committed: &BTreeMap<i32, i64>) -> Behind {
    let mut sum = Behind::default();
    for (&queue_id, &offset) in committed {
        let Some(queue) = store.find_queue(topic.name(), queue_id) else { continue };
        let next = offset.max(queue.min_offset());
        let messages = queue.max_offset() - next;
        if messages <= 0 {
            continue;
        }
        sum.messages += messages;
        if let Some(stored) = store_time_at(store, &queue, next) {
            sum.oldest_ms = Some(sum.oldest_ms.map_or(stored, |oldest| oldest.min(stored)));
        }
    }
    sum
}

fn producers(clients: &Clients) -> Vec<(String, String, i64)> {
    let mut links: BTreeMap<(String, String), i64> = BTreeMap::new();
    for (_group, producers) in clients.all_producers() {
        for producer in producers {
            let key = (producer.language.name().to_owned(), producer.version.to_string());
            *links.entry(key).or_default() += 1;
        }
    }
    links.into_iter().map(|((language, version), count)| (language, version, count)).collect()
}

fn consumers(clients: &Clients) -> Vec<(String, String, String, i64)> {
    let mut links: BTreeMap<(String, String, String), i64> = BTreeMap::new();
    for group in clients.consumer_groups() {
        for member in group.members() {
            let language = member.language.name().to_owned();
            let key = (group.name().to_string(), language, member.version.to_string());
            *links.entry(key).or_default() += 1;
        }
    }
    links.into_iter().map(|((group, l, v), count)| (group, l, v, count)).collect()
}
