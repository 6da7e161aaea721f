//! How much memory there is to cache files in: the machine's, or the cgroup's limit if that is
//! lower.

use std::path::Path;

use super::FileSystem;

/// Taken where the system tells nothing.
const UNKNOWN: u64 = 1 << 30;

/// Bytes of memory that this process and the cache of its files may fill.
pub fn memory_bytes(files: &dyn FileSystem) -> u64 {
    let text = |path: &str| {
        let bytes = files.read(Path::new(path)).ok()?;
        String::from_utf8(bytes).ok()
    };
    let machine = text("/proc/meminfo").as_deref().and_then(machine);
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = limits.iter().find_map(|path| text(path)?.trim().parse().ok());
    machine.into_iter().chain(limit).min().unwrap_or(UNKNOWN)
}

fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_total_is_read() {
        assert_eq!(machine("MemFree: 1 kB\nMemTotal:       2097152 kB\n"), Some(2 << 30));
        assert_eq!(machine("nothing"), None);
        let memory = memory_bytes(&*crate::env::os().files);
        assert!(memory > 16 << 20, "{memory}");
    }
}
