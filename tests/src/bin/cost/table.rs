//! From measured turns to the table, and which targets are missed.

use std::fmt::Write as _;

use serde_json::{Value, json};
use system_tests::cluster::Maker;

use crate::cells::{Cell, Figure};
use crate::load::Run;

/// Anonymous memory that Tandem may have when idle, in MiB.
const IDLE_MIB_MAX: f64 = 20.0;
/// Anonymous memory that Tandem may have under load, in MiB.
const LOADED_MIB_MAX: f64 = 60.0;
/// Milliseconds from spawned to the first answered send that Tandem may take.
const START_MS_MAX: f64 = 100.0;

/// Everything measured; lists are in the order of `makers`.
pub(crate) struct Findings<'c> {
    makers: Vec<Maker>,
    pub(crate) cells: Vec<(&'c Cell, Vec<Vec<Run>>)>,
    pub(crate) idle: Vec<f64>,
    pub(crate) loaded: Vec<f64>,
    pub(crate) starts: Vec<Vec<f64>>,
}

impl<'c> Findings<'c> {
    /// Nothing measured yet.
    pub(crate) fn new(makers: &[Maker]) -> Self {
        Self {
            makers: makers.to_vec(),
            cells: Vec::new(),
            idle: Vec::new(),
            loaded: Vec::new(),
            starts: Vec::new(),
        }
    }

    fn column(&self, maker: Maker) -> Option<usize> {
        self.makers.iter().position(|of| *of == maker)
    }

    /// The figure of one maker in a cell.
    fn figure(&self, cell: &Cell, runs: &[Vec<Run>], maker: Maker) -> Option<f64> {
        let runs = runs.get(self.column(maker)?)?;
        let figures: Vec<f64> = runs.iter().map(|run| run.figure).collect();
        match cell.figure {
            Figure::Cpu => mean(&figures),
            Figure::P99 => median(&figures),
        }
    }

    /// One sentence for each target that Tandem misses, and by how much.
    pub(crate) fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for (cell, runs) in &self.cells {
            let ours = self.figure(cell, runs, Maker::Tandem);
            let theirs = self.figure(cell, runs, Maker::Apache);
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                let max = theirs * cell.ratio_max();
                if ours > max {
                    let unit = cell.unit();
                    missed.push(format!(
                        "{}: {ours:.2} {unit}, {:.0} % above the target of {max:.2}",
                        cell.name,
                        (ours / max - 1.0) * 100.0
                    ));
                }
            }
        }
        let Some(tandem) = self.column(Maker::Tandem) else { return missed };
        for (cell, runs) in &self.cells {
            let failures: u64 =
                runs.get(tandem).into_iter().flatten().map(|run| run.failures).sum();
            if failures > 0 {
                missed.push(format!("{}: {failures} requests failed", cell.name));
            }
        }
        let starts = self.starts.get(tandem).and_then(|starts| median(starts));
        for (name, figure, max, unit) in [
            ("idle memory", self.idle.get(tandem).copied(), IDLE_MIB_MAX, "MiB"),
            ("loaded memory", self.loaded.get(tandem).copied(), LOADED_MIB_MAX, "MiB"),
            ("start to first answered send", starts, START_MS_MAX, "ms"),
        ] {
            if let Some(figure) = figure.filter(|figure| *figure > max) {
                missed.push(format!("{name}: {figure:.1} {unit}, the target is {max} {unit}"));
            }
        }
        missed
    }

    /// The table, the machine, and the missed targets.
    pub(crate) fn markdown(&self, missed: &[String]) -> String {
        let mut text = format!("{}\n\n", machine());
        text.push_str("| | Tandem | Apache 4.9.3 | ratio | target | messages a second |\n");
        text.push_str("|---|---:|---:|---:|---:|---:|\n");
        for (cell, runs) in &self.cells {
            let ours = self.figure(cell, runs, Maker::Tandem);
            let theirs = self.figure(cell, runs, Maker::Apache);
            let rates = [Maker::Tandem, Maker::Apache].map(|maker| {
                let runs = self.column(maker).and_then(|column| runs.get(column))?;
                mean(&runs.iter().map(|run| run.per_second).collect::<Vec<_>>())
            });
            let name = format!("{} ({})", cell.name, cell.unit());
            let rates = format!("{} : {}", number(rates[0], 0), number(rates[1], 0));
            row(&mut text, &name, ours, theirs, &format!("{:.2}", cell.ratio_max()), &rates);
        }
        let of = |list: &[f64], maker| self.column(maker).and_then(|at| list.get(at).copied());
        let started =
            |maker| self.column(maker).and_then(|at| self.starts.get(at)).and_then(|s| median(s));
        let both = [Maker::Tandem, Maker::Apache];
        let [ours, theirs] = both.map(|maker| of(&self.idle, maker));
        row(&mut text, "anonymous memory, idle (MiB)", ours, theirs, "20 MiB", "");
        let [ours, theirs] = both.map(|maker| of(&self.loaded, maker));
        row(&mut text, "anonymous memory, loaded (MiB)", ours, theirs, "60 MiB", "");
        let [ours, theirs] = both.map(started);
        row(&mut text, "start to first answered send (ms)", ours, theirs, "100 ms", "");
        if missed.is_empty() {
            text.push_str("\nEvery measured target is met.\n");
        } else {
            text.push_str("\nMissed:\n");
            for line in missed {
                let _ = writeln!(text, "- {line}");
            }
        }
        text
    }

    /// Every turn.
    pub(crate) fn json(&self) -> Value {
        let makers: Vec<String> = self.makers.iter().map(|maker| format!("{maker:?}")).collect();
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|(cell, runs)| json!({ "name": cell.name, "unit": cell.unit(), "runs": runs }))
            .collect();
        json!({
            "machine": machine(),
            "makers": makers,
            "cells": cells,
            "idle_mib": self.idle,
            "loaded_mib": self.loaded,
            "start_ms": self.starts,
            "missed": self.missed(),
        })
    }
}

