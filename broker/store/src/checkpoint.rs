//! The `checkpoint` file: RocketMQ's three times (bytes 0 to 23; bytes 24 to 39 are 5.x's and kept
//! as they are) and, from byte 64, our own mark of how far the log and the queues are known to be
//! on disk: magic, two offsets of the log, CRC. The CRC also covers the three times, so that a mark
//! goes stale when another broker has worked on the store since.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::env::{File, FileSystem};
use crate::error::StoreError;

/// Length of the file.
const LEN: usize = 4096;
const PHYSIC_AT: usize = 0;
const LOGICS_AT: usize = 8;
const INDEX_AT: usize = 16;
const TIMES_END: usize = 24;
const MARK_AT: usize = 64;
const MARK_MAGIC: [u8; 8] = *b"TNDMLOG1";
const OFFSET_AT: usize = MARK_AT + 8;
const DISPATCHED_AT: usize = OFFSET_AT + 8;
const CRC_AT: usize = DISPATCHED_AT + 8;

/// What the file says, in milliseconds since 1970 and offsets of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Store time of the newest record known to be on disk.
    pub(crate) physic_ms: i64,
    /// Store time of the newest record whose ConsumeQueue unit is known to be on disk.
    pub(crate) logics_ms: i64,
    /// Store time of the newest entry of the last index file that filled up.
    pub(crate) index_ms: i64,
    /// End of the log that fsync has confirmed; `None` if this broker wasn't the last to write.
    pub(crate) durable: Option<u64>,
    /// Queues hold every record below this offset of the log, on disk; `None` if that isn't known.
    pub(crate) dispatched: Option<u64>,
}

impl Marks {
    fn of(bytes: &[u8]) -> Marks {
        let valid = bytes[MARK_AT..OFFSET_AT] == MARK_MAGIC
            && bytes[CRC_AT..CRC_AT + 4] == mark_crc(bytes).to_be_bytes();
        let offset = |at| u64::from_be_bytes(word(bytes, at));
        Marks {
            physic_ms: i64::from_be_bytes(word(bytes, PHYSIC_AT)),
            logics_ms: i64::from_be_bytes(word(bytes, LOGICS_AT)),
            index_ms: i64::from_be_bytes(word(bytes, INDEX_AT)),
            durable: valid.then(|| offset(OFFSET_AT)),
            dispatched: valid.then(|| offset(DISPATCHED_AT)).filter(|offset| *offset > 0),
        }
    }
}

/// The open file. Changes go to the page cache at once, so they survive a kill, and to the disk
/// with [`Checkpoint::sync`].
#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    file: Arc<dyn File>,
    page: Mutex<Page>,
}

#[derive(Debug)]
struct Page {
    bytes: Box<[u8; LEN]>,
    dirty: bool,
}

