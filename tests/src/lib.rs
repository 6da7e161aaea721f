//! What the whole-system suites share: processes, ports, clusters of ours and of Apache's, the
//! cache of downloads. Nothing here asserts; the suites beside `src/` do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

pub mod apache;
pub mod cache;
pub mod cluster;
pub mod ledger;
pub mod ports;
pub mod process;

/// The folder of this package, where the foreign programs' sources lie.
pub fn package_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The root of the workspace.
pub fn workspace_folder() -> PathBuf {
    package_folder().parent().unwrap_or_else(|| Path::new("/")).to_path_buf()
}

/// One GET to a port of the loopback address: the whole answer, status line first.
///
/// # Errors
/// When nothing answers within some seconds.
pub fn http_get(port: u16, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).context("connect")?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).context("read an answer")?;
    Ok(answer)
}
