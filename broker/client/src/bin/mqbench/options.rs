//! The command line of mqbench and the checks on it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

/// Measures a RocketMQ 4.9-compatible broker: throughput, latency, and the processor time and
/// memory that it spends.
///
/// Example: `mqbench produce --connections 4 --in-flight 16 --pid $(pidof broker)`
#[derive(Debug, Parser)]
#[command(name = "mqbench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to drive.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send messages.
    Produce(ProduceCommand),
    /// Pull messages.
    Consume(ConsumeCommand),
    /// Send and pull at once; measures from the send's due time to arrival at the consumer.
    Both(BothCommand),
}

#[derive(Debug, Args)]
pub(crate) struct ProduceCommand {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) produce: Produce,
}

#[derive(Debug, Args)]
pub(crate) struct ConsumeCommand {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) consume: Consume,
}

#[derive(Debug, Args)]
pub(crate) struct BothCommand {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) produce: Produce,
    #[command(flatten)]
    pub(crate) consume: Consume,
}

/// Where the broker is and how long to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Name servers, separated by `;`.
    #[arg(short = 'n', long, env = "NAMESRV_ADDR", default_value = "127.0.0.1:9876")]
    pub(crate) name_server: String,
    /// A broker's address; the name server is not asked then.
    #[arg(short, long, env = "MQBENCH_BROKER")]
    pub(crate) broker: Option<String>,
    /// Topic to use; with --topics above 1 the first part of their names.
    #[arg(short, long, default_value = "mqbench")]
    pub(crate) topic: String,
    /// How many topics to spread the load over.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) topics: u32,
    /// Queues that a topic gets on each broker when it is made; a topic that is there keeps its
    /// own.
    #[arg(short, long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) queues: u32,
    /// Make no topics: a missing one is an error.
    #[arg(long)]
    pub(crate) no_create: bool,
    /// How request headers are written.
    #[arg(short, long, value_enum, default_value_t = Serialization::Json)]
    pub(crate) serialization: Serialization,
    /// Worker threads of the load generator.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) threads: u32,
    /// Seconds of load before measuring starts.
    #[arg(short, long, default_value_t = 3.0)]
    pub(crate) warm_up: f64,
    /// Seconds of each measured window.
    #[arg(short = 'd', long, default_value_t = 10.0)]
    pub(crate) window: f64,
    /// How many windows to measure.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) windows: u32,
    /// Stop early after this many messages (each way), warm-up included.
    #[arg(short = 'm', long)]
    pub(crate) messages: Option<u64>,
    /// Process id of the broker, on this machine: report its processor time and memory. Repeat it
    /// for more processes; processor times are added up.
    #[arg(short, long)]
    pub(crate) pid: Vec<u32>,
    /// Print one JSON document at the end instead of text.
    #[arg(short, long)]
    pub(crate) json: bool,
    /// Show no progress.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Write the latency distribution of the last window into this file, as percentile lines.
    #[arg(long)]
    pub(crate) distribution: Option<PathBuf>,
}

/// How to send.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct Produce {
    /// Connections that send.
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) connections: u32,
    /// Unanswered requests that each connection may have.
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub(crate) in_flight: u32,
    /// Messages in one request; above 1 they are sent as a batch (code 320).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) batch: u32,
    /// Body bytes of a message.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) size: u32,
    /// Messages a second of all connections, sent when due whether or not earlier ones were
    /// answered; without it each connection sends as fast as answers come.
    #[arg(short, long)]
    pub(crate) rate: Option<f64>,
    /// Tag of the messages; empty for none.
    #[arg(long, default_value = "tag0")]
    pub(crate) tag: String,
    /// Send no KEYS property.
    #[arg(long)]
    pub(crate) no_keys: bool,
    /// Producer group.
    #[arg(long, default_value = "mqbench_producer")]
    pub(crate) producer_group: String,
}

/// How to pull.
#[derive(Clone, Debug, Args, Serialize)]
pub(crate) struct Consume {
    /// Connections that pull; queues are spread over them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) consumer_connections: u32,
    /// Most messages that one pull may bring.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) pull: u32,
    /// Seconds that the broker may hold a pull when there is nothing new.
    #[arg(long, default_value_t = 15.0)]
    pub(crate) hold: f64,
    /// Where to start.
    #[arg(long, value_enum, default_value_t = From::Oldest)]
    pub(crate) from: From,
    /// Start again at the oldest message when a queue is read to its end.
    #[arg(long)]
    pub(crate) rewind: bool,
    /// Subscription: `*`, or tags as `a || b`.
    #[arg(long, default_value = "*")]
    pub(crate) subscription: String,
    /// Consumer group.
    #[arg(long, default_value = "mqbench_consumer")]
    pub(crate) consumer_group: String,
}

/// Encoding of request headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Serialization {
    /// As Java clients send by default.
    Json,
    /// RocketMQ's binary header.
    Binary,
}

/// First offset of a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum From {
    /// The oldest stored message.
    Oldest,
    /// Only messages that arrive from now on.
    Newest,
}

impl Cli {
    /// The parts of the command, whichever it is.
    pub(crate) fn split(self) -> Result<(Common, Option<Produce>, Option<Consume>)> {
        let (common, produce, consume) = match self.command {
            Command::Produce(c) => (c.common, Some(c.produce), None),
            Command::Consume(c) => (c.common, None, Some(c.consume)),
            Command::Both(c) => (c.common, Some(c.produce), Some(c.consume)),
        };
        for (name, seconds) in [("warm-up", common.warm_up), ("window", common.window)] {
            if !(0.0..=86_400.0).contains(&seconds) {
                bail!("--{name} takes seconds between 0 and 86400, not {seconds}");
            }
        }
        if common.window == 0.0 {
            bail!("--window must be longer than 0 seconds");
        }
        if let Some(rate) = produce.as_ref().and_then(|p| p.rate)
            && !(0.001..=1e8).contains(&rate)
        {
            bail!("--rate takes messages a second between 0.001 and 1e8, not {rate}");
        }
        if let Some(hold) = consume.as_ref().map(|c| c.hold)
            && !(0.0..=300.0).contains(&hold)
        {
            bail!("--hold takes seconds between 0 and 300, not {hold}");
        }
        Ok((common, produce, consume))
    }
}

impl Common {
    /// The names of the topics.
    pub(crate) fn topic_names(&self) -> Vec<String> {
        if self.topics == 1 {
            return vec![self.topic.clone()];
        }
        (0..self.topics).map(|n| format!("{}-{n}", self.topic)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Common, Option<Produce>, Option<Consume>)> {
        Cli::try_parse_from(line.split_whitespace())?.split()
    }

    #[test]
    fn command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn one_topic_keeps_its_name_and_more_are_numbered() {
        let (common, ..) = parse("mqbench produce --topic t").unwrap();
        assert_eq!(common.topic_names(), ["t"]);
        let (common, ..) = parse("mqbench produce --topic t --topics 2").unwrap();
        assert_eq!(common.topic_names(), ["t-0", "t-1"]);
    }

    #[test]
    fn commands_drive_what_they_say() {
        let (_, produce, consume) = parse("mqbench both --rate 10 --pull 16").unwrap();
        assert!(produce.is_some() && consume.is_some());
        assert!(parse("mqbench consume").unwrap().1.is_none());
        assert!(parse("mqbench produce").unwrap().2.is_none());
    }

    #[test]
    fn nonsense_is_refused() {
        for line in ["produce --rate 0", "produce --window 0", "consume --hold -1", "produce -i 0"]
        {
            assert!(parse(&format!("mqbench {line}")).is_err(), "{line}");
        }
    }
}
