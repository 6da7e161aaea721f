//! What is downloaded or built once and kept between runs: `${TANDEM_CACHE:-$HOME/.cache/tandem}`.
//!
//! An entry is a folder named after a hash of all that it is made from. It is made in a temporary
//! folder and renamed, under a lock file: concurrent suites make it once, a cut run leaves nothing.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};

use crate::process::run;

/// The cache's folder; made when missing.
///
/// # Errors
/// When neither `TANDEM_CACHE` nor `HOME` is set, or it can't be made.
pub fn folder() -> Result<PathBuf> {
    let folder = match std::env::var_os("TANDEM_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME").ok_or_else(|| anyhow!("HOME is not set"))?)
            .join(".cache/tandem"),
    };
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    Ok(folder)
}

/// The entry `name` for `inputs`: found, or made by `make`, which fills the folder it is given.
///
/// # Errors
/// When `make` fails or the cache can't be written; nothing is kept then.
pub fn entry(
    name: &str,
    inputs: &[&[u8]],
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    inputs.hash(&mut hasher);
    let cache = folder()?;
    let entry = cache.join(format!("{name}-{:016x}", hasher.finish()));
    let lock = File::create(cache.join(format!("{name}.lock"))).context("open a cache lock")?;
    lock.lock().context("lock a cache entry")?;
    if entry.is_dir() {
        return Ok(entry);
    }
    let half = cache.join(format!("{name}.half"));
    if half.exists() {
        fs::remove_dir_all(&half).context("remove a half-made cache entry")?;
    }
    fs::create_dir_all(&half).context("make a cache entry")?;
    make(&half).with_context(|| format!("make {name}"))?;
    fs::rename(&half, &entry).context("keep a cache entry")?;
    Ok(entry)
}

/// The jars that `pom` lists, with what they need, in one folder.
///
/// # Errors
/// When Maven is missing or can't bring them.
pub fn jars(name: &str, pom: &Path, properties: &[(&str, &str)]) -> Result<PathBuf> {
    let text = fs::read(pom).with_context(|| format!("read {}", pom.display()))?;
    let settings: Vec<String> = properties.iter().map(|(k, v)| format!("-D{k}={v}")).collect();
    entry(name, &[&text, settings.join(" ").as_bytes()], |folder| {
        let mut maven = Command::new("mvn");
        maven
            .args(["-q", "-B", "-f"])
            .arg(pom)
            .arg("org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies")
            .arg(format!("-DoutputDirectory={}", folder.display()))
            .args(&settings);
        run("mvn", &mut maven).map(drop)
    })
}

/// The classes of the Java sources below `sources`, compiled against the jars in `jars`.
///
/// # Errors
/// When the compiler is missing or refuses a source.
pub fn classes(name: &str, sources: &Path, jars: &Path) -> Result<PathBuf> {
    let files = files_below(sources, "java")?;
    let texts = files.iter().map(fs::read).collect::<std::io::Result<Vec<_>>>()?;
    let mut inputs: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let against = jars.display().to_string();
    inputs.push(against.as_bytes());
    entry(name, &inputs, |folder| {
        let mut compiler = Command::new("javac");
        compiler.args(["-nowarn", "-encoding", "UTF-8", "-d"]).arg(folder);
        compiler.arg("-cp").arg(format!("{}/*", jars.display())).args(&files);
        run("javac", &mut compiler).map(drop)
    })
}

/// The files below `folder` whose names end in `.extension`, sorted.
///
/// # Errors
/// When a folder can't be read.
pub fn files_below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for item in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let path = item?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
