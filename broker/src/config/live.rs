//! The broker's settings while it runs: read on every request, replaced as a whole when an
//! operator changes one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use broker_protocol::body::DataVersion;
use parking_lot::{Mutex, MutexGuard};

use super::BrokerConfig;

/// The keys of [`BrokerConfig`] whose new value counts at once.
pub const RUN_TIME_KEYS: [&str; 13] = [
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "brokerPermission",
    "flushConsumerOffsetInterval",
    "longPollingEnable",
    "namesrvAddr",
    "notifyConsumerIdsChangedEnable",
    "registerBrokerTimeoutMills",
    "registerNameServerPeriod",
    "shortPollingTimeMills",
    "slaveReadEnable",
    "startAcceptSendRequestTimeStamp",
    "traceOn",
];

/// The present settings. Reading takes no lock.
#[derive(Debug)]
pub struct Live {
    broker: ArcSwap<BrokerConfig>,
    /// The file they were read from; changes are written into it.
    file: OnceLock<PathBuf>,
    version: Mutex<DataVersion>,
}

impl Live {
    /// Starts from the settings that were loaded.
    pub fn new(broker: BrokerConfig) -> Live {
        Live {
            broker: ArcSwap::from_pointee(broker),
            file: OnceLock::new(),
            version: Mutex::default(),
        }
    }

    /// The settings as they are now. The guard is for the length of one request.
    pub fn broker(&self) -> Guard<Arc<BrokerConfig>> {
        self.broker.load()
    }

    /// Replaces the settings; requests under way keep the old ones.
    pub fn replace(&self, broker: BrokerConfig) {
        self.broker.store(Arc::new(broker));
    }

    /// Says which file the settings were read from. Only the first call counts.
    pub fn came_from(&self, file: PathBuf) {
        // The settings of a process come from one file.
        let _ = self.file.set(file);
    }

    /// The file that the settings were read from.
    pub fn file(&self) -> Option<&Path> {
        self.file.get().map(PathBuf::as_path)
    }

    /// The version of the settings. Whoever changes them holds it meanwhile, so that changes follow
    /// one another.
    pub fn version(&self) -> MutexGuard<'_, DataVersion> {
        self.version.lock()
    }
}
