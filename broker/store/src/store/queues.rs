//! The queues' side of the door: handles, deletion, notices.

use std::sync::Arc;

use super::Store;
use crate::arrivals::ArrivalReceiver;
use crate::consume_queue::Queue;
use crate::error::StoreError;

impl Store {
    /// The handle of a queue, made if it is new. The queue gets files with its first message.
    /// Whoever lets a client name the topic must have checked the name: the store can't file
    /// messages of one that can't be a folder's name.
    pub fn queue(&self, topic: &str, queue_id: i32) -> Arc<Queue> {
        self.shared.followers.table.queue(topic, queue_id)
    }

    /// The handle of a queue that was used before.
    pub fn find_queue(&self, topic: &str, queue_id: i32) -> Option<Arc<Queue>> {
        self.shared.followers.table.find(topic, queue_id)
    }

    /// The queues of `topic` that were used, by number.
    pub fn queues_of(&self, topic: &str) -> Vec<Arc<Queue>> {
        self.shared.followers.table.queues_of(topic)
    }

    /// Every topic with a queue that was used.
    pub fn topics(&self) -> Vec<Arc<str>> {
        self.shared.followers.table.topics()
    }

    /// Deletes the queues of `topic`. When this returns without an error, nothing stored before
    /// comes back, not even by a restart, and messages sent to a topic of the same name are
    /// numbered from 0. Handles stay valid. The records leave the log with the files that hold
    /// them.
    pub fn delete_topic(&self, topic: &str) -> Result<(), StoreError> {
        let table = &self.shared.followers.table;
        let dead_below = self.shared.log.between_appends(|end| {
            table.restart_numbers(topic, end);
            end
        });
        table
            .delete(topic, dead_below)
            .map_err(|error| StoreError::io("delete a topic in", table.folder(), error))?;
        tracing::info!(topic, dead_below, "topic deleted");
        Ok(())
    }

    /// Deletes the queues of every topic that `keep` doesn't want kept.
    pub fn clean_unused(&self, keep: impl Fn(&str) -> bool) -> Result<(), StoreError> {
        self.topics()
            .iter()
            .filter(|topic| !keep(topic))
            .try_for_each(|topic| self.delete_topic(topic))
    }

    /// Removes what points to records that the log has dropped. Queues keep their numbers.
    pub fn clean_expired_queues(&self) -> Result<(), StoreError> {
        let followers = &self.shared.followers;
        followers.clean(self.shared.log.min_offset(), |_| true)?;
        followers.release_idle();
        Ok(())
    }

    /// Notices of new messages in queues that somebody watches; see [`Queue::watch`]. Meant for one
    /// receiver: several would take notices from each other.
    pub fn arrivals(&self) -> ArrivalReceiver {
        ArrivalReceiver::new(Arc::clone(&self.shared.followers.arrivals))
    }

    /// Number of index files.
    pub fn index_files(&self) -> usize {
        self.shared.followers.index.file_count()
    }
}
