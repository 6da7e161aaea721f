//! Follows the log and enters each record into the ConsumeQueue of its queue and into the index, on
//! one thread, behind the appender. Tells those who watch a queue. Nothing acknowledged is lost on
//! the way: a unit that can't be written is tried until it can, and meanwhile the store refuses
//! writes. Where dispatching begins at start is found in [`start`].

pub(crate) mod start;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_protocol::properties::{Properties, name as property};
use broker_protocol::record::RecordView;
use broker_protocol::{name, sys_flag, tags};

use crate::commit_log::{CommitLog, LogEntry};
use crate::consume_queue::queue::Entered;
use crate::consume_queue::table::can_be_folder;
use crate::consume_queue::{Queue, Unit};
use crate::delay::DelayLevels;
use crate::error::NotWritable;
use crate::followers::Followers;
use crate::health::Health;
use crate::index::Progress;
use crate::wake::Pace;

/// Records entered before the frontier moves and watchers are told.
const BATCH: u64 = 64;
/// Records by which a lagging index catches up before the queues get their turn again.
const INDEX_BATCH: u64 = 1024;
/// First pause after a unit could not be written; it doubles with each further failure.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause between two tries.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// What the dispatcher works on, from whoever runs it.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) log: &'a CommitLog,
    pub(crate) followers: &'a Followers,
    pub(crate) health: &'a Health,
    /// Readers and queues go no further than the flushed frontier.
    pub(crate) only_flushed: bool,
    /// The index is wanted.
    pub(crate) indexes: &'a dyn Fn() -> bool,
}

/// The dispatcher's own state.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    /// Records that start before this log offset are in their queues.
    position: u64,
    index: Progress,
    /// Queues to announce.
    arrived: Vec<Arc<Queue>>,
    /// Pause before the next try after a failure.
    retry_pause: Duration,
    /// Records that could not be given a place in a queue.
    left_out: u64,
}

/// What was found at an offset of the log.
enum Step<R> {
    /// A record; the next entry is at this offset.
    Record(R, u64),
    /// No record; go on at this offset.
    Skip(u64),
    /// Nothing more.
    End,
}

impl Work<'_> {
    /// The log offset up to which records may be seen.
    fn limit(&self) -> u64 {
        let frontiers = &self.log.frontiers;
        if self.only_flushed { frontiers.flushed() } else { frontiers.appended() }
    }
}

impl Dispatcher {
    /// A dispatcher that enters records from the log offset `position` on into their queues. The
    /// index knows itself where it stands; after a clean stop it has all keys of its last record.
    pub(crate) fn starting(work: &Work<'_>, position: u64, clean: bool) -> Dispatcher {
        let log_start = work.log.min_offset();
        let index = match work.followers.index.position() {
            None => position,
            Some(last) if clean => match look(work.log, last, |_| ()) {
                Step::Record((), next) | Step::Skip(next) => next,
                Step::End => position,
            },
            Some(last) => last.max(log_start),
        };
        Dispatcher {
            position,
            index: Progress::at(index),
            arrived: Vec::new(),
            retry_pause: RETRY_PAUSE_MIN,
            left_out: 0,
        }
    }

    /// The thread: returns after [`crate::wake::Wake::stop`].
    pub(crate) fn run(mut self, work: &Work<'_>) {
        let wake = &work.followers.wake;
        let mut pace = Pace::new(Instant::now());
        while !wake.is_stopping() {
            match self.step(work, work.limit()) {
                Ok(0) => {
                    let now = Instant::now();
                    pace.count(0, now);
                    self.follow_with_index(work, now);
                    let lag = self.index_lag(work, now);
                    wake.rest(&pace, lag, || work.limit() > self.position);
                }
                Ok(entered) => {
                    let now = Instant::now();
                    pace.count(entered, now);
                    self.recovered(work);
                    if self.index.position < self.position {
                        self.follow_with_index(work, now);
                    }
                }
                Err(error) => self.failed(work, &error),
            }
        }
        self.note_index(work);
    }

