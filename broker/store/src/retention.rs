//! What is kept, and when the disk counts as full. One thread measures the disks and removes commit
//! log files: expired ones in the hours of `deleteWhen` or when the disk is filled beyond
//! `diskMaxUsedSpaceRatio`, the oldest ones beyond `diskSpaceCleanForciblyRatio` even if they
//! aren't. Queues and index then drop what points to nothing; how is their concern.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::{Condvar, Mutex};

use crate::commit_log::CommitLog;
use crate::config::StoreConfig;
use crate::env::Env;
use crate::error::NotWritable;
use crate::health::Health;

/// Files removed in one run, at most.
const FILES_PER_RUN: usize = 10;
/// Runs that one manual request is good for, so that many files go.
const MANUAL_RUNS: u64 = 20;
/// Between two log lines about the same trouble.
const QUIET: Duration = Duration::from_secs(300);

/// What the cleaner knows and how it is told to run or stop.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    commit_log_ratio: AtomicU64,
    consume_queue_ratio: AtomicU64,
    manual_runs: AtomicU64,
    measure: AtomicBool,
    stop: Mutex<bool>,
    wake: Condvar,
    told: Mutex<Option<Instant>>,
}

/// Why files may go in this run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reason {
    /// Expired files may.
    expired: bool,
    /// Unexpired ones too.
    forced: bool,
}

impl Retention {
    /// Used share of the commit log's disk at the last measurement.
    pub(crate) fn commit_log_ratio(&self) -> f64 {
        f64::from_bits(self.commit_log_ratio.load(Ordering::Relaxed))
    }

    /// Used share of the disk of queues and index at the last measurement.
    pub(crate) fn consume_queue_ratio(&self) -> f64 {
        f64::from_bits(self.consume_queue_ratio.load(Ordering::Relaxed))
    }

