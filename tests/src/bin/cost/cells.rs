//! The cells of the table: which load each is, and what is asked of Tandem there.

use crate::Effort;

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Cell {
    /// As the table names it.
    pub(crate) name: &'static str,
    /// What mqbench is told, beside what all cells have in common.
    pub(crate) arguments: &'static [&'static str],
    /// Which figure counts.
    pub(crate) figure: Figure,
}

/// The figure of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Processor seconds of the broker per million messages; the mean of the rounds.
    Cpu,
    /// 99th percentile of the time from due to answered, in milliseconds; the median of the
    /// rounds.
    P99,
}

/// All cells, in the order of the table. The pulls come after sends that left something to pull.
pub(crate) const CELLS: [Cell; 8] = [
    sends("send, 1 connection x 1", &["--connections", "1", "--in-flight", "1"]),
    sends("send, 1 connection x 16", &["--connections", "1", "--in-flight", "16"]),
    sends("send, 1 connection x 64", &["--connections", "1", "--in-flight", "64"]),
    sends("send, 16 connections x 1", &["--connections", "16", "--in-flight", "1"]),
    sends("send, 64 connections x 1", &["--connections", "64", "--in-flight", "1"]),
    sends(
        "send, batches of 16",
        &["--connections", "1", "--in-flight", "4", "--batch", "16", "--topic", "cost-batch"],
    ),
    Cell {
        name: "pull, 32 at once",
        arguments: &["consume", "--pull", "32", "--rewind", "--topic", PULLED_TOPIC],
        figure: Figure::Cpu,
    },
    Cell {
        name: "p99 at 5,000/s",
        arguments: &["produce", "--connections", "8", "--in-flight", "64", "--rate", "5000"],
        figure: Figure::P99,
    },
];

/// Filled before the pulls, with [`PULLED_MESSAGES`] messages: as many as stay in memory.
pub(crate) const PULLED_TOPIC: &str = "cost-pull";
/// See [`PULLED_TOPIC`].
pub(crate) const PULLED_MESSAGES: u64 = 200_000;

const fn sends(name: &'static str, arguments: &'static [&'static str]) -> Cell {
    Cell { name, arguments, figure: Figure::Cpu }
}

impl Cell {
    /// What mqbench is told: the command, then its options.
    pub(crate) fn command(&self) -> impl Iterator<Item = &'static str> {
        let named = self.arguments.first().is_some_and(|first| !first.starts_with('-'));
        (!named).then_some("produce").into_iter().chain(self.arguments.iter().copied())
    }

    /// Turns that each side gets.
    pub(crate) fn rounds(&self, effort: &Effort) -> usize {
        match self.figure {
            Figure::Cpu => effort.rounds,
            Figure::P99 => effort.latency_rounds,
        }
    }

    /// The most that Tandem may spend, as a part of what Apache spends.
    pub(crate) fn ratio_max(&self) -> f64 {
        match self.figure {
            Figure::Cpu => 1.0 / 4.0,
            Figure::P99 => 1.0 / 3.0,
        }
    }

    /// Unit of the figure.
    pub(crate) fn unit(&self) -> &'static str {
        match self.figure {
            Figure::Cpu => "CPU s per million",
            Figure::P99 => "ms",
        }
    }
}
