//! Finds out, when the store opens, which units of a queue's files can be relied on, and cuts the
//! rest. What the log holds beyond them is entered again by the dispatcher. A file is only read
//! here, not mapped, so a store of many queues opens fast. No file is removed because of missing
//! metadata: only what lies after the last good unit goes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Slot, UNIT_LEN, Unit};
use crate::env::{File, FileSystem};
use crate::error::StoreError;
use crate::segments::file_name;

/// Files from the back that are read unit by unit after an unclean stop, as in RocketMQ.
const FILES_READ: usize = 3;
/// Units read at a time.
const UNITS_READ: u64 = 3_200;

/// What is known of the log when queues are recovered.
pub(crate) struct LogFacts<'a> {
    /// The store was closed in order, so units were written without a hole.
    pub(crate) clean: bool,
    /// Where the log ends: records beyond do not exist.
    pub(crate) log_end: u64,
    /// Whether the log holds, where the unit says, the record of this queue and index. Records that
    /// the log has already dropped count as held.
    pub(crate) holds: &'a dyn Fn(&Unit) -> bool,
}

/// The usable part of a queue's files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Where each file starts, in order, without a gap.
    pub(crate) starts: Vec<u64>,
    /// Position after the last good unit.
    pub(crate) end: u64,
    /// Log offset after the record of the last good unit.
    pub(crate) last_end: u64,
}

/// Reads the files in `folder`, of `file_len` bytes each, and cuts them after the last good unit.
pub(crate) fn recover(
    files: &Arc<dyn FileSystem>,
    folder: &Path,
    file_len: u64,
    facts: &LogFacts<'_>,
) -> Result<Recovered, StoreError> {
    let starts = list(files, folder, file_len)?;
    let mut reader = Reader { files, folder, file_len, starts, open: None };
    let read = reader.find_end(facts);
    let (written, end, last) = read.map_err(|error| StoreError::io("read", folder, error))?;
    if end < written {
        tracing::warn!(
            folder = %folder.display(), from = end / UNIT_LEN, to = written / UNIT_LEN,
            "units without a record are cut"
        );
    }
    let starts = reader.cut(end, end < written || !facts.clean)?;
    Ok(Recovered { starts, end, last_end: last.map_or(0, |unit| unit.end()) })
}

fn list(files: &Arc<dyn FileSystem>, folder: &Path, file_len: u64) -> Result<Vec<u64>, StoreError> {
    let mut entries = match files.list(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list", folder, error)),
    };
    entries.retain(|entry| !entry.is_folder);
    if let Some(last) = entries.pop_if(|entry| entry.len == 0) {
        let path = folder.join(&last.name);
        tracing::warn!(path = %path.display(), "empty file, left by a kill, removed");
        files.remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
    }
    let mut starts: Vec<u64> = Vec::with_capacity(entries.len());
    for entry in entries {
        let path = folder.join(&entry.name);
        let start = match entry.name.parse::<u64>() {
            Ok(start) if entry.name.len() == 20 => start,
            _ => return Err(StoreError::StrangeFile { path }),
        };
        if entry.len != file_len {
            return Err(StoreError::WrongSize { path, expected: file_len, found: entry.len });
        }
        let expected = starts.last().map_or(start - start % file_len, |last| last + file_len);
        if start != expected {
            return Err(StoreError::Gap { path, expected: folder.join(file_name(expected)) });
        }
        starts.push(start);
    }
    Ok(starts)
}

/// Reads units out of unmapped files.
struct Reader<'a> {
    files: &'a Arc<dyn FileSystem>,
    folder: &'a Path,
    file_len: u64,
    starts: Vec<u64>,
    /// The file read last.
    open: Option<(u64, Arc<dyn File>)>,
}

