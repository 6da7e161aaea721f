//! Taking records out. Every read is bounded by the appended frontier. What an earlier process
//! wrote is checked before it is served, because nobody has looked at it since; what this one wrote
//! is known to be right. Which records a queue holds is not known here.

use std::sync::atomic::Ordering;

use broker_protocol::record::{self, Peek, RecordView};
use bytes::Bytes;

use super::CommitLog;

/// What stands at an offset of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogEntry<'a> {
    /// A record, its place and structure checked.
    Record(RecordView<'a>),
    /// The end mark of a file; the log goes on at this offset.
    Blank(u64),
    /// The end of what is appended.
    End,
    /// No record although there should be one.
    Damaged(&'static str),
}

impl CommitLog {
    /// Runs `with` on what stands at `offset`. `None` if that isn't kept any more.
    pub(crate) fn with_entry<R>(
        &self,
        offset: u64,
        with: impl FnOnce(LogEntry<'_>) -> R,
    ) -> Option<R> {
        self.with_structure(offset, |entry| match entry {
            LogEntry::Record(record) if offset < self.opened_at && !record.body_is_intact() => {
                with(LogEntry::Damaged("the body doesn't match its checksum"))
            }
            entry => with(entry),
        })
    }

    /// As [`CommitLog::with_entry`], but a record counts although its body is damaged: its place in
    /// its queue is known all the same.
    pub(crate) fn with_structure<R>(
        &self,
        offset: u64,
        with: impl FnOnce(LogEntry<'_>) -> R,
    ) -> Option<R> {
        if offset >= self.frontiers.appended() {
            return Some(with(LogEntry::End));
        }
        self.segments.with(offset, |file, at| {
            let published = file.bytes(at, file.published().saturating_sub(at)).unwrap_or(&[]);
            with(entry_at(published, offset, file.end()))
        })
    }

    /// The bytes of the record of `size` at `offset`; `None` if they aren't kept any more, aren't
    /// appended yet, or are damaged, which is told in the log.
    pub(crate) fn record(&self, offset: u64, size: u32) -> Option<Bytes> {
        if !self.is_intact(offset, size) {
            return None;
        }
        self.slice(offset, size as usize)
    }

    /// The bytes of whatever record stands at `offset`.
    pub(crate) fn record_at(&self, offset: u64) -> Option<Bytes> {
        let size = self.with_entry(offset, |entry| match entry {
            LogEntry::Record(record) => Some(record.bytes.len()),
            LogEntry::Damaged(reason) => {
                self.report(offset, reason);
                None
            }
            LogEntry::Blank(_) | LogEntry::End => None,
        })??;
        self.slice(offset, size)
    }

    /// Any appended bytes of one file.
    pub(crate) fn slice(&self, offset: u64, len: usize) -> Option<Bytes> {
        if offset.checked_add(len as u64)? > self.frontiers.appended() {
            return None;
        }
        self.segments.with(offset, |file, at| file.slice(at, len))?
    }

    /// Whether a whole record of `size` stands at `offset`. Costs nothing for what this process
    /// wrote; what is older is read and checked, and damage is told in the log.
    pub(crate) fn is_intact(&self, offset: u64, size: u32) -> bool {
        if offset >= self.opened_at {
            return offset.saturating_add(u64::from(size)) <= self.frontiers.appended();
        }
        self.with_entry(offset, |entry| match entry {
            LogEntry::Record(record) => record.bytes.len() == size as usize,
            LogEntry::Damaged(reason) => {
                self.report(offset, reason);
                false
            }
            LogEntry::Blank(_) | LogEntry::End => false,
        })
        .unwrap_or(false)
    }

    /// Store time of the record at `offset`.
    pub(crate) fn store_timestamp(&self, offset: u64) -> Option<i64> {
        self.with_structure(offset, |entry| match entry {
            LogEntry::Record(record) => Some(record.store_timestamp),
            LogEntry::Blank(_) | LogEntry::End | LogEntry::Damaged(_) => None,
        })?
    }

    /// Whether reading the range would not wait for the disk: cheap for the newest bytes, a few
    /// system calls for older ones.
    pub(crate) fn is_hot(&self, offset: u64, len: usize) -> bool {
        let appended = self.frontiers.appended();
        if offset >= self.opened_at && appended.saturating_sub(offset) <= self.hot_bytes {
            return true;
        }
        self.segments.with(offset, |file, at| file.is_cached(at, len)).unwrap_or(false)
    }

    pub(crate) fn report(&self, offset: u64, reason: &str) {
        let count = self.damaged.fetch_add(1, Ordering::Relaxed) + 1;
        // A consumer may come back for the same record many times a second.
        if count.is_power_of_two() {
            tracing::error!(offset, reason, count, "damaged record in the commit log, not served");
        }
    }
}

/// What stands at the front of `bytes`, which go to the end of the published part of a file that
/// ends at `file_end`. Checks place and structure, not the body.
pub(crate) fn entry_at(bytes: &[u8], offset: u64, file_end: u64) -> LogEntry<'_> {
    match record::peek(bytes) {
        Peek::Unwritten => LogEntry::Damaged("zeros instead of a record"),
        Peek::Other => LogEntry::Damaged("neither a record nor an end mark"),
        Peek::Blank(_) => LogEntry::Blank(file_end),
        Peek::Record(_) => match RecordView::parse(bytes) {
            Ok(record) if record.physical_offset == offset as i64 => LogEntry::Record(record),
            Ok(_) => LogEntry::Damaged("a record that belongs elsewhere"),
            Err(_) => LogEntry::Damaged("the record's lengths don't add up"),
        },
    }
}
