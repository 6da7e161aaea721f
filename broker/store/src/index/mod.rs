//! The index: finds messages by topic and key (the producer's KEYS and the client's UNIQ_KEY).
//! Files are named by the local time at which they were made. The index follows the log at a
//! position of its own: when a file can't be made or written, messages flow on and the index
//! catches up later. It never says what a message holds: whoever queries must look at the record,
//! because keys of equal hash can't be told apart here.

mod file;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_protocol::properties::{Properties, name};
use jiff::{Timestamp, tz::TimeZone};
use parking_lot::{Mutex, RwLock};

use crate::env::{Clock, FileSystem};
use crate::error::StoreError;

use file::IndexFile;
pub(crate) use file::Shape;

/// First pause after a failure; it doubles with each further one.
const RETRY_PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause between two tries.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(60);
/// Digits of a file's name.
const NAME_LEN: usize = 17;

/// All index files of a store.
#[derive(Debug)]
pub(crate) struct Index {
    files: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    shape: Shape,
    /// In the order of their names, which is that of the log. The last one is written.
    parts: RwLock<Vec<Arc<IndexFile>>>,
    /// Files that may hold what the disk doesn't.
    unsynced: Mutex<Vec<Arc<IndexFile>>>,
}

/// Where the index stands in the log, and when it may be written again after a failure. Owned by
/// the dispatcher.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Records that start before this log offset are indexed.
    pub(crate) position: u64,
    /// Where the last record starts that was looked at.
    pub(crate) seen: u64,
    /// What of that the newest file has noted; see [`Index::seen`].
    pub(crate) noted: u64,
    failed: Option<(Instant, Duration)>,
}

impl Progress {
    pub(crate) fn at(position: u64) -> Progress {
        Progress { position, seen: 0, noted: 0, failed: None }
    }

    /// False while the pause after a failure lasts.
    pub(crate) fn may_try(&self, now: Instant) -> bool {
        self.failed.is_none_or(|(again, _)| now >= again)
    }

    /// What is left of the pause after a failure.
    pub(crate) fn pause_left(&self, now: Instant) -> Duration {
        self.failed.map_or(Duration::ZERO, |(again, _)| again.saturating_duration_since(now))
    }

    /// Records a failure; returns how long the index now pauses.
    pub(crate) fn failed(&mut self, now: Instant) -> Duration {
        let pause = match self.failed {
            Some((_, pause)) => (pause * 2).min(RETRY_PAUSE_MAX),
            None => RETRY_PAUSE_MIN,
        };
        self.failed = Some((now + pause, pause));
        pause
    }

    /// A write went well.
    pub(crate) fn succeeded(&mut self) {
        self.failed = None;
    }
}

/// How a query by key ended up with its range; see RocketMQ's query response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastUpdate {
    pub(crate) timestamp: i64,
    pub(crate) physical: u64,
}

