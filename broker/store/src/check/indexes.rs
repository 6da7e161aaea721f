//! The index files, compared with the records: entries stand in the log's order, so one look at
//! each is enough. A record without entries is no problem, because indexing can be switched off.

use std::path::PathBuf;

use broker_protocol::record::RecordView;

use super::{Report, list};
use crate::config::StoreConfig;
use crate::env::FileSystem;
use crate::error::StoreError;
use crate::index::{Shape, key_hashes};

/// Bytes of an entry.
const ENTRY_LEN: usize = 20;
/// Bytes of the header; the number of entries is its last word.
const HEADER_LEN: usize = 40;
/// Entries read at a time.
const PAGE_ENTRIES: u32 = 1000;

/// All index files, looked through once.
pub(super) struct Indexes {
    /// Path and number of entries, oldest first.
    parts: Vec<(PathBuf, u32)>,
    first_entry_at: u64,
    part: usize,
    number: u32,
    page: Vec<u8>,
    page_first: u32,
    next: Option<Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    part: usize,
    number: u32,
    hash: u32,
    physical_offset: u64,
}

impl Indexes {
    pub(super) fn open(
        files: &dyn FileSystem,
        config: &StoreConfig,
        report: &mut Report,
    ) -> Result<Indexes, StoreError> {
        let shape = Shape { slots: config.max_hash_slot_num, entries: config.max_index_num };
        let folder = config.index_folder();
        let mut parts = Vec::new();
        for (name, len) in list(files, &folder, false)? {
            let path = folder.join(name);
            if len != shape.len() {
                let what = format!(
                    "{len} bytes long, not {}: not checked (maxHashSlotNum, maxIndexNum)",
                    shape.len()
                );
                report.problem(&path, 0, what);
                continue;
            }
            let mut header = [0; HEADER_LEN];
            let read = files.open_to_read(&path).and_then(|file| file.read_at(&mut header, 0));
            read.map_err(|error| StoreError::io("read", &path, error))?;
            let count = word(&header, HEADER_LEN - 4);
            if count > shape.entries {
                report.problem(&path, HEADER_LEN as u64 - 4, format!("claims {count} entries"));
            }
            report.index_files += 1;
            parts.push((path, count.clamp(1, shape.entries)));
        }
        let mut indexes = Indexes {
            parts,
            first_entry_at: (HEADER_LEN + shape.slots as usize * 4) as u64,
            part: 0,
            number: 0,
            page: Vec::new(),
            page_first: 0,
            next: None,
        };
        indexes.next = indexes.advance(files)?;
        Ok(indexes)
    }

    /// Compares the entries of a record with its keys.
    pub(super) fn compare(
        &mut self,
        files: &dyn FileSystem,
        record: &RecordView<'_>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let offset = record.physical_offset as u64;
        while let Some(entry) = self.next.filter(|entry| entry.physical_offset <= offset) {
            if entry.physical_offset == offset {
                if key_hashes(record.topic, record.properties).any(|hash| hash == entry.hash) {
                    report.index_entries += 1;
                } else {
                    self.problem(report, entry, "is for a key that the record doesn't bear");
                }
            } else if entry.physical_offset >= report.log_start {
                self.problem(report, entry, "points to no record");
            }
            self.next = self.advance(files)?;
        }
        Ok(())
    }

    /// What is left points behind the last record.
    pub(super) fn finish(
        &mut self,
        files: &dyn FileSystem,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        while let Some(entry) = self.next {
            self.problem(report, entry, "points behind the last record");
            self.next = self.advance(files)?;
        }
        Ok(())
    }

    fn problem(&self, report: &mut Report, entry: Entry, what: &str) {
        let Some((path, _)) = self.parts.get(entry.part) else { return };
        let at = self.first_entry_at + u64::from(entry.number) * ENTRY_LEN as u64;
        let what = format!("entry {} {what} ({})", entry.number, entry.physical_offset);
        report.problem(path, at, what);
    }

    fn advance(&mut self, files: &dyn FileSystem) -> Result<Option<Entry>, StoreError> {
        self.number += 1;
        let (path, count) = loop {
            match self.parts.get(self.part) {
                None => return Ok(None),
                Some((path, count)) if self.number < *count => break (path.clone(), *count),
                Some(_) => {
                    (self.part, self.number) = (self.part + 1, 1);
                    self.page.clear();
                }
            }
        };
        let held = self.page_first..self.page_first + (self.page.len() / ENTRY_LEN) as u32;
        if !held.contains(&self.number) {
            let entries = (count - self.number).min(PAGE_ENTRIES);
            self.page.resize(entries as usize * ENTRY_LEN, 0);
            self.page_first = self.number;
            let at = self.first_entry_at + u64::from(self.number) * ENTRY_LEN as u64;
            let read = files.open_to_read(&path).and_then(|file| file.read_at(&mut self.page, at));
            read.map_err(|error| StoreError::io("read", &path, error))?;
        }
        let at = (self.number - self.page_first) as usize * ENTRY_LEN;
        let offset =
            (u64::from(word(&self.page, at + 4)) << 32) | u64::from(word(&self.page, at + 8));
        let hash = word(&self.page, at);
        Ok(Some(Entry { part: self.part, number: self.number, hash, physical_offset: offset }))
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_be_bytes)
}
