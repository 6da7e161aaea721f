//! The `broker` binary: reads the command line and says how it ended.

use std::process::ExitCode;

use broker::cli::{Cli, Command, ConfigCommand, Settings, StoreCommand, exit};
use broker::config::{Source, Table, load, reference};
use broker::{inspect, logging, run};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = match cli.command {
        None => standalone(&cli.standalone),
        Some(Command::Standalone(command)) => standalone(&command),
        Some(Command::Serve(settings)) => {
            print_settings(&settings, run::broker_table(), &settings.source())
                .unwrap_or_else(|| start(|| run::serve(&settings)))
        }
        Some(Command::Nameserver(settings)) => {
            print_settings(&settings, run::name_server_table(), &settings.source())
                .unwrap_or_else(|| start(|| run::name_server(&settings)))
        }
        Some(Command::Config(command)) => config(&command),
        Some(Command::Store(StoreCommand::Check { dir })) => check(&dir),
    };
    ExitCode::from(code)
}

fn standalone(command: &broker::cli::Standalone) -> u8 {
    print_settings(&command.settings, run::broker_table(), &run::standalone_source(command))
        .unwrap_or_else(|| start(|| run::standalone(command)))
}

fn start(run: impl FnOnce() -> Result<(), run::RunError>) -> u8 {
    logging::start();
    match run() {
        Ok(()) => exit::OK,
        Err(error) => {
            tracing::error!("{error}");
            error.exit_code()
        }
    }
}

/// Apache's `-p` and `-m`: the settings instead of a start.
fn print_settings(settings: &Settings, table: Table, source: &Source) -> Option<u8> {
    if !settings.print_all && !settings.print_important {
        return None;
    }
    Some(match load(table, source) {
        Ok(config) => tell(&inspect::properties(&config.table, !settings.print_all)),
        Err(error) => complain(&error, exit::CONFIG),
    })
}

fn config(command: &ConfigCommand) -> u8 {
    if command.reference {
        return tell(&reference::page(&reference::rooms()));
    }
    let table = if command.nameserver { run::name_server_table() } else { run::broker_table() };
    match load(table, &command.settings.source()) {
        Ok(config) => {
            for warning in &config.warnings {
                complain(warning, exit::OK);
            }
            tell(&inspect::settings(&config.table))
        }
        Err(error) => complain(&error, exit::CONFIG),
    }
}

fn check(folder: &std::path::Path) -> u8 {
    match inspect::store(folder) {
        Ok(report) => {
            tell(&inspect::report(folder, &report));
            if report.is_sound() { exit::OK } else { exit::STORE }
        }
        Err(error) => complain(&error, exit::STORE),
    }
}

#[expect(clippy::print_stdout, reason = "the output of a command is what it is for")]
fn tell(text: &str) -> u8 {
    print!("{text}");
    exit::OK
}

#[expect(clippy::print_stderr, reason = "a command that logs nothing complains here")]
fn complain(error: &impl std::fmt::Display, code: u8) -> u8 {
    eprintln!("broker: {error}");
    code
}
