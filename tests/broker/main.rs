//! Our broker as a process, with faults.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and tell what they do"
)]

mod kill;
mod metrics;
mod standalone;
