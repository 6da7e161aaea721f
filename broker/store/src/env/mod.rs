//! The seam to the outside: file system and clock, as traits, so that a test can fail a write, hold
//! a sync or move time. The store touches the machine through here and nowhere else. No format and
//! no policy lives here; the real thing is in [`mod@os`].

#[cfg(test)]
pub(crate) mod faults;
mod memory;
mod os;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::mapped_file::Mapping;

pub use memory::memory_bytes;
pub use os::{OsClock, OsFiles};

/// What a store is given to reach the machine.
#[derive(Clone, Debug)]
pub struct Env {
    /// Where files live.
    pub files: Arc<dyn FileSystem>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Start of every random choice that the store makes.
    pub seed: u64,
}

/// The real machine.
pub fn os() -> Env {
    Env { files: Arc::new(OsFiles), clock: Arc::new(OsClock), seed: fastrand::u64(..) }
}

/// Wall time and the monotonic clock.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970, as records store it. May go back; whoever needs order keeps it.
    fn now_ms(&self) -> i64;
    /// The clock that deadlines are measured with.
    fn instant(&self) -> Instant;
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name inside the folder.
    pub name: String,
    /// True for a folder.
    pub is_folder: bool,
    /// Length in bytes; 0 for a folder.
    pub len: u64,
}

/// How full a mount is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system.
    pub total: u64,
    /// What an ordinary user may still take.
    pub available: u64,
}

impl Space {
    /// The used share, 0.0 to 1.0, counted as `df` does: what nobody can use counts as used.
    pub fn used_ratio(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        1.0 - self.available as f64 / self.total as f64
    }
}

/// A held lock file; dropping it releases the lock.
pub trait LockGuard: Debug + Send + Sync {}

/// Files and folders by path. Every error is the operating system's.
pub trait FileSystem: Debug + Send + Sync {
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Opens an existing file for reading only, also where nothing may be written.
    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn File>>;
    /// Makes a new file of `len` bytes; its blocks are not allocated yet. Fails if the name is
    /// taken.
    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>>;
    /// Makes a folder and the ones above it; no error if it is there.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// The names in a folder, sorted. A missing folder is `NotFound`.
    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>>;
    /// A whole small file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Writes a whole small file, new or replaced in place, and syncs it. Not atomic: see
    /// [`crate::durable`].
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Renames, replacing what bears the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Mappings of it stay valid.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals inside `folder` durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// How full the mount of `path` is.
    fn space(&self, path: &Path) -> io::Result<Space>;
    /// Takes the exclusive lock on `path`, made if missing, and writes `lock` into it as RocketMQ
    /// does. `WouldBlock` if another process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>>;
}

/// An open file of fixed length.
pub trait File: Debug + Send + Sync {
    /// Length in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Last modification, milliseconds since 1970.
    fn modified_ms(&self) -> io::Result<i64>;
    /// Changes the length. Never called while the file is mapped.
    fn resize(&self, len: u64) -> io::Result<()>;
    /// Gives the range its blocks on disk. Nothing already written changes. `StorageFull` if the
    /// disk has none left.
    fn allocate(&self, range: Range<u64>) -> io::Result<()>;
    /// Makes the range read as zeros. It keeps its blocks, unless the disk is full: allocate it
    /// before writing to it.
    fn zero(&self, range: Range<u64>) -> io::Result<()>;
    /// Maps the whole file for reading and writing.
    fn map(&self) -> io::Result<Mapping>;
    /// Makes what was written to `range` through `mapping` durable.
    fn sync(&self, mapping: &Mapping, range: Range<u64>) -> io::Result<()>;
    /// Makes what was written by [`File::write_at`] durable.
    fn sync_all(&self) -> io::Result<()>;
    /// Fills `into` from `offset`.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// True if the byte at `offset` can be read without waiting for the disk.
    fn is_cached(&self, offset: u64) -> bool;
}
