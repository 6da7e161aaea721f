#![expect(
    unsafe_code,
    reason = "the one file that touches mappings; each block says why it is sound"
)]
//! Memory mappings: the only file of the store with `unsafe`. It turns the two ways the store uses
//! a mapping into safe types. [`MappedFile`] is written once from front to back: bytes below the
//! published mark never change and may be lent out, bytes above belong to one writer at a time.
//! [`MappedWords`] is changed in place, so it only gives atomic loads and stores of words. Nothing
//! here knows a format.
//!
//! What makes it sound: the store's folder lock is held, so no other process changes the files;
//! files are sized before they are mapped and never made shorter while mapped; blocks are allocated
//! before they are written, so that a full disk is an error of [`MappedFile::allocate`] and never a
//! signal. A disk that can't read a block back still raises SIGBUS: no mapping can turn that into
//! an error.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use bytes::Bytes;
use memmap2::{Advice, MmapRaw};

use crate::env::{File, FileSystem};

/// The size of a page; everything that rounds, rounds to this.
pub const PAGE: usize = 4096;

/// A whole file in memory, shared with the page cache.
pub struct Mapping {
    map: MmapRaw,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Mapping({} bytes)", self.map.len())
    }
}

impl Mapping {
    /// Maps all of `file`, for reading and writing.
    pub fn of(file: &std::fs::File) -> io::Result<Mapping> {
        Ok(Mapping { map: MmapRaw::map_raw(file)? })
    }

    /// Writes the range's dirty pages to disk and waits for them.
    pub fn sync(&self, range: Range<u64>) -> io::Result<()> {
        let range = self.checked(range)?;
        self.map.flush_range(range.start, range.len())
    }

    fn checked(&self, range: Range<u64>) -> io::Result<Range<usize>> {
        let len = self.map.len() as u64;
        if range.start <= range.end && range.end <= len {
            return Ok(range.start as usize..range.end as usize);
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{range:?} of {len} mapped bytes")))
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.map.len());
        self.map.as_mut_ptr().wrapping_add(offset)
    }
}

/// A part of a mapping that will never change again; it keeps the mapping alive.
struct Lent {
    map: Arc<Mapping>,
    offset: usize,
    len: usize,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: only `MappedFile::slice` makes a `Lent`, after checking that the range lies
        // inside the mapping and below the published mark. Published bytes are not written again
        // until `MappedFile::cut`, which refuses while a `Lent` holds the mapping.
        unsafe { std::slice::from_raw_parts(self.map.at(self.offset), self.len) }
    }
}

/// A file that is written once, from front to back, and read below its published mark.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    start: u64,
    len: usize,
    file: Arc<dyn File>,
    map: Arc<Mapping>,
    /// Bytes below may be read and never change.
    published: AtomicUsize,
    /// Bytes below have their blocks on disk and may be written.
    allocated: AtomicUsize,
    /// Held by the one writer.
    writing: AtomicBool,
}

impl MappedFile {
    /// Makes a new file of `len` zeros with the blocks of its first `allocated` bytes. `start` is
    /// the offset, in the row of files, of its first byte. On failure no file is left behind.
    pub fn create(
        files: &dyn FileSystem,
        path: PathBuf,
        start: u64,
        len: u64,
        allocated: u64,
    ) -> io::Result<MappedFile> {
        let file = files.create(&path, len)?;
        let made = file.allocate(0..allocated).and_then(|()| file.map());
        match made {
            Ok(map) => Ok(MappedFile::with(path, start, file, map, 0, allocated as usize)),
            Err(error) => {
                if let Err(left) = files.remove_file(&path) {
                    tracing::warn!(path = %path.display(), %left, "unfinished file not removed");
                }
                Err(error)
            }
        }
    }

    /// Opens an existing file; all of it counts as published, none as allocated. Recovery then
    /// finds the true end and calls [`MappedFile::cut`].
    pub fn open(files: &dyn FileSystem, path: PathBuf, start: u64) -> io::Result<MappedFile> {
        let file = files.open(&path)?;
        let map = file.map()?;
        let len = map.map.len();
        Ok(MappedFile::with(path, start, file, map, len, 0))
    }

