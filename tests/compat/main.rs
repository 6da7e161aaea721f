//! Foreign clients, tools and servers against ours.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests fail by panicking, and tell what they do"
)]

mod apache_it;
mod clients;
mod mqadmin;
mod name_servers;
mod stores;
