//! Delayed messages. A message with a delay level waits in `SCHEDULE_TOPIC_XXXX`, one queue a
//! level, and is put into its own topic when its time has come. One thread serves all levels;
//! `delayOffset.json` says how far it got. Diverting a new message is [`divert`]; sends and
//! send-backs call it.

mod delivery;
mod diversion;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use broker_protocol::body::DelayOffsetTable;
use broker_protocol::name::SCHEDULE_TOPIC;
use broker_store::config::FlushDiskType;
use broker_store::env::Clock;
use broker_store::{Flushed, Queue, Store};
use parking_lot::{Condvar, Mutex};

use crate::state_file::{StateFile, StateFileError};

pub use broker_store::DelayLevels;
pub use diversion::divert;

/// How often the levels are looked at when nothing is due. The shortest delay is a second, so a
/// message is always seen before it is due.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// How long saving the progress waits for the delivered messages to reach the disk.
const FLUSH_PATIENCE: Duration = Duration::from_secs(15);

/// Delivers what is due. Dropping it without [`Schedule::stop`] leaves the thread running.
#[derive(Debug)]
pub struct Schedule {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// How many queues of a topic take messages; `None` for a topic that does not exist.
pub type WriteQueues = Box<dyn Fn(&str) -> Option<i32> + Send + Sync>;

struct Shared {
    store: Store,
    write_queues: WriteQueues,
    clock: Arc<dyn Clock>,
    levels: Vec<Level>,
    file: StateFile,
    /// How often the progress is saved.
    save_interval: Duration,
    /// End of the last delivered message in the log: the progress is saved only once that is on
    /// disk, or a power loss would lose the message that the progress says was delivered.
    delivered_end: AtomicU64,
    delivered: AtomicU64,
    skipped: AtomicU64,
    dirty: AtomicBool,
    stopping: Mutex<bool>,
    stop: Condvar,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("levels", &self.levels).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Level {
    /// From 1, as on the wire.
    number: i32,
    delay_ms: i64,
    queue: Arc<Queue>,
    /// Next index to deliver.
    next: AtomicI64,
    /// The store takes nothing; told once, not with every try.
    held_up: AtomicBool,
}

/// Where one level stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelStatus {
    /// The level, from 1.
    pub level: i32,
    /// Next index to deliver.
    pub next: i64,
    /// End of the level's queue.
    pub max: i64,
}

impl Schedule {
    /// Reads the progress from its file and corrects what lies outside a level's queue: the store
    /// is open, so its queues are complete, and nobody is served yet. Later it would skip what was
    /// sent meanwhile. Nothing is delivered before [`Schedule::start`].
    ///
    /// # Errors
    /// When neither the file nor its backup can be read: without progress every message that the
    /// log still holds would be delivered again.
    pub fn load(
        store: Store,
        clock: Arc<dyn Clock>,
        levels: &DelayLevels,
        save_interval: Duration,
        file: StateFile,
        write_queues: WriteQueues,
    ) -> Result<Schedule, StateFileError> {
        let stored: DelayOffsetTable = file.load()?.unwrap_or_default();
        let levels = levels
            .iter()
            .map(|(number, delay_ms)| Level {
                number,
                delay_ms,
                queue: store.queue(SCHEDULE_TOPIC, number - 1),
                next: AtomicI64::new(stored.offset_table.get(&number).copied().unwrap_or(0)),
                held_up: AtomicBool::new(false),
            })
            .collect();
        let shared = Shared {
            store,
            write_queues,
            clock,
            levels,
            file,
            save_interval,
            delivered_end: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            stopping: Mutex::new(false),
            stop: Condvar::new(),
        };
        shared.levels.iter().for_each(|level| shared.keep_within_queue(level));
        Ok(Schedule { shared: Arc::new(shared), thread: Mutex::new(None) })
    }

