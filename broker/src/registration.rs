//! Tells the name servers what this broker serves: at start, at once when a topic is made or
//! changes, and every `registerNameServerPeriod`; takes it back at stop. Each address has a task
//! of its own, so a name server that is away holds up neither the others nor any send.
//!
//! Names are resolved again each period; a name that stands for several addresses means all of
//! them. What is sent is built in [`table`], the connection is in [`link`].

mod link;
mod table;
mod told;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker_store::env::Clock;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::config::Live;
use crate::pool::Pool;
use crate::topics::Topics;

use link::{Link, LinkError};
use table::Served;
pub use told::Told;

/// Changes are sent at once, but no two of them closer together: those in between go as one.
const CHANGE_INTERVAL: Duration = Duration::from_millis(50);

/// Pause before a name server that is away is tried again; doubles up to the second.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// How long resolving a name and connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long taking the registration back may take at stop.
const UNREGISTER_TIMEOUT: Duration = Duration::from_secs(3);

/// Who registers: what the name servers are told beside the topics. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// brokerClusterName.
    pub cluster_name: String,
    /// brokerName.
    pub broker_name: String,
    /// brokerId; 0 is the master.
    pub broker_id: i64,
    /// `host:port` that clients are given.
    pub broker_address: String,
    /// `host:port` that slaves dial.
    pub ha_address: String,
}

/// How one name server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameServerStatus {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the last registration there succeeded.
    pub registered: bool,
}

/// Keeps the broker registered. Dropping it ends the tasks without unregistering.
#[derive(Debug)]
pub struct Registration {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    resolver: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Shared {
    identity: Identity,
    config: Arc<Live>,
    topics: Arc<Topics>,
    pool: Pool,
    clock: Arc<dyn Clock>,
    served: table::Cache,
    statuses: Mutex<BTreeMap<SocketAddr, bool>>,
    told: Arc<Told>,
    /// Counts what must be told at once beside topic changes: another brokerPermission.
    nudges: watch::Sender<u64>,
}

impl Registration {
    /// What is needed to register; nothing is sent before [`Registration::start`].
    #[must_use]
    pub fn new(
        identity: Identity,
        config: Arc<Live>,
        topics: Arc<Topics>,
        pool: Pool,
        clock: Arc<dyn Clock>,
    ) -> Registration {
        let shared = Shared {
            identity,
            config,
            topics,
            pool,
            clock,
            served: table::Cache::default(),
            statuses: Mutex::default(),
            told: Arc::default(),
            nudges: watch::Sender::new(0),
        };
        Registration {
            shared: Arc::new(shared),
            stop: watch::Sender::new(false),
            resolver: Mutex::new(None),
        }
    }

    /// Starts registering; returns at once. Must be called on a tokio runtime, once the broker can
    /// be reached.
    pub fn start(&self) {
        // The table may have changed while the broker was away, and a name server that still knows
        // the broker looks at its version only.
        self.shared.topics.renew_version(self.shared.clock.now_ms());
        let resolver = tokio::spawn(resolve(Arc::clone(&self.shared), self.stop.subscribe()));
        *self.resolver.lock() = Some(resolver);
    }

    /// Registers everywhere as soon as possible, under a new version of the topics: what the broker
    /// permits has changed.
    pub fn register_now(&self) {
        self.shared.topics.renew_version(self.shared.clock.now_ms());
        self.shared.nudges.send_modify(|count| *count += 1);
    }

    /// What the name servers know of the topics, for those who wait for it.
    #[must_use]
    pub fn told(&self) -> Arc<Told> {
        Arc::clone(&self.shared.told)
    }

    /// How each known name server stands, by address.
    #[must_use]
    pub fn status(&self) -> Vec<NameServerStatus> {
        let statuses = self.shared.statuses.lock();
        let status = |(&address, &registered): (&SocketAddr, &bool)| NameServerStatus {
            address,
            registered,
        };
        statuses.iter().map(status).collect()
    }

    /// Unregisters everywhere and ends the tasks. A name server that does not answer is waited for
    /// three seconds; it will forget the broker by itself.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let resolver = self.resolver.lock().take();
        if let Some(resolver) = resolver
            && let Err(error) = resolver.await
        {
            tracing::error!(%error, "the registration had failed");
        }
    }
}

/// Keeps one task for each address that the configured names stand for.
async fn resolve(shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut resolved: HashMap<String, Vec<SocketAddr>> = HashMap::new();
    let mut unresolved: HashSet<String> = HashSet::new();
    let mut tasks: HashMap<SocketAddr, JoinHandle<()>> = HashMap::new();
    let mut nudges = shared.nudges.subscribe();
    while !*stopped.borrow() {
        let names: Vec<String> = shared.config.broker().name_servers().map(str::to_owned).collect();
        resolved.retain(|name, _| names.contains(name));
        let mut all_known = true;
        for name in names {
            match lookup(&name).await {
                Ok(addresses) => {
                    unresolved.remove(&name);
                    resolved.insert(name, addresses);
                }
                Err(error) => {
                    all_known = false;
                    // Addresses known from before stay in use. Told once for each outage.
                    if unresolved.insert(name.clone()) {
                        tracing::warn!(name, error, "the name server's name can't be resolved");
                    }
                }
            }
        }
        let wanted: Vec<SocketAddr> = resolved.values().flatten().copied().collect();
        tasks.retain(|address, task| {
            let keep = wanted.contains(address);
            if !keep {
                task.abort();
                shared.statuses.lock().remove(address);
                shared.told.forget(*address);
            }
            keep
        });
        for address in wanted {
            let start = || tokio::spawn(serve(shared.clone(), address, stopped.clone()));
            tasks.entry(address).or_insert_with(start);
        }
        let period = if all_known { shared.period() } else { RETRY_MAX };
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            _ = nudges.changed() => {}
            _ = stopped.changed() => {}
        }
    }
    let deadline = Instant::now() + UNREGISTER_TIMEOUT;
    for task in tasks.into_values() {
        let abort = task.abort_handle();
        if timeout_at(deadline, task).await.is_err() {
            abort.abort();
        }
    }
}

