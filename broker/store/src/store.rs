//! The door of the store: opens, holds and closes everything. Each operation lives with the part it
//! belongs to; here they are only tied together.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;

use crate::checkpoint::Checkpoint;
use crate::commit_log::recovery::{self, Known};
use crate::commit_log::{Appended, CommitLog, Flushed, Flusher, NewRecord};
use crate::config::{FlushDiskType, StoreConfig};
use crate::consume_queue::flush::Round;
use crate::dispatcher::{Dispatcher, Work, start};
use crate::env::{Env, FileSystem};
use crate::error::{AppendError, NotWritable, StoreError};
use crate::folder::Folder;
use crate::followers::Followers;
use crate::health::Health;
use crate::retention::Retention;
use crate::segments::Segments;
use crate::status::StoreStatus;
use crate::threads::Threads;

/// How long closing waits for the queues to catch up.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);
/// ConsumeQueue files removed in one run of the cleaner, about.
const QUEUE_FILES_PER_RUN: usize = 50;

/// An open store. Cheap to clone. When the last clone goes without [`Store::shutdown`], its threads
/// stop and the files stay as a kill would leave them.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    running: Arc<Running>,
}

/// What every part of an open store may look at. Threads hold this, never the [`Store`].
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ArcSwap<StoreConfig>,
    pub(crate) env: Env,
    pub(crate) log: CommitLog,
    pub(crate) flusher: Flusher,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) health: Health,
    pub(crate) retention: Retention,
    pub(crate) followers: Followers,
    /// SYNC_FLUSH: nothing is shown to consumers before it is on disk.
    pub(crate) only_flushed: bool,
    pub(crate) opened_ms: i64,
    folder: Folder,
}

/// Stops the threads when the last [`Store`] goes.
#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    threads: Threads,
    closed: AtomicBool,
}

impl Store {
    /// Opens the store in the configured folder, or makes it: takes the lock, finds the log's end,
    /// starts the threads. Returns when everything stored can be read and the next append succeeds
    /// at once.
    pub fn open(config: StoreConfig, env: Env) -> Result<Store, StoreError> {
        config.check()?;
        let files = &*env.files;
        let folder = Folder::take(files, &config)?;
        let root = &config.store_path_root_dir;
        let checkpoint = Checkpoint::open(files, &root.join("checkpoint"))?;
        let known = Known { unclean: folder.unclean, marks: checkpoint.marks() };
        let log_folder = config.commit_log_folder();
        let segments = Segments::open(files, &log_folder, config.mapped_file_size_commit_log)?;
        let recovered = recovery::recover(segments, files, &known)?;
        folder.open(files)?;

        let end = recovered.end;
        let flushed = known.marks.durable.unwrap_or(0).min(end);
        let log = CommitLog::start(&env, &config, recovered, flushed, 0)?;
        let health = Health::default();
        let known = start::Known { unclean: known.unclean, marks: known.marks };
        let (followers, dispatcher) = Followers::open(&env, &config, &log, &known, &health)?;
        let shared = Arc::new(Shared {
            opened_ms: env.clock.now_ms(),
            only_flushed: config.flush_disk_type == FlushDiskType::SyncFlush,
            config: ArcSwap::from_pointee(config),
            env,
            log,
            flusher: Flusher::new(),
            checkpoint,
            health,
            retention: Retention::default(),
            followers,
            folder,
        });
        shared.measure_disks();
        shared.settle()?;
        let running = Running {
            shared: Arc::clone(&shared),
            threads: Threads::default(),
            closed: AtomicBool::new(false),
        };
        running.start(dispatcher)?;
        Ok(Store { shared, running: Arc::new(running) })
    }

    /// Stores one record, or nothing. Short enough for an async worker: one lock, no system call.
    pub fn append(&self, record: &NewRecord<'_>) -> Result<Appended, AppendError> {
        self.writable()?;
        let appended = self.shared.log.append(record)?;
        self.shared.ring(record.queue.is_watched());
        Ok(appended)
    }

    /// Stores the record of a message that was accepted before, for which `maxMessageSize` may have
    /// been higher. Else as [`Store::append`].
    pub fn append_again(&self, record: &NewRecord<'_>) -> Result<Appended, AppendError> {
        self.writable()?;
        let appended = self.shared.log.append_again(record)?;
        self.shared.ring(record.queue.is_watched());
        Ok(appended)
    }

