//! All queues by topic and number. Found without an allocation, made on first use, opened from
//! their folders at start. A topic is never removed because somebody doesn't know it: only by
//! [`Table::delete`], or when it turns out to have neither files nor users.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahash::RandomState;
use parking_lot::RwLock;

use super::Unit;
use super::queue::Queue;
use super::recovery::{self, LogFacts};
use super::row::Row;
use crate::deleted_topics::DeletedTopics;
use crate::env::FileSystem;
use crate::error::StoreError;
use crate::wake::Wake;

/// Queues of one topic, by number.
type Queues = Vec<Arc<Queue>>;

/// All queues of a store.
#[derive(Debug)]
pub(crate) struct Table {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    file_len: u64,
    wake: Arc<Wake>,
    deleted: DeletedTopics,
    topics: RwLock<HashMap<Arc<str>, Queues, RandomState>>,
}

/// Whether the store was closed in order, where the log ends, and whether it holds the record that
/// a unit of topic and queue names; see [`LogFacts`].
pub(crate) struct TableFacts<'a> {
    pub(crate) clean: bool,
    pub(crate) log_end: u64,
    pub(crate) holds: &'a dyn Fn(&str, i32, &Unit) -> bool,
}

/// True if `topic` can be the name of a folder. The log may come from anywhere, so a name in it can
/// hold a path.
pub(crate) fn can_be_folder(topic: &str) -> bool {
    !topic.is_empty() && topic != "." && topic != ".." && !topic.contains(['/', '\0'])
}

