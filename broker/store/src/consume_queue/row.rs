//! The files of one queue: a row of equal length without a gap, each named by the position of its
//! first byte. A file has its full length from the start, as RocketMQ expects, but gets its blocks
//! in steps ahead of the writer and is mapped only while somebody uses it, so that thousands of
//! small queues cost little disk and no memory. What the units mean, and which may be written, is
//! decided in [`super::queue`]; the dispatcher is the only writer.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::{BLANK, Slot, UNIT_LEN, Unit};
use crate::env::FileSystem;
use crate::mapped_file::MappedFile;
use crate::segments::file_name;

/// The least that a file's allocation grows by: 819 messages of a queue that may stay small.
const ALLOCATE_MIN: u64 = 16 << 10;
/// The most that it grows by; between the two it doubles.
const ALLOCATE_MAX: u64 = 1 << 20;
/// Units copied out at a time by [`Row::scan`]: a full answer to a pull.
const SCAN_STEP: usize = 32;
/// Bytes of newest units that count as cached while their file is mapped.
const HOT_BYTES: u64 = 1 << 20;

/// The files of one queue.
#[derive(Debug)]
pub(crate) struct Row {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    file_len: u64,
    parts: RwLock<VecDeque<Part>>,
    /// Position after the last unit. Moved by the dispatcher alone, after the unit is in the file.
    end: AtomicU64,
    /// A file was made whose name may not be on disk yet.
    unsynced_names: AtomicBool,
}

/// One file of the row.
#[derive(Debug)]
struct Part {
    start: u64,
    mapped: Option<Arc<MappedFile>>,
    /// Touched since the last [`Row::release_idle`].
    used: AtomicBool,
    /// Bytes from the front that are known to be on disk.
    synced: AtomicUsize,
}

impl Part {
    fn new(start: u64, mapped: Option<Arc<MappedFile>>, synced: u64) -> Part {
        Part {
            start,
            mapped,
            used: AtomicBool::new(true),
            synced: AtomicUsize::new(synced as usize),
        }
    }
}

impl Row {
    /// A row of the files that start at `starts`, in order and without a gap, holding units up to
    /// position `end`. Everything there counts as synced.
    pub(crate) fn new(
        files: Arc<dyn FileSystem>,
        folder: PathBuf,
        file_len: u64,
        starts: &[u64],
        end: u64,
    ) -> Row {
        let parts = starts
            .iter()
            .map(|start| Part::new(*start, None, end.saturating_sub(*start).min(file_len)))
            .collect();
        Row {
            files,
            folder,
            file_len,
            parts: RwLock::new(parts),
            end: AtomicU64::new(end),
            unsynced_names: AtomicBool::new(false),
        }
    }

    /// Where the files lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Units of one file.
    pub(crate) fn units_per_file(&self) -> i64 {
        (self.file_len / UNIT_LEN) as i64
    }

    /// Index after the last unit.
    pub(crate) fn end(&self) -> i64 {
        (self.end.load(Ordering::Acquire) / UNIT_LEN) as i64
    }

    /// Index of the first unit that the files have room for; `None` for an empty row.
    pub(crate) fn start(&self) -> Option<i64> {
        self.parts.read().front().map(|part| (part.start / UNIT_LEN) as i64)
    }

    /// What stands at `index`.
    pub(crate) fn slot(&self, index: i64) -> io::Result<Slot> {
        let mut slot = [Slot::Empty];
        self.copy(index, &mut slot)?;
        Ok(slot[0])
    }

    /// Fills `into` with the slots from `from` on, as far as they are written; returns how many
    /// that are. Never fewer than asked for because of a file's end.
    pub(crate) fn copy(&self, from: i64, into: &mut [Slot]) -> io::Result<usize> {
        let from = from.max(0);
        let wanted = i64::try_from(into.len()).unwrap_or(i64::MAX);
        let to = from.saturating_add(wanted).min(self.end());
        let mut copied = 0;
        while from + (copied as i64) < to {
            let index = from + copied as i64;
            let position = index as u64 * UNIT_LEN;
            let parts = self.parts.read();
            let Some(at) = self.part_of(&parts, position) else { break };
            let part = &parts[at];
            let Some(mapped) = &part.mapped else {
                drop(parts);
                let mut parts = self.parts.write();
                if let Some(at) = self.part_of(&parts, position) {
                    self.map(&mut parts, at)?;
                }
                continue;
            };
            part.used.store(true, Ordering::Relaxed);
            let last = to.min(((part.start + self.file_len) / UNIT_LEN) as i64);
            let offset = (position - part.start) as usize;
            let len = (last - index) as usize * UNIT_LEN as usize;
            // The units may have been cleared since `to` was read.
            let Some(bytes) = mapped.bytes(offset, len) else { break };
            let place = into.iter_mut().skip(copied);
            for (unit, slot) in bytes.chunks_exact(UNIT_LEN as usize).zip(place) {
                *slot = Slot::decode(from + copied as i64, unit);
                copied += 1;
            }
        }
        Ok(copied)
    }