    /// Starts delivering, on a thread of its own: a due message may be so old that it must be read
    /// from the disk.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn start(&self) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = thread::Builder::new().name("schedule".to_owned()).spawn(move || shared.run());
        *self.thread.lock() = Some(thread?);
        Ok(())
    }

    /// Stops delivering and saves the progress: what was delivered is not delivered again.
    ///
    /// # Errors
    /// When the progress could not be saved.
    pub fn stop(&self) -> Result<(), StateFileError> {
        *self.shared.stopping.lock() = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the delivery of delayed messages had panicked");
        }
        self.shared.save()
    }

    /// The progress as its file has it.
    #[must_use]
    pub fn snapshot(&self) -> DelayOffsetTable {
        self.shared.snapshot()
    }

    /// Where each level stands.
    #[must_use]
    pub fn status(&self) -> Vec<LevelStatus> {
        let status = |level: &Level| LevelStatus {
            level: level.number,
            next: level.next.load(Ordering::Relaxed),
            max: level.queue.max_offset(),
        };
        self.shared.levels.iter().map(status).collect()
    }

    /// Messages delivered since the start.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.shared.delivered.load(Ordering::Relaxed)
    }

    /// Messages that could not be delivered, whatever is tried, since the start; each was logged.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.shared.skipped.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn run(&self) {
        let mut saved_at = Instant::now();
        loop {
            let wait = self.step(self.clock.now_ms());
            if saved_at.elapsed() >= self.save_interval {
                saved_at = Instant::now();
                if let Err(error) = self.save() {
                    tracing::error!(%error, "the progress of delayed messages is not saved");
                }
            }
            let mut stopping = self.stopping.lock();
            if !*stopping && !wait.is_zero() {
                self.stop.wait_for(&mut stopping, wait);
            }
            if *stopping {
                return;
            }
        }
    }

    /// Delivers what is due at `now` and says how long nothing further will be.
    fn step(&self, now: i64) -> Duration {
        let mut wait = LOOK_INTERVAL;
        let before = self.delivered_end.load(Ordering::Acquire);
        for level in &self.levels {
            wait = wait.min(self.deliver_due(level, now));
        }
        let end = self.delivered_end.load(Ordering::Acquire);
        if end > before && self.store.config().flush_disk_type == FlushDiskType::SyncFlush {
            // Consumers see them once they are on disk: somebody has to ask for that.
            self.store.when_flushed(end, self.clock.instant() + FLUSH_PATIENCE, |_| {});
        }
        wait
    }

    fn snapshot(&self) -> DelayOffsetTable {
        let progress = |level: &Level| (level.number, level.next.load(Ordering::Acquire));
        // A level that never held a message has no entry, as in RocketMQ.
        let used = self.levels.iter().filter(|level| level.queue.max_offset() > 0);
        DelayOffsetTable { offset_table: used.map(progress).collect() }
    }

    fn save(&self) -> Result<(), StateFileError> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // The progress first: whatever it counts ends before the end that is read after it.
        let table = self.snapshot();
        let saved = if self.flushed_up_to(self.delivered_end.load(Ordering::Acquire)) {
            self.file.save(&table)
        } else {
            tracing::warn!("delivered messages are not on disk yet; their progress is saved later");
            self.dirty.store(true, Ordering::Release);
            Ok(())
        };
        if saved.is_err() {
            self.dirty.store(true, Ordering::Release);
        }
        saved
    }

    fn flushed_up_to(&self, end: u64) -> bool {
        if self.store.flushed() >= end {
            return true;
        }
        let deadline = self.clock.instant() + FLUSH_PATIENCE;
        let outcome = Arc::new((Mutex::new(None), Condvar::new()));
        let done = outcome.clone();
        self.store.when_flushed(end, deadline, move |flushed| {
            *done.0.lock() = Some(flushed);
            done.1.notify_all();
        });
        let mut flushed = outcome.0.lock();
        while flushed.is_none() {
            outcome.1.wait(&mut flushed);
        }
        matches!(*flushed, Some(Flushed::Done))
    }
}

#[cfg(test)]
mod tests;