    /// Stores all records side by side in one file, or nothing, and adds one entry to `appended`
    /// for each. They may go to different queues.
    pub fn append_batch(
        &self,
        records: &[NewRecord<'_>],
        appended: &mut Vec<Appended>,
    ) -> Result<(), AppendError> {
        self.writable()?;
        self.shared.log.append_batch(records, appended)?;
        self.shared.ring(records.iter().any(|record| record.queue.is_watched()));
        Ok(())
    }

    /// Calls `done` once: when the log is on disk up to `end`, at `deadline`, or when it can't be
    /// done. At once, on this thread, if the outcome is known already; otherwise on a thread of the
    /// store, so it must not block.
    pub fn when_flushed(
        &self,
        end: u64,
        deadline: Instant,
        done: impl FnOnce(Flushed) + Send + 'static,
    ) {
        self.shared.flusher.when_flushed(&self.shared.log, end, deadline, done);
    }

    /// The record that starts at `physical_offset`, whether or not it must come from the disk.
    /// `None` if none starts there, it isn't kept any more, or it is damaged.
    pub fn message_at(&self, physical_offset: u64) -> Option<Bytes> {
        self.shared.log.record_at(physical_offset)
    }

    /// The record of `size` bytes at `physical_offset`; `None` as in [`Store::message_at`].
    pub fn record_at(&self, physical_offset: u64, size: u32) -> Option<Bytes> {
        self.shared.log.record(physical_offset, size)
    }

    /// Start of the oldest record that is kept, in bytes from the log's first.
    pub fn min_offset(&self) -> u64 {
        self.shared.log.min_offset()
    }

    /// End of what is appended.
    pub fn max_offset(&self) -> u64 {
        self.shared.log.frontiers.appended()
    }

    /// End of what fsync has confirmed.
    pub fn flushed(&self) -> u64 {
        self.shared.log.frontiers.flushed()
    }

    /// End of what queues and index hold.
    pub fn dispatched(&self) -> u64 {
        self.shared.log.frontiers.dispatched()
    }

    /// Whether an append would be accepted, or why not.
    pub fn writable(&self) -> Result<(), NotWritable> {
        self.shared.health.writable()
    }

    /// The store's figures now.
    pub fn status(&self) -> StoreStatus {
        self.shared.status()
    }

    /// Removes expired files now, whatever the hour.
    pub fn delete_expired_now(&self) {
        self.shared.retention.delete_now();
    }

    /// Changes a setting while the store runs. `Ok(false)` if `key` isn't the store's or can't be
    /// changed now; an error text if the value is no good.
    pub fn reconfigure(&self, key: &str, value: &str) -> Result<bool, String> {
        let mut config = StoreConfig::clone(&self.shared.config.load());
        if !config.set_at_run_time(key, value)? {
            return Ok(false);
        }
        config.check().map_err(|error| error.to_string())?;
        self.shared.log.max_message_size.store(config.max_message_size, Ordering::Relaxed);
        self.shared.config.store(Arc::new(config));
        self.shared.measure_disks();
        Ok(true)
    }

    /// The file system that state tables write through.
    pub fn files(&self) -> &Arc<dyn FileSystem> {
        &self.shared.env.files
    }

    /// The settings now.
    pub fn config(&self) -> Arc<StoreConfig> {
        self.shared.config.load_full()
    }

    /// Closes the store: refuses appends, lets the queues catch up, flushes everything, stops the
    /// threads. Whoever still waits for a flush is answered. Calling it again does nothing.
    pub fn shutdown(&self) {
        self.running.shutdown();
    }
}

impl Shared {
    /// Makes what recovery found durable and marks it so, that the next start needn't read it
    /// again.
    fn settle(&self) -> Result<(), StoreError> {
        self.flusher.flush(&self.log, &self.checkpoint, &self.health)?;
        self.log.mark_durable(&self.checkpoint)?;
        if self.log.frontiers.appended() == 0 {
            // An empty store has nothing to lose, and its first send is waiting.
            return Ok(());
        }
        self.checkpoint.sync()
    }

    fn measure_disks(&self) {
        self.retention.measure(&self.env, &self.config.load(), &self.health);
    }

    /// Records became visible; under SYNC_FLUSH they do when they are flushed.
    fn ring(&self, watched: bool) {
        if !self.only_flushed {
            self.followers.wake.ring(watched);
        }
    }

    /// What the flusher of the queues works on.
    fn round(&self) -> Round<'_> {
        Round {
            frontiers: &self.log.frontiers,
            index: &self.followers.index,
            checkpoint: &self.checkpoint,
        }
    }

    fn dispatch(&self, dispatcher: Dispatcher) {
        dispatcher.run(&Work {
            log: &self.log,
            followers: &self.followers,
            health: &self.health,
            only_flushed: self.only_flushed,
            indexes: &|| self.config.load().message_index_enable,
        });
    }

    /// One run of the cleaner.
    fn clean(&self) {
        self.measure_disks();
        let config = self.config.load_full();
        if self.retention.clean_log(&self.env, &config, &self.log) {
            self.measure_disks();
        }
        let pause = Duration::from_millis(config.delete_consume_queue_files_interval);
        // Not so many that the commit log's disk would wait long for its turn.
        let removed = Cell::new(0);
        let go_on = |files: usize| {
            removed.set(removed.get() + files);
            self.retention.pause(pause.saturating_mul(files as u32))
                && removed.get() < QUEUE_FILES_PER_RUN
        };
        if let Err(error) = self.followers.clean(self.log.min_offset(), go_on) {
            self.retention.tell(|| tracing::error!(%error, "queues can't be cleaned"));
        }
        self.followers.release_idle();
    }