impl Index {
    /// Opens the files in `folder`. After an unclean stop the newest ones are checked against the
    /// log, which ends at `log_end`, and cut to what is good; none is given up. A file of another
    /// length than `shape`'s is left alone.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        folder: PathBuf,
        shape: Shape,
        log_end: u64,
        clean: bool,
    ) -> Result<Index, StoreError> {
        let entries = match files.list(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StoreError::io("list", &folder, error)),
        };
        let mut parts = Vec::new();
        for entry in entries.into_iter().filter(|entry| !entry.is_folder) {
            let path = folder.join(&entry.name);
            if entry.len == 0 {
                tracing::warn!(path = %path.display(), "empty file, left by a kill, removed");
                files.remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
            } else if entry.len != shape.len() || !is_name(&entry.name) {
                tracing::warn!(
                    path = %path.display(), len = entry.len, expected = shape.len(),
                    "not an index file of the configured size, left alone"
                );
            } else {
                let part = IndexFile::open(files.as_ref(), path.clone(), shape)
                    .map_err(|error| StoreError::io("map", &path, error))?;
                parts.push(Arc::new(part));
            }
        }
        while !clean && let Some(last) = parts.last() {
            let path = last.path().to_path_buf();
            let kept = last.repair(log_end);
            if kept.map_err(|error| StoreError::io("repair", &path, error))? {
                break;
            }
            tracing::warn!(path = %path.display(), "index file without a good entry, removed");
            files.remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
            parts.pop();
        }
        let parts = RwLock::new(parts);
        Ok(Index { files, clock, folder, shape, parts, unsynced: Mutex::default() })
    }

    /// The log offset from which records may be missing; `None` if there is no file to tell.
    pub(crate) fn position(&self) -> Option<u64> {
        self.parts.read().last().map(|part| part.end_physical())
    }

    /// Adds the keys of a record. An error means that some may be missing: the call is repeated
    /// later, and a key that is then there twice does no harm.
    pub(crate) fn enter(
        &self,
        topic: &str,
        properties: Properties<'_>,
        physical_offset: u64,
        store_timestamp: i64,
    ) -> io::Result<()> {
        let keys = Keys::of(properties);
        if keys.unique.is_none() && keys.others.is_none() {
            return Ok(());
        }
        for key in keys.iter() {
            self.writable()?.put(key_hash(topic, key), physical_offset, store_timestamp)?;
        }
        Ok(())
    }

    /// Notes in the newest file that the records up to the one at `physical_offset` were looked at,
    /// so that the next start need not look at those without keys again.
    pub(crate) fn seen(&self, physical_offset: u64) -> io::Result<()> {
        self.parts.read().last().map_or(Ok(()), |part| part.seen(physical_offset))
    }

    fn writable(&self) -> io::Result<Arc<IndexFile>> {
        let last = self.parts.read().last().cloned();
        if let Some(last) = &last
            && !last.is_full()
        {
            return Ok(Arc::clone(last));
        }
        self.files.create_folder(&self.folder)?;
        let path = self.folder.join(self.next_name(last.as_deref()));
        let made = IndexFile::create(self.files.as_ref(), path, self.shape, last.as_deref())?;
        let made = Arc::new(made);
        self.unsynced.lock().push(Arc::clone(&made));
        self.parts.write().push(Arc::clone(&made));
        Ok(made)
    }

    /// The local time, or the successor of the newest name if the clock stands at or before it.
    fn next_name(&self, last: Option<&IndexFile>) -> String {
        let now = name_at(self.clock.now_ms(), TimeZone::system());
        let last = last.and_then(|last| last.path().file_name()?.to_str()?.parse::<u64>().ok());
        match last {
            Some(last) if now.parse::<u64>().is_ok_and(|now| now <= last) => {
                format!("{:0NAME_LEN$}", last + 1)
            }
            _ => now,
        }
    }

    /// Shows `each` where the records lie that may bear `key`, newest first, until it returns
    /// false. Times are when the message was stored, in milliseconds since 1970.
    pub(crate) fn find(
        &self,
        topic: &str,
        key: &str,
        begin: i64,
        end: i64,
        mut each: impl FnMut(u64) -> bool,
    ) {
        let hash = key_hash(topic, key);
        let parts = self.parts.read().clone();
        let mut goes_on = true;
        for part in parts.iter().rev().filter(|part| part.overlaps(begin, end)) {
            part.walk(hash, begin, end, |physical| {
                goes_on = each(physical);
                goes_on
            });
            if !goes_on {
                return;
            }
        }
    }

    /// How far the index has come.
    pub(crate) fn last_update(&self) -> LastUpdate {
        self.parts.read().last().map_or(LastUpdate::default(), |part| LastUpdate {
            timestamp: part.end_timestamp(),
            physical: part.end_physical(),
        })
    }

    /// Number of files.
    pub(crate) fn file_count(&self) -> usize {
        self.parts.read().len()
    }

    /// Where the files lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes everything durable. Returns when the newest message in a full file was stored, if
    /// there is one.
    pub(crate) fn sync(&self) -> io::Result<Option<i64>> {
        let unsynced = std::mem::take(&mut *self.unsynced.lock());
        let parts = self.parts.read().clone();
        for part in unsynced.iter().chain(parts.last()) {
            if let Err(error) = part.sync() {
                self.unsynced.lock().extend(unsynced);
                return Err(error);
            }
        }
        if !unsynced.is_empty() {
            self.files.sync_folder(&self.folder)?;
        }
        Ok(parts.iter().rev().find(|part| part.is_full()).map(|part| part.end_timestamp()))
    }

    /// Removes the files, never the last one, that only know records before `log_start`. Returns
    /// how many went.
    pub(crate) fn remove_expired(&self, log_start: u64) -> io::Result<usize> {
        let mut removed = 0;
        loop {
            let mut parts = self.parts.write();
            if parts.len() < 2 || parts.first().is_none_or(|part| part.end_physical() >= log_start)
            {
                return Ok(removed);
            }
            self.files.remove_file(parts[0].path())?;
            parts.remove(0);
            removed += 1;
        }
    }
}

