//! Makes units and index entries durable, by a thread of its own so that a slow disk delays nobody
//! who waits for messages. Each round is noted in the checkpoint: the log offset up to which the
//! next start need not look. When many queues are written, a round only takes those with much to
//! sync; all are taken once a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::Queue;
use crate::checkpoint::Checkpoint;
use crate::error::StoreError;
use crate::frontier::Frontiers;
use crate::index::Index;

/// Up to this many written queues, a round syncs them all.
const QUEUES_AT_ONCE: usize = 64;
/// With more, only those that have at least this many bytes to sync: two pages, as in RocketMQ.
const WORTH_A_SYNC: usize = 2 * 4096;
/// Longest time without a round that takes everything, the index included.
const THOROUGH_INTERVAL: Duration = Duration::from_secs(60);

/// Shared by the thread, the dispatcher and whoever stops it.
#[derive(Debug)]
pub(crate) struct QueueFlusher {
    state: Mutex<State>,
    wake: Condvar,
    /// Store time of the newest dispatched record.
    newest_ms: AtomicI64,
    /// A sync failed: nobody knows what is on disk, so the checkpoint must not promise more.
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    dirty: Vec<Arc<Queue>>,
    stop: bool,
}

/// What a round works on.
pub(crate) struct Round<'a> {
    pub(crate) frontiers: &'a Frontiers,
    pub(crate) index: &'a Index,
    pub(crate) checkpoint: &'a Checkpoint,
}

impl QueueFlusher {
    /// `newest_ms` is the store time of the newest record that queues hold.
    pub(crate) fn new(newest_ms: i64) -> QueueFlusher {
        QueueFlusher {
            state: Mutex::default(),
            wake: Condvar::new(),
            newest_ms: AtomicI64::new(newest_ms),
            failed: AtomicBool::new(false),
        }
    }

    /// A unit was added to `queue`, for a record stored at `stored_ms`. Before the dispatched
    /// frontier moves over it.
    pub(crate) fn wrote(&self, queue: &Arc<Queue>, stored_ms: i64) {
        self.newest_ms.store(stored_ms, Ordering::Relaxed);
        if queue.become_dirty() {
            let mut state = self.state.lock();
            state.dirty.push(Arc::clone(queue));
            if state.dirty.len() == 1 {
                self.wake.notify_one();
            }
        }
    }

    /// The thread: a round each `interval` while units are written. Returns after
    /// [`QueueFlusher::stop`].
    pub(crate) fn run(&self, round: &Round<'_>, interval: impl Fn() -> Duration) {
        let mut thorough = Instant::now();
        loop {
            {
                let mut state = self.state.lock();
                while state.dirty.is_empty() && !state.stop {
                    self.wake.wait(&mut state);
                }
                let until = Instant::now() + interval();
                while !state.stop && !self.wake.wait_until(&mut state, until).timed_out() {}
                if state.stop {
                    return;
                }
            }
            let all = thorough.elapsed() >= THOROUGH_INTERVAL;
            if all {
                thorough = Instant::now();
            }
            if let Err(error) = self.round(round, all) {
                self.fails(&error);
            }
        }
    }

    /// Ends [`QueueFlusher::run`].
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_all();
    }

    /// Syncs everything dispatched so far. When the store closes.
    pub(crate) fn sync_all(&self, round: &Round<'_>) -> Result<(), StoreError> {
        self.round(round, true).inspect_err(|error| self.fails(error))?;
        if self.failed.load(Ordering::Acquire) {
            return Err(StoreError::Poisoned);
        }
        Ok(())
    }

    fn fails(&self, error: &StoreError) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            tracing::error!(
                %error,
                "queues can't be synced: the next start reads the log again from the last good sync"
            );
        }
    }

    fn round(&self, round: &Round<'_>, thorough: bool) -> Result<(), StoreError> {
        // Read in this order: every unit below the frontier was told of before.
        let dispatched = round.frontiers.dispatched();
        let newest_ms = self.newest_ms.load(Ordering::Relaxed);
        let mut dirty = std::mem::take(&mut self.state.lock().dirty);
        let all = thorough || dirty.len() <= QUEUES_AT_ONCE;
        if !all {
            let later = dirty.extract_if(.., |queue| queue.row().unsynced() < WORTH_A_SYNC);
            let later: Vec<_> = later.collect();
            self.state.lock().dirty.extend(later);
        }
        for queue in dirty {
            queue.become_clean();
            let synced = queue.row().sync();
            synced.map_err(|error| StoreError::io("sync", queue.row().folder(), error))?;
        }
        if thorough {
            let synced = round.index.sync();
            let filled_ms =
                synced.map_err(|error| StoreError::io("sync", round.index.folder(), error))?;
            if let Some(filled_ms) = filled_ms {
                round.checkpoint.index_is_durable(filled_ms)?;
            }
        }
        if all && !self.failed.load(Ordering::Acquire) {
            round.checkpoint.queues_are_durable(newest_ms, dispatched)?;
            round.checkpoint.sync()?;
        }
        Ok(())
    }
}
