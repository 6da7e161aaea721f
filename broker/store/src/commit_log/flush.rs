//! Making the log durable. One thread syncs: each interval, or at once while somebody waits; one
//! sync answers everybody whose bytes it covered. A second thread answers those whose deadline
//! comes first, because a sync can hang. After a failed sync nobody knows what is on disk, so the
//! store is poisoned: whoever waits is refused, and so is whoever comes later.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::CommitLog;
use crate::checkpoint::Checkpoint;
use crate::env::Clock;
use crate::error::{NotWritable, StoreError};
use crate::health::Health;

/// How waiting for a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// It is on disk.
    Done,
    /// The deadline came first; it may be on disk later.
    TimedOut,
    /// A sync failed, or the store is closing.
    Failed,
}

/// Longest time that the checkpoint on disk lags behind. A kill loses nothing of it, only a power
/// loss, and then the next start reads this much more of the log.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(3);

pub(crate) type Answer = Box<dyn FnOnce(Flushed) + Send>;

struct Waiter {
    deadline: Instant,
    done: Answer,
}

/// Shared by the two threads and everybody who waits.
#[derive(Debug)]
pub(crate) struct Flusher {
    state: Mutex<State>,
    /// The syncing thread waits here.
    work: Condvar,
    /// The thread of deadlines waits here.
    deadlines: Condvar,
    /// Held during a sync.
    turn: Mutex<()>,
}

struct State {
    /// By end offset; the number keeps equal ones apart.
    waiters: BTreeMap<(u64, u64), Waiter>,
    next_number: u64,
    /// When the thread of deadlines looks again.
    next_look: Option<Instant>,
    closed: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "State({} waiters)", self.waiters.len())
    }
}

impl Flusher {
    pub(crate) fn new() -> Flusher {
        Flusher {
            state: Mutex::new(State {
                waiters: BTreeMap::new(),
                next_number: 0,
                next_look: None,
                closed: false,
            }),
            work: Condvar::new(),
            deadlines: Condvar::new(),
            turn: Mutex::new(()),
        }
    }

    /// Calls `done` once, when the log is on disk up to `end`, or at `deadline`, or when it can't
    /// be done; at once if that is known already. Never under a lock.
    pub(crate) fn when_flushed(
        &self,
        log: &CommitLog,
        end: u64,
        deadline: Instant,
        done: impl FnOnce(Flushed) + Send + 'static,
    ) {
        if log.frontiers.flushed() >= end {
            return done(Flushed::Done);
        }
        let mut state = self.state.lock();
        // Asked again under the lock: the flusher moves the frontier before it takes the lock.
        if log.frontiers.flushed() >= end {
            drop(state);
            return done(Flushed::Done);
        }
        if state.closed {
            drop(state);
            return done(Flushed::Failed);
        }
        let number = state.next_number;
        state.next_number += 1;
        state.waiters.insert((end, number), Waiter { deadline, done: Box::new(done) });
        if state.next_look.is_none_or(|look| deadline < look) {
            state.next_look = Some(deadline);
            self.deadlines.notify_one();
        }
        self.work.notify_one();
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiters.len()
    }

    /// The syncing thread: returns after [`Flusher::close`]. Calls `flushed` after each sync.
    pub(crate) fn run(
        &self,
        log: &CommitLog,
        checkpoint: &Checkpoint,
        health: &Health,
        interval: impl Fn() -> Duration,
        flushed: impl Fn(),
    ) {
        let mut checkpoint_synced = Instant::now();
        loop {
            {
                let mut state = self.state.lock();
                let until = Instant::now() + interval();
                while state.waiters.is_empty() && !state.closed {
                    if self.work.wait_until(&mut state, until).timed_out() {
                        break;
                    }
                }
                if state.closed {
                    return;
                }
            }
            if let Err(error) = self.flush(log, checkpoint, health) {
                // Already poisoned and told; the thread has nothing left to do.
                tracing::debug!(%error, "flusher ends");
                return;
            }
            flushed();
            if checkpoint_synced.elapsed() >= CHECKPOINT_INTERVAL {
                checkpoint_synced = Instant::now();
                if let Err(error) = checkpoint.sync() {
                    // Only a longer scan at the next start; the log's own sync decides.
                    tracing::warn!(%error, "checkpoint not synced");
                }
            }
        }
    }

