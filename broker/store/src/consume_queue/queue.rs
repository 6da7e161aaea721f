//! The handle of one queue, shared by everyone who sends to it, reads it or waits for it: the
//! counter that numbers appended messages, the frontiers that readers see, the watch flag, and the
//! rules by which the dispatcher adds units. Where a message's record is found through a unit is
//! [`crate::read`]'s business.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;

use super::row::Row;
use super::{Slot, Unit};
use crate::wake::Wake;

/// A gap in the indexes longer than this many files is not filled with blanks: the queue starts
/// over behind it.
const GAP_FILES_MAX: i64 = 3;

/// One queue of a topic. Handles are shared and stay valid when the topic is deleted: the queue is
/// then empty and starts again at offset 0.
pub struct Queue {
    topic: Arc<str>,
    id: i32,
    row: Row,
    /// The first offset that can be read. At most the row's end, except for moments of change.
    min: AtomicI64,
    /// Somebody waits for the next unit.
    watched: AtomicBool,
    /// A notice of this queue lies with [`crate::arrivals`] and was not taken yet.
    announced: AtomicBool,
    /// Holds units that the disk may not have; the flusher knows of it.
    dirty: AtomicBool,
    writer: Mutex<Writer>,
    wake: Arc<Wake>,
    next: Counter,
}

/// The appender's counter, on a cache line of its own because the dispatcher changes its neighbours
/// from another core.
#[repr(align(64))]
struct Counter(AtomicI64);

/// What only the one who changes the units needs.
#[derive(Debug, Default)]
struct Writer {
    /// Log offset after the record of the last unit; what starts below was entered before.
    last_end: u64,
    /// Records below this log offset are those of a deleted topic.
    dead_below: u64,
}

/// What became of a record that should enter its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered {
    /// The unit is written.
    Written,
    /// It was entered before, or its topic was deleted after it was stored.
    Skipped,
    /// Its queue offset is taken by an older record: the log contradicts itself.
    Refused,
}

impl Queue {
    /// A queue over `row`. `last_end` is the log offset after the record of its last unit,
    /// `dead_below` the log offset below which its topic's records are dead.
    pub(crate) fn new(
        topic: Arc<str>,
        id: i32,
        row: Row,
        last_end: u64,
        dead_below: u64,
        wake: Arc<Wake>,
    ) -> Queue {
        let next = row.end();
        let min = row.start().unwrap_or(0);
        Queue {
            topic,
            id,
            row,
            min: AtomicI64::new(min),
            watched: AtomicBool::new(false),
            announced: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            writer: Mutex::new(Writer { last_end, dead_below }),
            wake,
            next: Counter(AtomicI64::new(next)),
        }
    }

    /// A queue that belongs to no store; it only numbers messages.
    #[cfg(test)]
    pub(crate) fn without_files(topic: &str) -> Queue {
        let row = Row::new(crate::env::os().files, std::path::PathBuf::new(), 2000, &[], 0);
        Queue::new(Arc::from(topic), 0, row, 0, 0, Arc::default())
    }

    /// The topic's name.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The queue's number inside the topic.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The first offset that can be read; equal to [`Queue::max_offset`] if there is none.
    pub fn min_offset(&self) -> i64 {
        self.min.load(Ordering::Acquire).min(self.max_offset())
    }

    /// The offset after the last message that can be read.
    pub fn max_offset(&self) -> i64 {
        self.row.end()
    }

    /// The offset that the next appended message gets: at least [`Queue::max_offset`].
    pub fn next_offset(&self) -> i64 {
        self.next.0.load(Ordering::Acquire)
    }

    /// True if it has, had or is about to get a message since its topic exists.
    pub(crate) fn is_used(&self) -> bool {
        self.next_offset() > 0 || self.row.start().is_some()
    }

    /// Asks for one notice when the queue gets a message. Whoever calls this must look at
    /// [`Queue::max_offset`] again afterwards: what came before the call is not announced.
    pub fn watch(&self) {
        self.watched.store(true, Ordering::SeqCst);
        if self.next_offset() > self.max_offset() {
            // Something is on its way, and whoever appended it saw no watcher.
            self.wake.ring(true);
        }
    }

    /// True while a notice is asked for.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Takes the request for a notice; true if there was one that should be announced.
    pub(crate) fn take_watch(&self) -> bool {
        self.is_watched()
            && self.watched.swap(false, Ordering::SeqCst)
            && !self.announced.swap(true, Ordering::SeqCst)
    }

    /// The notice reached its receiver.
    pub(crate) fn notice_taken(&self) {
        self.announced.store(false, Ordering::SeqCst);
    }

    /// Takes `count` offsets from the counter, or gives them back if it is negative. Only under the
    /// put lock: taken when nothing can fail any more, given back under the same hold.
    pub(crate) fn take(&self, count: i64) {
        self.next.0.store(self.next.0.load(Ordering::Relaxed) + count, Ordering::Release);
    }

    /// Recovery saw that the log's last message of this queue has the offset before `next`.
    pub(crate) fn next_is(&self, next: i64) {
        self.next.0.store(next, Ordering::Release);
    }

    /// The log offset after the record of the last unit.
    pub(crate) fn last_end(&self) -> u64 {
        self.writer.lock().last_end
    }