    fn status(&self) -> StoreStatus {
        let frontiers = &self.log.frontiers;
        // Followers first, so that none seems to be ahead.
        let (flushed, dispatched) = (frontiers.flushed(), frontiers.dispatched());
        let min_offset = self.log.min_offset();
        let mut status = StoreStatus {
            opened_ms: self.opened_ms,
            put_locked_ms: self.log.figures.locked_for_ms(self.env.clock.now_ms()),
            min_offset,
            max_offset: frontiers.appended(),
            flushed,
            dispatched,
            flush_waiting: self.flusher.waiting(),
            earliest_ms: self.log.store_timestamp(min_offset).unwrap_or(-1),
            commit_log_disk_ratio: self.retention.commit_log_ratio(),
            consume_queue_disk_ratio: self.retention.consume_queue_ratio(),
            damaged_reads: self.log.damaged.load(Ordering::Relaxed),
            not_writable: self.health.writable().err(),
            ..StoreStatus::default()
        };
        self.log.figures.fill(&mut status);
        status
    }
}

impl Running {
    fn start(&self, dispatcher: Dispatcher) -> Result<(), StoreError> {
        self.thread("store-files", |shared| {
            shared.log.maker.run(|error| {
                if error.kind() == std::io::ErrorKind::StorageFull {
                    shared.retention.disk_ran_full();
                }
            });
        })?;
        self.thread("store-flush", |shared| {
            let interval =
                || Duration::from_millis(shared.config.load().flush_interval_commit_log.max(1));
            let (log, checkpoint) = (&shared.log, &shared.checkpoint);
            shared.flusher.run(log, checkpoint, &shared.health, interval, || {
                if shared.only_flushed {
                    shared.followers.wake.ring(true);
                }
            });
        })?;
        self.thread("store-deadlines", |shared| {
            shared.flusher.run_deadlines(&*shared.env.clock);
        })?;
        self.thread("store-dispatch", |shared| shared.dispatch(dispatcher))?;
        self.thread("store-queues", |shared| {
            let interval =
                || Duration::from_millis(shared.config.load().flush_interval_consume_queue.max(1));
            shared.followers.flusher.run(&shared.round(), interval);
        })?;
        self.thread("store-clean", |shared| {
            let interval =
                || Duration::from_millis(shared.config.load().clean_resource_interval.max(1));
            shared.retention.run(interval, || shared.clean());
        })
    }

    /// Starts a thread; should it die, nothing is acknowledged any more.
    fn thread(
        &self,
        name: &'static str,
        run: impl FnOnce(&Shared) + Send + 'static,
    ) -> Result<(), StoreError> {
        let (shared, left) = (Arc::clone(&self.shared), Arc::clone(&self.shared));
        let died = move || {
            tracing::error!(
                name,
                "a thread of the store died: no send is acknowledged until a restart"
            );
            left.health.raise(NotWritable::Poisoned);
            left.flusher.close().into_iter().for_each(|done| done(Flushed::Failed));
        };
        self.threads.start(name, move || run(&shared), died)
    }

    fn shutdown(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = &self.shared;
        shared.health.raise(NotWritable::ShuttingDown);
        shared.log.close();
        let flushed = shared.flusher.flush(&shared.log, &shared.checkpoint, &shared.health);
        self.wait_for_dispatcher();
        self.stop_threads();
        let flushed = flushed.and_then(|()| shared.followers.flusher.sync_all(&shared.round()));
        for file in shared.log.maker.unused() {
            if let Err(error) = shared.env.files.remove_file(file.path()) {
                tracing::warn!(path = %file.path().display(), %error, "unused file not removed");
            }
        }
        let frontiers = &shared.log.frontiers;
        let closed = flushed.and_then(|()| shared.checkpoint.sync()).and_then(|()| {
            if frontiers.dispatched() < frontiers.appended() {
                tracing::warn!("queues have not caught up: the next start completes them");
                return Ok(());
            }
            shared.folder.close(&*shared.env.files)
        });
        match closed {
            Ok(()) => tracing::info!(end = frontiers.appended(), "store closed"),
            Err(error) => {
                tracing::error!(%error, "store not closed in order; the next start recovers it")
            }
        }
    }

    /// Until the queues hold everything, or can't be written.
    fn wait_for_dispatcher(&self) {
        let (frontiers, health) = (&self.shared.log.frontiers, &self.shared.health);
        let deadline = Instant::now() + CATCH_UP_MAX;
        self.shared.followers.wake.ring(true);
        while frontiers.dispatched() < frontiers.flushed().min(frontiers.appended())
            && !health.has(NotWritable::QueueError)
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop_threads(&self) {
        self.shared.retention.stop();
        self.shared.followers.wake.stop();
        self.shared.followers.flusher.stop();
        self.shared.log.maker.stop();
        self.shared.flusher.close().into_iter().for_each(|done| done(Flushed::Failed));
        self.threads.join();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.stop_threads();
        }
    }
}

mod queues;
#[cfg(test)]
pub(crate) mod tests;