impl Table {
    /// A table of the queues in `folder`: one folder for each topic, in each one for each queue.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        folder: PathBuf,
        file_len: u64,
        deleted: DeletedTopics,
        wake: Arc<Wake>,
        facts: &TableFacts<'_>,
    ) -> Result<Table, StoreError> {
        let topics = RwLock::new(HashMap::default());
        let table = Table { files, folder, file_len, wake, deleted, topics };
        for topic in folders(&table.files, &table.folder)? {
            let folder = table.folder.join(&topic);
            for id in folders(&table.files, &folder)? {
                match id.parse::<i32>() {
                    Ok(number) if number >= 0 => table.open_queue(&topic, number, facts)?,
                    _ => {
                        let path = folder.join(id);
                        tracing::warn!(path = %path.display(), "not a queue, left alone");
                    }
                }
            }
        }
        Ok(table)
    }

    fn open_queue(&self, topic: &str, id: i32, facts: &TableFacts<'_>) -> Result<(), StoreError> {
        let folder = self.queue_folder(topic, id);
        let holds = |unit: &Unit| (facts.holds)(topic, id, unit);
        let facts = LogFacts { clean: facts.clean, log_end: facts.log_end, holds: &holds };
        let mut found = recovery::recover(&self.files, &folder, self.file_len, &facts)?;
        let row = self.row(topic, id, &found.starts, found.end);
        let dead_below = self.deleted.below(topic);
        if found.last_end <= dead_below && dead_below > 0 {
            // Deleted, then stopped before the files were gone.
            row.clear().map_err(|error| StoreError::io("remove", row.folder(), error))?;
            found.last_end = 0;
        }
        let mut topics = self.topics.write();
        let name = topics.get_key_value(topic).map(|(name, _)| Arc::clone(name));
        let name = name.unwrap_or_else(|| Arc::from(topic));
        let wake = Arc::clone(&self.wake);
        let queue = Queue::new(name, id, row, found.last_end, dead_below, wake);
        insert(&mut topics, Arc::new(queue));
        Ok(())
    }

    fn row(&self, topic: &str, id: i32, starts: &[u64], end: u64) -> Row {
        let folder = self.queue_folder(topic, id);
        Row::new(Arc::clone(&self.files), folder, self.file_len, starts, end)
    }

    fn queue_folder(&self, topic: &str, id: i32) -> PathBuf {
        let mut folder = self.folder.join(topic);
        folder.push(id.to_string());
        folder
    }

    /// The queue, if a message was ever sent to it since its topic exists.
    pub(crate) fn find(&self, topic: &str, id: i32) -> Option<Arc<Queue>> {
        self.handle(topic, id).filter(|queue| queue.is_used())
    }

    fn handle(&self, topic: &str, id: i32) -> Option<Arc<Queue>> {
        pick(self.topics.read().get(topic)?, id).cloned()
    }

    /// The queue, made if it is new. It gets files with its first unit.
    pub(crate) fn queue(&self, topic: &str, id: i32) -> Arc<Queue> {
        if let Some(queue) = self.handle(topic, id) {
            return queue;
        }
        let dead_below = self.deleted.below(topic);
        let mut topics = self.topics.write();
        let known = topics
            .get_key_value(topic)
            .map(|(name, queues)| (Arc::clone(name), pick(queues, id).cloned()));
        let name = match known {
            Some((_, Some(queue))) => return queue,
            Some((name, None)) => name,
            None => Arc::from(topic),
        };
        let row = self.row(topic, id, &[], 0);
        let queue = Arc::new(Queue::new(name, id, row, 0, dead_below, Arc::clone(&self.wake)));
        insert(&mut topics, Arc::clone(&queue));
        queue
    }

    /// The used queues of `topic`, by number.
    pub(crate) fn queues_of(&self, topic: &str) -> Vec<Arc<Queue>> {
        let mut queues = self.handles_of(topic);
        queues.retain(|queue| queue.is_used());
        queues
    }

    fn handles_of(&self, topic: &str) -> Queues {
        self.topics.read().get(topic).cloned().unwrap_or_default()
    }

    /// Every topic that has a used queue.
    pub(crate) fn topics(&self) -> Vec<Arc<str>> {
        let topics = self.topics.read();
        let used = topics.iter().filter(|(_, queues)| queues.iter().any(|queue| queue.is_used()));
        used.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Every queue.
    pub(crate) fn all(&self) -> Vec<Arc<Queue>> {
        self.topics.read().values().flatten().cloned().collect()
    }

    /// The log offset after the farthest record that a queue holds, or that was deleted with its
    /// topic.
    pub(crate) fn queued(&self) -> u64 {
        let topics = self.topics.read();
        let held = topics.values().flatten().map(|queue| queue.last_end()).max();
        held.unwrap_or(0).max(self.deleted.highest())
    }

    /// Where the topics' folders lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where deletions are remembered.
    pub(crate) fn deleted(&self) -> &DeletedTopics {
        &self.deleted
    }

    /// Deletes what is stored of `topic`; records below the log offset `dead_below` will never come
    /// back, not even at the next start. Called under the put lock with the log's end, so that each
    /// record is wholly before or after the deletion: later ones are numbered from 0.
    pub(crate) fn restart_numbers(&self, topic: &str, dead_below: u64) {
        for queue in self.handles_of(topic) {
            queue.restart_numbers(dead_below);
        }
    }

    /// Makes a deletion durable and removes the files. The second half of deleting, outside of any
    /// lock.
    pub(crate) fn delete(&self, topic: &str, dead_below: u64) -> io::Result<()> {
        self.deleted.mark(topic, dead_below)?;
        for queue in self.handles_of(topic) {
            queue.remove_files()?;
        }
        if can_be_folder(topic) {
            remove_if_empty(&self.files, &self.folder.join(topic))?;
        }
        self.forget_unused();
        Ok(())
    }

    /// Forgets queues without files that nobody holds.
    pub(crate) fn forget_unused(&self) {
        self.topics.write().retain(|_, queues| {
            // Handles are only given out under the lock that is held here, so a count of one means
            // that nobody has one and nobody gets one.
            queues.retain(|queue| Arc::strong_count(queue) > 1 || queue.is_used());
            !queues.is_empty()
        });
    }
}

fn insert(topics: &mut HashMap<Arc<str>, Queues, RandomState>, queue: Arc<Queue>) {
    let queues = topics.entry(Arc::clone(queue.topic())).or_default();
    if let Err(place) = queues.binary_search_by_key(&queue.id(), |queue| queue.id()) {
        queues.insert(place, queue);
    }
}

fn pick(queues: &Queues, id: i32) -> Option<&Arc<Queue>> {
    // Nearly always queue n stands at place n.
    match queues.get(usize::try_from(id).ok()?) {
        Some(queue) if queue.id() == id => Some(queue),
        _ => {
            let place = queues.binary_search_by_key(&id, |queue| queue.id()).ok()?;
            queues.get(place)
        }
    }
}

fn folders(files: &Arc<dyn FileSystem>, folder: &Path) -> Result<Vec<String>, StoreError> {
    match files.list(folder) {
        Ok(entries) => Ok(entries
            .into_iter()
            .filter(|entry| entry.is_folder)
            .map(|entry| entry.name)
            .collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io("list", folder, error)),
    }
}

fn remove_if_empty(files: &Arc<dyn FileSystem>, folder: &Path) -> io::Result<()> {
    match files.remove_folder(folder) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
