//! The message path of a whole broker, asked in raw frames over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "a test fails by panicking and says its seed; the server's file serves others too"
)]

mod batch;
mod delay;
mod hostile;
mod pull;
mod retry;
mod send;
mod server;
