//! Everything that follows the log: queues, index, their flusher, and the bell and notices of the
//! dispatcher. Opened together after the log, in the order in which one needs the other; cleaned
//! together when the log drops files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::arrivals::Arrivals;
use crate::commit_log::{CommitLog, LogEntry};
use crate::config::StoreConfig;
use crate::consume_queue::Unit;
use crate::consume_queue::flush::QueueFlusher;
use crate::consume_queue::table::{Table, TableFacts};
use crate::delay::DelayLevels;
use crate::deleted_topics::DeletedTopics;
use crate::dispatcher::start::{self, Known};
use crate::dispatcher::{Dispatcher, Work};
use crate::env::Env;
use crate::error::StoreError;
use crate::health::Health;
use crate::index::{Index, Shape};
use crate::wake::Wake;

/// How often entering the log's tail at start is tried before the store gives up.
const CATCH_UP_TRIES: u32 = 20;
/// Pause between two such tries.
const CATCH_UP_PAUSE: Duration = Duration::from_millis(100);

/// The followers, shared by the dispatcher, readers and the cleaner.
#[derive(Debug)]
pub(crate) struct Followers {
    pub(crate) table: Table,
    pub(crate) index: Index,
    pub(crate) flusher: QueueFlusher,
    pub(crate) wake: Arc<Wake>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) delays: DelayLevels,
    /// Where the log started when expired units were last looked for.
    cleaned_to: AtomicU64,
}

impl Followers {
    /// Opens queues and index, completes the queues from the log, and returns the dispatcher that
    /// goes on from its end. The index may still lag; the dispatcher sees to it.
    pub(crate) fn open(
        env: &Env,
        config: &StoreConfig,
        log: &CommitLog,
        known: &Known,
        health: &Health,
    ) -> Result<(Followers, Dispatcher), StoreError> {
        let delays = DelayLevels::parse(&config.message_delay_level)
            .map_err(|reason| StoreError::Config { key: "messageDelayLevel", reason })?;
        let wake = Arc::new(Wake::default());
        let table = open_table(env, config, log, known, &wake)?;
        let position = start::find(log, &table, known);
        log.check_structure(position)?;
        log.frontiers.dispatch_to(position);
        let shape = Shape { slots: config.max_hash_slot_num, entries: config.max_index_num };
        let (files, clock) = (Arc::clone(&env.files), Arc::clone(&env.clock));
        let log_end = log.frontiers.appended();
        let clean = !known.unclean;
        let index = Index::open(files, clock, config.index_folder(), shape, log_end, clean)?;
        let followers = Followers {
            table,
            index,
            flusher: QueueFlusher::new(known.marks.logics_ms),
            wake,
            arrivals: Arc::default(),
            delays,
            cleaned_to: AtomicU64::new(log.min_offset()),
        };
        let indexes = || config.message_index_enable;
        let work =
            Work { log, followers: &followers, health, only_flushed: false, indexes: &indexes };
        let dispatcher = catch_up(&work, position, clean)?;
        followers.table.forget_unused();
        Ok((followers, dispatcher))
    }

    /// Moves the queues' first readable offsets up to what the log still holds, then removes files
    /// of queues and index that only point to what it has dropped. `go_on` is asked after each
    /// queue that lost files, with their number; if it says no, the rest is left for the next call.
    pub(crate) fn clean(
        &self,
        log_start: u64,
        go_on: impl Fn(usize) -> bool,
    ) -> Result<(), StoreError> {
        if self.cleaned_to.load(Ordering::Acquire) == log_start {
            return Ok(());
        }
        let queues = self.table.all();
        // All of these first: nobody should be led to what is gone while files are removed slowly.
        for queue in &queues {
            let done = queue.correct_min(log_start);
            done.map_err(|error| StoreError::io("read", queue.row().folder(), error))?;
        }
        let mut removed = 0;
        for queue in queues {
            let done = queue.remove_expired(log_start);
            let gone =
                done.map_err(|error| StoreError::io("clean", queue.row().folder(), error))?;
            removed += gone;
            if gone > 0 && !go_on(gone) {
                return Ok(());
            }
        }
        let done = self.index.remove_expired(log_start);
        let indexes = done.map_err(|error| StoreError::io("clean", self.index.folder(), error))?;
        let forgotten = self.table.deleted().forget_below(log_start);
        forgotten.map_err(|error| StoreError::io("write", self.table.deleted().path(), error))?;
        self.cleaned_to.store(log_start, Ordering::Release);
        if removed + indexes > 0 {
            tracing::info!(queue_files = removed, index_files = indexes, "expired files removed");
        }
        Ok(())
    }

    /// Lets go of mappings that nobody used since the last call, and of queues without files.
    pub(crate) fn release_idle(&self) {
        for queue in self.table.all() {
            queue.row().release_idle();
        }
        self.table.forget_unused();
    }
}

fn open_table(
    env: &Env,
    config: &StoreConfig,
    log: &CommitLog,
    known: &Known,
    wake: &Arc<Wake>,
) -> Result<Table, StoreError> {
    let files = Arc::clone(&env.files);
    let marks_path = config.config_folder().join("deletedTopics.json");
    let deleted = DeletedTopics::open(Arc::clone(&files), marks_path)?;
    let facts = TableFacts {
        clean: !known.unclean,
        log_end: log.frontiers.appended(),
        holds: &|topic, id, unit| holds(log, topic, id, unit),
    };
    let folder = config.consume_queue_folder();
    let file_len = config.consume_queue_file_len();
    let wake = Arc::clone(wake);
    let table = Table::open(files, folder, file_len, deleted, wake, &facts)?;
    for queue in table.all() {
        let corrected = queue.correct_min(log.min_offset());
        corrected.map_err(|error| StoreError::io("read", queue.row().folder(), error))?;
    }
    Ok(table)
}

/// Whether the log holds the record that the unit names. What it has dropped counts as held.
fn holds(log: &CommitLog, topic: &str, id: i32, unit: &Unit) -> bool {
    log.with_structure(unit.physical_offset, |entry| match entry {
        LogEntry::Record(record) => {
            record.topic == topic
                && record.queue_id == id
                && record.queue_offset == unit.index
                && record.bytes.len() == unit.size as usize
        }
        LogEntry::Blank(_) | LogEntry::End | LogEntry::Damaged(_) => false,
    })
    .unwrap_or(unit.physical_offset < log.min_offset())
}

fn catch_up(work: &Work<'_>, position: u64, clean: bool) -> Result<Dispatcher, StoreError> {
    let end = work.log.frontiers.appended();
    let mut dispatcher = Dispatcher::starting(work, position, clean);
    let mut tries = 0;
    while let Err(error) = dispatcher.catch_up(work, end) {
        tries += 1;
        if tries == CATCH_UP_TRIES {
            let folder = work.followers.table.folder();
            return Err(StoreError::io("complete the queues in", folder, error));
        }
        thread::sleep(CATCH_UP_PAUSE);
    }
    Ok(dispatcher)
}