async fn lookup(name: &str) -> Result<Vec<SocketAddr>, String> {
    let found = timeout(CONNECT_TIMEOUT, tokio::net::lookup_host(name)).await;
    let mut addresses: Vec<SocketAddr> =
        found.map_err(|_| "no answer in time".to_owned())?.map_err(|e| e.to_string())?.collect();
    if addresses.is_empty() {
        return Err("it has no address".to_owned());
    }
    // A name server reached by both families would hear everything twice.
    if addresses.iter().any(SocketAddr::is_ipv4) {
        addresses.retain(SocketAddr::is_ipv4);
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Keeps the broker registered at one address until told to stop.
async fn serve(shared: Arc<Shared>, address: SocketAddr, mut stopped: watch::Receiver<bool>) {
    let mut pause = RETRY_MIN;
    let mut away = false;
    while !*stopped.borrow() {
        let ended = serve_connection(&shared, address, &mut stopped).await;
        let was_registered = shared.statuses.lock().insert(address, false) == Some(true);
        shared.told.forget(address);
        let Err(error) = ended else { return };
        if was_registered {
            pause = RETRY_MIN;
            away = false;
        }
        // Once for each outage: the retries say nothing new.
        if !std::mem::replace(&mut away, true) {
            tracing::warn!(name_server = %address, %error, "not registered; trying on");
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stopped.changed() => {}
        }
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Registers over one connection until it breaks or the broker stops. The name server forgets a
/// broker whose connection closes, so each new connection starts with everything.
async fn serve_connection(
    shared: &Shared,
    address: SocketAddr,
    stopped: &mut watch::Receiver<bool>,
) -> Result<(), LinkError> {
    // Subscribed before the first registration: what changes meanwhile is told by the second.
    let mut changes = shared.topics.changes();
    let mut nudges = shared.nudges.subscribe();
    let mut link = timeout(CONNECT_TIMEOUT, Link::connect(address))
        .await
        .map_err(|_| LinkError::TimedOut)??;
    let mut known: Option<Arc<Served>> = None;
    loop {
        let started = Instant::now();
        // Before the topics are looked at: what changes in between is told next time.
        let count = *changes.borrow_and_update();
        let served =
            shared.served.current(&shared.topics, shared.config.broker().broker_permission);
        register(shared, &mut link, &served, known.as_deref()).await?;
        if shared.statuses.lock().insert(address, true) != Some(true) {
            tracing::info!(name_server = %address, "registered");
        }
        shared.told.set(address, count);
        // What was sent in part counts as sent in full: the rest was there before.
        known = Some(served);
        tokio::select! {
            () = sleep_until(started + shared.period()) => known = None,
            _ = nudges.changed() => known = None,
            changed = async { sleep_until(started + CHANGE_INTERVAL).await; changes.changed().await } => {
                if changed.is_err() {
                    return Ok(());
                }
            }
            error = link.closed() => return Err(error),
            _ = stopped.changed() => {
                unregister(shared, &mut link, address).await;
                return Ok(());
            }
        }
    }
}

async fn register(
    shared: &Shared,
    link: &mut Link,
    served: &Served,
    known: Option<&Served>,
) -> Result<(), LinkError> {
    let request = table::request(&shared.identity, served, known)?;
    let Some(request) = request else { return Ok(()) };
    let patience = Duration::from_millis(shared.config.broker().register_broker_timeout_mills);
    let answer = link.register(&request, patience).await?;
    if let Some(order_topics) = answer {
        let topics = Arc::clone(&shared.topics);
        let now = shared.clock.now_ms();
        let marking =
            shared.pool.run(move || table::mark_order_topics(&topics, &order_topics, now));
        if marking.is_err() {
            tracing::warn!("too busy to take over order marks; the next registration tries again");
        }
    }
    Ok(())
}

async fn unregister(shared: &Shared, link: &mut Link, address: SocketAddr) {
    match link.unregister(&shared.identity, UNREGISTER_TIMEOUT).await {
        Ok(()) => tracing::info!(name_server = %address, "unregistered"),
        Err(error) => tracing::warn!(name_server = %address, %error, "not unregistered"),
    }
}

impl Shared {
    fn period(&self) -> Duration {
        let configured = self.config.broker().register_name_server_period;
        Duration::from_millis(configured.clamp(10_000, 60_000))
    }
}

#[cfg(test)]
mod tests;