    /// True if the slots from `from` on, a few dozen of them, can be read without waiting for the
    /// disk: the newest, because they were just written, and what the page cache holds.
    pub(crate) fn is_hot(&self, from: i64) -> bool {
        let position = from.max(0) as u64 * UNIT_LEN;
        let parts = self.parts.read();
        let Some(part) = self.part_of(&parts, position).and_then(|at| parts.get(at)) else {
            return true;
        };
        let Some(mapped) = &part.mapped else { return false };
        let newest = self.end.load(Ordering::Acquire).saturating_sub(position) <= HOT_BYTES;
        let offset = (position - part.start) as usize;
        newest || mapped.is_cached(offset, SCAN_STEP * UNIT_LEN as usize)
    }

    /// Shows `each` the slots in `from..to`, as far as they are written, in order, until it returns
    /// false. No lock is held meanwhile.
    pub(crate) fn scan(
        &self,
        from: i64,
        to: i64,
        mut each: impl FnMut(i64, Slot) -> bool,
    ) -> io::Result<()> {
        let mut slots = [Slot::Empty; SCAN_STEP];
        let mut index = from.max(0);
        while index < to {
            let wanted = usize::try_from(to - index).unwrap_or(usize::MAX).min(SCAN_STEP);
            let copied = self.copy(index, &mut slots[..wanted])?;
            for slot in &slots[..copied] {
                if !each(index, *slot) {
                    return Ok(());
                }
                index += 1;
            }
            if copied < wanted {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes the unit at the end of the row. On failure nothing is changed and the call can be
    /// repeated.
    pub(crate) fn push(&self, unit: &Unit) -> io::Result<()> {
        debug_assert_eq!(unit.index, self.end(), "units are written in order");
        self.push_bytes(&unit.encode())
    }

    /// Fills the indexes from the end up to `index` with blank units.
    pub(crate) fn fill_to(&self, index: i64) -> io::Result<()> {
        while self.end() < index {
            self.push_bytes(&BLANK)?;
        }
        Ok(())
    }

    /// Starts an empty row at `index`: the file that holds it is made and filled up to there with
    /// blank units. On failure the call can be repeated.
    pub(crate) fn begin_at(&self, index: i64) -> io::Result<()> {
        if self.parts.read().is_empty() {
            let position = index as u64 * UNIT_LEN;
            self.end.store(position - position % self.file_len, Ordering::Release);
        }
        self.fill_to(index)
    }

    fn push_bytes(&self, unit: &[u8; UNIT_LEN as usize]) -> io::Result<()> {
        let position = self.end.load(Ordering::Relaxed);
        let mapped = self.writable_at(position)?;
        let offset = (position % self.file_len) as usize;
        mapped.write(offset, unit.len(), |place| place.copy_from_slice(unit));
        mapped.publish(offset + unit.len());
        self.end.store(position + UNIT_LEN, Ordering::Release);
        Ok(())
    }

    /// The file that holds `position`, made, mapped and allocated as needed.
    fn writable_at(&self, position: u64) -> io::Result<Arc<MappedFile>> {
        let offset = position % self.file_len;
        {
            let parts = self.parts.read();
            if let Some(at) = self.part_of(&parts, position)
                && let Some(mapped) = &parts[at].mapped
                && mapped.allocated() as u64 >= offset + UNIT_LEN
            {
                parts[at].used.store(true, Ordering::Relaxed);
                return Ok(Arc::clone(mapped));
            }
        }
        let step = offset.next_power_of_two().clamp(ALLOCATE_MIN, ALLOCATE_MAX);
        let to = ((offset + UNIT_LEN).next_multiple_of(step)).min(self.file_len);
        let mut parts = self.parts.write();
        if let Some(at) = self.part_of(&parts, position) {
            let mapped = self.map(&mut parts, at)?;
            mapped.allocate(to as usize)?;
            return Ok(mapped);
        }
        let start = position - offset;
        self.files.create_folder(&self.folder)?;
        let path = self.folder.join(file_name(start));
        let made = MappedFile::create(self.files.as_ref(), path, start, self.file_len, to)?;
        let made = Arc::new(made);
        self.unsynced_names.store(true, Ordering::Release);
        parts.push_back(Part::new(start, Some(Arc::clone(&made)), 0));
        Ok(made)
    }

    fn part_of(&self, parts: &VecDeque<Part>, position: u64) -> Option<usize> {
        let first = parts.front()?.start;
        let at = usize::try_from(position.checked_sub(first)? / self.file_len).ok()?;
        (at < parts.len()).then_some(at)
    }

    fn map(&self, parts: &mut VecDeque<Part>, at: usize) -> io::Result<Arc<MappedFile>> {
        let part = &mut parts[at];
        if let Some(mapped) = &part.mapped {
            return Ok(Arc::clone(mapped));
        }
        let path = self.folder.join(file_name(part.start));
        let mut mapped = MappedFile::open(self.files.as_ref(), path, part.start)?;
        if mapped.len() as u64 != self.file_len {
            return Err(io::Error::other("the file's length was changed from outside"));
        }
        let end = self.end.load(Ordering::Acquire);
        mapped.cut_clean(end.saturating_sub(part.start).min(self.file_len) as usize)?;
        let mapped = Arc::new(mapped);
        part.mapped = Some(Arc::clone(&mapped));
        part.used.store(true, Ordering::Relaxed);
        Ok(mapped)
    }

    /// Makes every unit written before the call durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let mut dirty = Vec::new();
        for (at, part) in self.parts.read().iter().enumerate() {
            let synced = part.synced.load(Ordering::Relaxed);
            if let Some(mapped) = &part.mapped
                && mapped.published() > synced
            {
                dirty.push((at, part.start, synced, Arc::clone(mapped)));
            }
        }
        for (_, start, synced, mapped) in dirty {
            let published = mapped.published();
            mapped.sync(synced..published)?;
            let parts = self.parts.read();
            // The row may have been cleared or shortened meanwhile.
            if let Some(at) = self.part_of(&parts, start)
                && parts[at].mapped.as_ref().is_some_and(|now| Arc::ptr_eq(now, &mapped))
            {
                parts[at].synced.fetch_max(published, Ordering::Relaxed);
            }
        }
        if self.unsynced_names.swap(false, Ordering::AcqRel)
            && let Err(error) = self.sync_names()
        {
            self.unsynced_names.store(true, Ordering::Release);
            return Err(error);
        }
        Ok(())
    }

    /// Bytes written but not known to be on disk.
    pub(crate) fn unsynced(&self) -> usize {
        let parts = self.parts.read();
        let of = |part: &Part| {
            let published = part.mapped.as_ref().map_or(0, |mapped| mapped.published());
            published.saturating_sub(part.synced.load(Ordering::Relaxed))
        };
        parts.iter().map(of).sum()
    }

    /// The names of files, of the queue's folder and of the topic's.
    fn sync_names(&self) -> io::Result<()> {
        for folder in self.folder.ancestors().take(3) {
            match self.files.sync_folder(folder) {
                // Deleted meanwhile: there is no name left to keep.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Unmaps what nobody touched since the last call and the disk already has.
    pub(crate) fn release_idle(&self) {
        for part in self.parts.write().iter_mut() {
            let used = std::mem::replace(part.used.get_mut(), false);
            let synced = *part.synced.get_mut();
            if !used && part.mapped.as_ref().is_some_and(|mapped| mapped.published() <= synced) {
                part.mapped = None;
            }
        }
    }

    /// Removes files from the front, never the last one, as long as `expired` says so of their last
    /// slot. Returns how many went.
    pub(crate) fn remove_expired(&self, expired: impl Fn(Slot) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        loop {
            let (start, count) = {
                let parts = self.parts.read();
                (parts.front().map(|part| part.start), parts.len())
            };
            let Some(start) = start.filter(|_| count > 1) else { return Ok(removed) };
            let last = ((start + self.file_len) / UNIT_LEN) as i64 - 1;
            if !expired(self.slot(last)?) {
                return Ok(removed);
            }
            let mut parts = self.parts.write();
            if parts.front().is_none_or(|part| part.start != start) || parts.len() < 2 {
                return Ok(removed);
            }
            self.files.remove_file(&self.folder.join(file_name(start)))?;
            parts.pop_front();
            removed += 1;
        }
    }

    /// Removes all files and their folder; the row is then as new. Fails as soon as a file can't be
    /// removed, the rest staying in place.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let mut parts = self.parts.write();
        while let Some(part) = parts.back() {
            match self.files.remove_file(&self.folder.join(file_name(part.start))) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.end.fetch_min(part.start, Ordering::AcqRel);
            parts.pop_back();
        }
        self.end.store(0, Ordering::Release);
        match self.files.remove_folder(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // What else lies in the folder is none of ours and stays.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests;
