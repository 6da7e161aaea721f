//! Finding the true end of the log at start. Records are read from where they may not be on disk
//! yet (the durable mark) and every checksum is checked. What follows the last good record is cut
//! and zeroed, unless it was known to be durable or, in a log of another broker, good records
//! follow: then nothing is touched and the store refuses to open. Queues and index are completed by
//! the dispatcher afterwards.

use broker_protocol::record::{MAGIC_V1, RecordView};

use super::reader::{LogEntry, entry_at};
use super::{CommitLog, Recovered};
use crate::checkpoint::Marks;
use crate::env::FileSystem;
use crate::error::StoreError;
use crate::segments::{Beyond, Segments};

/// What is known when recovery starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The last process didn't close the store.
    pub(crate) unclean: bool,
    /// The checkpoint file.
    pub(crate) marks: Marks,
}

/// Where a scan ended, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) end: u64,
    /// Store time of the newest record read.
    pub(super) newest_ms: i64,
    /// What stands at `end`; `None` where the row of files ends.
    pub(super) stop: Option<&'static str>,
}

/// Finds the end and cuts there.
pub(crate) fn recover(
    mut segments: Segments,
    files: &dyn FileSystem,
    known: &Known,
) -> Result<Recovered, StoreError> {
    let (Some(first), Some(last)) = (segments.start(), segments.end()) else {
        if let Some(durable) = known.marks.durable.filter(|durable| *durable > 0) {
            let folder = segments.folder().to_path_buf();
            return Err(StoreError::LogTooShort { folder, end: 0, durable });
        }
        return Ok(Recovered { segments, end: 0, newest_ms: 0 });
    };
    if let Some(durable) = known.marks.durable.filter(|durable| *durable > last) {
        let folder = segments.folder().to_path_buf();
        return Err(StoreError::LogTooShort { folder, end: last, durable });
    }
    let from = start_of_scan(&segments, known).clamp(first, last);
    let scan = scan(&segments, from);
    judge(&segments, known, &scan)?;
    let end = scan.end;
    tracing::info!(from, end, unclean = known.unclean, "commit log read");

    // When this broker closed the log, what follows is zeros and need not be made so.
    let beyond = if known.closed_at(end) { Beyond::Zeros } else { Beyond::Anything };
    segments.truncate(files, end, beyond)?;
    Ok(Recovered { segments, end, newest_ms: scan.newest_ms.max(known.marks.physic_ms) })
}

impl Known {
    /// Whether this broker was the last to write and closed the log at `end`.
    fn closed_at(&self, end: u64) -> bool {
        !self.unclean && self.marks.durable == Some(end)
    }
}

/// Everything below is on disk. (The dispatcher checks what it reads again on its own.)
fn start_of_scan(segments: &Segments, known: &Known) -> u64 {
    match known.marks.durable {
        Some(durable) => durable,
        None if known.unclean => by_checkpoint_time(segments, known.marks),
        None => {
            let row = segments.row();
            row.get(row.len().saturating_sub(3)).map_or(0, |file| file.start())
        }
    }
}

/// RocketMQ's rule for a store that wasn't closed: the last file whose first record is older than
/// what the checkpoint knows to be on disk.
pub(crate) fn by_checkpoint_time(segments: &Segments, marks: Marks) -> u64 {
    let safe_ms = (marks.physic_ms.min(marks.logics_ms) - 3000).max(0);
    let row = segments.row();
    let old = row.iter().rev().find(|file| {
        let bytes = file.bytes(0, file.len()).unwrap_or(&[]);
        let first = match entry_at(bytes, file.start(), file.end()) {
            LogEntry::Record(record) => record.store_timestamp,
            _ => 0,
        };
        first != 0 && first <= safe_ms
    });
    old.or(row.first()).map_or(0, |file| file.start())
}

/// Reads records from `from` on until there is none.
pub(super) fn scan(segments: &Segments, from: u64) -> Scan {
    let mut scan = Scan { end: from, newest_ms: 0, stop: None };
    loop {
        let step = segments.with(scan.end, |file, at| {
            let bytes = file.bytes(at, file.len() - at).unwrap_or(&[]);
            match entry_at(bytes, scan.end, file.end()) {
                LogEntry::Record(record) if !record.body_is_intact() => {
                    Err("the body doesn't match its checksum")
                }
                LogEntry::Record(record) => {
                    Ok((scan.end + record.bytes.len() as u64, record.store_timestamp))
                }
                LogEntry::Blank(next) => Ok((next, 0)),
                LogEntry::End => Err("the end"),
                LogEntry::Damaged(reason) => Err(reason),
            }
        });
        match step {
            None => return scan,
            Some(Err(reason)) => {
                scan.stop = Some(reason);
                return scan;
            }
            Some(Ok((next, stored_ms))) => {
                scan.end = next;
                scan.newest_ms = scan.newest_ms.max(stored_ms);
            }
        }
    }
}