    /// True if the record at `physical_offset` was deleted with its topic.
    pub(crate) fn is_dead(&self, physical_offset: u64) -> bool {
        physical_offset < self.writer.lock().dead_below
    }

    /// The files.
    pub(crate) fn row(&self) -> &Row {
        &self.row
    }

    /// True if the flusher must be told of this queue; from then on it counts as told.
    pub(crate) fn become_dirty(&self) -> bool {
        !self.dirty.load(Ordering::Relaxed) && !self.dirty.swap(true, Ordering::AcqRel)
    }

    /// To be called before the units are synced, so that later ones are told again.
    pub(crate) fn become_clean(&self) {
        self.dirty.store(false, Ordering::Release);
    }

    /// Enters a record. An error means that nothing was entered and the call can be repeated.
    ///
    /// Units stand where their index says, always: a record that was entered before is skipped,
    /// indexes whose records are lost become blank units. Index 0 in a queue that has units means
    /// that the topic was deleted and made anew: the old units go.
    pub(crate) fn enter(&self, unit: &Unit) -> io::Result<Entered> {
        let mut writer = self.writer.lock();
        if unit.physical_offset < writer.dead_below.max(writer.last_end) {
            return Ok(Entered::Skipped);
        }
        let end = self.row.end();
        if unit.index < end {
            if unit.index != 0 {
                return Ok(Entered::Refused);
            }
            tracing::info!(topic = %self.topic, queue = self.id, "queue starts anew at 0");
            self.empty(&mut writer)?;
        } else if unit.index > end && self.row.start().is_some() {
            let missing = unit.index - end;
            tracing::warn!(
                topic = %self.topic, queue = self.id, from = end, to = unit.index,
                "the commit log lacks messages of this queue"
            );
            if missing > GAP_FILES_MAX.saturating_mul(self.row.units_per_file()) {
                self.empty(&mut writer)?;
            } else {
                self.row.fill_to(unit.index)?;
            }
        }
        if self.row.start().is_none() {
            self.min.store(unit.index, Ordering::Release);
            self.row.begin_at(unit.index)?;
        }
        self.row.push(unit)?;
        writer.last_end = unit.end();
        Ok(Entered::Written)
    }

    fn empty(&self, writer: &mut Writer) -> io::Result<()> {
        self.row.clear()?;
        writer.last_end = 0;
        self.min.store(0, Ordering::Release);
        Ok(())
    }

    /// Forgets everything below the log offset `dead_below` and numbers new messages from 0. Only
    /// under the put lock; the files go with [`Queue::remove_files`].
    pub(crate) fn restart_numbers(&self, dead_below: u64) {
        self.writer.lock().dead_below = dead_below;
        self.next.0.store(0, Ordering::Release);
    }

    /// Removes the files, unless they hold units of records at or above the log offset
    /// `dead_below`, that is: of the topic made anew.
    pub(crate) fn remove_files(&self) -> io::Result<()> {
        let mut writer = self.writer.lock();
        if writer.last_end > writer.dead_below {
            return Ok(());
        }
        self.empty(&mut writer)
    }

    /// Moves the first readable offset up to the first message whose record starts at or after
    /// `log_start`; to the end if there is none.
    pub(crate) fn correct_min(&self, log_start: u64) -> io::Result<()> {
        let from = self.min.load(Ordering::Acquire).max(self.row.start().unwrap_or(0));
        let to = self.row.end();
        let first = self.partition(from, to, |unit| unit.physical_offset < log_start)?;
        self.min.store(first, Ordering::Release);
        Ok(())
    }

    /// The first message in `from..to` whose unit is not `before`; `to` if all are. Units that are
    /// `before` must come first. Blank ones count with their successor and are never the answer.
    pub(crate) fn partition(
        &self,
        from: i64,
        to: i64,
        mut before: impl FnMut(&Unit) -> bool,
    ) -> io::Result<i64> {
        let (mut low, mut high, mut answer) = (from, to, to);
        // The usual answer first: nothing is before.
        let mut middle = low;
        while low < high {
            match self.first_unit(middle, high)? {
                Some(unit) if before(&unit) => low = unit.index + 1,
                Some(unit) => (high, answer) = (middle, unit.index),
                None => high = middle,
            }
            middle = low + (high - low) / 2;
        }
        Ok(answer)
    }

    fn first_unit(&self, from: i64, to: i64) -> io::Result<Option<Unit>> {
        let mut found = None;
        self.row.scan(from, to, |_, slot| {
            found = slot.unit();
            found.is_none()
        })?;
        Ok(found)
    }

    /// Removes the files that hold only units of records before `log_start`, which
    /// [`Queue::correct_min`] was told of before. Returns how many files went.
    pub(crate) fn remove_expired(&self, log_start: u64) -> io::Result<usize> {
        self.row.remove_expired(|slot| match slot {
            Slot::Unit(unit) => unit.physical_offset < log_start,
            Slot::Blank => true,
            Slot::Empty => false,
        })
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Queue")
            .field("topic", &self.topic)
            .field("id", &self.id)
            .field("min", &self.min_offset())
            .field("max", &self.max_offset())
            .field("next", &self.next_offset())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
