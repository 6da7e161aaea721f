//! Questions about time: which message of a queue was the first to be stored at or after a moment.
//! Answered by the records' own store times, which never go back within a queue; when a file was
//! changed means nothing.

use crate::consume_queue::Queue;
use crate::store::Store;

impl Store {
    /// The offset of the first message of `queue` stored at or after `timestamp` (milliseconds
    /// since 1970): the first offset if all were, the offset after the last one if none was. May
    /// wait for the disk.
    pub fn offset_by_time(&self, queue: &Queue, timestamp: i64) -> i64 {
        let log = &self.shared.log;
        let (min, max) = (queue.min_offset(), queue.max_offset());
        let found = queue.partition(min, max, |unit| {
            // A record that is gone is older than any that is left.
            log.store_timestamp(unit.physical_offset).is_none_or(|stored| stored < timestamp)
        });
        found.unwrap_or_else(|error| {
            self.shared.queue_unreadable(queue, &error);
            max
        })
    }

    /// When the oldest message of `queue` was stored, in milliseconds since 1970; -1 if there is
    /// none.
    pub fn earliest_store_time(&self, queue: &Queue) -> i64 {
        let first = self.queue_units(queue, queue.min_offset(), 1);
        let stored =
            first.first().and_then(|unit| self.shared.log.store_timestamp(unit.physical_offset));
        stored.unwrap_or(-1)
    }
}