/// Whether the log may be cut where the scan stopped.
fn judge(segments: &Segments, known: &Known, scan: &Scan) -> Result<(), StoreError> {
    let Some(reason) = scan.stop else { return Ok(()) };
    if known.closed_at(scan.end) {
        return Ok(());
    }
    let look = if known.marks.durable.is_some() { LOOK_AFTER_MARK } else { LOOK_BEYOND };
    let Some(next) = next_record(segments, scan, look) else { return Ok(()) };
    if known.marks.durable.is_some() {
        // A power loss can take one page and leave the next; nothing here was promised to be on
        // disk.
        let end = scan.end;
        tracing::error!(end, next, reason, "the log is torn where it wasn't synced yet: cut there");
        return Ok(());
    }
    // Another broker wrote this, and how far it synced isn't known. It doesn't zero what it cuts,
    // so older records may well follow the end; only ones that aren't older mean that something is
    // missing here.
    Err(damaged(segments, scan.end, &format!("{reason}, but a good record follows at {next}")))
}

impl CommitLog {
    /// Refuses a log in which no record can be told from the next somewhere between `from`, where
    /// the dispatcher goes on, and the end: it could only skip what follows. A damaged body alone
    /// is reported and keeps its place.
    pub(crate) fn check_structure(&self, from: u64) -> Result<(), StoreError> {
        let mut at = from.max(self.min_offset());
        loop {
            let next = self.with_structure(at, |entry| match entry {
                LogEntry::Record(record) => {
                    if !record.body_is_intact() {
                        self.report(at, "the body doesn't match its checksum");
                    }
                    Ok(Some(at + record.bytes.len() as u64))
                }
                LogEntry::Blank(next) => Ok(Some(next)),
                LogEntry::End => Ok(None),
                LogEntry::Damaged(reason) => Err(damaged(&self.segments, at, reason)),
            });
            match next {
                Some(Ok(Some(next))) => at = next,
                Some(Err(error)) => return Err(error),
                Some(Ok(None)) | None => return Ok(()),
            }
        }
    }
}

/// The error for a record at `offset` that should be there and isn't.
fn damaged(segments: &Segments, offset: u64, reason: &str) -> StoreError {
    let start = offset - offset % segments.file_len();
    let path = segments.path_of(start);
    StoreError::Damaged { path, start, offset, reason: reason.to_owned() }
}

/// How far behind the stop the next record is looked for; more than the longest record.
const LOOK_BEYOND: usize = 16 << 20;
/// The same where it only decides what the log line says.
const LOOK_AFTER_MARK: usize = 1 << 20;

/// The next good record after the stop that isn't older than those before it: first in the rest of
/// the file, then at the start of each later one.
fn next_record(segments: &Segments, scan: &Scan, look: usize) -> Option<u64> {
    let magic = MAGIC_V1.to_be_bytes();
    let good = |bytes: &[u8], offset: u64| {
        RecordView::parse(bytes).is_ok_and(|record| {
            record.physical_offset == offset as i64
                && record.body_is_intact()
                && record.store_timestamp >= scan.newest_ms
        })
    };
    for file in segments.row().iter().filter(|file| file.end() > scan.end) {
        let bytes = file.bytes(0, file.len())?;
        if file.start() > scan.end {
            if good(bytes, file.start()) {
                return Some(file.start());
            }
            continue;
        }
        let from = (scan.end - file.start()) as usize;
        let rest = bytes.get(from + 1..bytes.len().min(from + look))?;
        let found = rest.windows(4).enumerate().filter(|(_, window)| *window == magic);
        for (index, _) in found {
            // The magic is the record's second word.
            let Some(at) = (from + 1 + index).checked_sub(4) else { continue };
            let offset = file.start() + at as u64;
            if offset > scan.end && good(&bytes[at..], offset) {
                return Some(offset);
            }
        }
    }
    None
}
