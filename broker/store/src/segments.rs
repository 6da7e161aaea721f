//! A row of mapped files of one length, each named by the offset of its first byte (20 digits).
//! Finds the file of an offset, opens the row, grows it, drops files from its front. It knows no
//! record format; the commit log and each ConsumeQueue hold one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::env::FileSystem;
use crate::error::StoreError;
use crate::mapped_file::MappedFile;

/// Files in order without a gap.
pub type Row = Vec<Arc<MappedFile>>;

/// A row of files that readers look into without a lock. One thread at a time pushes and one
/// removes; these two may be different ones.
#[derive(Debug)]
pub struct Segments {
    folder: PathBuf,
    file_len: u64,
    row: ArcSwap<Row>,
}

/// The name of the file that starts at `offset`.
pub fn file_name(offset: u64) -> String {
    format!("{offset:020}")
}

impl Segments {
    /// Opens every file of `folder`; a missing folder is an empty row. A file of another length, a
    /// strange name or a gap is refused by name; an empty last file, which a kill can leave behind,
    /// is removed.
    pub fn open(
        files: &dyn FileSystem,
        folder: &Path,
        file_len: u64,
    ) -> Result<Segments, StoreError> {
        let entries = match files.list(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StoreError::io("list", folder, error)),
        };
        let mut named = Vec::new();
        for entry in entries.into_iter().filter(|entry| !entry.is_folder) {
            let path = folder.join(&entry.name);
            match entry.name.parse::<u64>() {
                Ok(start) if entry.name.len() == 20 => named.push((start, entry.len, path)),
                _ => return Err(StoreError::StrangeFile { path }),
            }
        }
        if let Some((_, 0, path)) = named.last() {
            tracing::warn!(path = %path.display(), "empty file, left by a kill, removed");
            files.remove_file(path).map_err(|error| StoreError::io("remove", path, error))?;
            named.pop();
        }
        let mut row: Row = Vec::with_capacity(named.len());
        for (start, len, path) in named {
            if len != file_len {
                return Err(StoreError::WrongSize { path, expected: file_len, found: len });
            }
            let expected = row.last().map_or(start - start % file_len, |last| last.end());
            if start != expected {
                return Err(StoreError::Gap { path, expected: folder.join(file_name(expected)) });
            }
            let opened = MappedFile::open(files, path.clone(), start);
            row.push(Arc::new(opened.map_err(|error| StoreError::io("map", &path, error))?));
        }
        Ok(Segments { folder: folder.to_path_buf(), file_len, row: ArcSwap::from_pointee(row) })
    }

    /// Where the files lie.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Length of each file in bytes.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Path of the file that starts at `offset`.
    pub fn path_of(&self, offset: u64) -> PathBuf {
        self.folder.join(file_name(offset))
    }

    /// The row as it is now.
    pub fn row(&self) -> Guard<Arc<Row>> {
        self.row.load()
    }

    /// Offset of the first byte that is kept; `None` for an empty row.
    pub fn start(&self) -> Option<u64> {
        self.row.load().first().map(|file| file.start())
    }

    /// Offset after the last file; `None` for an empty row.
    pub fn end(&self) -> Option<u64> {
        self.row.load().last().map(|file| file.end())
    }

    /// The file that holds `offset`.
    pub fn find(&self, offset: u64) -> Option<Arc<MappedFile>> {
        let row = self.row.load();
        let index = index_of(&row, offset, self.file_len)?;
        row.get(index).cloned()
    }

    /// Runs `with` on the file that holds `offset` and the offset inside it, without taking a share
    /// of it.
    pub fn with<R>(&self, offset: u64, with: impl FnOnce(&MappedFile, usize) -> R) -> Option<R> {
        let row = self.row.load();
        let file = row.get(index_of(&row, offset, self.file_len)?)?;
        Some(with(file, (offset - file.start()) as usize))
    }

    /// The last file.
    pub fn last(&self) -> Option<Arc<MappedFile>> {
        self.row.load().last().cloned()
    }

    /// Adds a file at the end; the first one may start anywhere on a multiple of the length.
    ///
    /// # Panics
    /// If the file doesn't continue the row.
    pub fn push(&self, file: Arc<MappedFile>) {
        assert_eq!(file.len() as u64, self.file_len, "a row has files of one length");
        assert_eq!(file.start(), self.end().unwrap_or(file.start()), "a row has no gap");
        self.row.rcu(|row| {
            let mut row = Row::clone(row);
            row.push(Arc::clone(&file));
            row
        });
    }

    /// Removes the first file from the row and the disk, unless it is the last one. Readers that
    /// hold slices of it keep them.
    pub fn remove_first(&self, files: &dyn FileSystem) -> io::Result<Option<Arc<MappedFile>>> {
        let first = match self.row.load().as_slice() {
            [first, _, ..] => Arc::clone(first),
            _ => return Ok(None),
        };
        // From the disk first: if that fails the row must still hold it.
        files.remove_file(first.path())?;
        self.row.rcu(|row| row.get(1..).map(<[_]>::to_vec).unwrap_or_default());
        Ok(Some(first))
    }

    /// Removes every file from the row and the disk.
    pub fn remove_all(&self, files: &dyn FileSystem) -> io::Result<()> {
        let mut row = Row::clone(&self.row.load());
        while let Some(file) = row.last() {
            files.remove_file(file.path())?;
            row.pop();
            self.row.store(Arc::new(row.clone()));
        }
        Ok(())
    }

    /// Ends the row at `end`: files that start beyond are removed, the one that holds `end` is cut
    /// there. For recovery, before anyone reads.
    pub fn truncate(
        &mut self,
        files: &dyn FileSystem,
        end: u64,
        beyond: Beyond,
    ) -> Result<(), StoreError> {
        let shared = std::mem::take(&mut self.row);
        let mut row = Arc::unwrap_or_clone(shared.into_inner());
        let done = truncate_row(&mut row, files, end, beyond);
        self.row = ArcSwap::from_pointee(row);
        done
    }
}

/// What lies in the last file beyond the end of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Perhaps remains that must not be read again: they are zeroed.
    Anything,
    /// Zeros, as the caller knows.
    Zeros,
}

fn truncate_row(
    row: &mut Row,
    files: &dyn FileSystem,
    end: u64,
    beyond: Beyond,
) -> Result<(), StoreError> {
    while let Some(last) = row.last_mut() {
        let path = last.path().to_path_buf();
        if last.start() > end {
            files.remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
            row.pop();
            continue;
        }
        let to = (end - last.start()).min(last.len() as u64) as usize;
        let cut = match (Arc::get_mut(last), beyond) {
            (Some(file), Beyond::Anything) => file.cut(to),
            (Some(file), Beyond::Zeros) => file.cut_clean(to),
            (None, _) => Err(io::ErrorKind::ResourceBusy.into()),
        };
        return cut.map_err(|error| StoreError::io("cut", &path, error));
    }
    Ok(())
}

fn index_of(row: &Row, offset: u64, file_len: u64) -> Option<usize> {
    let first = row.first()?.start();
    let index = offset.checked_sub(first)? / file_len;
    usize::try_from(index).ok().filter(|index| *index < row.len())
}

#[cfg(test)]
mod tests;
