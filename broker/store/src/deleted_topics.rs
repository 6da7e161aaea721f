//! Topics that were deleted while the commit log still holds their records: for each the log offset
//! below which its records belong to nobody. Kept on disk, because the next start reads the log's
//! tail again and would bring the topic's old messages back. Marks go when the log has dropped the
//! last such record.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::env::FileSystem;
use crate::error::StoreError;

/// The marks and their file.
#[derive(Debug)]
pub(crate) struct DeletedTopics {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    marks: Mutex<Marks>,
}

/// What the file holds, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marks {
    /// Topic to log offset; records below it are dead.
    deleted_below: BTreeMap<String, u64>,
}

impl DeletedTopics {
    /// Reads the marks; a missing file means none.
    pub(crate) fn open(
        files: Arc<dyn FileSystem>,
        path: PathBuf,
    ) -> Result<DeletedTopics, StoreError> {
        let parse = |bytes: &[u8]| {
            serde_json::from_slice::<Marks>(bytes).map_err(|error| error.to_string())
        };
        let marks = files.read_config(&path, parse)?.unwrap_or_default();
        Ok(DeletedTopics { files, path, marks: Mutex::new(marks) })
    }

    /// Their file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The log offset below which `topic`'s records are dead; 0 if it was never deleted.
    pub(crate) fn below(&self, topic: &str) -> u64 {
        self.marks.lock().deleted_below.get(topic).copied().unwrap_or(0)
    }

    /// The highest of all marks; 0 if there is none.
    pub(crate) fn highest(&self) -> u64 {
        self.marks.lock().deleted_below.values().copied().max().unwrap_or(0)
    }

    /// Declares `topic`'s records below `offset` dead, durably.
    pub(crate) fn mark(&self, topic: &str, offset: u64) -> io::Result<()> {
        self.change(|marks| {
            let below = marks.deleted_below.entry(topic.to_owned()).or_default();
            *below = offset.max(*below);
        })
    }

    /// Drops the marks that the log no longer needs because it starts at `log_start`.
    pub(crate) fn forget_below(&self, log_start: u64) -> io::Result<()> {
        self.change(|marks| marks.deleted_below.retain(|_, below| *below > log_start))
    }

    fn change(&self, change: impl FnOnce(&mut Marks)) -> io::Result<()> {
        // The lock is held over the write, so that two changes can't reach the disk in the wrong
        // order. Deletions are rare.
        let mut marks = self.marks.lock();
        let mut changed = marks.clone();
        change(&mut changed);
        if changed != *marks {
            let text = serde_json::to_vec_pretty(&changed).map_err(io::Error::other)?;
            self.files.write_durably(&self.path, &text)?;
            *marks = changed;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env;

    #[test]
    fn marks_survive_and_are_forgotten_with_their_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config/deletedTopics.json");
        let open = || DeletedTopics::open(env::os().files, path.clone()).unwrap();
        let marks = open();
        assert_eq!(marks.below("T"), 0);
        marks.mark("T", 500).unwrap();
        marks.mark("U", 900).unwrap();
        marks.mark("T", 400).unwrap();
        assert_eq!((open().below("T"), open().below("U"), open().below("V")), (500, 900, 0));
        assert_eq!(open().highest(), 900);
        marks.forget_below(499).unwrap();
        assert_eq!(open().below("T"), 500);
        marks.forget_below(500).unwrap();
        assert_eq!((open().below("T"), open().below("U")), (0, 900));
    }
}
