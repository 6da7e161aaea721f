//! The message path of a whole broker, asked in raw frames over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test fails by panicking and says its seed"
)]

mod batch;
mod hostile;
mod pull;
mod send;
mod server;