impl Checkpoint {
    /// Opens the file, or makes it.
    pub(crate) fn open(files: &dyn FileSystem, path: &Path) -> Result<Checkpoint, StoreError> {
        let file = match files.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => files.create(path, LEN as u64),
            opened => opened,
        };
        let file = file.map_err(|error| StoreError::io("open", path, error))?;
        let mut bytes = Box::new([0; LEN]);
        let read = file.size().and_then(|size| {
            if size < LEN as u64 {
                // A kill between making and sizing it; all zeros say nothing.
                file.resize(LEN as u64)?;
            }
            file.read_at(bytes.as_mut_slice(), 0)
        });
        read.map_err(|error| StoreError::io("read", path, error))?;
        let page = Mutex::new(Page { bytes, dirty: false });
        Ok(Checkpoint { path: path.to_path_buf(), file, page })
    }

    /// What the file says, without opening it for more; nothing if it is missing.
    pub(crate) fn read(files: &dyn FileSystem, path: &Path) -> Result<Marks, StoreError> {
        match files.read(path) {
            Ok(mut bytes) => {
                bytes.resize(LEN, 0);
                Ok(Marks::of(&bytes))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Marks::default()),
            Err(error) => Err(StoreError::io("read", path, error)),
        }
    }

    /// What the file says now.
    pub(crate) fn marks(&self) -> Marks {
        Marks::of(self.page.lock().bytes.as_slice())
    }

    /// The log is on disk up to `durable`; its newest record there was stored at `physic_ms`.
    pub(crate) fn log_is_durable(&self, durable: u64, physic_ms: i64) -> Result<(), StoreError> {
        self.change(|bytes| {
            put(bytes, PHYSIC_AT, physic_ms);
            bytes[MARK_AT..OFFSET_AT].copy_from_slice(&MARK_MAGIC);
            bytes[OFFSET_AT..DISPATCHED_AT].copy_from_slice(&durable.to_be_bytes());
        })
    }

    /// ConsumeQueue units of records stored up to `logics_ms` are on disk, and so are those of all
    /// records below the log offset `dispatched`.
    pub(crate) fn queues_are_durable(
        &self,
        logics_ms: i64,
        dispatched: u64,
    ) -> Result<(), StoreError> {
        self.change(|bytes| {
            put(bytes, LOGICS_AT, logics_ms);
            bytes[DISPATCHED_AT..CRC_AT].copy_from_slice(&dispatched.to_be_bytes());
        })
    }

    /// Index files with entries up to `index_ms` are full and on disk.
    pub(crate) fn index_is_durable(&self, index_ms: i64) -> Result<(), StoreError> {
        self.change(|bytes| put(bytes, INDEX_AT, index_ms))
    }

    fn change(&self, change: impl FnOnce(&mut [u8; LEN])) -> Result<(), StoreError> {
        let mut page = self.page.lock();
        // A stale mark must not become valid again by a changed time.
        let before = page.bytes.clone();
        let valid = page.bytes[CRC_AT..CRC_AT + 4] == mark_crc(page.bytes.as_slice()).to_be_bytes();
        if !valid {
            page.bytes[MARK_AT..CRC_AT + 4].fill(0);
        }
        change(&mut page.bytes);
        if page.bytes[MARK_AT..OFFSET_AT] == MARK_MAGIC {
            let crc = mark_crc(page.bytes.as_slice());
            page.bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        }
        if page.bytes == before {
            return Ok(());
        }
        page.dirty = true;
        let written = self.file.write_at(page.bytes.as_slice(), 0);
        written.map_err(|error| StoreError::io("write", &self.path, error))
    }

    /// Makes the changes so far durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.page.lock().dirty) {
            return Ok(());
        }
        self.file.sync_all().map_err(|error| {
            self.page.lock().dirty = true;
            StoreError::io("sync", &self.path, error)
        })
    }
}

fn word(bytes: &[u8], at: usize) -> [u8; 8] {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    word
}

fn put(bytes: &mut [u8; LEN], at: usize, value: i64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn mark_crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..TIMES_END]);
    hasher.update(&bytes[MARK_AT..CRC_AT]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env;

    fn open(path: &Path) -> Checkpoint {
        Checkpoint::open(&*env::os().files, path).unwrap()
    }

    #[test]
    fn marks_are_read_back_where_rocketmq_has_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        let checkpoint = open(&path);
        assert_eq!(checkpoint.marks(), Marks::default());
        checkpoint.queues_are_durable(6, 99).unwrap();
        checkpoint.index_is_durable(7).unwrap();
        assert_eq!((checkpoint.marks().durable, checkpoint.marks().dispatched), (None, None));
        checkpoint.log_is_durable(1 << 40, 5).unwrap();
        checkpoint.queues_are_durable(6, 99).unwrap();
        checkpoint.sync().unwrap();
        let expected = Marks {
            physic_ms: 5,
            logics_ms: 6,
            index_ms: 7,
            durable: Some(1 << 40),
            dispatched: Some(99),
        };
        assert_eq!(open(&path).marks(), expected);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 4096);
        assert_eq!((bytes[7], bytes[15], bytes[23]), (5, 6, 7));
        assert_eq!(bytes[24..64], [0; 40]);
        // A time that moves on keeps the mark.
        checkpoint.queues_are_durable(9, 100).unwrap();
        assert_eq!(open(&path).marks(), Marks { logics_ms: 9, dispatched: Some(100), ..expected });
    }

    #[test]
    fn the_mark_goes_stale_when_another_broker_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint");
        open(&path).log_is_durable(77, 5).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[7] = 9;
        bytes[30] = 1;
        std::fs::write(&path, &bytes).unwrap();
        let checkpoint = open(&path);
        assert_eq!(checkpoint.marks(), Marks { physic_ms: 9, ..Marks::default() });
        // Writing the old time back must not revive it.
        checkpoint.queues_are_durable(0, 50).unwrap();
        checkpoint.index_is_durable(0).unwrap();
        assert_eq!(checkpoint.marks().durable, None);
        checkpoint.log_is_durable(78, 10).unwrap();
        let marks = open(&path).marks();
        assert_eq!((marks.durable, marks.dispatched), (Some(78), None));
        assert_eq!(std::fs::read(&path).unwrap()[30], 1, "5.x's bytes are kept");
    }
}
