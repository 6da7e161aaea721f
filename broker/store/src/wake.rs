//! How the dispatcher sleeps and who wakes it. A wake-up is a system call, so it is made only when
//! it buys something: always when the dispatcher sleeps for good, only for a queue that somebody
//! watches while it looks by itself each millisecond, never while it is busy. Nothing here knows
//! what is dispatched.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Pause between two looks while records keep coming.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Messages a second from which looking each millisecond costs less than being woken by each.
const POLL_RATE_MIN: u64 = 1_000;
/// Messages a second from which arrivals are signalled in batches, once in [`POLL_INTERVAL`].
const BATCH_RATE_MIN: u64 = 100_000;
/// Over what time the rate is measured.
const RATE_WINDOW: Duration = Duration::from_millis(100);

/// Working, or sleeping for at most [`POLL_INTERVAL`]: nobody needs to wake it.
const BUSY: u8 = 0;
/// Sleeping for at most [`POLL_INTERVAL`]; what a watcher waits for should wake it.
const POLLING: u8 = 1;
/// Sleeping until it is woken.
const ASLEEP: u8 = 2;

/// The dispatcher's bell.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    state: AtomicU8,
    stopping: AtomicBool,
    sleeper: OnceLock<Thread>,
}

impl Wake {
    /// To be called after new records became visible: by the appender, or under SYNC_FLUSH by the
    /// flusher. `watched` says whether somebody waits for one of their queues.
    pub(crate) fn ring(&self, watched: bool) {
        // Pairs with the fence in `rest`: either the sleeper sees the new records, or this sees
        // that it sleeps.
        fence(Ordering::SeqCst);
        match self.state.load(Ordering::Relaxed) {
            BUSY => {}
            POLLING if !watched => {}
            _ => self.unpark(),
        }
    }

    /// Ends the dispatcher's sleep for good.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.unpark();
    }

    /// True after [`Wake::stop`].
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    fn unpark(&self) {
        self.state.store(BUSY, Ordering::SeqCst);
        if let Some(sleeper) = self.sleeper.get() {
            sleeper.unpark();
        }
    }

    /// Sleeps as `pace` advises but no longer than `longest`, unless `more` finds work or the store
    /// stops. Called by the dispatcher's thread alone.
    pub(crate) fn rest(&self, pace: &Pace, longest: Option<Duration>, more: impl FnOnce() -> bool) {
        self.sleeper.get_or_init(std::thread::current);
        let state = pace.state();
        self.state.store(state, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !more() && !self.is_stopping() {
            match (state, longest) {
                (ASLEEP, None) => std::thread::park(),
                (ASLEEP, Some(longest)) => std::thread::park_timeout(longest),
                _ => std::thread::park_timeout(POLL_INTERVAL),
            }
        }
        self.state.store(BUSY, Ordering::Relaxed);
    }

    /// Sleeps for `pause`, or until the store stops. For retries by the dispatcher's thread.
    pub(crate) fn pause(&self, pause: Duration) {
        self.sleeper.get_or_init(std::thread::current);
        let until = Instant::now() + pause;
        while !self.is_stopping() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

/// Measures how fast messages come, which decides how the dispatcher sleeps.
#[derive(Debug)]
pub(crate) struct Pace {
    since: Instant,
    count: u64,
    rate: u64,
}

impl Pace {
    pub(crate) fn new(now: Instant) -> Pace {
        Pace { since: now, count: 0, rate: 0 }
    }

    /// Counts `messages` that were dispatched by `now`.
    pub(crate) fn count(&mut self, messages: u64, now: Instant) {
        self.count += messages;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= RATE_WINDOW {
            let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
            self.rate = self.count.saturating_mul(1000) / millis;
            (self.count, self.since) = (0, now);
        }
    }

    fn state(&self) -> u8 {
        match self.rate {
            BATCH_RATE_MIN.. => BUSY,
            POLL_RATE_MIN.. => POLLING,
            _ => ASLEEP,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;

    fn pace_of(rate: u64) -> Pace {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.count(rate, start + Duration::from_secs(1));
        pace
    }

    #[test]
    fn the_rate_decides_how_to_sleep() {
        assert_eq!(pace_of(0).state(), ASLEEP);
        assert_eq!(pace_of(999).state(), ASLEEP);
        assert_eq!(pace_of(1_000).state(), POLLING);
        assert_eq!(pace_of(99_999).state(), POLLING);
        assert_eq!(pace_of(100_000).state(), BUSY);
    }

    #[test]
    fn the_rate_falls_when_messages_stop() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        pace.count(50_000, start + RATE_WINDOW);
        assert_eq!(pace.state(), BUSY);
        pace.count(0, start + RATE_WINDOW * 2);
        assert_eq!(pace.state(), ASLEEP);
    }

    #[test]
    fn a_ring_is_never_missed_by_a_sleeper() {
        // A lost wake-up hangs this test: the sleeper has no time limit.
        let wake = Arc::new(Wake::default());
        let work = Arc::new(AtomicU64::new(0));
        let (ringer, given) = (Arc::clone(&wake), Arc::clone(&work));
        let thread = std::thread::spawn(move || {
            for done in 1..=20_000 {
                given.store(done, Ordering::Release);
                ringer.ring(false);
                if done % 16 == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let mut seen = 0;
        while seen < 20_000 {
            wake.rest(&pace_of(0), None, || work.load(Ordering::Acquire) > seen);
            seen = work.load(Ordering::Acquire);
        }
        thread.join().unwrap();
    }

    #[test]
    fn polling_is_cut_short_for_a_watched_queue_only() {
        let wake = Wake::default();
        wake.state.store(POLLING, Ordering::SeqCst);
        wake.ring(false);
        assert_eq!(wake.state.load(Ordering::SeqCst), POLLING);
        wake.ring(true);
        assert_eq!(wake.state.load(Ordering::SeqCst), BUSY);
    }

    #[test]
    fn stopping_ends_every_sleep() {
        let wake = Arc::new(Wake::default());
        let stopper = Arc::clone(&wake);
        let thread = std::thread::spawn(move || stopper.stop());
        wake.rest(&pace_of(0), None, || false);
        wake.pause(Duration::from_secs(3600));
        assert!(wake.is_stopping());
        thread.join().unwrap();
    }
}