    /// Enters everything below `to`; for the store's start. An error means that a unit can't be
    /// written.
    pub(crate) fn catch_up(&mut self, work: &Work<'_>, to: u64) -> io::Result<()> {
        while self.position < to && self.step(work, to)? > 0 {}
        Ok(())
    }

    /// Enters a batch of what lies below `limit`; returns how many entries of the log it passed.
    fn step(&mut self, work: &Work<'_>, limit: u64) -> io::Result<u64> {
        let mut passed = 0;
        let mut failure = None;
        let indexes = (work.indexes)();
        while passed < BATCH && self.position < limit {
            let at = self.position;
            let in_step = self.index.position >= at;
            let step = look(work.log, at, |record| {
                self.enter(work, record)?;
                if indexes && in_step && self.index.position <= at {
                    return Ok(enter_index(work, record));
                }
                Ok(Ok(()))
            });
            let next = match step {
                Step::End => break,
                Step::Skip(next) => next,
                Step::Record(Ok(indexed), next) => {
                    if let Err(error) = indexed {
                        self.index_failed(&error);
                        self.position = next;
                        passed += 1;
                        continue;
                    }
                    next
                }
                Step::Record(Err(error), _) => {
                    failure = Some(error);
                    break;
                }
            };
            // A lagging index stays where it is, unless nobody wants it.
            if in_step || !indexes {
                self.index.position = self.index.position.max(next);
                self.index.seen = self.index.seen.max(at);
            }
            self.position = next;
            passed += 1;
        }
        if passed > 0 {
            work.log.frontiers.dispatch_to(self.position);
            work.followers.arrivals.announce(&mut self.arrived);
        }
        // What was entered before the failure counts; the failure comes again with the next step.
        match failure {
            Some(error) if passed == 0 => Err(error),
            _ => Ok(passed),
        }
    }

    /// Enters one record into its queue.
    fn enter(&mut self, work: &Work<'_>, record: &RecordView<'_>) -> io::Result<()> {
        if !sys_flag::is_visible(record.sys_flag) {
            return Ok(());
        }
        if !can_be_folder(record.topic) || record.queue_id < 0 || record.queue_offset < 0 {
            self.leave_out(record, "it names no possible queue");
            return Ok(());
        }
        let queue = work.followers.table.queue(record.topic, record.queue_id);
        let unit = Unit {
            index: record.queue_offset,
            physical_offset: record.physical_offset as u64,
            size: record.bytes.len() as u32,
            tags_code: tags_code(&work.followers.delays, record),
        };
        match queue.enter(&unit)? {
            Entered::Skipped => return Ok(()),
            Entered::Refused => {
                self.leave_out(record, "its place in the queue is taken by an older one");
                return Ok(());
            }
            Entered::Written => {}
        }
        work.followers.flusher.wrote(&queue, record.store_timestamp);
        if queue.take_watch() {
            self.arrived.push(queue);
        }
        Ok(())
    }

    fn leave_out(&mut self, record: &RecordView<'_>, reason: &str) {
        self.left_out += 1;
        // There may be as many as the log has records.
        if self.left_out.is_power_of_two() {
            tracing::error!(
                offset = record.physical_offset, topic = ?record.topic, queue = record.queue_id,
                index = record.queue_offset, count = self.left_out, reason,
                "a record is left out of its queue"
            );
        }
    }

    fn failed(&mut self, work: &Work<'_>, error: &io::Error) {
        if work.health.raise(NotWritable::QueueError) {
            tracing::error!(
                %error, offset = self.position,
                "a queue can't be written: sends are refused until it can"
            );
        }
        work.followers.wake.pause(self.retry_pause);
        self.retry_pause = (self.retry_pause * 2).min(RETRY_PAUSE_MAX);
    }

