//! The real machine behind the traits of [`super`]: Linux files and clocks, nothing decided here.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Clock, Entry, File, FileSystem, LockGuard, Space};
use crate::mapped_file::Mapping;

/// What is written at a time where a file system can't allocate or zero by itself.
const ZEROS: usize = 1 << 20;

/// The system's clocks.
#[derive(Clone, Copy, Debug)]
pub struct OsClock;

impl Clock for OsClock {
    fn now_ms(&self) -> i64 {
        millis(SystemTime::now())
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

fn millis(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    }
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug)]
pub struct OsFiles;

impl FileSystem for OsFiles {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(OsFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(OsFile(fs::File::open(path)?)))
    }

    fn create(&self, path: &Path, len: u64) -> io::Result<Arc<dyn File>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        // Sized at once, so that a kill between here and the allocation leaves no short file.
        file.set_len(len)?;
        Ok(Arc::new(OsFile(file)))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let len = if meta.is_dir() { 0 } else { meta.len() };
            entries.push(Entry { name, is_folder: meta.is_dir(), len });
        }
        entries.sort();
        Ok(entries)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = fs::File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(path)?;
        // Blocks kept for root are no part of what the broker could ever fill.
        let usable = stat.f_blocks.saturating_sub(stat.f_bfree.saturating_sub(stat.f_bavail));
        let block = stat.f_frsize.max(1);
        Ok(Space {
            total: usable.saturating_mul(block),
            available: stat.f_bavail.saturating_mul(block),
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn LockGuard>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        // A POSIX record lock, because that is what Java's FileChannel takes: the two brokers then
        // refuse each other's folder. It does not stop a second store of this same process, hence
        // the flock beside it.
        let taken = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .and_then(|()| rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive));
        match taken {
            Ok(()) => {}
            Err(Errno::ACCESS | Errno::AGAIN) => return Err(ErrorKind::WouldBlock.into()),
            Err(error) => return Err(error.into()),
        }
        file.write_all_at(b"lock", 0)?;
        Ok(Box::new(OsLock { _file: file }))
    }
}

/// The lock goes with the descriptor.
#[derive(Debug)]
struct OsLock {
    _file: fs::File,
}

impl LockGuard for OsLock {}

#[derive(Debug)]
struct OsFile(fs::File);

impl OsFile {
    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        let zeros = vec![0; ZEROS];
        let mut at = range.start;
        while at < range.end {
            let step = (range.end - at).min(ZEROS as u64);
            self.0.write_all_at(&zeros[..step as usize], at)?;
            at += step;
        }
        Ok(())
    }
}

impl File for OsFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn modified_ms(&self) -> io::Result<i64> {
        Ok(millis(self.0.metadata()?.modified()?))
    }

    fn resize(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, range: Range<u64>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let len = range.end - range.start;
        let done = rustix::fs::fallocate(&self.0, FallocateFlags::empty(), range.start, len);
        match done {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.fill_holes(range),
            done => Ok(done?),
        }
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let len = range.end - range.start;
        match rustix::fs::fallocate(&self.0, FallocateFlags::ZERO_RANGE, range.start, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(range),
            // Zeroing a hole takes blocks; making a hole doesn't.
            Err(Errno::NOSPC) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(rustix::fs::fallocate(&self.0, hole, range.start, len)?)
            }
            done => Ok(done?),
        }
    }

    fn map(&self) -> io::Result<Mapping> {
        Mapping::of(&self.0)
    }

    fn sync(&self, mapping: &Mapping, range: Range<u64>) -> io::Result<()> {
        mapping.sync(range)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(into, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn is_cached(&self, offset: u64) -> bool {
        let mut byte = [0];
        let mut into = [IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(&self.0, &mut into, offset, ReadWriteFlags::NOWAIT) {
            Ok(_) => true,
            Err(Errno::AGAIN) => false,
            // A file system that can't tell: assume the best, as a read of the mapping would.
            Err(_) => true,
        }
    }
}

impl OsFile {
    /// Allocation by hand: blocks that hold only zeros are written again, so that none is a hole.
    /// Only for files that nobody writes yet.
    fn fill_holes(&self, range: Range<u64>) -> io::Result<()> {
        let mut block = vec![0; 4096];
        let mut at = range.start;
        while at < range.end {
            let step = (range.end - at).min(block.len() as u64);
            let part = &mut block[..step as usize];
            self.0.read_exact_at(part, at)?;
            if part.iter().all(|byte| *byte == 0) {
                self.0.write_all_at(part, at)?;
            }
            at += step;
        }
        Ok(())
    }
}
