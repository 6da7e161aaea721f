//! One file a subject: what a request asks, whether it may, and what it is answered. Handlers get
//! the few tables they use, hold no lock across an await, and know nothing of sockets but the reply.

use std::time::{SystemTime, UNIX_EPOCH};

pub mod batch;
pub mod config;
pub mod consumer;
pub mod group;
pub mod heartbeat;
pub mod offset;
pub mod pull;
pub mod query;
pub mod queue_lock;
mod refusal;
pub mod reset_offset;
pub mod runtime;
pub mod send;
pub mod send_back;
pub mod stats;
pub mod topic;

pub use refusal::Refusal;

/// Bit of a topic's sys flag: consumers of a unit read it.
const UNIT_SUB: i32 = 2;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
