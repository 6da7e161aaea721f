//! One index file, as RocketMQ 4.9 writes it: a header of 40 bytes, hash slots of 4 bytes, entries
//! of 20. A slot holds the number of its newest entry, each entry the number of the one before it
//! in the same slot. Entries are numbered from 1 in the order of the log. The file has its full
//! length at once; slots get their blocks when it is made, entries in steps ahead of the writer.
//! One thread writes, anyone reads; which keys a message has is decided in [`super`].

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use crate::env::FileSystem;
use crate::mapped_file::MappedWords;

const HEADER_LEN: usize = 40;
const SLOT_LEN: usize = 4;
const ENTRY_LEN: usize = 20;
/// What the entries' allocation grows by: 52,000 entries.
const ALLOCATE_STEP: usize = 1 << 20;
/// Newest entries that must be reachable from their slots, or the slots are built anew. Enough to
/// meet nearly each page of slots that the disk can have lost.
const ENTRIES_TRIED: u32 = 100_000;

const BEGIN_TIMESTAMP: usize = 0;
const END_TIMESTAMP: usize = 8;
const BEGIN_PHYSICAL: usize = 16;
const END_PHYSICAL: usize = 24;
const USED_SLOTS: usize = 32;
const COUNT: usize = 36;

/// Sizes of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Hash slots.
    pub(crate) slots: u32,
    /// Entries, of which the first is never used.
    pub(crate) entries: u32,
}

impl Shape {
    /// Bytes of a file.
    pub(crate) fn len(&self) -> u64 {
        self.entry_at(self.entries) as u64
    }

    fn slot_at(&self, slot: u32) -> usize {
        HEADER_LEN + slot as usize * SLOT_LEN
    }

    fn entry_at(&self, entry: u32) -> usize {
        HEADER_LEN + self.slots as usize * SLOT_LEN + entry as usize * ENTRY_LEN
    }

    fn slot_of(&self, hash: u32) -> usize {
        self.slot_at(hash % self.slots)
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Hash of topic and key; never negative as an i32.
    pub(crate) hash: u32,
    /// Where the record starts in the log.
    pub(crate) physical_offset: u64,
    /// Seconds after the file's first record was stored.
    seconds: i32,
    /// Number of the older entry in the same slot; 0 for none.
    previous: u32,
}

/// An open index file. The header's values are kept beside the mapping, so that readers see each as
/// a whole.
#[derive(Debug)]
pub(crate) struct IndexFile {
    words: MappedWords,
    shape: Shape,
    begin_timestamp: AtomicI64,
    end_timestamp: AtomicI64,
    begin_physical: AtomicI64,
    end_physical: AtomicI64,
    used_slots: AtomicU32,
    /// Number of the next entry.
    count: AtomicU32,
}

impl IndexFile {
    /// Makes a new, empty file. Its range starts where `previous` ends, as in RocketMQ.
    pub(crate) fn create(
        files: &dyn FileSystem,
        path: PathBuf,
        shape: Shape,
        previous: Option<&IndexFile>,
    ) -> io::Result<IndexFile> {
        let words = MappedWords::create(files, path, shape.len(), shape.entry_at(0) as u64)?;
        let physical = previous.map_or(0, |file| file.end_physical.load(Ordering::Acquire));
        let timestamp = previous.map_or(0, |file| file.end_timestamp.load(Ordering::Acquire));
        let file = IndexFile {
            words,
            shape,
            begin_timestamp: AtomicI64::new(timestamp),
            end_timestamp: AtomicI64::new(timestamp),
            begin_physical: AtomicI64::new(physical),
            end_physical: AtomicI64::new(physical),
            used_slots: AtomicU32::new(0),
            count: AtomicU32::new(1),
        };
        file.write_header();
        Ok(file)
    }

    /// Opens an existing file of the right length.
    pub(crate) fn open(
        files: &dyn FileSystem,
        path: PathBuf,
        shape: Shape,
    ) -> io::Result<IndexFile> {
        let words = MappedWords::open(files, path)?;
        let word = |at| words.load(at).unwrap_or(0);
        let long = |at| (i64::from(word(at)) << 32) | i64::from(word(at + 4));
        let count = i32::from_ne_bytes(word(COUNT).to_ne_bytes()).max(1) as u32;
        Ok(IndexFile {
            begin_timestamp: AtomicI64::new(long(BEGIN_TIMESTAMP)),
            end_timestamp: AtomicI64::new(long(END_TIMESTAMP)),
            begin_physical: AtomicI64::new(long(BEGIN_PHYSICAL)),
            end_physical: AtomicI64::new(long(END_PHYSICAL)),
            used_slots: AtomicU32::new(word(USED_SLOTS)),
            count: AtomicU32::new(count.min(shape.entries)),
            words,
            shape,
        })
    }

