//! How far each consumer group has read each queue, and `consumerOffset.json`, which keeps it over
//! a restart. A commit only changes memory; [`ConsumerOffsets::persist`] writes the file at
//! `flushConsumerOffsetInterval` and at stop. Whether a topic or a group exists is not asked here,
//! as in RocketMQ 4.9: the handlers decide.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ahash::RandomState;
use broker_protocol::body::ConsumerOffsetTable;
use parking_lot::{Mutex, RwLock};

use crate::state_file::{StateFile, StateFileError};

/// How many (topic, group) pairs the table takes. It guards memory against a client that commits
/// made-up names; a cluster of ten thousand topics read by fifty groups each stays below it.
pub const PROGRESS_MAX: usize = 1_000_000;

/// Highest queue id that a commit may name; queue counts are checked against far lower limits when
/// a topic is made.
pub const QUEUE_ID_MAX: i32 = 65_535;

/// Longest name that progress is kept under, in bytes. Which names are legal is asked where topics
/// and groups are made; this only bounds what commits of made-up names can take.
pub const NAME_LEN_MAX: usize = 255;

/// Between topic and group in the keys of the file. Neither name can hold it.
const TOPIC_GROUP_SEPARATOR: char = '@';

/// The progress of every group. Cheap to read and to commit to: groups do not share a lock.
#[derive(Debug)]
pub struct ConsumerOffsets {
    groups: RwLock<HashMap<Arc<str>, Arc<GroupProgress>, RandomState>>,
    /// Pairs of topic and group held, for the bound.
    pairs: AtomicUsize,
    dirty: AtomicBool,
    file: StateFile,
}

#[derive(Debug, Default)]
struct GroupProgress {
    topics: Mutex<HashMap<Arc<str>, Queues, RandomState>>,
}

/// Next offset to read, by queue id.
type Queues = BTreeMap<i32, i64>;

/// Why a commit was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The queue id is negative or beyond [`QUEUE_ID_MAX`].
    #[error("queue id {0} is out of range")]
    QueueId(i32),
    /// The offset is negative.
    #[error("offset {0} is negative")]
    Offset(i64),
    /// A name holds the separator of the file's keys, is empty, or longer than [`NAME_LEN_MAX`].
    #[error("the topic or group name is empty, holds '@', or has more than {NAME_LEN_MAX} bytes")]
    Name,
    /// The table holds [`PROGRESS_MAX`] pairs already.
    #[error("the broker keeps progress for no more than {PROGRESS_MAX} pairs of topic and group")]
    Full,
}

impl ConsumerOffsets {
    /// Reads the table from its file; an absent file is an empty table.
    ///
    /// # Errors
    /// When neither the file nor its backup can be read: starting with no progress would make every
    /// group read its queues again.
    pub fn load(file: StateFile) -> Result<ConsumerOffsets, StateFileError> {
        let stored: ConsumerOffsetTable = file.load()?.unwrap_or_default();
        let offsets = ConsumerOffsets {
            groups: RwLock::default(),
            pairs: AtomicUsize::new(0),
            dirty: AtomicBool::new(false),
            file,
        };
        offsets.fill(stored);
        offsets.dirty.store(false, Ordering::Relaxed);
        Ok(offsets)
    }

    fn fill(&self, table: ConsumerOffsetTable) {
        for (key, queues) in table.offset_table {
            let Some((topic, group)) = key.split_once(TOPIC_GROUP_SEPARATOR) else {
                tracing::warn!(key, "progress without a group in its key is not taken over");
                continue;
            };
            for (queue_id, offset) in queues {
                if let Err(error) = self.commit(group, topic, queue_id, offset) {
                    tracing::warn!(key, queue_id, offset, %error, "stored progress is not taken over");
                }
            }
        }
    }