    fn recovered(&mut self, work: &Work<'_>) {
        if work.health.has(NotWritable::QueueError) && work.health.clear(NotWritable::QueueError) {
            tracing::info!("queues can be written again: sends are accepted");
        }
        self.retry_pause = RETRY_PAUSE_MIN;
    }

    /// Lets an index that fell behind catch up a little, and notes how far it looked.
    fn follow_with_index(&mut self, work: &Work<'_>, now: Instant) {
        self.note_index(work);
        if !(work.indexes)() {
            self.index.position = self.position;
            return;
        }
        let mut passed = 0;
        while self.index.position < self.position && passed < INDEX_BATCH && self.index.may_try(now)
        {
            let at = self.index.position;
            match look(work.log, at, |record| enter_index(work, record)) {
                Step::End => return,
                Step::Record(Err(error), _) => return self.index_failed(&error),
                Step::Record(Ok(()), next) => {
                    self.index.succeeded();
                    self.index.seen = at;
                    self.index.position = next;
                }
                Step::Skip(next) => self.index.position = next,
            }
            passed += 1;
        }
    }

    fn index_failed(&mut self, error: &io::Error) {
        let pause = self.index.failed(Instant::now());
        tracing::error!(
            %error, pause_s = pause.as_secs(), offset = self.index.position,
            "the index can't be written; messages flow on, keys are entered later"
        );
    }

    /// How long the dispatcher may sleep because the index waits for its turn.
    fn index_lag(&self, work: &Work<'_>, now: Instant) -> Option<Duration> {
        let lags = self.index.position < self.position && (work.indexes)();
        lags.then(|| self.index.pause_left(now))
    }

    fn note_index(&mut self, work: &Work<'_>) {
        if self.index.noted == self.index.seen {
            return;
        }
        self.index.noted = self.index.seen;
        if let Err(error) = work.followers.index.seen(self.index.seen) {
            tracing::warn!(%error, "the index can't note how far it has looked");
        }
    }
}

/// Looks at what stands at `offset` and runs `with` if it is a record.
fn look<R>(log: &CommitLog, offset: u64, with: impl FnOnce(&RecordView<'_>) -> R) -> Step<R> {
    let looked = log.with_structure(offset, |entry| match entry {
        LogEntry::Record(record) => Step::Record(with(&record), offset + record.bytes.len() as u64),
        LogEntry::Blank(next) => Step::Skip(next),
        LogEntry::End => Step::End,
        LogEntry::Damaged(reason) => {
            log.report(offset, reason);
            // Nobody knows where the next record starts, except at the next file.
            let len = log.segments.file_len();
            Step::Skip((offset / len + 1).saturating_mul(len).min(log.frontiers.appended()))
        }
    });
    // Dropped by retention: go on with what is left.
    looked.unwrap_or_else(|| Step::Skip(log.min_offset().max(offset + 1)))
}

fn enter_index(work: &Work<'_>, record: &RecordView<'_>) -> io::Result<()> {
    if sys_flag::transaction(record.sys_flag) == sys_flag::TRANSACTION_ROLLBACK {
        return Ok(());
    }
    let offset = record.physical_offset as u64;
    work.followers.index.enter(record.topic, record.properties, offset, record.store_timestamp)
}

/// The tags code of the record's unit; in the delay topic, when the message is due.
pub(crate) fn tags_code(delays: &DelayLevels, record: &RecordView<'_>) -> i64 {
    if record.topic == name::SCHEDULE_TOPIC
        && let Some(delay) = level(record.properties).and_then(|level| delays.delay_ms(level))
    {
        return record.store_timestamp.saturating_add(delay);
    }
    record.properties.get(property::TAGS).map_or(0, tags::tags_code)
}

fn level(properties: Properties<'_>) -> Option<i32> {
    properties.get(property::DELAY_TIME_LEVEL)?.parse().ok()
}

#[cfg(test)]
mod tests;
