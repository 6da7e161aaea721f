//! Runs mqbench against a side and reads what it found.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use system_tests::cluster::mqbench_binary;
use system_tests::process::run as run_program;

use crate::Effort;
use crate::cells::{Cell, Figure, PULLED_MESSAGES, PULLED_TOPIC};
use crate::side::Side;

/// Every load has 1 KiB bodies, key and tag, as an application's messages have.
const COMMON: [&str; 3] = ["--json", "--quiet", "--queues=8"];

/// One turn of one side.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    /// The figure that counts in the cell.
    pub(crate) figure: f64,
    /// Messages a second.
    pub(crate) per_second: f64,
    /// 99th percentile of the latency of sends, in milliseconds.
    pub(crate) p99: Option<f64>,
    /// Processor seconds per million messages: of the broker, and of mqbench.
    pub(crate) broker_cpu: f64,
    pub(crate) own_cpu: f64,
    /// Anonymous memory of the broker at the end, in MiB.
    pub(crate) anonymous_mib: f64,
    /// Requests that the broker refused or lost; Java sheds load when it can't keep up.
    pub(crate) failures: u64,
}

/// What this program reads of mqbench's result.
#[derive(Debug, Deserialize)]
struct Report {
    windows: Vec<Window>,
    errors: std::collections::BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
struct Window {
    produced_per_second: f64,
    consumed_per_second: f64,
    send_latency: Option<Latency>,
    broker_cpu_seconds_per_million: Option<f64>,
    broker_anonymous_mib: Option<f64>,
    own_cpu_seconds_per_million: f64,
}

#[derive(Debug, Deserialize)]
struct Latency {
    p99: f64,
}

impl Run {
    /// For the progress.
    pub(crate) fn line(&self) -> String {
        let latency = self.p99.map_or_else(String::new, |p99| format!(", p99 {p99:.3} ms"));
        format!(
            "{:.2} CPU s/M, {:.0} msg/s{latency}, {:.1} MiB anonymous, {} failures \
             (mqbench {:.2} CPU s/M)",
            self.broker_cpu, self.per_second, self.anonymous_mib, self.failures, self.own_cpu
        )
    }
}

/// Loads a side before its first cell, and fills the topic of the pulls.
pub(crate) fn first(side: &mut Side, seconds: f64) -> Result<()> {
    let mut fill = command(side)?;
    let messages = PULLED_MESSAGES.to_string();
    fill.args(["produce", "--connections=4", "--in-flight=16", "--warm-up=0", "--window=3600"]);
    fill.args(["--topic", PULLED_TOPIC, "--messages", &messages]).args(COMMON);
    read(&mut fill)?;
    let mut warm = command(side)?;
    warm.args(["both", "--connections=16", "--from=newest", "--warm-up=0", "--topic=cost-warm"]);
    warm.arg(format!("--window={seconds}")).args(COMMON);
    read(&mut warm)?;
    Ok(())
}

/// One turn of one side in a cell.
pub(crate) fn run(side: &mut Side, cell: &Cell, effort: &Effort) -> Result<Run> {
    let mut mqbench = command(side)?;
    mqbench.args(cell.command()).args(COMMON);
    mqbench.arg(format!("--pid={}", side.pid()?));
    mqbench.arg(format!("--warm-up={}", effort.warm_up));
    mqbench.arg(format!("--window={}", effort.window));
    let report = read(&mut mqbench)?;
    let Some(window) = report.windows.into_iter().next_back() else {
        bail!("{}: {:?} served nothing: {:?}", cell.name, side.maker, report.errors);
    };
    for (kind, count) in &report.errors {
        crate::note(&format!("{}: {:?}: {count} x {kind}", cell.name, side.maker));
    }
    let p99 = window.send_latency.map(|latency| latency.p99);
    let broker_cpu = window.broker_cpu_seconds_per_million.unwrap_or(f64::NAN);
    let anonymous_mib = window.broker_anonymous_mib.unwrap_or(f64::NAN);
    side.loaded_mib = side.loaded_mib.max(anonymous_mib);
    Ok(Run {
        figure: match cell.figure {
            Figure::Cpu => broker_cpu,
            Figure::P99 => p99.context("no latency was measured")?,
        },
        per_second: window.produced_per_second + window.consumed_per_second,
        p99,
        broker_cpu,
        own_cpu: window.own_cpu_seconds_per_million,
        anonymous_mib,
        failures: report.errors.values().sum(),
    })
}

fn command(side: &Side) -> Result<Command> {
    let mut command = Command::new(mqbench_binary()?);
    // The address goes by the environment, so that the subcommand can follow.
    command.env("MQBENCH_BROKER", side.address()?);
    Ok(command)
}

fn read(mqbench: &mut Command) -> Result<Report> {
    let text = run_program("mqbench", mqbench)?;
    serde_json::from_str(&text).with_context(|| format!("read mqbench's result {text:?}"))
}
