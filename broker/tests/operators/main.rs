//! What clients and operators ask a whole broker beside sends and pulls, in raw frames over real
//! sockets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    dead_code,
    unreachable_pub,
    reason = "a test fails by panicking; the server's file serves other tests too"
)]

mod admin;
mod membership;
mod progress;
#[path = "../message_path/server.rs"]
mod server;
