//! `cost`: what Tandem spends against Apache RocketMQ 4.9.3, side by side on one machine.
//!
//! Both run as asynchronous masters with asynchronous flush, the load is mqbench's for both, and
//! each cell is measured in turns, so that both sides see the same machine. It prints the table
//! and where a target is missed:
//!
//! ```text
//! cargo run --release -p system-tests --bin cost            # some seconds a cell
//! cargo run --release -p system-tests --bin cost -- --full
//! ```

mod cells;
mod load;
mod side;
mod starts;
mod table;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use system_tests::cluster::Maker;

use crate::cells::Cell;
use crate::side::Side;
use crate::table::Findings;

/// Measures Tandem and Apache RocketMQ 4.9.3 in turns and prints the table.
#[derive(Debug, Parser)]
struct Options {
    /// Long windows and more rounds, for figures to publish.
    #[arg(long)]
    full: bool,
    /// Measure one side only; there are no ratios then.
    #[arg(long, value_enum)]
    side: Option<OneSide>,
    /// Measure only cells whose name contains this; may be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Write all figures into this file as JSON, too.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Exit with 1 when a target is missed.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OneSide {
    Tandem,
    Apache,
}

/// How long and how often to measure.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Turns that each side gets in each cell.
    rounds: usize,
    /// Seconds of load before a window.
    warm_up: f64,
    /// Seconds of a window.
    window: f64,
    /// Seconds of load before the first cell: Java compiles what it runs often.
    first_load: f64,
    /// Turns of the latency cell, whose median is taken.
    latency_rounds: usize,
    /// Starts on an empty store.
    starts: usize,
}

impl Effort {
    const QUICK: Self = Self {
        rounds: 2,
        warm_up: 1.0,
        window: 3.0,
        first_load: 15.0,
        latency_rounds: 3,
        starts: 3,
    };
    const FULL: Self = Self {
        rounds: 3,
        warm_up: 3.0,
        window: 10.0,
        first_load: 45.0,
        latency_rounds: 5,
        starts: 7,
    };
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if cfg!(debug_assertions) {
        bail!("a debug build says nothing about cost; run with --release");
    }
    let effort = if options.full { Effort::FULL } else { Effort::QUICK };
    let makers = match options.side {
        Some(OneSide::Tandem) => vec![Maker::Tandem],
        Some(OneSide::Apache) => vec![Maker::Apache],
        None => vec![Maker::Tandem, Maker::Apache],
    };
    let cells: Vec<&Cell> = cells::CELLS.iter().filter(|cell| options.wants(cell.name)).collect();
    let mut findings = Findings::new(&makers);
    if options.wants(starts::NAME) {
        for maker in &makers {
            note(&format!("{maker:?}: starts on an empty store"));
            findings.starts.push(starts::measure(*maker, effort.starts)?);
        }
    }
    let mut sides = makers.iter().map(|maker| Side::start(*maker)).collect::<Result<Vec<_>>>()?;
    for side in &mut sides {
        findings.idle.push(side.idle_memory()?);
        note(&format!("{:?}: first load", side.maker));
        load::first(side, effort.first_load)?;
    }
    for cell in cells {
        let rounds = cell.rounds(&effort);
        let mut measured = vec![Vec::new(); sides.len()];
        for round in 1..=rounds {
            for (side, runs) in sides.iter_mut().zip(&mut measured) {
                let run = load::run(side, cell, &effort)?;
                note(&format!("{} round {round} {:?}: {}", cell.name, side.maker, run.line()));
                runs.push(run);
            }
        }
        findings.cells.push((cell, measured));
    }
    findings.loaded = sides.iter().map(|side| side.loaded_mib).collect();
    drop(sides);
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&findings.json())?)?;
    }
    let missed = findings.missed();
    show(&findings.markdown(&missed));
    Ok(if options.check && !missed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
    }
}

/// Progress; that it can't be shown is no reason to stop.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn show(text: &str) {
    #[expect(clippy::print_stdout, reason = "the table is what this program is for")]
    {
        print!("{text}");
    }
}
