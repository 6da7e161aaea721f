//! Figures of an open store, for runtime info and metrics. Counters are kept by the part that
//! counts; here they are defined and read out together.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::error::NotWritable;

/// Upper bounds of the put time buckets in milliseconds, as RocketMQ's runtime info has them; one
/// more bucket takes what is longer.
pub const PUT_TIME_BOUNDS_MS: [i64; 12] =
    [0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000];

/// What the appender counts.
#[derive(Debug, Default)]
pub(crate) struct PutFigures {
    messages: AtomicU64,
    bytes: AtomicU64,
    longest_ms: AtomicI64,
    times: [AtomicU64; PUT_TIME_BOUNDS_MS.len() + 1],
    /// When the current holder of the put lock asked for it; 0 while nobody holds it.
    locked_ms: AtomicI64,
}

impl PutFigures {
    pub(crate) fn lock_taken(&self, now_ms: i64) {
        self.locked_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(crate) fn lock_released(&self) {
        self.locked_ms.store(0, Ordering::Relaxed);
    }

    pub(crate) fn stored(&self, messages: u64, bytes: u64, took_ms: i64) {
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let bucket = PUT_TIME_BOUNDS_MS.iter().position(|bound| took_ms <= *bound);
        let bucket = bucket.unwrap_or(PUT_TIME_BOUNDS_MS.len());
        if let Some(count) = self.times.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if took_ms > self.longest_ms.load(Ordering::Relaxed) {
            self.longest_ms.fetch_max(took_ms, Ordering::Relaxed);
        }
    }

    /// How long the put lock has been held by who holds it now.
    pub(crate) fn locked_for_ms(&self, now_ms: i64) -> i64 {
        match self.locked_ms.load(Ordering::Relaxed) {
            0 => 0,
            since => (now_ms - since).max(0),
        }
    }

    pub(crate) fn fill(&self, status: &mut StoreStatus) {
        status.put_messages = self.messages.load(Ordering::Relaxed);
        status.put_bytes = self.bytes.load(Ordering::Relaxed);
        status.put_longest_ms = self.longest_ms.load(Ordering::Relaxed);
        for (count, into) in self.times.iter().zip(&mut status.put_times) {
            *into = count.load(Ordering::Relaxed);
        }
    }
}

/// A store's figures at one moment. Offsets are the log's, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreStatus {
    /// When the store was opened, in milliseconds since 1970.
    pub opened_ms: i64,
    /// Messages stored since then.
    pub put_messages: u64,
    /// Bytes of their records.
    pub put_bytes: u64,
    /// Messages by time taken; see [`PUT_TIME_BOUNDS_MS`].
    pub put_times: [u64; PUT_TIME_BOUNDS_MS.len() + 1],
    /// Longest put, in milliseconds.
    pub put_longest_ms: i64,
    /// How long the put lock has been held by its present holder, in milliseconds; 0 if it is free.
    pub put_locked_ms: i64,
    /// Start of the oldest record that is kept.
    pub min_offset: u64,
    /// End of what is appended.
    pub max_offset: u64,
    /// End of what fsync has confirmed.
    pub flushed: u64,
    /// End of what queues and index hold.
    pub dispatched: u64,
    /// Requests that wait for a flush.
    pub flush_waiting: usize,
    /// Store time of the oldest record, in milliseconds since 1970; -1 if there is none.
    pub earliest_ms: i64,
    /// Used share of the commit log's disk, 0.0 to 1.0.
    pub commit_log_disk_ratio: f64,
    /// Used share of the disk of queues and index, 0.0 to 1.0.
    pub consume_queue_disk_ratio: f64,
    /// Damaged records that readers met.
    pub damaged_reads: u64,
    /// Why nothing may be written now.
    pub not_writable: Option<NotWritable>,
}

impl StoreStatus {
    /// Bytes that are appended and not in queues and index.
    pub fn dispatch_behind(&self) -> u64 {
        self.max_offset.saturating_sub(self.dispatched)
    }

    /// Bytes that are appended and not known to be on disk.
    pub fn flush_behind(&self) -> u64 {
        self.max_offset.saturating_sub(self.flushed)
    }
}
