//! One file a subject: what a request asks, whether it may, and what it is answered. Handlers get
//! the few tables they use, hold no lock across an await, and know nothing of sockets but the reply.

use std::time::{SystemTime, UNIX_EPOCH};

pub mod batch;
pub mod pull;
pub mod send;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
