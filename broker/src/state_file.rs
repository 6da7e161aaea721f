//! One JSON file of the `config` folder that keeps a state table over a restart, with the copy
//! before it in `.bak`. What the table means is its owner's business; that a crash leaves either
//! the old or the new file is the store's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use broker_protocol::json;
use broker_store::StoreError;
use broker_store::env::FileSystem;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A table's file. Its owner is the only writer.
#[derive(Debug, Clone)]
pub struct StateFile {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
}

/// Why a table could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// Neither the file nor its backup holds a table. Starting without would lose what they held.
    #[error(transparent)]
    Unreadable(#[from] StoreError),
    /// The table could not be put into its JSON form.
    #[error("encode {path}: {error}")]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder says.
        error: String,
    },
    /// The file could not be written.
    #[error("write {path}: {error}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
}

impl StateFile {
    /// The file `config/<name>` under the store's root folder.
    #[must_use]
    pub fn new(files: Arc<dyn FileSystem>, store_root: &Path, name: &str) -> StateFile {
        StateFile { files, path: store_root.join("config").join(name) }
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table in the file, or in the backup (with a warning) when the file is missing or
    /// damaged; `None` when there is neither.
    ///
    /// # Errors
    /// [`StateFileError::Unreadable`] when one of the two is damaged and none is sound.
    pub fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, StateFileError> {
        let parse = |bytes: &[u8]| json::from_slice(bytes).map_err(|error| error.to_string());
        Ok(self.files.read_config(&self.path, parse)?)
    }

    /// Replaces the file; durable when the call returns. The file before becomes the backup.
    ///
    /// # Errors
    /// When the table has no JSON form or the file could not be written; the old file stays then.
    pub fn save<T: Serialize>(&self, table: &T) -> Result<(), StateFileError> {
        let bytes = json::to_vec_pretty(table).map_err(|error| StateFileError::Encode {
            path: self.path.clone(),
            error: error.to_string(),
        })?;
        self.files
            .write_durably(&self.path, &bytes)
            .map_err(|error| StateFileError::Write { path: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use broker_store::env;
    use tempfile::TempDir;

    use super::*;

    type Table = BTreeMap<i32, i64>;

    #[test]
    fn what_was_saved_is_loaded_and_the_one_before_is_the_backup() {
        let folder = TempDir::new().unwrap();
        let file = StateFile::new(env::os().files, folder.path(), "table.json");
        assert_eq!(file.load::<Table>().unwrap(), None);
        file.save(&Table::from([(1, 5)])).unwrap();
        file.save(&Table::from([(1, 6)])).unwrap();
        assert_eq!(file.load().unwrap(), Some(Table::from([(1, 6)])));
        let backup = folder.path().join("config/table.json.bak");
        assert!(fs::read_to_string(backup).unwrap().contains("1:5"));
    }

    #[test]
    fn junk_gives_way_to_the_backup_and_is_an_error_without_one() {
        let folder = TempDir::new().unwrap();
        let file = StateFile::new(env::os().files, folder.path(), "table.json");
        file.save(&Table::from([(1, 5)])).unwrap();
        file.save(&Table::from([(1, 6)])).unwrap();
        for junk in [&b"\0\0\0\0"[..], b"", b"{1:"] {
            fs::write(file.path(), junk).unwrap();
            assert_eq!(file.load().unwrap(), Some(Table::from([(1, 5)])));
        }
        fs::remove_file(folder.path().join("config/table.json.bak")).unwrap();
        let error = file.load::<Table>().unwrap_err().to_string();
        assert!(error.contains("table.json"), "{error}");
        assert_eq!(fs::read(file.path()).unwrap(), b"{1:", "nothing was written over it");
    }
}
