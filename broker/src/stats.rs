//! Counters of the message path. Each stands in the handle that the path holds anyway (a topic, a
//! reader of it), so that counting is one addition and no lookup. Rates and snapshots are made from
//! them elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use parking_lot::RwLock;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What went in and out of one topic since the start.
#[derive(Debug, Default)]
pub struct TopicCounters {
    /// Messages stored.
    pub puts: Counter,
    /// Bytes of their records.
    pub put_bytes: Counter,
    readers: RwLock<HashMap<Arc<str>, Arc<ReaderCounters>, RandomState>>,
}

/// What one group read of one topic since the start.
#[derive(Debug, Default)]
pub struct ReaderCounters {
    /// Messages handed out.
    pub gets: Counter,
    /// Bytes of their records.
    pub get_bytes: Counter,
    /// Messages given back by the group.
    pub send_backs: Counter,
}

impl TopicCounters {
    /// The counters of a group. `group` is a known group's name, which bounds the table.
    pub fn reader(&self, group: &Arc<str>) -> Arc<ReaderCounters> {
        if let Some(reader) = self.readers.read().get(&**group) {
            return Arc::clone(reader);
        }
        Arc::clone(self.readers.write().entry(Arc::clone(group)).or_default())
    }

    /// All groups that read the topic.
    pub fn readers(&self) -> Vec<(Arc<str>, Arc<ReaderCounters>)> {
        let readers = self.readers.read();
        readers.iter().map(|(group, reader)| (Arc::clone(group), Arc::clone(reader))).collect()
    }

    /// Forgets a group that was deleted.
    pub fn remove_reader(&self, group: &str) {
        self.readers.write().remove(group);
    }
}

/// What the whole broker did since the start.
#[derive(Debug, Default)]
pub struct Stats {
    /// Messages stored for producers.
    pub puts: Counter,
    /// Sends that were refused or failed.
    pub put_failures: Counter,
    /// Messages handed out to consumers.
    pub gets: Counter,
    /// Bytes handed out to consumers.
    pub get_bytes: Counter,
    /// Pulls that found messages.
    pub pulls_found: Counter,
    /// Pulls that found none.
    pub pulls_missed: Counter,
}
