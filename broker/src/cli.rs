//! The command line: subcommands, flags, exit codes. It decides what runs; it runs nothing itself.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Flags, Source};

/// Exit codes of the `broker` binary.
pub mod exit {
    /// Done, or stopped on request.
    pub const OK: u8 = 0;
    /// Something failed while running.
    pub const FAILED: u8 = 1;
    /// The command line can't be understood (clap's own code).
    pub const USAGE: u8 = 2;
    /// The configuration is wrong.
    pub const CONFIG: u8 = 3;
    /// The store can't be opened, or `store check` found damage.
    pub const STORE: u8 = 4;
    /// A port can't be opened.
    pub const ADDRESS: u8 = 5;
}

/// Tandem: a message broker and name server that RocketMQ 4.9 applications use unchanged.
#[derive(Debug, Parser)]
#[command(name = "broker", version, after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; `standalone` when left out.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Flags of `standalone`, which is what runs without a subcommand.
    #[command(flatten)]
    pub standalone: Standalone,
}

const AFTER_HELP: &str = "Examples:
  broker                                     name server and master broker in one process
  broker standalone --data /var/lib/tandem   the same, with its files there
  broker nameserver                          a name server on port 9876
  broker serve -n ns1:9876;ns2:9876 -c broker.conf
  broker config -c broker.conf               the effective values and where each came from
  broker store check /var/lib/tandem/store   verify a stopped broker's files

Exit codes: 0 done, 1 failed, 2 usage, 3 configuration, 4 store, 5 address in use.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a name server and a master broker in one process (the default).
    Standalone(Standalone),
    /// Run a broker that registers at name servers.
    Serve(Settings),
    /// Run a name server.
    Nameserver(Settings),
    /// Print the effective configuration and where each value came from.
    Config(ConfigCommand),
    /// Look at a store's files without a running broker.
    #[command(subcommand)]
    Store(StoreCommand),
}

/// Where settings come from; Apache's letters work.
#[derive(Debug, Clone, Default, Args)]
pub struct Settings {
    /// Configuration file: YAML, or Apache's broker.conf properties.
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Name servers, host:port separated by ';'.
    #[arg(short = 'n', long = "namesrv", value_name = "ADDRESSES")]
    pub namesrv: Option<String>,
    /// One setting by its key; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Print all settings and exit.
    #[arg(short = 'p')]
    pub print_all: bool,
    /// Print the settings that matter most and exit.
    #[arg(short = 'm')]
    pub print_important: bool,
}

/// Settings of the all-in-one process.
#[derive(Debug, Clone, Default, Args)]
pub struct Standalone {
    /// The broker's settings.
    #[command(flatten)]
    pub settings: Settings,
    /// Folder for all files; short for --set storePathRootDir=DIR/store, and the name server's files beside it.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Port of the name server.
    #[arg(long, value_name = "PORT", default_value_t = 9876)]
    pub namesrv_port: u16,
}

/// `broker config`.
#[derive(Debug, Clone, Args)]
pub struct ConfigCommand {
    /// The settings to look at.
    #[command(flatten)]
    pub settings: Settings,
    /// Show a name server's settings instead of a broker's.
    #[arg(long)]
    pub nameserver: bool,
    /// Print the reference page of all keys (Markdown).
    #[arg(long)]
    pub reference: bool,
}

/// `broker store …`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Verify the files of a stopped broker and print what was found. Changes nothing.
    Check {
        /// The store's folder (storePathRootDir).
        dir: PathBuf,
    },
}

impl Settings {
    /// These flags with this process's environment.
    pub fn source(&self) -> Source {
        Source {
            flags: Flags {
                file: self.file.clone(),
                namesrv_addr: self.namesrv.clone(),
                set: self.set.clone(),
            },
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                // Read by the logs and by the tests; neither is a setting.
                .filter(|(name, _)| !matches!(&**name, "TANDEM_LOG_FORMAT" | "TANDEM_CACHE"))
                .collect(),
        }
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(key, value)| (key.trim().to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text:?} is no KEY=VALUE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn standalone_is_the_default_and_takes_its_flags() {
        let cli =
            Cli::parse_from(["broker", "--data", "/d", "-n", "a:1", "--set", "brokerName=x=y"]);
        assert!(cli.command.is_none());
        assert_eq!(cli.standalone.data, Some("/d".into()));
        assert_eq!(cli.standalone.settings.set, [("brokerName".to_owned(), "x=y".to_owned())]);
        let cli = Cli::parse_from(["broker", "serve", "-c", "f", "-p"]);
        assert!(matches!(cli.command, Some(Command::Serve(s)) if s.print_all));
        assert!(Cli::try_parse_from(["broker", "--set", "x"]).is_err());
    }
}
