//! Our broker as a process, with faults.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and tell what they do"
)]

mod delay;
mod filters;
mod kill;
mod load;
mod members;
mod metrics;
mod name_server;
mod offsets;
mod protocol;
mod pulls;
mod queries;
mod retry;
mod scrape;
mod settings;
mod sizes;
mod standalone;
mod support;
mod topics;
