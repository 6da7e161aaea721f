//! Blocks of free TCP ports for the programs under test.
//!
//! A broker takes three ports round its listen port L (VIP L-2, HA L+1), so free single ports are
//! not enough. A block is eight ports below the range that the kernel hands out, owned through a
//! lock file while the value lives: suites that run side by side never share one.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const BLOCK: u16 = 8;
const FIRST: u16 = 20_000;
const BLOCKS: u16 = 1_500;

/// Eight ports that nobody listens on and no other suite takes while this value lives.
#[derive(Debug)]
pub struct Ports {
    first: u16,
    _lock: File,
}

impl Ports {
    /// Takes a free block.
    ///
    /// # Errors
    /// When the lock folder can't be written or every block is taken.
    pub fn take() -> Result<Ports> {
        let folder = lock_folder()?;
        let start = fastrand::u16(0..BLOCKS);
        for step in 0..BLOCKS {
            let first = FIRST + (start + step) % BLOCKS * BLOCK;
            let lock = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(folder.join(first.to_string()))
                .context("open a port lock file")?;
            if lock.try_lock().is_ok() && (first..first + BLOCK).all(is_free) {
                return Ok(Ports { first, _lock: lock });
            }
        }
        bail!("no block of {BLOCK} free ports from {FIRST} on")
    }

    /// The broker's listen port L; L-2 and L+1 belong to it.
    pub fn listen(&self) -> u16 {
        self.first + 2
    }

    /// The VIP port, two below the listen port.
    pub fn vip(&self) -> u16 {
        self.listen() - 2
    }

    /// The HA port, one above the listen port.
    pub fn ha(&self) -> u16 {
        self.listen() + 1
    }

    /// For a name server.
    pub fn name_server(&self) -> u16 {
        self.first + 4
    }

    /// For the HTTP endpoint of a broker.
    pub fn http(&self) -> u16 {
        self.first + 5
    }

    /// For whatever else a test needs, a proxy for example.
    pub fn spare(&self) -> [u16; 2] {
        [self.first + 6, self.first + 7]
    }
}

fn lock_folder() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join("tandem-test-ports");
    std::fs::create_dir_all(&folder).context("make the folder of port lock files")?;
    Ok(folder)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_taken_at_once_do_not_overlap() {
        let blocks: Vec<Ports> = (0..20).map(|_| Ports::take().unwrap()).collect();
        let mut firsts: Vec<u16> = blocks.iter().map(|block| block.first).collect();
        firsts.sort_unstable();
        assert!(firsts.windows(2).all(|pair| pair[1] - pair[0] >= BLOCK));
        let busy = TcpListener::bind((Ipv4Addr::UNSPECIFIED, blocks[0].http())).unwrap();
        assert!(!is_free(blocks[0].http()), "a listening port is not free");
        drop(busy);
    }
}
