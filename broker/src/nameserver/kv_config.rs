//! The name server's key-value configuration: texts by namespace and key, of which the order
//! configuration of topics is the only one with a meaning here. Each change is on disk before it is
//! answered.

use std::path::PathBuf;
use std::sync::Arc;

use broker_protocol::body::{KvConfigTable, KvTable};
use broker_protocol::json::{self, JsonError};
use broker_store::StoreError;
use broker_store::env::FileSystem;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;

/// The namespace of topics' order configuration.
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";
/// Entries that may be kept in all.
const ENTRIES_MAX: usize = 100_000;
/// Bytes of one namespace, key and value together.
const ENTRY_LEN_MAX: usize = 64 * 1024;

/// The table and its file.
#[derive(Debug)]
pub struct KvConfig {
    files: Arc<dyn FileSystem>,
    path: PathBuf,
    table: RwLock<KvConfigTable>,
    /// Held while a change is written, so that the file never goes back.
    writing: Mutex<()>,
}

/// Why a change is refused. The text is fit for the answer's remark.
#[derive(Debug, Error)]
pub enum KvError {
    /// Namespace or key is blank.
    #[error("namespace or key is null")]
    Blank,
    /// The entry is too long.
    #[error("namespace, key and value are longer than {ENTRY_LEN_MAX} bytes")]
    TooLong,
    /// No further entry fits.
    #[error("the configuration holds {ENTRIES_MAX} entries already")]
    Full,
    /// The table has no JSON form.
    #[error("encode key-value configuration: {0}")]
    Json(#[from] JsonError),
    /// The file could not be written; the old one stays.
    #[error("write key-value configuration: {0}")]
    Write(#[from] std::io::Error),
}

impl KvConfig {
    /// Reads the file; a missing one is an empty configuration.
    ///
    /// # Errors
    /// When the file and its backup are damaged: starting without would lose what they held.
    pub fn load(files: Arc<dyn FileSystem>, path: PathBuf) -> Result<KvConfig, StoreError> {
        let parse = |bytes: &[u8]| json::from_slice(bytes).map_err(|error| error.to_string());
        let table = files.read_config(&path, parse)?.unwrap_or_default();
        Ok(KvConfig { files, path, table: RwLock::new(table), writing: Mutex::new(()) })
    }

    /// One value.
    #[must_use]
    pub fn find(&self, namespace: &str, key: &str) -> Option<String> {
        self.table.read().config_table.get(namespace)?.get(key).cloned()
    }

    /// All values of a namespace; none when it never had one.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Option<KvTable> {
        let table = self.table.read().config_table.get(namespace)?.clone();
        Some(KvTable { table })
    }

    /// Sets a value. Durable when the call returns; blocks on the disk.
    ///
    /// # Errors
    /// See [`KvError`]; nothing has changed then.
    pub fn put(&self, namespace: &str, key: &str, value: &str) -> Result<(), KvError> {
        if namespace.trim().is_empty() || key.trim().is_empty() {
            return Err(KvError::Blank);
        }
        if namespace.len() + key.len() + value.len() > ENTRY_LEN_MAX {
            return Err(KvError::TooLong);
        }
        self.change(|table| {
            let entries: usize = table.config_table.values().map(|space| space.len()).sum();
            let space = table.config_table.entry(namespace.to_owned()).or_default();
            if entries >= ENTRIES_MAX && !space.contains_key(key) {
                return Err(KvError::Full);
            }
            space.insert(key.to_owned(), value.to_owned());
            Ok(())
        })
    }

    /// Removes a value; one that is not there is no error. Durable when the call returns; blocks on
    /// the disk.
    ///
    /// # Errors
    /// When the file can't be written; nothing has changed then.
    pub fn delete(&self, namespace: &str, key: &str) -> Result<(), KvError> {
        self.change(|table| {
            if let Some(space) = table.config_table.get_mut(namespace) {
                space.remove(key);
            }
            Ok(())
        })
    }

    /// Changes a copy, writes it, and only then shows it.
    fn change(
        &self,
        change: impl FnOnce(&mut KvConfigTable) -> Result<(), KvError>,
    ) -> Result<(), KvError> {
        let _writing = self.writing.lock();
        let mut table = self.table.read().clone();
        change(&mut table)?;
        if table == *self.table.read() {
            return Ok(());
        }
        self.files.write_durably(&self.path, &json::to_vec_pretty(&table)?)?;
        *self.table.write() = table;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use broker_store::env;
    use tempfile::TempDir;

    use super::*;

    fn load(folder: &TempDir) -> KvConfig {
        KvConfig::load(env::os().files, folder.path().join("namesrv/kvConfig.json")).unwrap()
    }

    #[test]
    fn values_survive_a_restart() {
        let folder = TempDir::new().unwrap();
        let kv = load(&folder);
        assert_eq!(kv.find("a", "k"), None);
        assert_eq!(kv.namespace("a"), None);
        kv.put("a", "k", "v\n\"1\"").unwrap();
        kv.put("a", "l", "w").unwrap();
        kv.put("b", "k", "x").unwrap();
        kv.delete("a", "l").unwrap();
        kv.delete("c", "l").unwrap();
        let kv = load(&folder);
        assert_eq!(kv.find("a", "k").as_deref(), Some("v\n\"1\""));
        assert_eq!(kv.find("a", "l"), None);
        assert_eq!(kv.namespace("b").unwrap().table.len(), 1);
    }

    #[test]
    fn the_file_is_apaches() {
        let folder = TempDir::new().unwrap();
        load(&folder).put(ORDER_TOPIC_CONFIG, "t", "a:4;b:4").unwrap();
        let text = fs::read_to_string(folder.path().join("namesrv/kvConfig.json")).unwrap();
        assert_eq!(
            text,
            "{\n\t\"configTable\":{\n\t\t\"ORDER_TOPIC_CONFIG\":{\n\t\t\t\"t\":\"a:4;b:4\"\n\t\t}\n\t}\n}"
        );
    }

    #[test]
    fn a_damaged_file_gives_way_to_its_backup_and_is_an_error_without_one() {
        let folder = TempDir::new().unwrap();
        let kv = load(&folder);
        kv.put("a", "k", "1").unwrap();
        kv.put("a", "k", "2").unwrap();
        let path = folder.path().join("namesrv/kvConfig.json");
        fs::write(&path, "{\"configTable\":").unwrap();
        assert_eq!(load(&folder).find("a", "k").as_deref(), Some("1"));
        fs::write(folder.path().join("namesrv/kvConfig.json.bak"), "").unwrap();
        assert!(KvConfig::load(env::os().files, path).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_changes() {
        let folder = TempDir::new().unwrap();
        let kv = load(&folder);
        assert!(matches!(kv.put(" ", "k", "v"), Err(KvError::Blank)));
        assert!(matches!(kv.put("a", "", "v"), Err(KvError::Blank)));
        let long = "v".repeat(ENTRY_LEN_MAX);
        assert!(matches!(kv.put("a", "k", &long), Err(KvError::TooLong)));
        assert_eq!(kv.namespace("a"), None);
    }

    #[test]
    fn a_failed_write_changes_nothing() {
        let folder = TempDir::new().unwrap();
        let kv = load(&folder);
        kv.put("a", "k", "1").unwrap();
        // A folder where the temporary file should be.
        fs::create_dir(folder.path().join("namesrv/kvConfig.json.tmp")).unwrap();
        assert!(matches!(kv.put("a", "k", "2"), Err(KvError::Write(_))));
        assert_eq!(kv.find("a", "k").as_deref(), Some("1"));
        assert_eq!(load(&folder).find("a", "k").as_deref(), Some("1"));
    }
}