    /// Where the file lies.
    pub(crate) fn path(&self) -> &Path {
        self.words.path()
    }

    /// True if no entry fits any more.
    pub(crate) fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.shape.entries
    }

    /// True if there is no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) <= 1
    }

    /// When the newest indexed message was stored, in milliseconds since 1970.
    pub(crate) fn end_timestamp(&self) -> i64 {
        self.end_timestamp.load(Ordering::Acquire)
    }

    /// The log offset of the last record that was looked at: records before it are indexed as far
    /// as they have keys.
    pub(crate) fn end_physical(&self) -> u64 {
        self.end_physical.load(Ordering::Acquire).max(0) as u64
    }

    /// Whether a message stored between `begin` and `end` can be in here.
    pub(crate) fn overlaps(&self, begin: i64, end: i64) -> bool {
        !self.is_empty()
            && self.begin_timestamp.load(Ordering::Acquire) <= end
            && self.end_timestamp() >= begin
    }

    /// Adds an entry; the file must not be full. On failure nothing is changed.
    pub(crate) fn put(
        &self,
        hash: u32,
        physical_offset: u64,
        store_timestamp: i64,
    ) -> io::Result<()> {
        let number = self.count.load(Ordering::Relaxed);
        let at = self.shape.entry_at(number);
        let end = (at + ENTRY_LEN).next_multiple_of(ALLOCATE_STEP);
        self.words.allocate(end.min(self.words.len()))?;
        if number == 1 {
            self.begin_timestamp.store(store_timestamp, Ordering::Release);
            self.begin_physical.store(physical_offset as i64, Ordering::Release);
        }
        let begin = self.begin_timestamp.load(Ordering::Relaxed);
        let seconds = if begin > 0 { (store_timestamp - begin) / 1000 } else { 0 };
        let seconds = seconds.clamp(0, i64::from(i32::MAX)) as i32;
        let slot = self.shape.slot_of(hash);
        let previous = self.head(slot, number);
        self.write_entry(at, &Entry { hash, physical_offset, seconds, previous });
        if previous == 0 {
            self.used_slots.fetch_add(1, Ordering::Relaxed);
        }
        self.end_timestamp.store(store_timestamp, Ordering::Release);
        self.end_physical.store(physical_offset as i64, Ordering::Release);
        self.count.store(number + 1, Ordering::Release);
        // Counted before it is linked: a kill in between leaves an entry that nobody finds, and its
        // record is looked at again because it is the last one. The other way round the slot would
        // lead to the next entry, whoever's it is.
        self.write_header();
        self.store(slot, number);
        Ok(())
    }

    /// Notes that the records up to the one at `physical_offset` were looked at.
    pub(crate) fn seen(&self, physical_offset: u64) -> io::Result<()> {
        self.words.allocate(HEADER_LEN)?;
        self.end_physical.fetch_max(physical_offset as i64, Ordering::AcqRel);
        self.write_header();
        Ok(())
    }

    /// Shows `each` the log offsets of the entries with `hash`, newest first, whose messages can
    /// have been stored between `begin` and `end` (entries know their time to the second), until it
    /// returns false.
    pub(crate) fn walk(&self, hash: u32, begin: i64, end: i64, mut each: impl FnMut(u64) -> bool) {
        let from = self.begin_timestamp.load(Ordering::Acquire);
        let mut number = self.head(self.shape.slot_of(hash), self.count.load(Ordering::Acquire));
        while number > 0
            && let Some(entry) = self.entry(number)
        {
            let stored = from.saturating_add(i64::from(entry.seconds) * 1000);
            if entry.seconds < 0 || stored.saturating_add(999) < begin {
                return;
            }
            if entry.hash == hash && stored <= end && !each(entry.physical_offset) {
                return;
            }
            // Chains lead back; anything else is damage.
            number = if entry.previous < number { entry.previous } else { 0 };
        }
    }

    /// Cuts entries of records that the log doesn't hold (from `log_end` on) and everything from
    /// the first entry on that the disk lost. Returns false if nothing is left and the file should
    /// go.
    pub(crate) fn repair(&self, log_end: u64) -> io::Result<bool> {
        let count = self.count.load(Ordering::Relaxed);
        let mut good = 1;
        let mut last = None;
        while good < count
            && let Some(entry) = self.entry(good)
        {
            let before = last.map_or(0, |entry: Entry| entry.physical_offset);
            let lost = entry == Entry { hash: 0, physical_offset: 0, seconds: 0, previous: 0 };
            if lost || entry.physical_offset < before || entry.physical_offset >= log_end {
                break;
            }
            last = Some(entry);
            good += 1;
        }
        let Some(last) = last else { return Ok(false) };
        if good < count || !self.newest_are_reachable(count) {
            self.cut(good, &last)?;
        }
        if self.end_physical() >= log_end {
            self.words.allocate(HEADER_LEN)?;
            self.end_physical.store(last.physical_offset as i64, Ordering::Release);
            self.write_header();
        }
        Ok(true)
    }

    fn newest_are_reachable(&self, count: u32) -> bool {
        let from = count.saturating_sub(ENTRIES_TRIED).max(1);
        (from..count).all(|number| {
            self.entry(number)
                .is_some_and(|entry| self.head(self.shape.slot_of(entry.hash), count) >= number)
        })
    }

    /// Keeps the entries before number `count`, of which `last` is the last, and builds the slots
    /// from them.
    fn cut(&self, count: u32, last: &Entry) -> io::Result<()> {
        tracing::warn!(
            path = %self.path().display(), entries = count - 1,
            "index file is cut to its good entries and its slots are built anew"
        );
        self.words.allocate(self.shape.entry_at(count))?;
        for slot in 0..self.shape.slots {
            self.store(self.shape.slot_at(slot), 0);
        }
        let mut used = 0;
        for number in 1..count {
            let Some(mut entry) = self.entry(number) else { break };
            let slot = self.shape.slot_of(entry.hash);
            entry.previous = self.head(slot, number);
            used += u32::from(entry.previous == 0);
            self.write_entry(self.shape.entry_at(number), &entry);
            self.store(slot, number);
        }
        self.used_slots.store(used, Ordering::Release);
        self.count.store(count, Ordering::Release);
        self.end_physical.store(last.physical_offset as i64, Ordering::Release);
        let begin = self.begin_timestamp.load(Ordering::Relaxed);
        let end = begin.saturating_add(i64::from(last.seconds) * 1000 + 999);
        self.end_timestamp.fetch_min(end, Ordering::AcqRel);
        self.write_header();
        Ok(())
    }

    /// Makes everything durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.words.sync(0..self.shape.entry_at(self.count.load(Ordering::Acquire)))
    }

    /// The newest entry of a slot, 0 if it has none below number `count`.
    fn head(&self, slot: usize, count: u32) -> u32 {
        self.words.load(slot).filter(|number| *number < count).unwrap_or(0)
    }

    fn entry(&self, number: u32) -> Option<Entry> {
        if number == 0 || number >= self.count.load(Ordering::Acquire) {
            return None;
        }
        let at = self.shape.entry_at(number);
        let high = u64::from(self.words.load(at + 4)?);
        let low = u64::from(self.words.load(at + 8)?);
        Some(Entry {
            hash: self.words.load(at)?,
            physical_offset: (high << 32) | low,
            seconds: i32::from_ne_bytes(self.words.load(at + 12)?.to_ne_bytes()),
            previous: self.words.load(at + 16)?,
        })
    }

    fn write_entry(&self, at: usize, entry: &Entry) {
        self.store(at, entry.hash);
        self.store(at + 4, (entry.physical_offset >> 32) as u32);
        self.store(at + 8, entry.physical_offset as u32);
        self.store(at + 12, u32::from_ne_bytes(entry.seconds.to_ne_bytes()));
        self.store(at + 16, entry.previous);
    }

    fn write_header(&self) {
        for (at, value) in [
            (BEGIN_TIMESTAMP, &self.begin_timestamp),
            (END_TIMESTAMP, &self.end_timestamp),
            (BEGIN_PHYSICAL, &self.begin_physical),
            (END_PHYSICAL, &self.end_physical),
        ] {
            let value = value.load(Ordering::Relaxed) as u64;
            self.store(at, (value >> 32) as u32);
            self.store(at + 4, value as u32);
        }
        self.store(USED_SLOTS, self.used_slots.load(Ordering::Relaxed));
        self.store(COUNT, self.count.load(Ordering::Relaxed));
    }

    fn store(&self, at: usize, value: u32) {
        let stored = self.words.store(at, value);
        debug_assert!(stored, "word {at} lies in an allocated part of the file");
    }
}

#[cfg(test)]
mod tests;
