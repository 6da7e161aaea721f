//! The `broker` binary: reads the command line and says how it ended.

use std::process::ExitCode;

use broker::cli::{Cli, Command, exit};
use broker::config::reference;
use broker::{logging, run};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[expect(clippy::print_stdout, reason = "the output of a command is what it is for")]
    let ended = match cli.command {
        Some(Command::Config(command)) if command.reference => {
            print!("{}", reference::page(&reference::rooms()));
            return ExitCode::from(exit::OK);
        }
        None => start(|| run::standalone(&cli.standalone)),
        Some(Command::Standalone(command)) => start(|| run::standalone(&command)),
        Some(Command::Serve(settings)) => start(|| run::serve(&settings)),
        Some(Command::Nameserver(settings)) => start(|| run::name_server(&settings)),
        _ => return ExitCode::from(exit::FAILED),
    };
    match ended {
        Ok(()) => ExitCode::from(exit::OK),
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn start(run: impl FnOnce() -> Result<(), run::RunError>) -> Result<(), run::RunError> {
    logging::start();
    run()
}
