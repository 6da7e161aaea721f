//! Logs: human on a terminal, JSON elsewhere; and a throttle for lines that a peer can trigger.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error. `RUST_LOG` filters (default `info`); `TANDEM_LOG_FORMAT` forces `text` or `json`.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let json = match std::env::var("TANDEM_LOG_FORMAT").as_deref() {
        Ok("json") => true,
        Ok("text") => false,
        _ => !std::io::stderr().is_terminal(),
    };
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start in one process (tests) keeps the first subscriber; that is what is wanted.
    let _already_started = if json { logs.json().try_init() } else { logs.try_init() };
}

/// Lets one line through per interval and counts what it held back. Usable as a `static`.
///
/// A peer that sends garbage in a loop must not fill the disk with log lines.
pub struct Throttle {
    interval_ms: u64,
    /// Milliseconds since the first use at which the next line may pass.
    next_ms: AtomicU64,
    held_back: AtomicU64,
}

impl Throttle {
    /// A throttle that passes one line per `interval_ms` milliseconds.
    pub const fn new(interval_ms: u64) -> Self {
        Throttle { interval_ms, next_ms: AtomicU64::new(0), held_back: AtomicU64::new(0) }
    }

    /// `Some(lines held back since the last one)` when a line may pass now.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(process_ms())
    }

    fn pass_at(&self, now_ms: u64) -> Option<u64> {
        let next = self.next_ms.load(Ordering::Relaxed);
        let passes = now_ms >= next
            && self
                .next_ms
                .compare_exchange(
                    next,
                    now_ms + self.interval_ms,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok();
        if passes {
            Some(self.held_back.swap(0, Ordering::Relaxed))
        } else {
            self.held_back.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}

fn process_ms() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_per_interval_and_the_rest_is_counted() {
        let throttle = Throttle::new(1000);
        assert_eq!(throttle.pass_at(5), Some(0));
        assert_eq!(throttle.pass_at(6), None);
        assert_eq!(throttle.pass_at(1004), None);
        assert_eq!(throttle.pass_at(1005), Some(2));
        assert_eq!(throttle.pass_at(1006), None);
    }
}
