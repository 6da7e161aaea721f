//! mqbench: a load generator for any RocketMQ 4.9-compatible broker.
//!
//! `setup` makes topics and finds queues, `produce` and `consume` are the two kinds of connection,
//! `run` puts them on threads and measures. Only this file and `report` print.

#![forbid(unsafe_code)]

mod consume;
mod frames;
mod input;
mod measure;
mod options;
mod pacing;
mod process;
mod produce;
mod report;
mod run;
mod setup;

use anyhow::{Context, Result};
use clap::Parser;

use crate::options::Cli;

fn main() -> Result<()> {
    let (common, produce, consume) = Cli::parse().split()?;
    let plan = setup::plan(&common, produce.as_ref(), consume.as_ref())?;
    let report = run::run(&common, produce.as_ref(), consume.as_ref(), plan)?;
    let text = if common.json {
        serde_json::to_string_pretty(&report).context("write the result as JSON")? + "\n"
    } else {
        report.text()
    };
    #[expect(clippy::print_stdout, reason = "the result is what this program is for")]
    {
        print!("{text}");
    }
    Ok(())
}
