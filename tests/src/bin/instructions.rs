//! `instructions`: how many instructions the broker executes for a message, against a committed
//! baseline.
//!
//! The real broker runs under callgrind, mqbench is its load, and only what a connection's task
//! does is counted: reading, the handler, the store's append, the answer. Instruction counts
//! hardly depend on the machine or on what else runs there, so a change of some percent is a
//! change of the code. Times are the business of `cost`.
//!
//! ```text
//! cargo run --release -p system-tests --bin instructions             # compare
//! cargo run --release -p system-tests --bin instructions -- --update # write the baseline
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use system_tests::cluster::{broker_binary, mqbench_binary};
use system_tests::ports::Ports;
use system_tests::process::{Process, run};
use system_tests::{http_get, package_folder};

/// A change by more than this part, up or down, is a failure.
const TOLERANCE: f64 = 0.05;
/// The function whose instructions count: one turn of a connection's task.
const COUNTED: &str = "*Connection*poll_serve*";
/// Valgrind runs some fifty times slower.
const START: Duration = Duration::from_secs(180);
const STOP: Duration = Duration::from_secs(180);

/// One load. They run in this order on one store, so pulls find what was sent.
struct Load {
    name: &'static str,
    /// Enough that what happens once does not count.
    messages: u64,
    arguments: &'static [&'static str],
}

const LOADS: [Load; 4] = [
    Load { name: "send, JSON", messages: 4_000, arguments: &["produce", "--topic=Instructions"] },
    Load {
        name: "send, binary",
        messages: 4_000,
        arguments: &["produce", "--topic=Instructions", "--serialization=binary"],
    },
    Load {
        name: "send, a batch of 16",
        messages: 32_000,
        arguments: &["produce", "--topic=Instructions", "--batch=16"],
    },
    Load {
        name: "pull, 32 at once",
        messages: 32_000,
        arguments: &["consume", "--topic=Instructions", "--pull=32"],
    },
];

