//! The `broker` binary: reads the command line and says how it ended.

use std::process::ExitCode;

use broker::cli::{Cli, Command, exit};
use broker::config::reference;
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[expect(clippy::print_stdout, reason = "the output of a command is what it is for")]
    match cli.command {
        Some(Command::Config(command)) if command.reference => {
            print!("{}", reference::page(&reference::rooms()));
            ExitCode::from(exit::OK)
        }
        _ => ExitCode::from(exit::FAILED),
    }
}
