//! A queue of a topic as the store sees it. (Skeleton: the queue half takes this over.)

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// One queue; handles are shared, so the counter is one.
#[derive(Debug)]
pub struct Queue {
    topic: Arc<str>,
    id: i32,
    /// The offset that the next appended record gets. Changed only under the put lock.
    next: AtomicI64,
}

impl Queue {
    /// A queue whose next record gets `next`.
    pub(crate) fn new(topic: Arc<str>, id: i32, next: i64) -> Queue {
        Queue { topic, id, next: AtomicI64::new(next) }
    }

    /// Its topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Its number inside the topic.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// The offset that the next appended record gets. Under the put lock.
    pub(crate) fn next_offset(&self) -> i64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Takes `count` offsets and returns the first; a negative count gives some back. Under the put
    /// lock, when nothing can fail any more.
    pub(crate) fn take(&self, count: i64) -> i64 {
        let first = self.next.load(Ordering::Relaxed);
        self.next.store(first + count, Ordering::Relaxed);
        first
    }
}
