//! What the kernel says about a broker process: processor time and memory, from `/proc/PID`.
//! Nothing here knows about load or messages.

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;

/// One look at a process.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ProcessFigures {
    /// User and system time since its start, in seconds, of all its threads.
    pub(crate) cpu_seconds: f64,
    /// Highest resident size so far, in KiB (`VmHWM`).
    pub(crate) peak_kib: u64,
    /// Resident anonymous memory now, in KiB (`RssAnon`): heaps and stacks, without mapped files.
    pub(crate) anonymous_kib: u64,
}

impl ProcessFigures {
    /// Reads the figures of process `pid`.
    pub(crate) fn read(pid: u32) -> Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("read the processor time of process {pid}"))?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))
            .with_context(|| format!("read the memory of process {pid}"))?;
        let ticks = cpu_ticks(&stat).with_context(|| format!("parse /proc/{pid}/stat"))?;
        Ok(Self {
            cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            peak_kib: kib(&status, "VmHWM:").unwrap_or(0),
            anonymous_kib: kib(&status, "RssAnon:").unwrap_or(0),
        })
    }
}

/// utime + stime, fields 14 and 15 of proc(5) stat. The command name before them may hold spaces
/// and parentheses, so fields are counted from the last `)`.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The value of one `Name:   123 kB` line of proc(5) status.
fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_fields_from_the_last_parenthesis() {
        let stat = "7 (odd) name) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 100";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("7 (x"), None);
    }

    #[test]
    fn reads_the_lines_of_status() {
        let status = "Name:\tx\nVmHWM:\t   12345 kB\nRssAnon:\t     678 kB\n";
        assert_eq!(kib(status, "VmHWM:"), Some(12345));
        assert_eq!(kib(status, "RssAnon:"), Some(678));
        assert_eq!(kib(status, "RssShmem:"), None);
    }

    #[test]
    fn reads_itself() {
        let figures = ProcessFigures::read(std::process::id()).unwrap();
        assert!(figures.peak_kib > 0 && figures.anonymous_kib > 0);
    }
}
