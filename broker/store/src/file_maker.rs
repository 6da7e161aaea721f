//! The thread that keeps the commit log's next files ready and its pages faulted in ahead of the
//! writer, so that an append takes neither a fault nor a wait. It makes the next file at once and
//! the one after when the current one is half full. It writes no record.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::env::FileSystem;
use crate::mapped_file::{MappedFile, PAGE};
use crate::segments::file_name;

/// Pages kept faulted in ahead of the writer, at most.
const AHEAD_MAX: u64 = 32 << 20;
/// And at least. Between the two it is as much as was written so far, so that a broker at rest
/// doesn't fill the cache with zeros.
const AHEAD_MIN: u64 = 4 << 20;
/// Faulted in at a time.
const STEP: u64 = 1 << 20;
/// Pause between attempts to make a file while they fail.
const RETRY: Duration = Duration::from_millis(500);
/// How long an append waits for a file that is being made.
pub(crate) const FILE_WAIT: Duration = Duration::from_secs(1);

/// Shared by the thread, the appender and whoever stops it.
#[derive(Debug)]
pub(crate) struct FileMaker {
    files: Arc<dyn FileSystem>,
    folder: PathBuf,
    file_len: u64,
    ahead_max: u64,
    opened_at: u64,
    state: Mutex<State>,
    /// The thread waits here.
    work: Condvar,
    /// Appends wait here.
    made: Condvar,
    /// The appender calls [`FileMaker::nudge`] when it gets here.
    wake_at: AtomicU64,
}

#[derive(Debug)]
struct State {
    ready: VecDeque<Arc<MappedFile>>,
    /// The file being written.
    current: Arc<MappedFile>,
    /// Start of the next file to make.
    next_start: u64,
    /// How far pages are faulted in.
    populated: u64,
    /// End of what is appended, as the appender told last.
    appended: u64,
    /// Why the last attempt failed; an append doesn't wait while this is set.
    failure: Option<String>,
    stop: bool,
}

/// What the thread does next.
enum Job {
    Make(u64),
    Allocate(Arc<MappedFile>),
    Populate(Arc<MappedFile>, u64, u64),
    Stop,
}

impl FileMaker {
    /// Serves the log in `folder` whose current file is `current`, filled up to `appended`. Faults
    /// the first pages in at once, so that the first append needn't.
    pub(crate) fn new(
        files: Arc<dyn FileSystem>,
        folder: PathBuf,
        file_len: u64,
        current: Arc<MappedFile>,
        appended: u64,
    ) -> FileMaker {
        let ahead_max = (file_len / 4).min(AHEAD_MAX).next_multiple_of(PAGE as u64);
        let maker = FileMaker {
            files,
            folder,
            file_len,
            ahead_max,
            opened_at: appended,
            work: Condvar::new(),
            made: Condvar::new(),
            wake_at: AtomicU64::new(0),
            state: Mutex::new(State {
                ready: VecDeque::new(),
                next_start: current.end(),
                populated: appended,
                appended,
                failure: None,
                stop: false,
                current: Arc::clone(&current),
            }),
        };
        let to = (appended + STEP.min(ahead_max)).min(current.end());
        maker.populate(&current, appended, to);
        maker
    }

    /// Appends tell how far they got when they pass this.
    pub(crate) fn wake_at(&self) -> u64 {
        self.wake_at.load(Ordering::Relaxed)
    }

    /// The log is appended up to `appended`: there may be something to prepare.
    pub(crate) fn nudge(&self, appended: u64) {
        let mut state = self.state.lock();
        state.appended = state.appended.max(appended);
        self.wake_at.store(u64::MAX, Ordering::Relaxed);
        self.work.notify_one();
    }

    /// The next file, which becomes the current one; waits for one that is being made, but not
    /// long. Called under the put lock.
    pub(crate) fn take(&self) -> Result<Arc<MappedFile>, String> {
        let mut state = self.state.lock();
        let deadline = Instant::now() + FILE_WAIT;
        loop {
            if let Some(file) = state.ready.pop_front() {
                state.current = Arc::clone(&file);
                state.appended = state.appended.max(file.start());
                self.work.notify_one();
                return Ok(file);
            }
            self.work.notify_one();
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if state.stop || self.made.wait_until(&mut state, deadline).timed_out() {
                // Whoever comes next must not wait again: they queue at the put lock.
                let failure = format!("not ready after {} ms", FILE_WAIT.as_millis());
                state.failure = Some(failure.clone());
                return Err(failure);
            }
        }
    }

    /// Why the current file can't be written, if its blocks could not be allocated yet.
    pub(crate) fn current_failure(&self) -> String {
        let state = self.state.lock();
        self.work.notify_one();
        state.failure.clone().unwrap_or_else(|| "its blocks are being allocated".to_owned())
    }

