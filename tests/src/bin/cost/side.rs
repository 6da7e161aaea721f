//! One of the two brokers under measurement.

use std::time::Duration;

use anyhow::{Result, anyhow};
use system_tests::cluster::{BrokerOptions, Cluster, Maker};

const MIB: f64 = 1024.0 * 1024.0;
/// After which a started broker counts as idle.
const SETTLE: Duration = Duration::from_secs(5);

/// A running name server and broker of one maker.
pub(crate) struct Side {
    pub(crate) maker: Maker,
    cluster: Cluster,
    /// Highest anonymous memory seen at the end of a load, in MiB.
    pub(crate) loaded_mib: f64,
}

/// The broker as both makers run it here: the defaults, but for a heap that suits the machine.
pub(crate) fn options() -> BrokerOptions {
    let mut options = BrokerOptions::master("cost")
        .with("mappedFileSizeCommitLog", 1_u64 << 30)
        .with("flushDiskType", "ASYNC_FLUSH");
    options.heap = "1g";
    options
}

impl Side {
    /// Starts name server and broker.
    pub(crate) fn start(maker: Maker) -> Result<Self> {
        let cluster = Cluster::start(maker, vec![options()])?;
        Ok(Self { maker, cluster, loaded_mib: 0.0 })
    }

    /// Address of the broker.
    pub(crate) fn address(&self) -> Result<String> {
        let broker = self.cluster.brokers.first().ok_or_else(|| anyhow!("no broker"))?;
        Ok(broker.address())
    }

    /// Process id of the broker.
    pub(crate) fn pid(&mut self) -> Result<u32> {
        let broker = self.cluster.brokers.first_mut().ok_or_else(|| anyhow!("no broker"))?;
        Ok(broker.running()?.id())
    }

    /// Anonymous memory of the broker when nothing has happened yet, in MiB.
    pub(crate) fn idle_memory(&mut self) -> Result<f64> {
        std::thread::sleep(SETTLE);
        let broker = self.cluster.brokers.first_mut().ok_or_else(|| anyhow!("no broker"))?;
        Ok(broker.running()?.anonymous_memory()? as f64 / MIB)
    }
}
