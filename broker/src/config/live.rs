//! The broker's settings while it runs: read on every request, replaced as a whole when an
//! operator changes one.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use super::BrokerConfig;

/// The present settings. Reading takes no lock.
#[derive(Debug)]
pub struct Live {
    broker: ArcSwap<BrokerConfig>,
}

impl Live {
    /// Starts from the settings that were loaded.
    pub fn new(broker: BrokerConfig) -> Live {
        Live { broker: ArcSwap::from_pointee(broker) }
    }

    /// The settings as they are now. The guard is for the length of one request.
    pub fn broker(&self) -> Guard<Arc<BrokerConfig>> {
        self.broker.load()
    }

    /// Replaces the settings; requests under way keep the old ones.
    pub fn replace(&self, broker: BrokerConfig) {
        self.broker.store(Arc::new(broker));
    }
}