fn is_name(name: &str) -> bool {
    name.len() == NAME_LEN && name.bytes().all(|byte| byte.is_ascii_digit())
}

/// `yyyyMMddHHmmssSSS`.
fn name_at(now_ms: i64, zone: TimeZone) -> String {
    let now = Timestamp::from_millisecond(now_ms)
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned_datetime(zone);
    format!("{}{:03}", now.strftime("%Y%m%d%H%M%S"), now.millisecond())
}

/// RocketMQ's hash of `topic#key`, made positive.
fn key_hash(topic: &str, key: &str) -> u32 {
    let hash = [topic, "#", key].iter().fold(0, |hash, part| java_hash_on(hash, part));
    // Java's abs of the least value is negative still, and is then taken for 0.
    i32::checked_abs(hash).unwrap_or(0) as u32
}

/// Goes on with a Java string hash over `text`.
fn java_hash_on(hash: i32, text: &str) -> i32 {
    let step = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    if text.is_ascii() {
        return text.bytes().fold(hash, |hash, byte| step(hash, u16::from(byte)));
    }
    text.encode_utf16().fold(hash, step)
}

/// The keys that a message is found by.
struct Keys<'a> {
    unique: Option<&'a str>,
    /// Separated by spaces.
    others: Option<&'a str>,
}

impl<'a> Keys<'a> {
    fn of(properties: Properties<'a>) -> Keys<'a> {
        let mut keys = Keys { unique: None, others: None };
        for (found, value) in properties.iter() {
            if found == name::UNIQUE_KEY.as_bytes() {
                keys.unique = std::str::from_utf8(value).ok();
            } else if found == name::KEYS.as_bytes() {
                keys.others = std::str::from_utf8(value).ok();
            }
        }
        keys
    }

    fn iter(&self) -> impl Iterator<Item = &'a str> {
        let others = self.others.into_iter().flat_map(|keys| keys.split(' '));
        self.unique.into_iter().chain(others.filter(|key| !key.is_empty()))
    }
}

/// The hashes under which a message of `topic` with these properties is found.
pub(crate) fn key_hashes<'a>(
    topic: &'a str,
    properties: Properties<'a>,
) -> impl Iterator<Item = u32> + 'a {
    let keys = Keys::of(properties);
    let others = keys.others.into_iter().flat_map(|keys| keys.split(' '));
    let keys = keys.unique.into_iter().chain(others.filter(|key| !key.is_empty()));
    keys.map(move |key| key_hash(topic, key))
}

/// Whether a message with these properties really bears `key`.
pub(crate) fn bears_key(properties: Properties<'_>, key: &str) -> bool {
    Keys::of(properties).iter().any(|found| found == key)
}

#[cfg(test)]
mod tests;