    /// Measures both disks and refuses or admits writes accordingly.
    pub(crate) fn measure(&self, env: &Env, config: &StoreConfig, health: &Health) {
        let ratio = |path: &Path| match env.files.space(path) {
            Ok(space) => Some(space.used_ratio()),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the disk can't be measured");
                None
            }
        };
        if let Some(ratio) = ratio(&config.store_path_root_dir) {
            self.consume_queue_ratio.store(ratio.to_bits(), Ordering::Relaxed);
        }
        let Some(ratio) = ratio(&config.commit_log_folder()) else { return };
        self.commit_log_ratio.store(ratio.to_bits(), Ordering::Relaxed);
        if ratio > percent(config.disk_space_warning_level_ratio) {
            if health.raise(NotWritable::DiskFull) {
                tracing::error!(used = percent_text(ratio), "disk full: sends are refused");
            }
        } else if health.clear(NotWritable::DiskFull) {
            tracing::info!(
                used = percent_text(ratio),
                "the disk has room again: sends are accepted"
            );
        }
    }

    /// Lets the cleaner measure now: a write just found the disk full.
    pub(crate) fn disk_ran_full(&self) {
        self.measure.store(true, Ordering::Release);
        self.wake_up();
    }

    /// Deletes expired files now, whatever the hour.
    pub(crate) fn delete_now(&self) {
        self.manual_runs.store(MANUAL_RUNS, Ordering::Release);
        self.wake_up();
    }

    fn wake_up(&self) {
        // Under the lock, so that the cleaner can't be between looking and waiting.
        let _stop = self.stop.lock();
        self.wake.notify_one();
    }

    /// Ends [`Retention::run`].
    pub(crate) fn stop(&self) {
        *self.stop.lock() = true;
        self.wake.notify_all();
    }

    /// The cleaner's thread: calls `clean` each `interval` until stopped.
    pub(crate) fn run(&self, interval: impl Fn() -> Duration, mut clean: impl FnMut()) {
        loop {
            {
                let mut stop = self.stop.lock();
                let until = Instant::now() + interval();
                while !*stop
                    && self.manual_runs.load(Ordering::Acquire) == 0
                    && !self.measure.swap(false, Ordering::AcqRel)
                {
                    if self.wake.wait_until(&mut stop, until).timed_out() {
                        break;
                    }
                }
                if *stop {
                    return;
                }
            }
            clean();
        }
    }

    /// Waits between two removals; false if the store closes.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut stop = self.stop.lock();
        while !*stop && !self.wake.wait_until(&mut stop, until).timed_out() {}
        !*stop
    }

    /// Removes commit log files that may go; true if one went.
    pub(crate) fn clean_log(&self, env: &Env, config: &StoreConfig, log: &CommitLog) -> bool {
        let manual = self
            .manual_runs
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |runs| runs.checked_sub(1));
        let now_ms = env.clock.now_ms();
        let reason = self.reason(config, now_ms, manual.is_ok());
        let mut removed = 0;
        while removed < FILES_PER_RUN {
            match remove_one(env, config, log, reason, now_ms) {
                Ok(true) => removed += 1,
                Ok(false) => break,
                Err(error) => {
                    self.tell(|| tracing::error!(%error, "a commit log file can't be removed"));
                    break;
                }
            }
            if !self.pause(Duration::from_millis(config.delete_commit_log_files_interval)) {
                break;
            }
        }
        if removed == 0 && reason.expired && self.is_filled(config) {
            self.tell(|| {
                tracing::warn!(
                    used = percent_text(self.commit_log_ratio().max(self.consume_queue_ratio())),
                    "the disk is filled beyond diskMaxUsedSpaceRatio, but nothing may be removed"
                );
            });
        }
        removed > 0
    }

    fn is_filled(&self, config: &StoreConfig) -> bool {
        self.commit_log_ratio().max(self.consume_queue_ratio())
            > percent(config.disk_max_used_space_ratio)
    }

    fn reason(&self, config: &StoreConfig, now_ms: i64, manual: bool) -> Reason {
        let filled = self.commit_log_ratio().max(self.consume_queue_ratio());
        let due = manual
            || self.is_filled(config)
            || is_hour(&config.delete_hours().unwrap_or_default(), now_ms);
        let forced = config.clean_file_forcibly_enable
            && filled > percent(config.disk_space_clean_forcibly_ratio);
        Reason { expired: due || forced, forced }
    }

    /// Runs `line`, which writes a log line, unless that was done lately.
    pub(crate) fn tell(&self, line: impl FnOnce()) {
        let mut told = self.told.lock();
        if told.is_none_or(|told| told.elapsed() > QUIET) {
            *told = Some(Instant::now());
            line();
        }
    }
}

/// Removes the oldest file if it may go.
fn remove_one(
    env: &Env,
    config: &StoreConfig,
    log: &CommitLog,
    reason: Reason,
    now_ms: i64,
) -> io::Result<bool> {
    if !reason.expired {
        return Ok(false);
    }
    let first = match log.segments.row().as_slice() {
        [first, _, ..] => std::sync::Arc::clone(first),
        _ => return Ok(false),
    };
    // What isn't on disk or not in the queues is still needed.
    if first.end() > log.frontiers.flushed().min(log.frontiers.dispatched()) {
        return Ok(false);
    }
    let kept_ms = i64::try_from(config.file_reserved_time.saturating_mul(3_600_000));
    let expires_ms = first.file().modified_ms()?.saturating_add(kept_ms.unwrap_or(i64::MAX));
    if !reason.forced && now_ms < expires_ms {
        return Ok(false);
    }
    let removed = log.segments.remove_first(&*env.files)?;
    let path = first.path().display();
    tracing::info!(%path, forced = reason.forced, "commit log file removed");
    Ok(removed.is_some())
}

/// Whether the local hour is one of `hours`.
fn is_hour(hours: &[i8], now_ms: i64) -> bool {
    let Ok(now) = Timestamp::from_millisecond(now_ms) else { return false };
    hours.contains(&TimeZone::system().to_datetime(now).hour())
}

fn percent(value: u32) -> f64 {
    f64::from(value) / 100.0
}

fn percent_text(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

#[cfg(test)]
mod tests;
