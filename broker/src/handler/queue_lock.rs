//! Locking and unlocking queues for consumers that read in order (41, 42).

use broker_protocol::body::{LockBatch, LockedQueues};
use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::header::NoHeader;
use broker_protocol::json;

use super::Refusal;
use super::refusal::read_body;
use crate::net::Reply;
use crate::queue_locks::QueueLocks;

/// 41: takes or renews locks; answers those that the client holds now.
pub fn lock(
    locks: &QueueLocks,
    now: i64,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let wanted: LockBatch = read_body(request)?;
    let held = locks.lock_batch(&wanted.consumer_group, &wanted.client_id, &wanted.mq_set, now);
    let body = json::to_vec(&LockedQueues { lock_ok_mq_set: held })?;
    reply.with_body(response::SUCCESS, None, &NoHeader, &body);
    Ok(())
}

/// 42: gives locks back.
pub fn unlock(
    locks: &QueueLocks,
    request: &Frame<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let wanted: LockBatch = read_body(request)?;
    locks.unlock_batch(&wanted.consumer_group, &wanted.client_id, &wanted.mq_set);
    reply.ok(&NoHeader);
    Ok(())
}