/// Counts instructions for a message and compares them with the baseline.
#[derive(Debug, Parser)]
struct Options {
    /// Write what is counted as the new baseline.
    #[arg(long)]
    update: bool,
    /// Keep callgrind's files in this folder, for `callgrind_annotate`.
    #[arg(long)]
    keep: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if cfg!(debug_assertions) {
        bail!("a debug build says nothing about cost; run with --release");
    }
    let temporary = tempfile::Builder::new().prefix("tandem-instructions-").tempdir()?;
    let profiles = options.keep.as_deref().unwrap_or_else(|| temporary.path());
    std::fs::create_dir_all(profiles).context("make the folder of profiles")?;
    let mut counted = BTreeMap::new();
    for (number, load) in LOADS.iter().enumerate() {
        let profile = profiles.join(format!("callgrind.out.{number}"));
        let total = count(load, temporary.path(), &profile)?;
        counted.insert(load.name.to_owned(), total / load.messages);
    }
    let file = package_folder().join("instructions.baseline");
    if options.update {
        std::fs::write(&file, to_text(&counted)).context("write the baseline")?;
    }
    let baseline = from_text(&std::fs::read_to_string(&file).context("read the baseline")?)?;
    let (text, passed) = compare(&counted, &baseline);
    show(&text);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a load against a broker under callgrind: instructions of the counted function.
fn count(load: &Load, folder: &Path, profile: &Path) -> Result<u64> {
    let ports = Ports::take()?;
    let config = folder.join("broker.conf");
    let store = folder.join("store");
    let lines = [
        ("brokerIP1", "127.0.0.1".to_owned()),
        ("listenPort", ports.listen().to_string()),
        ("httpListenPort", ports.http().to_string()),
        ("storePathRootDir", store.display().to_string()),
        ("mappedFileSizeCommitLog", (256 << 20).to_string()),
    ];
    let lines: String = lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    std::fs::write(&config, lines).context("write broker.conf")?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--quiet", "--separate-threads=no"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(broker_binary()?)
        .args(["serve", "-c"])
        .arg(&config);
    let log = folder.join("broker.out");
    let mut broker = Process::spawn("broker under valgrind", &valgrind, &log)?;
    let http = ports.http();
    broker.wait_until("serving", START, || {
        http_get(http, "/readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    })?;
    let mut mqbench = Command::new(mqbench_binary()?);
    mqbench.args(load.arguments);
    mqbench.arg(format!("--broker=127.0.0.1:{}", ports.listen()));
    mqbench.args(["--json", "--quiet", "--warm-up=0", "--window=600"]);
    mqbench.arg(format!("--messages={}", load.messages));
    let report: serde_json::Value = serde_json::from_str(&run("mqbench", &mut mqbench)?)?;
    let failed = report["errors"].as_object().is_none_or(|errors| !errors.is_empty());
    ensure!(!failed, "{}: {report}", load.name);
    broker.terminate(STOP)?;
    let profile = std::fs::read_to_string(profile).context("read callgrind's result")?;
    let total = total(&profile).context("find the total in callgrind's result")?;
    ensure!(total > 0, "nothing was counted: is there still a function {COUNTED}?");
    Ok(total)
}

/// The sum at the end of a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    let line = |name| profile.lines().rev().find_map(|line| line.strip_prefix(name));
    line("totals:").or_else(|| line("summary:"))?.trim().parse().ok()
}

/// Instructions for a message, one load a line.
fn to_text(counted: &BTreeMap<String, u64>) -> String {
    counted.iter().map(|(name, count)| format!("{count:>8}  {name}\n")).collect()
}

fn from_text(text: &str) -> Result<BTreeMap<String, u64>> {
    text.lines()
        .map(|line| {
            let (count, name) =
                line.trim_start().split_once("  ").context("a line without a name")?;
            Ok((name.to_owned(), count.parse().with_context(|| format!("read {line:?}"))?))
        })
        .collect()
}

/// What changed, and whether all changes are within the tolerance.
fn compare(counted: &BTreeMap<String, u64>, baseline: &BTreeMap<String, u64>) -> (String, bool) {
    let mut text = String::from("instructions for a message (baseline)\n");
    let mut passed = true;
    for (name, count) in counted {
        let (of_baseline, verdict) = match baseline.get(name) {
            None => ("none".to_owned(), "no baseline; write it with --update"),
            Some(was) => {
                let change = *count as f64 / *was as f64 - 1.0;
                let verdict = if change > TOLERANCE {
                    "more than before"
                } else if change < -TOLERANCE {
                    "less than before; keep it with --update"
                } else {
                    ""
                };
                (format!("{was}, {:+.1} %", change * 100.0), verdict)
            }
        };
        passed &= verdict.is_empty();
        // Writing into a String can't fail.
        let _ = writeln!(text, "{count:>8}  {name} ({of_baseline}) {verdict}");
    }
    (text, passed)
}

fn show(text: &str) {
    #[expect(clippy::print_stdout, reason = "the comparison is what this program is for")]
    {
        print!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn baselines_are_read_as_written() {
        let counted = counts(&[("send, JSON", 9_000), ("pull", 12)]);
        assert_eq!(from_text(&to_text(&counted)).unwrap(), counted);
    }

    #[test]
    fn changes_beyond_the_tolerance_fail_in_both_directions() {
        let baseline = counts(&[("send", 1000)]);
        for (count, passes) in
            [(1000, true), (1049, true), (951, true), (1060, false), (940, false)]
        {
            assert_eq!(compare(&counts(&[("send", count)]), &baseline).1, passes, "{count}");
        }
        assert!(!compare(&counts(&[("new", 1)]), &baseline).1);
    }

    #[test]
    fn totals_are_at_the_end_of_a_profile() {
        assert_eq!(total("events: Ir\nsummary: 5\nfn=x\n1 2\ntotals: 123\n"), Some(123));
        assert_eq!(total("events: Ir\n\nsummary: 5\n"), Some(5));
        assert_eq!(total(""), None);
    }
}