impl Reader<'_> {
    /// The position after the last unit that was written, that after the last good one, and the
    /// last good one.
    fn find_end(&mut self, facts: &LogFacts<'_>) -> io::Result<(u64, u64, Option<Unit>)> {
        let Some(first) = self.starts.first().copied() else { return Ok((0, 0, None)) };
        let written = if facts.clean { self.end_by_search()? } else { self.end_by_reading()? };
        let mut end = self.end_within_log(first, written, facts.log_end)?;
        loop {
            let last = self.last_unit(end)?;
            match last {
                Some(unit) if !(facts.holds)(&unit) => end = unit.index as u64 * UNIT_LEN,
                last => return Ok((written, end, last)),
            }
        }
    }

    /// Where the units end, trusting that they were written one after the other.
    fn end_by_search(&mut self) -> io::Result<u64> {
        for start in self.starts.clone().into_iter().rev() {
            if self.slot(start)? == Slot::Empty {
                continue;
            }
            let (mut low, mut high) = (1, self.file_len / UNIT_LEN);
            while low < high {
                let middle = low + (high - low) / 2;
                match self.slot(start + middle * UNIT_LEN)? {
                    Slot::Empty => high = middle,
                    Slot::Unit(_) | Slot::Blank => low = middle + 1,
                }
            }
            return Ok(start + low * UNIT_LEN);
        }
        Ok(self.starts.first().copied().unwrap_or(0))
    }

    /// Where the units end, reading each of the last files. A unit must follow its predecessor in
    /// the log too: what an earlier truncation left behind does not.
    fn end_by_reading(&mut self) -> io::Result<u64> {
        let from = self.starts.len().saturating_sub(FILES_READ);
        let mut position = self.starts.get(from).copied().unwrap_or(0);
        let mut end = 0;
        let mut bytes = vec![0; (UNITS_READ * UNIT_LEN) as usize];
        for start in self.starts.clone().into_iter().skip(from) {
            let file = self.file(start)?;
            while position < start + self.file_len {
                let len = (start + self.file_len - position).min(UNITS_READ * UNIT_LEN) as usize;
                let Some(chunk) = bytes.get_mut(..len) else { break };
                file.read_at(chunk, position - start)?;
                for unit in chunk.chunks_exact(UNIT_LEN as usize) {
                    match Slot::decode((position / UNIT_LEN) as i64, unit) {
                        Slot::Empty => return Ok(position),
                        Slot::Blank => {}
                        Slot::Unit(unit) if unit.physical_offset < end => return Ok(position),
                        Slot::Unit(unit) => end = unit.end(),
                    }
                    position += UNIT_LEN;
                }
            }
        }
        Ok(position)
    }

    /// `end`, without the units whose records end beyond the log's end.
    fn end_within_log(&mut self, first: u64, end: u64, log_end: u64) -> io::Result<u64> {
        let (mut low, mut high) = (first / UNIT_LEN, end / UNIT_LEN);
        // Nearly always the last unit is good.
        let mut middle = high.saturating_sub(1).max(low);
        while low < high {
            let unit = self.last_unit((middle + 1) * UNIT_LEN)?;
            if unit.is_none_or(|unit| unit.end() <= log_end) {
                low = middle + 1;
            } else {
                high = middle;
            }
            middle = low + (high - low) / 2;
        }
        Ok(low * UNIT_LEN)
    }

    /// The last unit before position `end` that is not blank.
    fn last_unit(&mut self, end: u64) -> io::Result<Option<Unit>> {
        let Some(first) = self.starts.first().copied() else { return Ok(None) };
        let mut position = end;
        while position > first {
            position -= UNIT_LEN;
            if let Slot::Unit(unit) = self.slot(position)? {
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    fn slot(&mut self, position: u64) -> io::Result<Slot> {
        let start = position - position % self.file_len;
        let mut unit = [0; UNIT_LEN as usize];
        self.file(start)?.read_at(&mut unit, position - start)?;
        Ok(Slot::decode((position / UNIT_LEN) as i64, &unit))
    }

    fn file(&mut self, start: u64) -> io::Result<Arc<dyn File>> {
        match &self.open {
            Some((open, file)) if *open == start => Ok(Arc::clone(file)),
            _ => {
                let file = self.files.open(&self.path(start))?;
                self.open = Some((start, Arc::clone(&file)));
                Ok(file)
            }
        }
    }

    fn path(&self, start: u64) -> PathBuf {
        self.folder.join(file_name(start))
    }

    /// Removes the files after `end`, but never the first, whose name says at which index the queue
    /// stands. If `zero`, makes what follows `end` in its file zeros, so that no bad unit can be
    /// taken for a good one later.
    fn cut(mut self, end: u64, zero: bool) -> Result<Vec<u64>, StoreError> {
        self.open = None;
        while let Some(last) = self.starts.last().copied()
            && last >= end
            && self.starts.len() > 1
        {
            let path = self.path(last);
            self.files
                .remove_file(&path)
                .map_err(|error| StoreError::io("remove", &path, error))?;
            self.starts.pop();
        }
        if let Some(last) = self.starts.last().copied()
            && zero
            && end < last + self.file_len
        {
            let path = self.path(last);
            self.files
                .open(&path)
                // Cutting and growing again costs no block; writing zeros into the holes would.
                .and_then(|file| file.resize(end - last).and_then(|()| file.resize(self.file_len)))
                .map_err(|error| StoreError::io("cut", &path, error))?;
        }
        Ok(self.starts)
    }
}

#[cfg(test)]
mod tests;
