//! Threads for work that waits for a disk: a bounded queue, a few threads that start when needed
//! and leave when idle. A full queue refuses at once.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use parking_lot::{Condvar, Mutex};

use crate::net::{Answer, Later, OwnedFrame, Reply};

/// The remark that clients of RocketMQ know for a full queue.
pub const OVERLOAD_REMARK: &str = "[OVERLOAD]system busy, start flow control for a while";
/// Bytes of requests that may wait, whatever their number: a request keeps its body in memory.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// An idle thread leaves after this time.
const THREAD_IDLE_TIME: Duration = Duration::from_secs(30);

type Job = Box<dyn FnOnce() + Send>;

/// The queue is full; nothing was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too much work is waiting")]
pub struct PoolFull;

/// A bounded pool of blocking threads; cheap to clone.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

struct Shared {
    name: &'static str,
    threads_max: usize,
    queue_max: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Waiting>,
    waiting_bytes: usize,
    threads: usize,
    idle: usize,
    stopped: bool,
}

struct Waiting {
    since: Instant,
    bytes: usize,
    job: Job,
}

impl Pool {
    /// A pool of at most `threads_max` threads and `queue_max` waiting jobs.
    pub fn new(name: &'static str, threads_max: usize, queue_max: usize) -> Pool {
        let state = Mutex::new(State::default());
        let work = Condvar::new();
        Pool { shared: Arc::new(Shared { name, threads_max, queue_max, state, work }) }
    }

    /// Runs `job` on one of the pool's threads; jobs start in order.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), PoolFull> {
        self.run_sized(0, Box::new(job))
    }

    /// Runs a job that keeps `bytes` in memory while it waits.
    fn run_sized(&self, bytes: usize, job: Job) -> Result<(), PoolFull> {
        let shared = &self.shared;
        let mut state = shared.state.lock();
        let fits = state.queue.len() < shared.queue_max
            && state.waiting_bytes.saturating_add(bytes) <= WAITING_BYTES_MAX;
        if state.stopped || !fits {
            return Err(PoolFull);
        }
        state.queue.push_back(Waiting { since: Instant::now(), bytes, job });
        state.waiting_bytes += bytes;
        if state.idle >= state.queue.len() || state.threads >= shared.threads_max {
            drop(state);
            shared.work.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let worker = Arc::clone(shared);
        let started =
            thread::Builder::new().name(shared.name.to_owned()).spawn(move || worker.work());
        if let Err(error) = started {
            tracing::warn!(pool = shared.name, %error, "start a thread");
            let mut state = shared.state.lock();
            state.threads -= 1;
            if state.threads == 0 {
                // Nobody would ever take the job up.
                state.queue.pop_back();
                state.waiting_bytes -= bytes;
                return Err(PoolFull);
            }
        }
        Ok(())
    }

    /// Serves a request on the pool: copies its frame, calls `handler`, sends the answer. A full
    /// queue answers SYSTEM_BUSY at once.
    pub fn answer(
        &self,
        request: &Frame<'_>,
        reply: &mut Reply<'_>,
        handler: impl FnOnce(&mut OwnedFrame) -> Answer + Send + 'static,
    ) {
        self.serve(request, reply, |request, later| later.answer(handler(request)));
    }

    /// Serves a request on the pool as [`Pool::answer`] does, for a handler that answers by itself.
    pub fn serve(
        &self,
        request: &Frame<'_>,
        reply: &mut Reply<'_>,
        handler: impl FnOnce(&mut OwnedFrame, Later) + Send + 'static,
    ) {
        let mut request = OwnedFrame::copy(request);
        let bytes = request.len();
        self.refuse_or_run(bytes, reply.later(), move |later| handler(&mut request, later));
    }

    /// Runs `job` with the duty to answer; a full queue answers SYSTEM_BUSY at once.
    pub fn run_or_refuse(&self, later: Later, job: impl FnOnce(Later) + Send + 'static) {
        self.refuse_or_run(0, later, job);
    }

    fn refuse_or_run(&self, bytes: usize, later: Later, job: impl FnOnce(Later) + Send + 'static) {
        // The duty travels in a cell, so that it can be taken back out of a job that is refused.
        let cell = Arc::new(Mutex::new(Some(later)));
        let job_cell = Arc::clone(&cell);
        let job = move || {
            let later = job_cell.lock().take();
            if let Some(later) = later {
                job(later);
            }
        };
        if self.run_sized(bytes, Box::new(job)).is_err()
            && let Some(later) = cell.lock().take()
        {
            later.error(response::SYSTEM_BUSY, OVERLOAD_REMARK);
        }
    }

    /// Jobs that wait for a thread.
    pub fn queued(&self) -> usize {
        self.shared.state.lock().queue.len()
    }

    /// Jobs that may wait at most.
    pub fn capacity(&self) -> usize {
        self.shared.queue_max
    }

    /// How long the first waiting job has waited.
    pub fn head_wait(&self) -> Duration {
        let state = self.shared.state.lock();
        state.queue.front().map_or(Duration::ZERO, |first| first.since.elapsed())
    }

    /// Takes no further jobs and waits until those that were taken are done, at most `patience`.
    /// False if some are still running.
    pub fn stop(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.state.lock();
        state.stopped = true;
        self.shared.work.notify_all();
        while state.threads > 0 {
            if self.shared.work.wait_until(&mut state, deadline).timed_out() {
                return state.threads == 0;
            }
        }
        true
    }
}

impl Shared {
    fn work(&self) {
        let _leaving = Leaving(self);
        loop {
            let mut state = self.state.lock();
            let job = loop {
                if let Some(Waiting { bytes, job, .. }) = state.queue.pop_front() {
                    state.waiting_bytes -= bytes;
                    break job;
                }
                if state.stopped {
                    return;
                }
                state.idle += 1;
                let waited = self.work.wait_for(&mut state, THREAD_IDLE_TIME);
                state.idle -= 1;
                if waited.timed_out() && state.queue.is_empty() {
                    return;
                }
            };
            drop(state);
            // A panic ends the job alone: its caller is answered by the duty that it drops.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!(pool = self.name, "a job panicked");
            }
        }
    }
}

struct Leaving<'s>(&'s Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.state.lock().threads -= 1;
        self.0.work.notify_all();
    }
}

#[cfg(test)]
mod tests;
