//! Which client owns which queue, for consumers that read in order. A lock lives for a minute after
//! its owner last renewed it; it is neither stored nor replicated. Deciding who may ask belongs to
//! the handlers.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use broker_protocol::body::MessageQueue;
use parking_lot::Mutex;

/// How long a lock outlives its last renewal, in milliseconds. Clients renew every 20 s.
pub const LOCK_LIFETIME_MS: i64 = 60_000;

/// The locks of every group. One short lock over all: a client asks once in 20 seconds.
#[derive(Debug, Default)]
pub struct QueueLocks {
    groups: Mutex<HashMap<Arc<str>, Locks, RandomState>>,
}

type Locks = HashMap<MessageQueue, Lock, RandomState>;

#[derive(Debug)]
struct Lock {
    client_id: Arc<str>,
    renewed_at: i64,
}

impl Lock {
    fn expired(&self, now: i64) -> bool {
        now - self.renewed_at > LOCK_LIFETIME_MS
    }
}

impl QueueLocks {
    /// No locks held.
    #[must_use]
    pub fn new() -> QueueLocks {
        QueueLocks::default()
    }

    /// Takes or renews each of `queues` for the client, and answers those that it now holds. A
    /// queue that another client holds is left out. `now` is in milliseconds.
    pub fn lock_batch(
        &self,
        group: &str,
        client_id: &str,
        queues: &[MessageQueue],
        now: i64,
    ) -> Vec<MessageQueue> {
        if queues.is_empty() {
            return Vec::new();
        }
        let mut groups = self.groups.lock();
        let locks = match groups.get_mut(group) {
            Some(locks) => locks,
            None => groups.entry(Arc::from(group)).or_default(),
        };
        // What nobody renewed is dropped here, so a group never holds more locks than were asked
        // for within a minute.
        locks.retain(|_, lock| !lock.expired(now));
        let client: Arc<str> = Arc::from(client_id);
        let mut held = Vec::with_capacity(queues.len());
        for queue in queues {
            match locks.get_mut(queue) {
                Some(lock) if *lock.client_id == *client => lock.renewed_at = now,
                Some(_) => continue,
                None => {
                    let lock = Lock { client_id: client.clone(), renewed_at: now };
                    locks.insert(queue.clone(), lock);
                }
            }
            held.push(queue.clone());
        }
        held
    }

    /// Gives back those of `queues` that the client holds; a lock of another client stays.
    pub fn unlock_batch(&self, group: &str, client_id: &str, queues: &[MessageQueue]) {
        let mut groups = self.groups.lock();
        let Some(locks) = groups.get_mut(group) else { return };
        for queue in queues {
            if locks.get(queue).is_some_and(|lock| *lock.client_id == *client_id) {
                locks.remove(queue);
            }
        }
        if locks.is_empty() {
            groups.remove(group);
        }
    }

    /// Drops every lock that nobody renewed; called with the expiry of clients.
    pub fn expire(&self, now: i64) {
        self.groups.lock().retain(|_, locks| {
            locks.retain(|_, lock| !lock.expired(now));
            !locks.is_empty()
        });
    }

    /// How many locks are held, over all groups.
    #[must_use]
    pub fn held(&self) -> usize {
        self.groups.lock().values().map(HashMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(id: i32) -> MessageQueue {
        MessageQueue::new("t", "b", id)
    }

    #[test]
    fn a_queue_has_one_owner_until_given_back() {
        let locks = QueueLocks::new();
        let both = [queue(0), queue(1)];
        assert_eq!(locks.lock_batch("g", "c1", &both[..1], 0), &both[..1]);
        assert_eq!(locks.lock_batch("g", "c2", &both, 10), &both[1..]);
        locks.unlock_batch("g", "c2", &both);
        assert!(locks.lock_batch("g", "c3", &both[..1], 10).is_empty(), "c2 gave back c1's lock");
        locks.unlock_batch("g", "c1", &both);
        assert_eq!(locks.held(), 0);
        assert_eq!(locks.lock_batch("g", "c2", &both, 20), both);
    }

    #[test]
    fn groups_do_not_share_locks() {
        let locks = QueueLocks::new();
        assert_eq!(locks.lock_batch("g", "c1", &[queue(0)], 0).len(), 1);
        assert_eq!(locks.lock_batch("h", "c2", &[queue(0)], 0).len(), 1);
    }

    #[test]
    fn a_lock_expires_a_minute_after_its_last_renewal() {
        let locks = QueueLocks::new();
        let wanted = [queue(0)];
        locks.lock_batch("g", "c1", &wanted, 0);
        locks.lock_batch("g", "c1", &wanted, 20_000);
        assert!(locks.lock_batch("g", "c2", &wanted, 80_000).is_empty());
        assert_eq!(locks.lock_batch("g", "c2", &wanted, 80_001), wanted);
    }

    #[test]
    fn locks_of_a_silent_group_are_dropped() {
        let locks = QueueLocks::new();
        locks.lock_batch("g", "c1", &[queue(0)], 0);
        locks.expire(LOCK_LIFETIME_MS);
        assert_eq!(locks.held(), 1);
        locks.expire(LOCK_LIFETIME_MS + 1);
        assert_eq!(locks.held(), 0);
    }
}
