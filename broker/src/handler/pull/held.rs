//! What becomes of held pulls: read again when their queue moves, answered at their deadline.

use std::sync::Arc;
use std::time::Instant;

use broker_protocol::code::response;
use broker_store::{ArrivalReceiver, ColdReads, Queue, ReadOutcome, ReadStatus};

use super::{Pull, PullPath, code};
use crate::long_poll::Held;
use crate::net::Later;

/// Unread answers of a peer at which a pull is told to come again instead of being handed messages.
pub(super) const UNREAD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A pull that waits.
#[derive(Debug)]
pub struct HeldPull {
    pub(super) pull: Pull,
    pub(super) later: Later,
    deadline: Instant,
    /// Where the next read begins: what its filter dropped is not looked at again.
    scan_from: i64,
}

impl HeldPull {
    pub(super) fn new(pull: Pull, later: Later, deadline: Instant) -> HeldPull {
        let scan_from = pull.offset;
        HeldPull { pull, later, deadline, scan_from }
    }
}

impl Held for HeldPull {
    fn queue(&self) -> &Arc<Queue> {
        &self.pull.queue
    }

    fn peer_id(&self) -> u64 {
        self.later.peer().id
    }

    fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// Serves the held pulls until the future is dropped. One of these runs in a broker.
pub async fn drive(path: Arc<PullPath>, mut arrivals: ArrivalReceiver) {
    let mut queues = Vec::new();
    let mut pulls = Vec::new();
    loop {
        // Without a pull there is no deadline; a `changed` comes with the first.
        let deadline = path.held.next_deadline();
        let sleep = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = arrivals.next(&mut queues) => {}
            () = path.held.changed() => {}
            () = sleep => {}
        }
        path.held.take_moved(&mut queues);
        for queue in queues.drain(..) {
            path.held.take_queue(&queue, &mut pulls);
            for held in pulls.drain(..) {
                path.try_again(held);
            }
        }
        path.held.take_due(Instant::now(), &mut pulls);
        for held in pulls.drain(..) {
            path.finish(held);
        }
    }
}

impl PullPath {
    /// Answers every pull that waits; for the stop of the broker.
    pub fn answer_all_held(&self) {
        let mut pulls = Vec::new();
        self.held.take_all(&mut pulls);
        for held in pulls {
            self.finish(held);
        }
    }

    /// The queue moved: reads from where the last read ended, and holds on if the filter wants none
    /// of what came.
    fn try_again(self: &Arc<Self>, mut held: HeldPull) {
        if held.later.peer().waiting_bytes() > UNREAD_BYTES_MAX {
            self.finish(held);
            return;
        }
        let outcome = self.read(&held.pull, held.scan_from, ColdReads::Refuse);
        match outcome.status {
            ReadStatus::Cold => {
                let pull = Pull { hold_time: None, offset: held.scan_from, ..held.pull };
                self.read_cold(pull, held.later);
            }
            ReadStatus::NoMatchedMessage if outcome.next_offset > held.scan_from => {
                held.scan_from = outcome.next_offset;
                self.hold_on(held, outcome.max_offset);
            }
            status if code(status, held.scan_from) == response::PULL_NOT_FOUND => {
                self.hold_on(held, outcome.max_offset);
            }
            _ => self.answer_later(&held.pull, outcome, held.later),
        }
    }

    fn hold_on(&self, held: HeldPull, seen_end: i64) {
        if let Err(held) = self.held.hold(held, seen_end) {
            self.finish(held);
        }
    }

    /// Answers what is known without another read of the log: nothing, and from where on.
    fn finish(&self, held: HeldPull) {
        self.send_away(&held.pull, held.scan_from, held.later);
    }

    /// Answers without messages: the consumer comes again, from `next_offset`. When that moved,
    /// everything before it was filtered out, and the consumer's progress moves past it.
    pub(super) fn send_away(&self, pull: &Pull, next_offset: i64, later: Later) {
        let moved = next_offset > pull.offset;
        let unread = pull.queue.max_offset() > next_offset;
        let outcome = ReadOutcome {
            status: if moved || unread {
                ReadStatus::NoMatchedMessage
            } else {
                ReadStatus::OffsetOverflowOne
            },
            next_offset,
            min_offset: pull.queue.min_offset(),
            max_offset: pull.queue.max_offset(),
            messages: 0,
            bytes: 0,
            slices: Vec::new(),
            suggest_slave: false,
        };
        self.answer_later(pull, outcome, later);
    }
}
