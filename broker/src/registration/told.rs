//! Which changes of the topics each name server has been told. A request that makes a topic waits
//! here for a moment: clients ask for its route as soon as they have the answer, and some give up
//! when there is none.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The changes told so far, by name server; one that is away is not in it.
#[derive(Debug, Default)]
pub struct Told {
    counts: Mutex<BTreeMap<SocketAddr, u64>>,
    more: Condvar,
}

impl Told {
    /// A name server has answered a registration that holds the topics after `count` changes.
    pub(super) fn set(&self, name_server: SocketAddr, count: u64) {
        self.counts.lock().insert(name_server, count);
        self.more.notify_all();
    }

    /// A name server is away, or is no longer asked.
    pub(super) fn forget(&self, name_server: SocketAddr) {
        self.counts.lock().remove(&name_server);
        self.more.notify_all();
    }

    /// Waits until every name server that is there was told `count` changes, at most `within`.
    /// Blocks, so it is for the pool's threads.
    pub fn wait_for(&self, count: u64, within: Duration) {
        let deadline = Instant::now() + within;
        let mut counts = self.counts.lock();
        while counts.values().any(|told| *told < count) {
            if self.more.wait_until(&mut counts, deadline).timed_out() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(60);

    fn server(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn nobody_there_is_nobody_to_wait_for() {
        Told::default().wait_for(7, LONG);
    }

    #[test]
    fn a_silent_name_server_is_waited_for_until_the_time_is_up() {
        let told = Told::default();
        told.set(server(1), 6);
        let began = Instant::now();
        told.wait_for(7, Duration::from_millis(20));
        assert!(began.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn waiting_ends_when_the_last_is_told_or_gone() {
        let told = Arc::new(Told::default());
        told.set(server(1), 6);
        told.set(server(2), 6);
        let waiting = {
            let told = Arc::clone(&told);
            std::thread::spawn(move || {
                let began = Instant::now();
                told.wait_for(7, LONG);
                began.elapsed() < LONG
            })
        };
        told.set(server(1), 8);
        told.forget(server(2));
        assert!(waiting.join().unwrap());
    }
}
