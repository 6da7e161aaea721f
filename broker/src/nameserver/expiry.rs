//! Takes silent brokers out of the routes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::NameServer;

/// Pause between two looks; a broker is out at most this long after its time.
const INTERVAL: Duration = Duration::from_secs(5);

/// The task that looks; it ends when dropped.
#[derive(Debug)]
pub struct Expiry(JoinHandle<()>);

impl Drop for Expiry {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts to look, on the current runtime.
#[must_use]
pub(super) fn start(server: Arc<NameServer>) -> Expiry {
    Expiry(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            server.expire();
        }
    }))
}
