//! The store's threads: named, started together, joined together. What they do lives elsewhere; how
//! each is told to stop is its owner's concern.

use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use crate::error::StoreError;

/// Threads that are running.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    /// Starts one; names longer than 15 bytes are cut by the system. If it panics, `died` runs on
    /// it, so that nobody relies on work that isn't done any more.
    pub(crate) fn start(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
        died: impl FnOnce() + Send + 'static,
    ) -> Result<(), StoreError> {
        let guarded = move || {
            let guard = Guard(Some(died));
            run();
            drop(guard);
        };
        let started = thread::Builder::new().name(name.to_owned()).spawn(guarded);
        self.handles.lock().push(started.map_err(StoreError::Thread)?);
        Ok(())
    }

    /// Waits for all of them. They must have been told to stop. A thread that calls this isn't
    /// waited for.
    pub(crate) fn join(&self) {
        let handles = std::mem::take(&mut *self.handles.lock());
        for handle in handles {
            if handle.thread().id() == thread::current().id() {
                continue;
            }
            let name = handle.thread().name().unwrap_or_default().to_owned();
            if handle.join().is_err() {
                tracing::error!(name, "a thread of the store panicked");
            }
        }
    }
}

/// Tells of a panic while it unwinds.
struct Guard<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Guard<F> {
    fn drop(&mut self) {
        if let Some(died) = self.0.take()
            && thread::panicking()
        {
            died();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn only_a_panic_is_told() {
        let threads = Threads::default();
        let (sender, receiver) = sync_channel(2);
        let (fine, bad) = (sender.clone(), sender);
        threads.start("fine", || {}, move || fine.send("fine").unwrap()).unwrap();
        threads.start("bad", || panic!("on purpose"), move || bad.send("bad").unwrap()).unwrap();
        threads.join();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["bad"]);
    }
}
