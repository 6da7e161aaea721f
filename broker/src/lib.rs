//! Tandem's server: a RocketMQ 4.9-compatible broker and name server.

pub mod admin_http;
pub mod broker;
pub mod chores;
pub mod cli;
pub mod clients;
pub mod config;
pub mod dispatch;
pub mod figures;
pub mod groups;
pub mod handler;
pub mod inspect;
pub mod logging;
pub mod long_poll;
pub mod metrics;
pub mod nameserver;
pub mod net;
pub mod offsets;
pub mod pool;
pub mod queue_locks;
pub mod rates;
pub mod registration;
pub mod run;
pub mod schedule;
pub mod state_file;
pub mod stats;
#[cfg(test)]
mod testing;
pub mod topics;
