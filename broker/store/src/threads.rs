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
    /// Starts one; names longer than 15 bytes are cut by the system.
    pub(crate) fn start(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), StoreError> {
        let started = thread::Builder::new().name(name.to_owned()).spawn(run);
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
