//! Pulls that found nothing and wait: kept by queue, by deadline and by peer, so that an arrival, a
//! passed deadline and a closed connection each find theirs without a search. The table wakes
//! nobody and reads nothing; the pull handler drives it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use ahash::RandomState;
use broker_store::Queue;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What a held pull must know of itself; the rest is the handler's business.
pub trait Held {
    /// The queue it waits for.
    fn queue(&self) -> &Arc<Queue>;
    /// The connection it came from.
    fn peer_id(&self) -> u64;
    /// When it is answered, messages or not.
    fn deadline(&self) -> Instant;
}

/// The pulls that wait.
#[derive(Debug)]
pub struct HeldPulls<P> {
    capacity: usize,
    table: Mutex<Table<P>>,
    /// Wakes the driver for an earlier deadline or a queue that moved while its pull was put here.
    changed: Notify,
}

#[derive(Debug)]
struct Table<P> {
    next_id: u64,
    pulls: HashMap<u64, P, RandomState>,
    /// By the address of the queue's handle: a held pull keeps the handle alive.
    by_queue: HashMap<usize, Vec<u64>, RandomState>,
    by_deadline: BTreeSet<(Instant, u64)>,
    by_peer: HashMap<u64, HashSet<u64, RandomState>, RandomState>,
    /// Queues that got messages between the read that found none and the moment of holding.
    moved: Vec<Arc<Queue>>,
}

impl<P: Held> HeldPulls<P> {
    /// A table for at most `capacity` pulls.
    pub fn new(capacity: usize) -> HeldPulls<P> {
        let table = Table {
            next_id: 0,
            pulls: HashMap::default(),
            by_queue: HashMap::default(),
            by_deadline: BTreeSet::new(),
            by_peer: HashMap::default(),
            moved: Vec::new(),
        };
        HeldPulls { capacity, table: Mutex::new(table), changed: Notify::new() }
    }

    /// Holds a pull whose read saw the queue end at `seen_end`; gives it back when the table is
    /// full. What arrived since that read is not missed.
    pub fn hold(&self, pull: P, seen_end: i64) -> Result<(), P> {
        let queue = Arc::clone(pull.queue());
        let is_next = {
            let mut table = self.table.lock();
            if table.pulls.len() >= self.capacity {
                return Err(pull);
            }
            table.insert(pull)
        };
        // In this order: an arrival before the watch shows in the end, one after it is told of.
        queue.watch();
        let moved = queue.max_offset() > seen_end;
        if moved {
            self.table.lock().moved.push(queue);
        }
        if moved || is_next {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Takes out all pulls that wait for `queue`, in the order they came.
    pub fn take_queue(&self, queue: &Arc<Queue>, into: &mut Vec<P>) {
        let mut table = self.table.lock();
        for id in table.by_queue.remove(&address(queue)).unwrap_or_default() {
            into.extend(table.remove(id, false));
        }
    }

    /// Takes out all pulls whose deadline has passed.
    pub fn take_due(&self, now: Instant, into: &mut Vec<P>) {
        let mut table = self.table.lock();
        while let Some(&(deadline, id)) = table.by_deadline.first()
            && deadline <= now
        {
            into.extend(table.remove(id, true));
        }
    }

    /// Takes out all pulls.
    pub fn take_all(&self, into: &mut Vec<P>) {
        let mut table = self.table.lock();
        into.extend(table.pulls.drain().map(|(_, pull)| pull));
        table.by_queue.clear();
        table.by_deadline.clear();
        table.by_peer.clear();
    }

    /// Takes out the queues that moved while a pull for them was put here.
    pub fn take_moved(&self, into: &mut Vec<Arc<Queue>>) {
        into.append(&mut self.table.lock().moved);
    }

    /// Frees the pulls of a connection that is gone.
    pub fn closed(&self, peer_id: u64) {
        let mut freed = Vec::new();
        {
            let mut table = self.table.lock();
            for id in table.by_peer.remove(&peer_id).unwrap_or_default() {
                freed.extend(table.remove(id, true));
            }
        }
        // Dropped here, outside the lock: what they hold on to may be large.
        drop(freed);
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.table.lock().by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// Waits for an earlier deadline or a queue that moved.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Pulls that wait now.
    pub fn count(&self) -> usize {
        self.table.lock().pulls.len()
    }

    /// How many pulls wait for `queue`.
    pub fn waiting_for(&self, queue: &Arc<Queue>) -> usize {
        self.table.lock().by_queue.get(&address(queue)).map_or(0, Vec::len)
    }
}

fn address(queue: &Arc<Queue>) -> usize {
    Arc::as_ptr(queue).addr()
}

impl<P: Held> Table<P> {
    /// True when the pull's deadline is now the earliest.
    fn insert(&mut self, pull: P) -> bool {
        let id = self.next_id;
        self.next_id += 1;
        let key = (pull.deadline(), id);
        self.by_queue.entry(address(pull.queue())).or_default().push(id);
        self.by_peer.entry(pull.peer_id()).or_default().insert(id);
        self.by_deadline.insert(key);
        self.pulls.insert(id, pull);
        self.by_deadline.first() == Some(&key)
    }

    /// `from_queue`: the id still stands in its queue's list.
    fn remove(&mut self, id: u64, from_queue: bool) -> Option<P> {
        let pull = self.pulls.remove(&id)?;
        self.by_deadline.remove(&(pull.deadline(), id));
        if let Some(ids) = self.by_peer.get_mut(&pull.peer_id()) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_peer.remove(&pull.peer_id());
            }
        }
        if from_queue && let Some(ids) = self.by_queue.get_mut(&address(pull.queue())) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_queue.remove(&address(pull.queue()));
            }
        }
        Some(pull)
    }
}
