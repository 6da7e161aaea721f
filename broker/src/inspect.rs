//! Commands that look and change nothing: the effective configuration, a stopped store's files.

use std::fmt::Write as _;
use std::path::Path;

use broker_store::check::{self, Report};
use broker_store::{StoreConfig, StoreError, env};

use crate::config::{Origin, Table};

/// Keys that a person looks for first, as `-m` prints them.
const IMPORTANT: [&str; 16] = [
    "autoCreateTopicEnable",
    "bindAddress",
    "brokerClusterName",
    "brokerIP1",
    "brokerId",
    "brokerName",
    "brokerPermission",
    "defaultTopicQueueNums",
    "fileReservedTime",
    "flushDiskType",
    "httpListenPort",
    "listenPort",
    "mappedFileSizeCommitLog",
    "maxMessageSize",
    "namesrvAddr",
    "storePathRootDir",
];

/// One line a key with where its value came from.
pub fn settings(table: &Table) -> String {
    let mut text = String::new();
    for setting in table.settings() {
        let origin = match &setting.origin {
            Origin::Default => String::new(),
            other => format!("    # {other}"),
        };
        // Writing into a String can't fail.
        let _ = writeln!(text, "{}={}{origin}", setting.key, setting.text());
    }
    text
}

/// Properties as Apache's `-p` (all) and `-m` (`important` ones only) print them.
pub fn properties(table: &Table, important: bool) -> String {
    let mut text = String::new();
    for setting in table.settings() {
        if !important || IMPORTANT.contains(&setting.key.as_str()) {
            let _ = writeln!(text, "{}={}", setting.key, setting.text());
        }
    }
    text
}

/// Verifies the stopped store in `folder`.
///
/// # Errors
/// When the files can't be read at all.
pub fn store(folder: &Path) -> Result<Report, StoreError> {
    let config =
        StoreConfig { store_path_root_dir: folder.to_path_buf(), ..StoreConfig::default() };
    check::verify(&config, &env::os().files)
}

/// What a person should know of a verified store.
pub fn report(folder: &Path, report: &Report) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<16}{value}");
    };
    line("store", folder.display().to_string());
    let stop =
        if report.unclean { "unclean: the next start completes the queues" } else { "clean" };
    line("last stop", stop.to_owned());
    let log = format!(
        "{} files, {} records, offsets {} to {}",
        report.log_files, report.records, report.log_start, report.log_end
    );
    line("commit log", log);
    if let Some(why) = report.torn {
        line(
            "torn tail",
            format!("after offset {}: {why}; the next start cuts it", report.log_end),
        );
    }
    if let Some(durable) = report.durable {
        line("durable to", durable.to_string());
    }
    line("queues", format!("{} with {} units", report.queues, report.units));
    if report.not_dispatched > 0 {
        line(
            "not in queues",
            format!("{} records; the next start enters them", report.not_dispatched),
        );
    }
    if report.orphans > 0 {
        line("orphans", format!("{} records of deleted topics", report.orphans));
    }
    line("index", format!("{} files with {} entries", report.index_files, report.index_entries));
    for problem in &report.problems {
        line("PROBLEM", format!("{} at {}: {}", problem.path.display(), problem.at, problem.what));
    }
    let untold = report.problem_count - report.problems.len() as u64;
    if untold > 0 {
        line("PROBLEM", format!("{untold} more"));
    }
    line("verdict", if report.is_sound() { "sound".to_owned() } else { "DAMAGED".to_owned() });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BrokerConfig;

    #[test]
    fn important_keys_exist() {
        let table = Table::default().with_section::<BrokerConfig>().with_section::<StoreConfig>();
        for key in IMPORTANT {
            assert!(table.find(key).is_some(), "{key}");
        }
        assert_eq!(properties(&table, true).lines().count(), IMPORTANT.len());
    }

    #[test]
    fn a_value_that_was_set_says_where() {
        let mut table = Table::default().with_section::<BrokerConfig>();
        table.set("brokerName", "x", Origin::Flag).unwrap();
        assert!(settings(&table).contains("brokerName=x    # flag\n"));
    }
}
