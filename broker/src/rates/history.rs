//! One counter's samples over a minute, an hour and a day, as RocketMQ takes them: every ten
//! seconds, every ten minutes, every hour.

use std::collections::VecDeque;

use super::per_second;

/// A counter's samples. Empty, and without memory of its own, until the counter has counted.
#[derive(Debug, Default)]
pub(super) struct History {
    minute: Span<10_000, 7>,
    hour: Span<600_000, 7>,
    day: Span<3_600_000, 25>,
}

/// Samples taken every `INTERVAL` milliseconds, the last `KEPT` of them.
#[derive(Debug, Default)]
struct Span<const INTERVAL: i64, const KEPT: usize>(VecDeque<Sample>);

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: i64,
    value: u64,
}

/// How much a counter grew over how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Growth {
    pub(super) sum: u64,
    pub(super) milliseconds: i64,
}

impl Growth {
    pub(super) fn per_second(self) -> f64 {
        per_second(self.sum, self.milliseconds)
    }
}

impl History {
    /// Takes the samples that are due at `now`, in milliseconds.
    pub(super) fn sample(&mut self, now: i64, value: u64) {
        if value == 0 && !self.is_kept() {
            return;
        }
        self.minute.sample(now, value);
        self.hour.sample(now, value);
        self.day.sample(now, value);
    }

    pub(super) fn is_kept(&self) -> bool {
        !self.minute.0.is_empty()
    }

    pub(super) fn minute(&self) -> Growth {
        self.minute.growth()
    }

    pub(super) fn hour(&self) -> Growth {
        self.hour.growth()
    }

    pub(super) fn day(&self) -> Growth {
        self.day.growth()
    }
}

impl<const INTERVAL: i64, const KEPT: usize> Span<INTERVAL, KEPT> {
    fn sample(&mut self, now: i64, value: u64) {
        match self.0.back() {
            // What was counted before the first sample counts as of the interval before it.
            None => self.0.push_back(Sample { at: now - INTERVAL, value: 0 }),
            // A clock that was set back takes samples again at once.
            Some(last) if (0..INTERVAL).contains(&(now - last.at)) => return,
            Some(_) => {}
        }
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Sample { at: now, value });
    }

    fn growth(&self) -> Growth {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return Growth::default();
        };
        let sum = last.value.saturating_sub(first.value);
        Growth { sum, milliseconds: last.at - first.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_never_counted_keeps_nothing() {
        let mut history = History::default();
        history.sample(0, 0);
        assert!(!history.is_kept());
        assert_eq!(history.day(), Growth::default());
    }

    #[test]
    fn a_minute_is_the_last_sixty_seconds() {
        let mut history = History::default();
        for second in (0..=120).step_by(10) {
            history.sample(second * 1_000, second as u64 * 5 + 1);
        }
        assert_eq!(history.minute(), Growth { sum: 300, milliseconds: 60_000 });
        assert!((history.minute().per_second() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn samples_that_come_too_early_are_left_out() {
        let mut history = History::default();
        history.sample(0, 10);
        history.sample(9_999, 20);
        assert_eq!(history.minute(), Growth { sum: 10, milliseconds: 10_000 });
        history.sample(10_000, 30);
        assert_eq!(history.minute(), Growth { sum: 30, milliseconds: 20_000 });
        assert_eq!(history.hour(), Growth { sum: 10, milliseconds: 600_000 });
    }

    #[test]
    fn a_day_is_the_last_twenty_four_hours() {
        let mut history = History::default();
        for hour in 0..48 {
            history.sample(hour * 3_600_000, hour as u64 + 1);
        }
        assert_eq!(history.day(), Growth { sum: 24, milliseconds: 24 * 3_600_000 });
    }
}
