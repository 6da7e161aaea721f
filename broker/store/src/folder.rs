//! The store's folder: the lock that keeps a second broker out, and the `abort` file that tells the
//! next start whether this one was closed in order. Both are named and used as RocketMQ does.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::StoreConfig;
use crate::env::{FileSystem, LockGuard};
use crate::error::StoreError;

/// The folder, ours as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    abort: PathBuf,
    /// The last process that had it didn't close it.
    pub(crate) unclean: bool,
    _lock: Box<dyn LockGuard>,
}

impl Folder {
    /// Makes the folders that are missing, also the commit log's on a mount of its own, and takes
    /// the lock.
    pub(crate) fn take(files: &dyn FileSystem, config: &StoreConfig) -> Result<Folder, StoreError> {
        let root = &config.store_path_root_dir;
        for folder in [root.clone(), config.commit_log_folder()] {
            let made = files.create_folder(&folder);
            made.map_err(|error| StoreError::io("make", &folder, error))?;
        }
        let path = root.join("lock");
        let lock = files.lock(&path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StoreError::Locked { folder: root.clone() },
            _ => StoreError::io("lock", &path, error),
        })?;
        let abort = root.join("abort");
        let unclean = exists(files, &abort)?;
        Ok(Folder { abort, unclean, _lock: lock })
    }

    /// From here on the folder counts as not closed.
    pub(crate) fn open(&self, files: &dyn FileSystem) -> Result<(), StoreError> {
        if self.unclean {
            return Ok(());
        }
        let made = files.create(&self.abort, 0).and_then(|_| self.sync(files));
        made.map_err(|error| StoreError::io("make", &self.abort, error))
    }

    /// Everything is on disk and nothing needs to be looked at by the next start.
    pub(crate) fn close(&self, files: &dyn FileSystem) -> Result<(), StoreError> {
        let removed = match files.remove_file(&self.abort) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => self.sync(files),
        };
        removed.map_err(|error| StoreError::io("remove", &self.abort, error))
    }

    fn sync(&self, files: &dyn FileSystem) -> io::Result<()> {
        files.sync_folder(self.abort.parent().unwrap_or(Path::new(".")))
    }
}

fn exists(files: &dyn FileSystem, path: &Path) -> Result<bool, StoreError> {
    match files.open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("open", path, error)),
    }
}
