//! The walk over the log's records, a window of the file at a time.

use std::io;
use std::path::Path;
use std::sync::Arc;

use broker_protocol::record::{self, Peek, RecordView};

use super::{Report, list};
use crate::commit_log::{LogEntry, entry_at};
use crate::env::{File, FileSystem};
use crate::error::StoreError;

/// Bytes read at a time; a longer record makes a longer window.
const WINDOW: usize = 1 << 20;

/// Shows every good record to `each` and fills the report's figures of the log.
pub(super) fn walk(
    files: &dyn FileSystem,
    folder: &Path,
    report: &mut Report,
    mut each: impl FnMut(&RecordView<'_>, &mut Report) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut expected = None;
    let mut ended: Option<Ended> = None;
    let names = list(files, folder, false)?;
    let file_len = names.first().map_or(0, |(_, len)| *len);
    for (name, len) in names {
        let path = folder.join(&name);
        let Some(start) = name.parse::<u64>().ok().filter(|_| name.len() == 20) else {
            report.problem(&path, 0, "no file of the store");
            continue;
        };
        if len != file_len {
            report.problem(&path, 0, format!("{len} bytes long, the first file has {file_len}"));
        }
        if expected.is_some_and(|expected| expected != start) {
            report.problem(&path, 0, "the file before it is missing");
        }
        expected = Some(start + len);
        report.log_files += 1;
        if report.log_files == 1 {
            (report.log_start, report.log_end) = (start, start);
        }
        let file =
            files.open_to_read(&path).map_err(|error| StoreError::io("open", &path, error))?;
        let mut window = Window { file, len, start: 0, bytes: Vec::new() };
        let failed = |error| StoreError::io("read", &path, error);
        if let Some(ended) = &ended {
            // Made ahead of need, or the end wasn't the end.
            if let LogEntry::Record(_) = window.entry(0, start).map_err(failed)? {
                let what =
                    format!("{}, but {} goes on with a record", ended.reason, path.display());
                report.problem(&ended.path, ended.at, what);
                report.torn = None;
            }
            continue;
        }
        let mut at = 0;
        while at < len {
            match window.entry(at, start).map_err(failed)? {
                LogEntry::Record(record) if record.body_is_intact() => {
                    at += record.bytes.len() as u64;
                    report.records += 1;
                    report.log_end = start + at;
                    each(&record, report)?;
                }
                LogEntry::Record(record) => {
                    report.problem(&path, at, "the body doesn't match its checksum");
                    // Its length is known, so the rest can be looked at all the same.
                    at += record.bytes.len() as u64;
                    report.log_end = start + at;
                    each(&record, report)?;
                }
                LogEntry::Blank(_) => {
                    at = len;
                    report.log_end = start + at;
                }
                LogEntry::End => break,
                LogEntry::Damaged(reason) => {
                    let zeros = window.peek(at).map_err(failed)? == Peek::Unwritten;
                    report.torn = (!zeros).then_some(reason);
                    ended = Some(Ended { path: path.clone(), at, reason });
                    break;
                }
            }
        }
    }
    if let Some(durable) = report.durable.filter(|durable| *durable > report.log_end) {
        let (path, at) = ended.map_or((folder.to_path_buf(), 0), |ended| (ended.path, ended.at));
        let what = format!("ends at {}, but was synced up to {durable}", report.log_end);
        report.problem(&path, at, what);
    }
    Ok(())
}

/// Where the records ended.
struct Ended {
    path: std::path::PathBuf,
    at: u64,
    reason: &'static str,
}

/// A part of a file in memory.
struct Window {
    file: Arc<dyn File>,
    len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes from `at` on: `want` of them, or more, or what the file has left.
    fn from(&mut self, at: u64, want: usize) -> io::Result<&[u8]> {
        let left = self.len.saturating_sub(at);
        let want = (want as u64).min(left) as usize;
        let held = self.start <= at && at + want as u64 <= self.start + self.bytes.len() as u64;
        if !held {
            self.bytes.resize((want.max(WINDOW) as u64).min(left) as usize, 0);
            self.start = at;
            self.file.read_at(&mut self.bytes, at)?;
        }
        Ok(self.bytes.get((at - self.start) as usize..).unwrap_or_default())
    }

    fn peek(&mut self, at: u64) -> io::Result<Peek> {
        Ok(record::peek(self.from(at, record::BLANK_LEN)?))
    }

    /// What stands at `at` of the file that starts at `file_start` of the log.
    fn entry(&mut self, at: u64, file_start: u64) -> io::Result<LogEntry<'_>> {
        let want = match self.peek(at)? {
            Peek::Record(size) => size as usize,
            _ => record::BLANK_LEN,
        };
        let file_end = file_start + self.len;
        Ok(entry_at(self.from(at, want)?, file_start + at, file_end))
    }
}
