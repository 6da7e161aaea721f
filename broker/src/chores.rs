//! Work that comes back at intervals (samples, expiry, saving progress), on one thread for all of
//! it. What the work is, whoever starts the thread says.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Work and how often it is done.
pub struct Chore {
    /// From the end of one run to the start of the next; asked after each run, for it may change.
    pub every: Box<dyn Fn() -> Duration + Send>,
    /// The work. It may wait for a disk; the others wait as long.
    pub run: Box<dyn Fn() + Send>,
}

/// The thread. Dropping it stops the thread after the chore that is under way.
#[derive(Debug)]
pub struct Chores {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Bell {
    stopping: Mutex<bool>,
    rung: Condvar,
}

impl Chores {
    /// Starts the thread; each chore runs for the first time after its interval.
    ///
    /// # Errors
    /// When the thread can't be started.
    pub fn start(chores: Vec<Chore>) -> io::Result<Chores> {
        let bell = Arc::new(Bell::default());
        let ring = Arc::clone(&bell);
        let thread =
            thread::Builder::new().name("chores".to_owned()).spawn(move || work(&chores, &ring))?;
        Ok(Chores { bell, thread: Some(thread) })
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        *self.bell.stopping.lock() = true;
        self.bell.rung.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a chore had panicked");
        }
    }
}

fn work(chores: &[Chore], bell: &Bell) {
    let start = Instant::now();
    let mut due: Vec<Instant> = chores.iter().map(|chore| start + (chore.every)()).collect();
    loop {
        for (chore, due) in chores.iter().zip(&mut due) {
            if *due <= Instant::now() {
                (chore.run)();
                *due = Instant::now() + (chore.every)();
            }
        }
        let mut stopping = bell.stopping.lock();
        if !*stopping {
            match due.iter().min() {
                Some(next) => drop(bell.rung.wait_until(&mut stopping, *next)),
                None => bell.rung.wait(&mut stopping),
            }
        }
        if *stopping {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::testing::until;

    fn chore(every: Duration, counter: &Arc<AtomicU32>) -> Chore {
        let counter = Arc::clone(counter);
        Chore {
            every: Box::new(move || every),
            run: Box::new(move || _ = counter.fetch_add(1, Ordering::SeqCst)),
        }
    }

    #[test]
    fn each_chore_comes_back_at_its_own_interval() {
        let (often, seldom) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let started = Chores::start(vec![
            chore(Duration::from_millis(1), &often),
            chore(Duration::from_secs(3_600), &seldom),
        ]);
        until("it ran several times", || often.load(Ordering::SeqCst) > 3);
        drop(started.unwrap());
        let ran = often.load(Ordering::SeqCst);
        assert_eq!(seldom.load(Ordering::SeqCst), 0);
        assert_eq!(often.load(Ordering::SeqCst), ran, "nothing runs after the stop");
    }

    #[test]
    fn no_chores_stop_as_well() {
        drop(Chores::start(Vec::new()).unwrap());
    }
}
