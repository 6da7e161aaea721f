//! Verifies the files of a stopped store and changes nothing: every record of the log, every unit
//! of the queues and every entry of the index, each against the others. Says what it found;
//! printing is the caller's business. `log` walks the records, `queues` and `indexes` hold what is
//! compared with them.

mod indexes;
mod log;
mod queues;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker_protocol::name;
use broker_protocol::record::RecordView;
use broker_protocol::sys_flag;

use self::indexes::Indexes;
use self::queues::Queues;
use crate::checkpoint::Checkpoint;
use crate::config::StoreConfig;
use crate::deleted_topics::DeletedTopics;
use crate::env::FileSystem;
use crate::error::StoreError;

/// Problems that are told one by one; further ones are only counted.
pub const PROBLEMS_TOLD_MAX: usize = 100;

/// What a store holds, and what is wrong with it. Offsets are the log's, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The last broker was stopped without closing the store: the next start completes it.
    pub unclean: bool,
    /// Up to here the log was synced, if a Tandem broker was the last to write.
    pub durable: Option<u64>,
    /// Files of the log.
    pub log_files: u64,
    /// Start of the first record.
    pub log_start: u64,
    /// End of the last good record.
    pub log_end: u64,
    /// Records in the log.
    pub records: u64,
    /// Why the log ends where it does, if not in zeros: a record that was being written, to be cut
    /// by the next start.
    pub torn: Option<&'static str>,
    /// Queues with files.
    pub queues: u64,
    /// Units that point to records of the log.
    pub units: u64,
    /// Records that aren't in their queue yet, after a kill; the next start enters them.
    pub not_dispatched: u64,
    /// Records of queues that were deleted or made anew since.
    pub orphans: u64,
    /// Files of the index.
    pub index_files: u64,
    /// Their entries that point to records of the log.
    pub index_entries: u64,
    /// The first problems, at most [`PROBLEMS_TOLD_MAX`].
    pub problems: Vec<Problem>,
    /// How many there are.
    pub problem_count: u64,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, path: &Path, at: u64, what: impl Into<String>) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_TOLD_MAX {
            self.problems.push(Problem { path: path.to_path_buf(), at, what: what.into() });
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// In which file.
    pub path: PathBuf,
    /// At which byte of it.
    pub at: u64,
    /// What.
    pub what: String,
}

/// Verifies the store that `config` names. File lengths are taken from the files; the index needs
/// `maxHashSlotNum` and `maxIndexNum`. Nothing may write to the store meanwhile.
pub fn verify(config: &StoreConfig, files: &Arc<dyn FileSystem>) -> Result<Report, StoreError> {
    let root = &config.store_path_root_dir;
    files.list(root).map_err(|error| StoreError::io("list", root, error))?;
    let mut report = Report {
        unclean: exists(&**files, &root.join("abort"))?,
        durable: Checkpoint::read(&**files, &root.join("checkpoint"))?.durable,
        ..Report::default()
    };
    let deleted = config.config_folder().join("deletedTopics.json");
    let mut followers = Followers {
        deleted: DeletedTopics::open(Arc::clone(files), deleted)?,
        queues: Queues::open(&**files, &config.consume_queue_folder(), &mut report)?,
        indexes: Indexes::open(&**files, config, &mut report)?,
    };
    log::walk(&**files, &config.commit_log_folder(), &mut report, |record, report| {
        followers.compare(&**files, record, report)
    })?;
    followers.queues.finish(&**files, &mut report)?;
    followers.indexes.finish(&**files, &mut report)?;
    Ok(report)
}

/// What is compared with each record.
struct Followers {
    deleted: DeletedTopics,
    queues: Queues,
    indexes: Indexes,
}

impl Followers {
    fn compare(
        &mut self,
        files: &dyn FileSystem,
        record: &RecordView<'_>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        self.indexes.compare(files, record, report)?;
        let transaction = sys_flag::transaction(record.sys_flag);
        let queued = transaction == 0 || transaction == sys_flag::TRANSACTION_COMMIT;
        if !queued {
            return Ok(());
        }
        if (record.physical_offset as u64) < self.deleted.below(record.topic) {
            report.orphans += 1;
            return Ok(());
        }
        // When a delayed message is due depends on a setting that may have changed.
        let tagged = record.topic != name::SCHEDULE_TOPIC;
        self.queues.compare(files, record, tagged, report)
    }
}

fn exists(files: &dyn FileSystem, path: &Path) -> Result<bool, StoreError> {
    match files.open_to_read(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StoreError::io("open", path, error)),
    }
}

/// Names and lengths of the files in `folder`, sorted; none if it is missing.
fn list(
    files: &dyn FileSystem,
    folder: &Path,
    folders: bool,
) -> Result<Vec<(String, u64)>, StoreError> {
    match files.list(folder) {
        Ok(entries) => {
            let wanted = entries.into_iter().filter(|entry| entry.is_folder == folders);
            Ok(wanted.map(|entry| (entry.name, entry.len)).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StoreError::io("list", folder, error)),
    }
}

#[cfg(test)]
mod tests;