    fn with(
        path: PathBuf,
        start: u64,
        file: Arc<dyn File>,
        map: Mapping,
        published: usize,
        allocated: usize,
    ) -> MappedFile {
        MappedFile {
            path,
            start,
            len: map.map.len(),
            file,
            map: Arc::new(map),
            published: AtomicUsize::new(published),
            allocated: AtomicUsize::new(allocated),
            writing: AtomicBool::new(false),
        }
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The row's offset of the first byte.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The row's offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a file of no bytes, which the store never makes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The open file below the mapping.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Bytes from the front that may be read.
    pub fn published(&self) -> usize {
        self.published.load(Ordering::Acquire)
    }

    /// Bytes from the front that have their blocks.
    pub fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Acquire)
    }

    /// Published bytes in place; `None` if the range isn't all published.
    pub fn bytes(&self, offset: usize, len: usize) -> Option<&[u8]> {
        if offset.checked_add(len)? > self.published() {
            return None;
        }
        // SAFETY: the range is inside the mapping, because `published` never exceeds its length,
        // and published bytes are not written while `self` is borrowed: `write` asserts that it
        // stays above the mark, and `cut`, which lowers the mark, needs `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(self.map.at(offset), len) })
    }

    /// Published bytes that keep the mapping alive, even when the file is removed; `None` if the
    /// range isn't all published. One small allocation; parts of it cost nothing more.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Bytes> {
        if offset.checked_add(len)? > self.published() {
            return None;
        }
        Some(Bytes::from_owner(Lent { map: Arc::clone(&self.map), offset, len }))
    }

    /// Lends `len` unpublished bytes at `offset` to `fill`. Readers see them after
    /// [`MappedFile::publish`].
    ///
    /// # Panics
    /// If the range is published, lacks its blocks, or another write is running: the caller's
    /// bookkeeping is broken and writing on would damage what others read.
    pub fn write<R>(&self, offset: usize, len: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let _turn = Turn::take(&self.writing, &self.path);
        assert!(offset >= self.published(), "write at {offset} below the published mark");
        let end = offset.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.allocated()),
            "write of {len} at {offset} beyond the allocated {}",
            self.allocated()
        );
        // SAFETY: the range is inside the mapping, because `allocated` never exceeds its length;
        // it is above the published mark, so no shared slice covers it, and the mark doesn't move
        // over it meanwhile, because `publish` takes the same turn, which also keeps a second
        // writer out.
        fill(unsafe { std::slice::from_raw_parts_mut(self.map.at(offset), len) })
    }

    /// Lets readers see everything below `to`.
    ///
    /// # Panics
    /// If `to` lies below the mark or beyond the file: published bytes never become unpublished.
    pub fn publish(&self, to: usize) {
        let _turn = Turn::take(&self.writing, &self.path);
        let before = self.published();
        assert!(before <= to && to <= self.len, "publish {to}, {before} published, {}", self.len);
        self.published.store(to, Ordering::Release);
    }

    /// Gives the blocks below `to` to the file. `StorageFull` if there are none left.
    pub fn allocate(&self, to: usize) -> io::Result<()> {
        let to = to.min(self.len);
        let before = self.allocated();
        if to > before {
            self.file.allocate(before as u64..to as u64)?;
            self.allocated.fetch_max(to, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Faults the range's pages in for writing, so that a later write takes no fault. Only touches
    /// allocated pages.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let end = range.end.min(self.allocated());
        let start = range.start / PAGE * PAGE;
        if start >= end {
            return Ok(());
        }
        match self.map.map.advise_range(Advice::PopulateWrite, start, end - start) {
            Ok(()) => Ok(()),
            Err(error) if error.raw_os_error() == Some(22) => {
                self.touch(start..end);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Populates by hand on kernels before 5.14.
    fn touch(&self, range: Range<usize>) {
        for offset in range.step_by(PAGE) {
            // SAFETY: inside the mapping, page-aligned, and its blocks are allocated. Adding zero
            // atomically changes no byte, so whoever reads or writes the page at the same time
            // sees what it would have seen.
            let word = unsafe { AtomicU32::from_ptr(self.map.at(offset).cast()) };
            word.fetch_add(0, Ordering::Relaxed);
        }
    }

    /// Makes the range durable.
    pub fn sync(&self, range: Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.file.sync(&self.map, range.start as u64..range.end as u64)
    }

    /// True if reading the range would not wait for the disk, judged by its first and last byte and
    /// one in each 64 KiB between.
    pub fn is_cached(&self, offset: usize, len: usize) -> bool {
        let last = offset.saturating_add(len.max(1) - 1);
        (offset..last).step_by(64 << 10).chain([last]).all(|at| self.file.is_cached(at as u64))
    }

    /// Lowers the published mark to `to` and makes everything from there on zeros, so that nothing
    /// cut can be read again, not even by the next recovery. Fails with `ResourceBusy` while a
    /// slice is lent out.
    pub fn cut(&mut self, to: usize) -> io::Result<()> {
        if Arc::strong_count(&self.map) > 1 {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let to = to.min(self.len);
        *self.published.get_mut() = to;
        self.file.zero(to as u64..self.len as u64)
    }

    /// Lowers the published mark to `to` when the bytes beyond are known to be zeros already.
    /// Fails with `ResourceBusy` while a slice is lent out.
    pub fn cut_clean(&mut self, to: usize) -> io::Result<()> {
        if Arc::strong_count(&self.map) > 1 {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        *self.published.get_mut() = to.min(self.len);
        Ok(())
    }
}

/// The right to change a file's bytes or mark.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(flag: &'a AtomicBool, path: &Path) -> Turn<'a> {
        let taken = flag.swap(true, Ordering::Acquire);
        assert!(!taken, "two writers of {}", path.display());
        Turn(flag)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A file changed in place by 32-bit words in network order, as the index is. Loads and stores are
/// atomic, so readers and the writer need no lock; what several words mean together is the caller's
/// concern.
#[derive(Debug)]
pub struct MappedWords {
    path: PathBuf,
    file: Arc<dyn File>,
    map: Mapping,
    /// Bytes from the front that have their blocks on disk and may be stored to.
    allocated: AtomicUsize,
}

impl MappedWords {
    /// Makes a new file of `len` zeros with the blocks of its first `allocated` bytes. On failure
    /// no file is left behind.
    pub fn create(
        files: &dyn FileSystem,
        path: PathBuf,
        len: u64,
        allocated: u64,
    ) -> io::Result<MappedWords> {
        let file = files.create(&path, len)?;
        match file.allocate(0..allocated).and_then(|()| file.map()) {
            Ok(map) => {
                let allocated = AtomicUsize::new(allocated as usize);
                Ok(MappedWords { path, file, map, allocated })
            }
            Err(error) => {
                if let Err(left) = files.remove_file(&path) {
                    tracing::warn!(path = %path.display(), %left, "unfinished file not removed");
                }
                Err(error)
            }
        }
    }

    /// Opens an existing file. Its blocks must be allocated (see [`MappedWords::allocate`]) before
    /// the first store.
    pub fn open(files: &dyn FileSystem, path: PathBuf) -> io::Result<MappedWords> {
        let file = files.open(&path)?;
        let map = file.map()?;
        Ok(MappedWords { path, file, map, allocated: AtomicUsize::new(0) })
    }

    /// Where the file lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.map.map.len()
    }

    /// True for a file of no bytes, which the store never makes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives the blocks below `to` to the file. `StorageFull` if there are none left.
    pub fn allocate(&self, to: usize) -> io::Result<()> {
        let to = to.min(self.len());
        let before = self.allocated.load(Ordering::Acquire);
        if to > before {
            self.file.allocate(before as u64..to as u64)?;
            self.allocated.fetch_max(to, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The word at byte `offset`, a multiple of 4; `None` beyond the file.
    pub fn load(&self, offset: usize) -> Option<u32> {
        Some(u32::from_be(self.word(offset)?.load(Ordering::Acquire)))
    }

    /// Changes the word at byte `offset`, a multiple of 4; false where the file has no blocks.
    #[must_use]
    pub fn store(&self, offset: usize, value: u32) -> bool {
        match self.word(offset) {
            Some(word) if offset < self.allocated.load(Ordering::Acquire) => {
                word.store(value.to_be(), Ordering::Release);
                true
            }
            _ => false,
        }
    }

    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset.checked_add(4)? > self.len() {
            return None;
        }
        // SAFETY: four bytes inside the mapping, aligned because mappings start on a page. Every
        // access of this type goes through atomics, so shared access from any thread is fine.
        Some(unsafe { AtomicU32::from_ptr(self.map.at(offset).cast()) })
    }

    /// Makes the range durable.
    pub fn sync(&self, range: Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.file.sync(&self.map, range.start as u64..range.end as u64)
    }
}

#[cfg(test)]
mod tests;
