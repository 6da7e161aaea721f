//! Tandem's server: a RocketMQ 4.9-compatible broker and name server.

pub mod config;
