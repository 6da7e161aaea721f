//! For tests: the real files with faults that a test switches on and off.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::{Entry, Env, File, FileSystem, LockGuard, OsClock, OsFiles, Space};
use crate::mapped_file::Mapping;

/// What goes wrong at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// A sync waits until this is false again.
    pub(crate) sync_hangs: bool,
    /// A sync fails.
    pub(crate) sync_fails: bool,
    /// No file gets blocks.
    pub(crate) no_space: bool,
    /// No file can be mapped.
    pub(crate) no_maps: bool,
    /// How full the disk is, if not as full as it is.
    pub(crate) space: Option<Space>,
}

/// The switchboard and counters.
#[derive(Debug, Default)]
pub(crate) struct Board {
    faults: Mutex<Faults>,
    changed: Condvar,
    syncs: Mutex<u64>,
    synced: Condvar,
}

/// Real files behind the switchboard.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyFiles(pub(crate) Arc<Board>);

impl FaultyFiles {
    pub(crate) fn env(&self) -> Env {
        Env { files: Arc::new(self.clone()), clock: Arc::new(OsClock), seed: 1 }
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.0.faults.lock());
        self.0.changed.notify_all();
    }

    /// Syncs asked for so far.
    pub(crate) fn syncs(&self) -> u64 {
        *self.0.syncs.lock()
    }

    /// Waits until `count` syncs were asked for.
    pub(crate) fn wait_for_syncs(&self, count: u64) {
        let mut syncs = self.0.syncs.lock();
        while *syncs < count {
            self.0.synced.wait(&mut syncs);
        }
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { board: Arc::clone(&self.0), file })
    }
}

impl FileSystem for FaultyFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        OsFiles.open(path).map(|file| self.wrap(file))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        OsFiles.open_to_read(path)
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        OsFiles.create(path, len).map(|file| self.wrap(file))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        OsFiles.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        OsFiles.list(folder)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        OsFiles.read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        OsFiles.write(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsFiles.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        OsFiles.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        OsFiles.remove_folder(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        OsFiles.sync_folder(folder)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let faked = self.0.faults.lock().space;
        faked.map_or_else(|| OsFiles.space(path), Ok)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        OsFiles.lock(path)
    }
}

#[derive(Debug)]
struct FaultyFile {
    board: Arc<Board>,
    file: Arc<dyn File>,
}

impl File for FaultyFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn modified_ms(&self) -> io::Result<i64> {
        self.file.modified_ms()
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.file.resize(len)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        if self.board.faults.lock().no_space {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.allocate(range)
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.file.zero(range)
    }

    fn map(&self) -> io::Result<Mapping> {
        if self.board.faults.lock().no_maps {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.file.map()
    }

    fn sync(&self, mapping: &Mapping, range: Range<u64>) -> io::Result<()> {
        *self.board.syncs.lock() += 1;
        self.board.synced.notify_all();
        {
            let mut faults = self.board.faults.lock();
            while faults.sync_hangs {
                self.board.changed.wait(&mut faults);
            }
            if faults.sync_fails {
                return Err(io::Error::other("the disk is gone"));
            }
        }
        self.file.sync(mapping, range)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn is_cached(&self, offset: u64) -> bool {
        self.file.is_cached(offset)
    }
}
