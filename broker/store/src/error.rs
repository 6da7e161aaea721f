//! What can go wrong in the store, by operation: opening it, appending to it, writing at all. Each
//! text says what happened and, where somebody can act, what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a store could not be opened, or a background job of it failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// What was tried, a verb: "open", "map".
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process works on the folder.
    #[error("{} is in use by another broker: stop it, or give this one its own storePathRootDir", folder.display())]
    Locked {
        /// The store's folder.
        folder: PathBuf,
    },
    /// A file's length is not the configured one.
    #[error(
        "{} has {found} bytes instead of {expected}: set mappedFileSizeCommitLog or mappedFileSizeConsumeQueue to the value that the store was written with; if the file was copied, copy it again",
        path.display()
    )]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// The configured length.
        expected: u64,
        /// Its length.
        found: u64,
    },
    /// A file that the store didn't write lies between its own.
    #[error("{} is no file of the store: move it out of the folder", path.display())]
    StrangeFile {
        /// The file.
        path: PathBuf,
    },
    /// A file in the middle of a row is missing.
    #[error("{} is missing, although {} exists: restore it, or move the later files away", expected.display(), path.display())]
    Gap {
        /// The file after the gap.
        path: PathBuf,
        /// The file that should be there.
        expected: PathBuf,
    },
    /// Safely stored records can't be read back. Nothing was changed.
    #[error(
        "the commit log is damaged at offset {offset}, byte {} of {}: {reason}. Nothing was changed. \
         Restore the file from a copy or a slave. To give up everything from there on instead: cut the \
         file at that byte and lengthen it to its old size again (`truncate -s`), remove the later files \
         of the folder, and remove `checkpoint`",
        offset - start, path.display()
    )]
    Damaged {
        /// The file that holds the damage.
        path: PathBuf,
        /// The log's offset where that file starts.
        start: u64,
        /// The log's offset of the damage.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// The log ends before what was safely stored.
    #[error(
        "the commit log in {} ends at {end}, but everything below {durable} was safely stored: restore the missing files; to give them up, remove `checkpoint`",
        folder.display()
    )]
    LogTooShort {
        /// The log's folder.
        folder: PathBuf,
        /// Where it ends.
        end: u64,
        /// Where it should end at least.
        durable: u64,
    },
    /// An earlier fsync failed; see [`NotWritable::Poisoned`].
    #[error("an earlier fsync failed")]
    Poisoned,
    /// A thread could not be started.
    #[error("can't start a thread: {0}")]
    Thread(io::Error),
    /// A setting can't be used.
    #[error("{key}: {reason}")]
    Config {
        /// The setting.
        key: &'static str,
        /// Why not, and what would do.
        reason: String,
    },
    /// A file of state is unreadable, and so is the copy kept beside it.
    #[error("{} and its .bak are both unreadable ({reason}): restore one of them, or remove both to start without", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> StoreError {
        StoreError::Io { action, path: path.to_path_buf(), source }
    }
}

/// Why nothing may be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWritable {
    /// The commit log's disk is filled beyond diskSpaceWarningLevelRatio.
    #[error("the disk is full: sends are refused until space is free again")]
    DiskFull,
    /// A ConsumeQueue can't be written; the dispatcher tries on.
    #[error("a consume queue can't be written: sends are refused until it can")]
    QueueError,
    /// An fsync failed, so nobody knows what is on disk.
    #[error(
        "an fsync failed: nothing is acknowledged until the broker is restarted on a sound disk"
    )]
    Poisoned,
    /// The store is being closed.
    #[error("the store is shutting down")]
    ShuttingDown,
}

/// Why a record was not stored. Nothing of it was written and no offset was taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// See [`NotWritable`]; the client may try again (14).
    #[error("{0}")]
    NotWritable(#[from] NotWritable),
    /// The record breaks a limit and never will be stored (13).
    #[error("{0}")]
    Illegal(String),
    /// The properties are too long (13).
    #[error("the properties have {len} bytes, at most {max} are allowed")]
    PropertiesTooLong {
        /// Their length in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The next file could not be made in time (1).
    #[error("the next commit log file could not be made: {0}")]
    NoFile(String),
}