    /// Syncs everything appended so far and answers whom that covers. A failure poisons the store.
    pub(crate) fn flush(
        &self,
        log: &CommitLog,
        checkpoint: &Checkpoint,
        health: &Health,
    ) -> Result<(), StoreError> {
        let turn = self.turn.lock();
        let synced = if health.has(NotWritable::Poisoned) {
            Err(StoreError::Poisoned)
        } else {
            log.sync_appended(checkpoint)
        };
        if let Err(error) = &synced
            && health.raise(NotWritable::Poisoned)
        {
            tracing::error!(%error, "sync failed: no send is acknowledged until a restart");
        }
        drop(turn);
        let answers = match synced {
            Ok(()) => self.covered(log.frontiers.flushed()),
            Err(_) => self.close(),
        };
        let outcome = if synced.is_ok() { Flushed::Done } else { Flushed::Failed };
        answers.into_iter().for_each(|done| done(outcome));
        synced
    }

    fn covered(&self, flushed: u64) -> Vec<Answer> {
        let mut state = self.state.lock();
        let later = state.waiters.split_off(&(flushed.saturating_add(1), 0));
        let covered = std::mem::replace(&mut state.waiters, later);
        covered.into_values().map(|waiter| waiter.done).collect()
    }

    /// Lets nobody wait any more; gives those who do, to be told outside of any lock.
    #[must_use = "whoever waits must be told"]
    pub(crate) fn close(&self) -> Vec<Answer> {
        let mut state = self.state.lock();
        state.closed = true;
        self.work.notify_all();
        self.deadlines.notify_all();
        std::mem::take(&mut state.waiters).into_values().map(|waiter| waiter.done).collect()
    }

    /// The thread of deadlines: returns after [`Flusher::close`].
    pub(crate) fn run_deadlines(&self, clock: &dyn Clock) {
        let mut state = self.state.lock();
        while !state.closed {
            let now = clock.instant();
            let late: Vec<_> = state
                .waiters
                .iter()
                .filter(|(_, waiter)| waiter.deadline <= now)
                .map(|(key, _)| *key)
                .collect();
            if !late.is_empty() {
                let late: Vec<_> =
                    late.iter().filter_map(|key| state.waiters.remove(key)).collect();
                drop(state);
                late.into_iter().for_each(|waiter| (waiter.done)(Flushed::TimedOut));
                state = self.state.lock();
                continue;
            }
            state.next_look = state.waiters.values().map(|waiter| waiter.deadline).min();
            match state.next_look {
                Some(look) => {
                    // A clock that tests move may not match the condition variable's.
                    let pause = look.saturating_duration_since(now);
                    self.deadlines.wait_for(&mut state, pause);
                }
                None => self.deadlines.wait(&mut state),
            }
        }
    }
}

impl CommitLog {
    /// Syncs what is appended and moves the flushed frontier. One caller at a time.
    fn sync_appended(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        // The time first: every record up to it is then below the frontier read after it.
        let newest_ms = self.newest_ms.load(Ordering::Acquire);
        let (from, to) = (self.frontiers.flushed(), self.frontiers.appended());
        if from == to {
            return Ok(());
        }
        for file in self.segments.row().iter() {
            let start = from.max(file.start());
            let end = to.min(file.end());
            if start >= end {
                continue;
            }
            let range = (start - file.start()) as usize..(end - file.start()) as usize;
            file.sync(range).map_err(|error| StoreError::io("sync", file.path(), error))?;
        }
        self.frontiers.flush_to(to);
        checkpoint.log_is_durable(to, newest_ms)
    }

    /// Writes down how far the log is on disk, although nothing was synced. While nobody appends.
    pub(crate) fn mark_durable(&self, checkpoint: &Checkpoint) -> Result<(), StoreError> {
        let newest_ms = self.newest_ms.load(Ordering::Acquire);
        checkpoint.log_is_durable(self.frontiers.flushed(), newest_ms)
    }
}