fn row(
    text: &mut String,
    name: &str,
    ours: Option<f64>,
    theirs: Option<f64>,
    target: &str,
    rates: &str,
) {
    let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
    // Writing into a String can't fail.
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {target} | {rates} |",
        number(ours, 2),
        number(theirs, 2),
        number(ratio, 3)
    );
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

/// Date and shape of the machine.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu_info = read("/proc/cpuinfo");
    let model = cpu_info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let memory = read("/proc/meminfo");
    let memory_kib: u64 = memory
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .unwrap_or(0);
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{}, {processors} processors ({model}), {:.0} GiB memory, Linux {}, load average {}",
        jiff::Timestamp::now().strftime("%Y-%m-%d"),
        memory_kib as f64 / 1024.0 / 1024.0,
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or("unknown"),
    )
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => sorted.get(middle).copied(),
        _ => mean(sorted.get(middle - 1..=middle)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::CELLS;

    fn run(figure: f64) -> Run {
        Run {
            figure,
            per_second: 1000.0,
            p99: None,
            broker_cpu: figure,
            own_cpu: 1.0,
            anonymous_mib: 10.0,
            failures: 0,
        }
    }

    fn findings(ours: f64, theirs: f64) -> Findings<'static> {
        let mut findings = Findings::new(&[Maker::Tandem, Maker::Apache]);
        findings.cells.push((&CELLS[0], vec![vec![run(ours)], vec![run(theirs)]]));
        findings.idle = vec![10.0, 500.0];
        findings.loaded = vec![50.0, 800.0];
        findings.starts = vec![vec![50.0], vec![3000.0]];
        findings
    }

    #[test]
    fn a_target_is_missed_by_ratio_or_by_limit() {
        assert_eq!(findings(10.0, 40.0).missed(), Vec::<String>::new());
        let mut worse = findings(15.0, 40.0);
        worse.idle = vec![21.0, 500.0];
        worse.starts = vec![vec![90.0, 130.0, 140.0], vec![3000.0]];
        assert_eq!(
            worse.missed(),
            [
                "send, 1 connection x 1: 15.00 CPU s per million, 50 % above the target of 10.00",
                "idle memory: 21.0 MiB, the target is 20 MiB",
                "start to first answered send: 130.0 ms, the target is 100 ms",
            ]
        );
        assert!(worse.markdown(&worse.missed()).contains("Missed:"));
    }

    #[test]
    fn one_side_alone_has_no_ratio() {
        let mut findings = findings(10.0, 40.0);
        findings.makers = vec![Maker::Apache];
        assert!(findings.missed().is_empty());
        let text = findings.markdown(&[]);
        assert!(text.contains("| send, 1 connection x 1 (CPU s per million) | - | 10.00 | - |"));
    }

    #[test]
    fn medians_lie_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
