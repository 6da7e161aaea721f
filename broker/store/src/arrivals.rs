//! Notices of new messages for those who hold pulls. A queue is announced when it was watched and
//! got a unit; it is then no longer watched. Notices may come for nothing (somebody else read
//! first), never too few. Who waits, and for what offset, is the server's business.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::consume_queue::Queue;

/// Where the dispatcher leaves the queues that got what they were watched for. A queue lies here at
/// most once, so there are never more notices than queues.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    waiting: Mutex<Vec<Arc<Queue>>>,
    filled: Notify,
}

impl Arrivals {
    /// Moves `queues` to the receiver. One wake-up for all of them.
    pub(crate) fn announce(&self, queues: &mut Vec<Arc<Queue>>) {
        if queues.is_empty() {
            return;
        }
        self.waiting.lock().append(queues);
        self.filled.notify_one();
    }
}

/// The receiving end; see [`crate::Store::arrivals`].
#[derive(Debug)]
pub struct ArrivalReceiver {
    arrivals: Arc<Arrivals>,
}

impl ArrivalReceiver {
    pub(crate) fn new(arrivals: Arc<Arrivals>) -> ArrivalReceiver {
        ArrivalReceiver { arrivals }
    }

    /// Waits until a watched queue got new units and adds all such queues to `into`. Each must be
    /// watched again for the next notice. Cancel-safe: what was not added stays for the next call.
    pub async fn next(&mut self, into: &mut Vec<Arc<Queue>>) {
        loop {
            {
                let mut waiting = self.arrivals.waiting.lock();
                if !waiting.is_empty() {
                    for queue in waiting.iter() {
                        queue.notice_taken();
                    }
                    into.append(&mut waiting);
                    return;
                }
            }
            self.arrivals.filled.notified().await;
        }
    }
}
