//! The broker put together: every room is made here, in the order in which they need each other, and
//! stopped in the order in which nothing acknowledged can be lost. Nobody but `main` and tests name
//! this file.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker_store::{Env, Store, StoreConfig, StoreError};
use tokio::task::JoinHandle;

use crate::chores::{Chore, Chores};
use crate::clients::Clients;
use crate::config::{BrokerConfig, Live};
use crate::dispatch::{BrokerRole, Port, Rooms};
use crate::groups::Groups;
use crate::handler::now_ms;
use crate::handler::pull::{self, PullPath};
use crate::handler::send::SendPath;
use crate::long_poll::HeldPulls;
use crate::net::{Limits, Listener, Serving};
use crate::offsets::ConsumerOffsets;
use crate::pool::Pool;
use crate::queue_locks::QueueLocks;
use crate::rates::Rates;
use crate::registration::{Identity, Registration};
use crate::schedule::{DelayLevels, Schedule, WriteQueues};
use crate::state_file::{StateFile, StateFileError};
use crate::stats::Stats;
use crate::topics::{BootTopics, Topics};

/// Threads for what waits for a disk, at most.
const POOL_THREADS: usize = 8;
/// Threads that read what is not in memory, at most.
const COLD_READ_THREADS: usize = 4;
/// Cold reads that may wait.
const COLD_READ_QUEUE: usize = 10_000;
/// How long running work may take at stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How often the counters are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// How often silent clients are looked for.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(10);
/// How long peers may take to read their last answers.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings don't fit together.
    #[error("{0}")]
    Config(String),
    /// The store can't be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A table can't be read.
    #[error(transparent)]
    State(#[from] StateFileError),
    /// A thread can't be started.
    #[error("start a thread: {0}")]
    Thread(std::io::Error),
    /// A port can't be opened.
    #[error("open port {address}: {source}")]
    Port {
        /// What was to be bound.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    rooms: Arc<Rooms>,
    main: Serving,
    vip: Option<Serving>,
    driver: JoinHandle<()>,
    chores: Chores,
}

impl Broker {
    /// Opens the store and starts to serve. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// When the settings are wrong, files can't be read, or a port is taken. Nothing runs then.
    pub fn start(
        config: BrokerConfig,
        store_config: StoreConfig,
        env: Env,
    ) -> Result<Broker, StartError> {
        let ip: IpAddr = config.bind_address.parse().map_err(|_| {
            StartError::Config(format!("bindAddress={} is no IP address", config.bind_address))
        })?;
        // The ports first: a second broker on the same ones must not touch the store.
        let main = bind(SocketAddr::new(ip, config.listen_port), &config)?;
        let vip = match config.listen_port {
            // A port chosen by the system has no neighbour to count on.
            0 => None,
            _ => Some(bind(SocketAddr::new(ip, config.vip_port()), &config)?),
        };
        let rooms = Arc::new(rooms(config, store_config, env, main.address().port())?);
        let driver = tokio::spawn(pull::drive(Arc::clone(&rooms.pull), rooms.store.arrivals()));
        let serve = |listener: Listener, port| {
            listener.serve(Arc::new(BrokerRole::new(Arc::clone(&rooms), port)))
        };
        let main = serve(main, Port::Main);
        let vip = vip.map(|vip| serve(vip, Port::Vip));
        rooms.schedule.start().map_err(StartError::Thread)?;
        let chores = Chores::start(chores(&rooms)).map_err(StartError::Thread)?;
        // Last of all: who finds the broker there can use it.
        rooms.registration.start();
        Ok(Broker { rooms, main, vip, driver, chores })
    }

    /// The address of the main port.
    pub fn address(&self) -> SocketAddr {
        self.main.address()
    }

    /// The address of the VIP port.
    pub fn vip_address(&self) -> Option<SocketAddr> {
        self.vip.as_ref().map(Serving::address)
    }

    /// Counts the open connections of both ports.
    pub fn connections(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let (main, vip) = (self.main.counter(), self.vip.as_ref().map(Serving::counter));
        move || main() + vip.as_ref().map_or(0, |vip| vip())
    }

    /// The rooms, for those who look from outside: metrics, probes, tests.
    pub fn rooms(&self) -> &Arc<Rooms> {
        &self.rooms
    }

    /// Stops: refuses new sends with a code that clients retry elsewhere, answers what waits, writes
    /// everything to disk. Returns when nothing more is to be done.
    pub async fn stop(self) {
        // First of all: clients that ask for routes from here on go elsewhere.
        self.rooms.registration.stop().await;
        let rooms = Arc::clone(&self.rooms);
        let chores = self.chores;
        rooms.send.stopping.store(true, Ordering::SeqCst);
        rooms.pull.stopping.store(true, Ordering::SeqCst);
        self.main.stop_accepting();
        if let Some(vip) = &self.vip {
            vip.stop_accepting();
        }
        self.driver.abort();
        rooms.pull.answer_all_held();
        let stopping = tokio::task::spawn_blocking(move || {
            if !rooms.pool.stop(STOP_PATIENCE) {
                tracing::warn!("work is still running at the end of the broker");
            }
            rooms.pull.cold_reads.stop(STOP_PATIENCE);
            drop(chores);
            if let Err(error) = rooms.schedule.stop() {
                tracing::error!(%error, "write the progress of delayed messages at stop");
            }
            if let Err(error) = rooms.offsets.persist() {
                tracing::error!(%error, "write the consumers' progress at stop");
            }
            rooms.store.shutdown();
        });
        if let Err(error) = stopping.await {
            tracing::error!(%error, "stop the broker");
        }
        // Every send has its outcome now: the answers leave, then the connections close.
        self.main.finish(CLOSE_PATIENCE).await;
        if let Some(vip) = &self.vip {
            vip.finish(CLOSE_PATIENCE).await;
        }
    }
}

fn write_queues(topics: Arc<Topics>) -> WriteQueues {
    Box::new(move |topic| Some(topics.find(topic)?.settings().config.write_queue_nums))
}

fn bind(address: SocketAddr, config: &BrokerConfig) -> Result<Listener, StartError> {
    let limits = Limits {
        connections_max: config.max_connections,
        idle_time: Duration::from_secs(config.server_channel_max_idle_time_seconds.max(1)),
        ..Limits::default()
    };
    Listener::bind(address, limits).map_err(|source| StartError::Port { address, source })
}

/// Makes every room. `port` is what clients reach the broker by.
fn rooms(
    config: BrokerConfig,
    store_config: StoreConfig,
    env: Env,
    port: u16,
) -> Result<Rooms, StartError> {
    let host: IpAddr = config.broker_ip1.parse().map_err(|_| {
        StartError::Config(format!("brokerIP1={} is no IP address", config.broker_ip1))
    })?;
    let levels = DelayLevels::parse(&store_config.message_delay_level)
        .map_err(|error| StartError::Config(error.to_string()))?;
    let clock = Arc::clone(&env.clock);
    let store = Store::open(store_config, env)?;
    let root = store.config().store_path_root_dir.clone();
    let file = |name| StateFile::new(Arc::clone(store.files()), &root, name);
    let topics = Arc::new(Topics::load(file("topics.json"), &boot_topics(&config, &levels))?);
    let groups = Arc::new(Groups::load(file("subscriptionGroup.json"), now_ms())?);
    let offsets = Arc::new(ConsumerOffsets::load(file("consumerOffset.json"))?);
    let clients = Arc::new(Clients::new());
    let stats = Arc::new(Stats::default());
    let pool = Pool::new("pool", POOL_THREADS, config.admin_queue_capacity);
    let held = HeldPulls::new(config.pull_hold_capacity);
    let schedule = Schedule::load(
        store.clone(),
        Arc::clone(&clock),
        &levels,
        Duration::from_millis(config.flush_delay_offset_interval),
        file("delayOffset.json"),
        write_queues(Arc::clone(&topics)),
    )?;
    let broker_name: Arc<str> = Arc::from(&*config.broker_name);
    let store_host = SocketAddr::new(host, port);
    let identity = identity(&config, store_host);
    let config = Arc::new(Live::new(config));
    let registration =
        Registration::new(identity, Arc::clone(&config), Arc::clone(&topics), pool.clone(), clock);
    let send = SendPath {
        config: Arc::clone(&config),
        sync_flush: store.config().flush_disk_type
            == broker_store::config::FlushDiskType::SyncFlush,
        store: store.clone(),
        topics: Arc::clone(&topics),
        groups: Arc::clone(&groups),
        levels,
        stats: Arc::clone(&stats),
        pool: pool.clone(),
        told: registration.told(),
        store_host,
        stopping: AtomicBool::new(false),
    };
    let pull = PullPath {
        config: Arc::clone(&config),
        store: store.clone(),
        topics: Arc::clone(&topics),
        groups: Arc::clone(&groups),
        clients: Arc::clone(&clients),
        offsets: Arc::clone(&offsets),
        held,
        stats: Arc::clone(&stats),
        pool: pool.clone(),
        cold_reads: Pool::new("cold-reads", COLD_READ_THREADS, COLD_READ_QUEUE),
        stopping: AtomicBool::new(false),
    };
    Ok(Rooms {
        config,
        store,
        topics,
        groups,
        offsets,
        clients,
        queue_locks: QueueLocks::new(),
        send: Arc::new(send),
        pull: Arc::new(pull),
        schedule,
        registration,
        stats,
        rates: Rates::new(),
        broker_name,
        address: store_host.to_string(),
        pool,
    })
}

/// What comes back at intervals.
fn chores(rooms: &Arc<Rooms>) -> Vec<Chore> {
    let chore = |every: fn(&Rooms) -> Duration, work: fn(&Rooms)| {
        let (timed, worked) = (Arc::clone(rooms), Arc::clone(rooms));
        Chore { every: Box::new(move || every(&timed)), run: Box::new(move || work(&worked)) }
    };
    vec![
        chore(|_| SAMPLE_INTERVAL, |rooms| rooms.rates.tick(&rooms.stats, &rooms.topics, now_ms())),
        chore(|_| EXPIRY_INTERVAL, Rooms::expire),
        chore(flush_consumer_offset_interval, |rooms| {
            if let Err(error) = rooms.offsets.persist() {
                tracing::error!(%error, "write the consumers' progress");
            }
        }),
    ]
}

fn flush_consumer_offset_interval(rooms: &Rooms) -> Duration {
    Duration::from_millis(rooms.config.broker().flush_consumer_offset_interval.max(1))
}

fn identity(config: &BrokerConfig, store_host: SocketAddr) -> Identity {
    let ha_port = store_host.port().saturating_add(1);
    Identity {
        cluster_name: config.broker_cluster_name.clone(),
        broker_name: config.broker_name.clone(),
        broker_id: config.broker_id,
        broker_address: store_host.to_string(),
        ha_address: format!("{}:{ha_port}", config.broker_ip2),
    }
}

fn boot_topics<'a>(config: &'a BrokerConfig, levels: &DelayLevels) -> BootTopics<'a> {
    BootTopics {
        cluster: &config.broker_cluster_name,
        broker: &config.broker_name,
        default_queues: config.default_topic_queue_nums,
        delay_levels: levels.highest(),
        auto_create: config.auto_create_topic_enable,
        cluster_topic: config.cluster_topic_enable,
        broker_topic: config.broker_topic_enable,
        trace_topic: config.trace_topic_enable.then_some(&*config.msg_trace_topic_name),
    }
}
