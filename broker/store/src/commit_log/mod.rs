//! The commit log: one row of files that holds every record of every topic in the order of arrival,
//! as RocketMQ 4.9 writes it. `append` puts records in, `flush` makes them durable, `reader` takes
//! them out, `recovery` finds the true end at start. Queues and index live elsewhere; who enters
//! records there is the dispatcher.

mod append;
mod flush;
mod reader;
pub(crate) mod recovery;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize};

use parking_lot::Mutex;

use crate::config::StoreConfig;
use crate::consume_queue::Queue;
use crate::env::{Clock, Env};
use crate::error::StoreError;
use crate::file_maker::FileMaker;
use crate::frontier::Frontiers;
use crate::mapped_file::MappedFile;
use crate::segments::Segments;
use crate::status::PutFigures;

pub use flush::Flushed;
pub(crate) use flush::Flusher;
pub(crate) use reader::{LogEntry, entry_at};

/// A message on its way into the log, with everything that the broker decides about it. Offsets and
/// store time are the log's to give.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// Where it goes; gives topic and queue id.
    pub queue: &'a Arc<Queue>,
    /// The producer's own flag.
    pub flag: i32,
    /// Bits of `sys_flag`; the two for IPv6 hosts are set by the log.
    pub sys_flag: i32,
    /// When the producer made it, in milliseconds since 1970.
    pub born_timestamp: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// This broker's address, part of the message id.
    pub store_host: SocketAddr,
    /// How often consumers gave it back.
    pub reconsume_times: i32,
    /// For a committed transactional message, where its half record lies; 0 otherwise.
    pub prepared_transaction_offset: i64,
    /// The body, as the producer sent it.
    pub body: &'a [u8],
    /// The property string in its final form.
    pub properties: &'a [u8],
}

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its start in the log.
    pub physical_offset: u64,
    /// Its bytes in the log.
    pub size: u32,
    /// Its index in its queue.
    pub queue_offset: i64,
    /// When it was stored, in milliseconds since 1970.
    pub store_timestamp: i64,
}

impl Appended {
    /// The log's offset after it: what a flush or a copy must reach to hold it.
    pub fn end(&self) -> u64 {
        self.physical_offset + u64::from(self.size)
    }
}

/// The log, open.
#[derive(Debug)]
pub(crate) struct CommitLog {
    pub(crate) segments: Segments,
    pub(crate) frontiers: Frontiers,
    pub(crate) maker: FileMaker,
    pub(crate) figures: PutFigures,
    clock: Arc<dyn Clock>,
    put: Mutex<Put>,
    /// Store time of the newest appended record; set after it is published.
    newest_ms: AtomicI64,
    /// Longest body, changeable at run time.
    pub(crate) max_message_size: AtomicUsize,
    /// End of the log when it was opened: what lies below was written by an earlier process and is
    /// checked before it is served.
    opened_at: u64,
    /// Bytes before the end that count as cached.
    hot_bytes: u64,
    /// Damaged records met by readers.
    pub(crate) damaged: std::sync::atomic::AtomicU64,
}

/// What the put lock guards.
#[derive(Debug)]
struct Put {
    file: Arc<MappedFile>,
    /// Bytes of `file` in use.
    used: usize,
    /// Store time of the newest record; the next one's isn't lower.
    newest_ms: i64,
    /// The store is closing: nothing is appended any more.
    closed: bool,
}

/// What recovery found out, and what [`CommitLog::start`] goes on from.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The files, cut at `end`.
    pub(crate) segments: Segments,
    /// End of the log.
    pub(crate) end: u64,
    /// Store time of the newest record met, 0 if none was read.
    pub(crate) newest_ms: i64,
}

impl CommitLog {
    /// Opens the log for appending after recovery: makes the first file if there is none and sees
    /// to it that the last one has its blocks. Everything recovered counts as appended, nothing as
    /// dispatched; `flushed` is what the caller knows to be on disk.
    pub(crate) fn start(
        env: &Env,
        config: &StoreConfig,
        recovered: Recovered,
        flushed: u64,
        dispatched: u64,
    ) -> Result<CommitLog, StoreError> {
        let Recovered { segments, end, newest_ms } = recovered;
        let file_len = segments.file_len();
        let folder = segments.folder().to_path_buf();
        if segments.last().is_none() {
            let path = segments.path_of(0);
            let made = MappedFile::create(&*env.files, path.clone(), 0, file_len, file_len)
                .and_then(|made| env.files.sync_folder(&folder).map(|()| made));
            let made = made.map_err(|error| StoreError::io("make", &path, error))?;
            segments.push(Arc::new(made));
        }
        let Some(current) = segments.last() else {
            return Err(StoreError::io("open", &folder, std::io::ErrorKind::NotFound.into()));
        };
        if let Err(error) = current.allocate(current.len()) {
            // What is stored can still be read; the maker tries on and appends fail until then.
            tracing::error!(path = %current.path().display(), %error, "blocks not allocated");
        }
        let used = (end - current.start()) as usize;
        let put = Put { file: Arc::clone(&current), used, newest_ms, closed: false };
        let memory = crate::env::memory_bytes(&*env.files);
        Ok(CommitLog {
            maker: FileMaker::new(Arc::clone(&env.files), folder, file_len, current, end),
            segments,
            frontiers: Frontiers::at(end, flushed, dispatched),
            figures: PutFigures::default(),
            clock: Arc::clone(&env.clock),
            put: Mutex::new(put),
            newest_ms: AtomicI64::new(newest_ms),
            max_message_size: AtomicUsize::new(config.max_message_size),
            opened_at: end,
            hot_bytes: memory / 100 * u64::from(config.access_message_in_memory_max_ratio),
            damaged: std::sync::atomic::AtomicU64::new(0),
        })
    }

    /// Offset of the oldest record that is kept.
    pub(crate) fn min_offset(&self) -> u64 {
        self.segments.start().unwrap_or(0)
    }

    /// Refuses appends from now on; returns when those that were running have ended.
    pub(crate) fn close(&self) {
        self.put.lock().closed = true;
    }

    /// Runs `with` between two appends, on the log's end.
    pub(crate) fn between_appends<R>(&self, with: impl FnOnce(u64) -> R) -> R {
        let put = self.put.lock();
        with(put.file.start() + put.used as u64)
    }

    /// Bytes before the end that count as cached.
    pub(crate) fn hot_bytes(&self) -> u64 {
        self.hot_bytes
    }
}

#[cfg(test)]
mod tests;
