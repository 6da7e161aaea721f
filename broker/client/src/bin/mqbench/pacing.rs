//! When the next request is due: at once (flat out), or by a fixed schedule that does not wait for
//! answers (open loop).
//!
//! The schedule is what makes latencies honest: a request is measured from the moment it was due,
//! so a broker that stalls for a second pays for every request that should have left meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Decides when requests of one connection leave.
pub(crate) enum Pace {
    /// As soon as the in-flight limit allows.
    FlatOut,
    /// By the clock.
    Fixed(Schedule),
}

/// Due times `start + n * interval`, with a kernel timer that ticks at each of them: the runtime's
/// own timers are rounded to a millisecond, which is longer than what is measured here.
pub(crate) struct Schedule {
    start: Instant,
    interval: Duration,
    sent: u64,
    timer: AsyncFd<std::os::fd::OwnedFd>,
}

impl Pace {
    /// A pace of `rate` requests a second for this connection, the `lane`-th of `lanes` that share
    /// the interval evenly; `None` is flat out.
    pub(crate) fn new(rate: Option<f64>, lane: usize, lanes: usize) -> Result<Self> {
        let Some(rate) = rate else { return Ok(Self::FlatOut) };
        let interval = Duration::from_secs_f64(1.0 / rate);
        let offset = interval.mul_f64(lane as f64 / lanes.max(1) as f64);
        Ok(Self::Fixed(Schedule::start(offset, interval)?))
    }

    /// The moment the next request was due, if it is due by `now`.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        match self {
            Self::FlatOut => Some(now),
            Self::Fixed(schedule) => Some(schedule.due_time()).filter(|due| *due <= now),
        }
    }

    /// Counts one request as sent.
    pub(crate) fn sent(&mut self) {
        if let Self::Fixed(schedule) = self {
            schedule.sent += 1;
        }
    }

    /// Waits for the next tick of the schedule; never returns when flat out.
    pub(crate) async fn tick(&self) -> std::io::Result<()> {
        match self {
            Self::FlatOut => std::future::pending().await,
            Self::Fixed(schedule) => schedule.tick().await,
        }
    }
}

impl Schedule {
    fn start(offset: Duration, interval: Duration) -> Result<Self> {
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )
        .context("create a timer")?;
        // A first expiry of zero would disarm the timer.
        let first = offset.max(Duration::from_nanos(1));
        let spec = Itimerspec { it_interval: timespec(interval), it_value: timespec(first) };
        timerfd_settime(&fd, TimerfdTimerFlags::empty(), &spec).context("start a timer")?;
        let start = Instant::now() + offset;
        #[expect(
            deprecated,
            reason = "its successor is unsafe, for types that may close or change their descriptor; \
                      an OwnedFd does neither while it is watched"
        )]
        let timer = AsyncFd::new(fd).context("watch a timer")?;
        Ok(Self { start, interval, sent: 0, timer })
    }

    fn due_time(&self) -> Instant {
        let nanos = self.interval.as_nanos() * u128::from(self.sent);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
    }

    async fn tick(&self) -> std::io::Result<()> {
        loop {
            let mut ready = self.timer.readable().await?;
            let mut expirations = [0u8; 8];
            match ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?)) {
                Ok(result) => return result.map(|_| ()),
                Err(_would_block) => continue,
            }
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_out_is_always_due_now() {
        let pace = Pace::new(None, 0, 1).unwrap();
        let now = Instant::now();
        assert_eq!(pace.next_due(now), Some(now));
    }

    #[tokio::test]
    async fn due_times_do_not_move_when_requests_leave_late() {
        let mut pace = Pace::new(Some(100.0), 1, 2).unwrap();
        let Pace::Fixed(schedule) = &pace else { panic!("a schedule") };
        let start = schedule.start;
        assert_eq!(pace.next_due(start - Duration::from_nanos(1)), None);
        let late = start + Duration::from_millis(35);
        for n in 0..4 {
            assert_eq!(pace.next_due(late), Some(start + Duration::from_millis(10) * n));
            pace.sent();
        }
        assert_eq!(pace.next_due(late), None);
    }

    #[tokio::test]
    async fn ticks_when_a_request_is_due() {
        let pace = Pace::new(Some(1000.0), 0, 1).unwrap();
        pace.tick().await.unwrap();
        assert!(pace.next_due(Instant::now()).is_some());
    }
}
