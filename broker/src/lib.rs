//! Tandem's server: a RocketMQ 4.9-compatible broker and name server.

pub mod admin_http;
pub mod cli;
pub mod config;
pub mod logging;
pub mod metrics;
pub mod net;
pub mod offsets;
pub mod pool;
pub mod schedule;
pub mod state_file;
pub mod stats;
