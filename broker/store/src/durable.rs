//! Small files of state that must survive a kill and a power loss: written beside, synced, renamed.
//! The previous content stays as `.bak`. Formats belong to the callers.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::env::FileSystem;
use crate::error::StoreError;

impl dyn FileSystem {
    /// Replaces `path` so that at every moment, also after a power loss, it or its `.bak` holds a
    /// whole old or new content. Makes the folder if it is missing.
    pub fn write_durably(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        self.create_folder(folder)?;
        let tmp = beside(path, ".tmp");
        self.write(&tmp, bytes)?;
        match self.rename(path, &beside(path, ".bak")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.rename(&tmp, path)?;
        self.sync_folder(folder)
    }

    /// Reads what `write_durably` wrote. `parse` decides what a good content is; if it refuses
    /// the file, the `.bak` is taken with a warning. `None` if neither exists;
    /// [`StoreError::BadFile`] if what exists is unreadable.
    pub fn read_config<T>(
        &self,
        path: &Path,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, StoreError> {
        let main = self.read_one(path, &parse);
        let reason = match main {
            Ok(Some(value)) => return Ok(Some(value)),
            Ok(None) => None,
            Err(reason) => Some(reason),
        };
        match (self.read_one(&beside(path, ".bak"), &parse), reason) {
            (Ok(Some(value)), reason) => {
                let reason = reason.as_deref().unwrap_or("missing");
                tracing::warn!(path = %path.display(), reason, "unreadable, its .bak is used");
                Ok(Some(value))
            }
            (Ok(None), None) => Ok(None),
            (Ok(None), Some(reason)) | (Err(_), Some(reason)) | (Err(reason), None) => {
                Err(StoreError::BadFile { path: path.to_path_buf(), reason })
            }
        }
    }

    fn read_one<T>(
        &self,
        path: &Path,
        parse: &impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self.read(path) {
            Ok(bytes) if bytes.is_empty() => Err("empty".to_owned()),
            Ok(bytes) => parse(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{self, Env};

    fn parse(bytes: &[u8]) -> Result<String, String> {
        let text = String::from_utf8(bytes.to_vec()).map_err(|error| error.to_string())?;
        if text.contains('\0') { Err("junk".to_owned()) } else { Ok(text) }
    }

    fn place() -> (Env, tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config/topics.json");
        (env::os(), folder, path)
    }

    #[test]
    fn the_old_content_stays_beside() {
        let (env, _folder, path) = place();
        assert_eq!(env.files.read_config(&path, parse).unwrap(), None);
        env.files.write_durably(&path, b"one").unwrap();
        env.files.write_durably(&path, b"two").unwrap();
        assert_eq!(env.files.read_config(&path, parse).unwrap().as_deref(), Some("two"));
        assert_eq!(std::fs::read(beside(&path, ".bak")).unwrap(), b"one");
        assert!(!beside(&path, ".tmp").exists());
    }

    #[test]
    fn a_bad_file_falls_back_and_two_bad_ones_are_an_error() {
        let (env, _folder, path) = place();
        env.files.write_durably(&path, b"one").unwrap();
        env.files.write_durably(&path, b"two").unwrap();
        std::fs::write(&path, [0; 100]).unwrap();
        assert_eq!(env.files.read_config(&path, parse).unwrap().as_deref(), Some("one"));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(env.files.read_config(&path, parse).unwrap().as_deref(), Some("one"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(env.files.read_config(&path, parse).unwrap().as_deref(), Some("one"));
        std::fs::write(&path, [0; 100]).unwrap();
        std::fs::write(beside(&path, ".bak"), [0; 100]).unwrap();
        let error = env.files.read_config(&path, parse).unwrap_err();
        assert!(
            matches!(&error, StoreError::BadFile { reason, .. } if reason == "junk"),
            "{error}"
        );
    }
}
