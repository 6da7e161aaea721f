//! How far the log has got, in bytes from its very first: appended (readers may see it), flushed
//! (fsync confirmed it), dispatched (in ConsumeQueue and index). Flushed and dispatched follow
//! appended; none ever goes back.

use std::sync::atomic::{AtomicU64, Ordering};

/// The log's frontiers; each is the offset after the last byte it covers.
#[derive(Debug)]
pub(crate) struct Frontiers {
    appended: AtomicU64,
    flushed: AtomicU64,
    dispatched: AtomicU64,
}

impl Frontiers {
    /// Where recovery found them.
    ///
    /// # Panics
    /// If one lies beyond `appended`.
    pub(crate) fn at(appended: u64, flushed: u64, dispatched: u64) -> Frontiers {
        assert!(flushed <= appended && dispatched <= appended, "frontiers out of order");
        Frontiers {
            appended: AtomicU64::new(appended),
            flushed: AtomicU64::new(flushed),
            dispatched: AtomicU64::new(dispatched),
        }
    }

    /// End of what readers may see.
    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// End of what fsync has confirmed.
    pub(crate) fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// End of what ConsumeQueue and index hold.
    pub(crate) fn dispatched(&self) -> u64 {
        self.dispatched.load(Ordering::Acquire)
    }

    /// Called by the appender alone, under the put lock, after the bytes are in the mapping.
    pub(crate) fn append_to(&self, to: u64) {
        let before = self.appended.load(Ordering::Relaxed);
        assert!(before <= to, "appended goes back from {before} to {to}");
        self.appended.store(to, Ordering::Release);
    }

    /// Called by the flusher after fsync returned.
    pub(crate) fn flush_to(&self, to: u64) {
        assert!(to <= self.appended(), "flushed {to} beyond appended {}", self.appended());
        let before = self.flushed.swap(to, Ordering::AcqRel);
        assert!(before <= to, "flushed goes back from {before} to {to}");
    }

    /// Called by the dispatcher after units and index entries are written.
    pub(crate) fn dispatch_to(&self, to: u64) {
        assert!(to <= self.appended(), "dispatched {to} beyond appended {}", self.appended());
        let before = self.dispatched.swap(to, Ordering::AcqRel);
        assert!(before <= to, "dispatched goes back from {before} to {to}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_forward_in_order() {
        let frontiers = Frontiers::at(10, 5, 10);
        frontiers.append_to(30);
        frontiers.flush_to(20);
        frontiers.dispatch_to(30);
        assert_eq!(
            (frontiers.appended(), frontiers.flushed(), frontiers.dispatched()),
            (30, 20, 30)
        );
    }

    #[test]
    #[should_panic(expected = "flushed 11 beyond appended 10")]
    fn flushed_follows_appended() {
        Frontiers::at(10, 0, 0).flush_to(11);
    }

    #[test]
    #[should_panic(expected = "dispatched goes back")]
    fn dispatched_never_goes_back() {
        Frontiers::at(10, 0, 8).dispatch_to(7);
    }

    #[test]
    #[should_panic(expected = "appended goes back")]
    fn appended_never_goes_back() {
        Frontiers::at(10, 0, 8).append_to(9);
    }
}