    /// Sets the group's progress on a queue, backwards too.
    ///
    /// # Errors
    /// See [`CommitError`]; nothing has changed then.
    pub fn commit(
        &self,
        group: &str,
        topic: &str,
        queue_id: i32,
        offset: i64,
    ) -> Result<(), CommitError> {
        if !(0..=QUEUE_ID_MAX).contains(&queue_id) {
            return Err(CommitError::QueueId(queue_id));
        }
        if offset < 0 {
            return Err(CommitError::Offset(offset));
        }
        let known = self.groups.read().get(group).cloned();
        let progress = match known {
            Some(progress) => progress,
            None => self.add_group(group)?,
        };
        let mut topics = progress.topics.lock();
        if let Some(queues) = topics.get_mut(topic) {
            queues.insert(queue_id, offset);
        } else {
            if !is_key_part(topic) {
                return Err(CommitError::Name);
            }
            if self.pairs.fetch_add(1, Ordering::Relaxed) >= PROGRESS_MAX {
                self.pairs.fetch_sub(1, Ordering::Relaxed);
                return Err(CommitError::Full);
            }
            topics.insert(Arc::from(topic), Queues::from([(queue_id, offset)]));
        }
        drop(topics);
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    fn add_group(&self, group: &str) -> Result<Arc<GroupProgress>, CommitError> {
        if !is_key_part(group) {
            return Err(CommitError::Name);
        }
        let mut groups = self.groups.write();
        if groups.len() >= PROGRESS_MAX {
            return Err(CommitError::Full);
        }
        Ok(groups.entry(Arc::from(group)).or_default().clone())
    }

    /// The next offset that the group will read from the queue; `None` when it never committed
    /// there.
    #[must_use]
    pub fn query(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let progress = self.groups.read().get(group).cloned()?;
        let topics = progress.topics.lock();
        topics.get(topic)?.get(&queue_id).copied()
    }

    /// The group's progress on every queue of the topic it committed to.
    #[must_use]
    pub fn queues_of(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let Some(progress) = self.groups.read().get(group).cloned() else { return BTreeMap::new() };
        let topics = progress.topics.lock();
        topics.get(topic).cloned().unwrap_or_default()
    }

    /// The groups that have committed to the topic, in no order.
    #[must_use]
    pub fn groups_of(&self, topic: &str) -> Vec<Arc<str>> {
        let groups = self.groups.read();
        let reads = |progress: &GroupProgress| progress.topics.lock().contains_key(topic);
        groups.iter().filter(|(_, p)| reads(p)).map(|(name, _)| name.clone()).collect()
    }

    /// The topics that the group has committed to, in no order.
    #[must_use]
    pub fn topics_of(&self, group: &str) -> Vec<Arc<str>> {
        let Some(progress) = self.groups.read().get(group).cloned() else { return Vec::new() };
        let topics = progress.topics.lock();
        topics.keys().cloned().collect()
    }

    /// Forgets what every group read of the topic, so that a topic made again under the name starts
    /// fresh.
    pub fn remove_topic(&self, topic: &str) {
        let groups = self.groups.read();
        for progress in groups.values() {
            if progress.topics.lock().remove(topic).is_some() {
                self.pairs.fetch_sub(1, Ordering::Relaxed);
                self.dirty.store(true, Ordering::Release);
            }
        }
    }

    /// Forgets all that the group read.
    pub fn remove_group(&self, group: &str) {
        if let Some(progress) = self.groups.write().remove(group) {
            self.pairs.fetch_sub(progress.topics.lock().len(), Ordering::Relaxed);
            self.dirty.store(true, Ordering::Release);
        }
    }

    /// Gives `target` the progress that `source` has on the topic, queue by queue.
    ///
    /// # Errors
    /// See [`CommitError`]; queues before the failing one were set.
    pub fn clone_group(&self, source: &str, target: &str, topic: &str) -> Result<(), CommitError> {
        for (queue_id, offset) in self.queues_of(source, topic) {
            self.commit(target, topic, queue_id, offset)?;
        }
        Ok(())
    }

    /// The whole table as the file holds it.
    #[must_use]
    pub fn snapshot(&self) -> ConsumerOffsetTable {
        let groups: Vec<(Arc<str>, Arc<GroupProgress>)> =
            self.groups.read().iter().map(|(name, p)| (name.clone(), p.clone())).collect();
        let mut offset_table = BTreeMap::new();
        for (group, progress) in groups {
            for (topic, queues) in &*progress.topics.lock() {
                let key = format!("{topic}{TOPIC_GROUP_SEPARATOR}{group}");
                offset_table.insert(key, queues.clone());
            }
        }
        ConsumerOffsetTable { offset_table }
    }

    /// Writes the table to its file if anything has changed since the last time.
    ///
    /// # Errors
    /// When the file could not be written; the next call tries again.
    pub fn persist(&self) -> Result<(), StateFileError> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // A commit between the swap and the snapshot is written now and marks the table dirty
        // again: harmless.
        let written = self.file.save(&self.snapshot());
        if written.is_err() {
            self.dirty.store(true, Ordering::Release);
        }
        written
    }
}

fn is_key_part(name: &str) -> bool {
    (1..=NAME_LEN_MAX).contains(&name.len()) && !name.contains(TOPIC_GROUP_SEPARATOR)
}

#[cfg(test)]
mod tests;
