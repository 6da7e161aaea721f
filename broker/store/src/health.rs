//! Whether anything may be written now: a handful of reasons against it, each raised and cleared by
//! the part that knows. Asked on every append, so it is one load.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::NotWritable;

/// The reasons that hold at the moment.
#[derive(Debug, Default)]
pub(crate) struct Health {
    reasons: AtomicU8,
}

/// The gravest first: that is the one told.
const ALL: [NotWritable; 4] = [
    NotWritable::ShuttingDown,
    NotWritable::Poisoned,
    NotWritable::DiskFull,
    NotWritable::QueueError,
];

fn bit(reason: NotWritable) -> u8 {
    match reason {
        NotWritable::ShuttingDown => 1,
        NotWritable::Poisoned => 2,
        NotWritable::DiskFull => 4,
        NotWritable::QueueError => 8,
    }
}

impl Health {
    /// Refuses writes for `reason` from now on; true if that is new.
    pub(crate) fn raise(&self, reason: NotWritable) -> bool {
        self.reasons.fetch_or(bit(reason), Ordering::AcqRel) & bit(reason) == 0
    }

    /// Takes `reason` away; true if it was there. A poisoned store stays poisoned.
    pub(crate) fn clear(&self, reason: NotWritable) -> bool {
        assert!(reason != NotWritable::Poisoned, "a failed fsync is never forgiven");
        self.reasons.fetch_and(!bit(reason), Ordering::AcqRel) & bit(reason) != 0
    }

    /// Whether `reason` holds.
    pub(crate) fn has(&self, reason: NotWritable) -> bool {
        self.reasons.load(Ordering::Acquire) & bit(reason) != 0
    }

    /// The gravest reason that holds.
    pub(crate) fn writable(&self) -> Result<(), NotWritable> {
        if self.reasons.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        ALL.into_iter().find(|reason| self.has(*reason)).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_reason_is_told_until_all_are_gone() {
        let health = Health::default();
        assert_eq!(health.writable(), Ok(()));
        assert!(health.raise(NotWritable::QueueError));
        assert!(health.raise(NotWritable::DiskFull));
        assert!(!health.raise(NotWritable::DiskFull));
        assert_eq!(health.writable(), Err(NotWritable::DiskFull));
        assert!(health.clear(NotWritable::DiskFull));
        assert_eq!(health.writable(), Err(NotWritable::QueueError));
        assert!(health.clear(NotWritable::QueueError));
        assert_eq!(health.writable(), Ok(()));
    }
}