    /// Ends the thread's loop.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.work.notify_one();
        self.made.notify_all();
    }

    /// Files made ahead and not used; to be removed when the store closes.
    pub(crate) fn unused(&self) -> Vec<Arc<MappedFile>> {
        self.state.lock().ready.drain(..).collect()
    }

    /// The thread's loop; `on_failure` is told about each failed attempt.
    pub(crate) fn run(&self, on_failure: impl Fn(&io::Error)) {
        loop {
            match self.next_job() {
                Job::Stop => return,
                Job::Populate(file, from, to) => self.populate(&file, from, to),
                Job::Make(start) => {
                    let made = self.make(start);
                    self.settle(made.map(Some), &on_failure);
                }
                Job::Allocate(file) => {
                    self.settle(file.allocate(file.len()).map(|()| None), &on_failure);
                }
            }
        }
    }

    fn make(&self, start: u64) -> io::Result<Arc<MappedFile>> {
        let path = self.folder.join(file_name(start));
        let made = MappedFile::create(&*self.files, path, start, self.file_len, self.file_len)?;
        // The name must be durable before anything in the file is acknowledged.
        if let Err(error) = self.files.sync_folder(&self.folder) {
            self.files.remove_file(made.path())?;
            return Err(error);
        }
        Ok(Arc::new(made))
    }

    /// Takes an attempt's outcome in, or waits a little after a failure.
    fn settle(&self, made: io::Result<Option<Arc<MappedFile>>>, on_failure: &impl Fn(&io::Error)) {
        let mut state = self.state.lock();
        match made {
            Ok(file) => {
                if state.failure.take().is_some() {
                    tracing::info!("commit log files can be made again");
                }
                if let Some(file) = file {
                    state.next_start = file.end();
                    state.ready.push_back(file);
                }
                self.made.notify_all();
            }
            Err(error) => {
                let text = error.to_string();
                if state.failure.as_ref() != Some(&text) {
                    let folder = self.folder.display();
                    tracing::error!(%folder, %error, "can't make a commit log file");
                }
                state.failure = Some(text);
                self.made.notify_all();
                drop(state);
                on_failure(&error);
                let mut state = self.state.lock();
                let until = Instant::now() + RETRY;
                // Nudges don't shorten this: each failing append would start another attempt.
                while !state.stop && !self.work.wait_until(&mut state, until).timed_out() {}
            }
        }
    }

    /// Waits for something to do.
    fn next_job(&self) -> Job {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return Job::Stop;
            }
            if state.current.allocated() < state.current.len() {
                return Job::Allocate(Arc::clone(&state.current));
            }
            let half = state.current.start() + self.file_len / 2;
            let wanted = if state.appended >= half { 2 } else { 1 };
            if state.ready.len() < wanted && state.failure.is_none() || state.ready.is_empty() {
                return Job::Make(state.next_start);
            }
            state.populated = state.populated.max(state.appended);
            let from = state.populated;
            let ahead = self.ahead(state.appended);
            let target = state.appended + ahead;
            if from < target
                && let Some(file) = state.holding(from)
            {
                let to = (from + STEP).min(file.end());
                state.populated = to;
                return Job::Populate(file, from, to);
            }
            let wake_at = state.populated.saturating_sub(ahead / 2);
            // Also in time for the second file ahead.
            let wake_at = if wanted == 1 { wake_at.min(half) } else { wake_at };
            self.wake_at.store(wake_at.max(state.appended + 1), Ordering::Relaxed);
            self.work.wait(&mut state);
        }
    }

    fn ahead(&self, appended: u64) -> u64 {
        let written = appended.saturating_sub(self.opened_at);
        written.clamp(AHEAD_MIN.min(self.ahead_max), self.ahead_max)
    }

    fn populate(&self, file: &MappedFile, from: u64, to: u64) {
        let range = (from - file.start()) as usize..(to - file.start()) as usize;
        if let Err(error) = file.populate(range) {
            // The append will take the faults itself.
            tracing::debug!(path = %file.path().display(), %error, "pages not faulted in ahead");
        }
    }
}

impl State {
    fn holding(&self, offset: u64) -> Option<Arc<MappedFile>> {
        std::iter::once(&self.current)
            .chain(&self.ready)
            .find(|file| file.start() <= offset && offset < file.end())
            .cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env;

    fn maker(folder: &std::path::Path, file_len: u64) -> FileMaker {
        let files = env::os().files;
        let path = folder.join(file_name(0));
        let current = MappedFile::create(&*files, path, 0, file_len, 64 << 10).unwrap();
        FileMaker::new(files, folder.to_path_buf(), file_len, Arc::new(current), 0)
    }

    #[test]
    fn the_next_file_is_made_at_once_and_the_one_after_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let maker = maker(folder.path(), 64 << 10);
        std::thread::scope(|scope| {
            scope.spawn(|| maker.run(|error| panic!("{error}")));
            let made = |count: usize| {
                while maker.state.lock().ready.len() < count {
                    std::thread::yield_now();
                }
            };
            made(1);
            // Asleep, it wants to be woken when the current file is half full, or before.
            while maker.wake_at() == 0 || maker.wake_at() == u64::MAX {
                std::thread::yield_now();
            }
            assert!(maker.wake_at() <= 32 << 10);
            assert_eq!(maker.state.lock().ready.len(), 1);
            maker.nudge(32 << 10);
            made(2);
            let next = maker.take().unwrap();
            assert_eq!((next.start(), next.allocated()), (64 << 10, 64 << 10));
            assert_eq!(maker.take().unwrap().start(), 128 << 10);
            maker.stop();
        });
        assert!(maker.state.lock().failure.is_none());
    }

    #[test]
    fn pages_ahead_grow_with_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let maker = maker(folder.path(), 1 << 30);
        assert_eq!(maker.ahead(0), 4 << 20);
        assert_eq!(maker.ahead(10 << 20), 10 << 20);
        assert_eq!(maker.ahead(1 << 29), 32 << 20);
    }
}
