//! What `standalone`, `serve` and `nameserver` do from the first setting to the last flush: read the
//! configuration, start the roles, wait for a signal, stop.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use broker_store::{StoreConfig, StoreError, env};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::admin_http::{self, Probes};
use crate::broker::{Broker, StartError};
use crate::cli::{Settings, Standalone, exit};
use crate::config::{BrokerConfig, Config, ConfigError, NameServerConfig, Source, Table, load};
use crate::dispatch::Rooms;
use crate::figures::{self, Tables};
use crate::handler::now_ms;
use crate::metrics;
use crate::nameserver::NameServer;
use crate::net::{Limits, Listener, Serving};

/// How long the name server's running work and last answers may take at stop.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How long the start waits for the name server of its own process.
const REGISTER_PATIENCE: Duration = Duration::from_secs(2);

/// Why a process ended badly.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The broker did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The name server's files can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime or the signals of the system can't be had.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl RunError {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::Config(_) | RunError::Start(StartError::Config(_)) => exit::CONFIG,
            RunError::Start(StartError::Store(_) | StartError::State(_)) | RunError::Store(_) => {
                exit::STORE
            }
            RunError::Start(StartError::Port { .. }) => exit::ADDRESS,
            RunError::System(_) | RunError::Start(StartError::Thread(_)) => exit::FAILED,
        }
    }
}

/// The settings of a broker: its own and its store's.
pub fn broker_table() -> Table {
    Table::default().with_section::<BrokerConfig>().with_section::<StoreConfig>()
}

/// The settings of a name server.
pub fn name_server_table() -> Table {
    Table::default().with_section::<NameServerConfig>()
}

/// Where a standalone process's settings come from: `--data` is short for a key.
pub fn standalone_source(command: &Standalone) -> Source {
    let mut source = command.settings.source();
    if let Some(data) = &command.data {
        let root = data.join("store").display().to_string();
        source.flags.set.insert(0, ("storePathRootDir".to_owned(), root));
    }
    source
}

/// `broker standalone`: a name server and a master broker in one process.
///
/// # Errors
/// When anything can't be started; nothing runs then.
pub fn standalone(command: &Standalone) -> Result<(), RunError> {
    let mut config = load(broker_table(), &standalone_source(command))?;
    let mut name_server =
        NameServerConfig { listen_port: command.namesrv_port, ..NameServerConfig::default() };
    if let Some(data) = &command.data {
        name_server.kv_config_path = path_text(&data.join("namesrv").join("kvConfig.json"));
    }
    runtime()?.block_on(async {
        let mut stop = Stop::listen()?;
        let served = ServedNameServer::start(name_server)?;
        // The broker finds the name server of its own process, whatever else it is told.
        let own = format!("127.0.0.1:{}", served.serving.address().port());
        add_name_server(&mut config, &own)?;
        let broker = start_broker(&config)?;
        registered(&broker).await;
        let http = ServedHttp::start(&broker).await?;
        banner(Some(&broker), Some(&served));
        stop.requested().await;
        http.stop().await;
        broker.stop().await;
        served.stop().await;
        Ok(())
    })
}

/// Waits until a name server knows the broker. Who is told "ready" may ask for a route at once, and
/// the name server is in this very process: it takes milliseconds.
async fn registered(broker: &Broker) {
    let registration = &broker.rooms().registration;
    let known = async {
        while !registration.status().iter().any(|status| status.registered) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(REGISTER_PATIENCE, known).await.is_err() {
        tracing::warn!("the broker's own name server does not know it yet");
    }
}

/// `broker serve`: a broker that registers at name servers.
///
/// # Errors
/// When anything can't be started; nothing runs then.
pub fn serve(settings: &Settings) -> Result<(), RunError> {
    let config = load(broker_table(), &settings.source())?;
    runtime()?.block_on(async {
        let mut stop = Stop::listen()?;
        let broker = start_broker(&config)?;
        let http = ServedHttp::start(&broker).await?;
        banner(Some(&broker), None);
        stop.requested().await;
        http.stop().await;
        broker.stop().await;
        Ok(())
    })
}

/// `broker nameserver`.
///
/// # Errors
/// When anything can't be started; nothing runs then.
pub fn name_server(settings: &Settings) -> Result<(), RunError> {
    let config = load(name_server_table(), &settings.source())?;
    warn_of(&config);
    let section = config.table.section().map_err(invalid)?;
    runtime()?.block_on(async {
        let mut stop = Stop::listen()?;
        let served = ServedNameServer::start(section)?;
        banner(None, Some(&served));
        stop.requested().await;
        served.stop().await;
        Ok(())
    })
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    raise_descriptor_limit();
    tokio::runtime::Builder::new_multi_thread().thread_name("net").enable_all().build()
}

/// Each link and each mapped file holds a descriptor: a thousand, the usual soft limit, is soon used up.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn warn_of(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

fn invalid(error: impl ToString) -> ConfigError {
    ConfigError::Invalid(error.to_string())
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

fn start_broker(config: &Config) -> Result<Broker, RunError> {
    warn_of(config);
    let broker: BrokerConfig = config.table.section().map_err(invalid)?;
    let store: StoreConfig = config.table.section().map_err(invalid)?;
    broker.validate().map_err(ConfigError::Invalid)?;
    let broker = Broker::start(broker, store, env::os())?;
    if let Some(file) = &config.file {
        broker.rooms().config.came_from(file.clone());
    }
    Ok(broker)
}

fn add_name_server(config: &mut Config, own: &str) -> Result<(), ConfigError> {
    let known =
        config.table.find("namesrvAddr").map(|setting| (setting.text(), setting.origin.clone()));
    let (text, origin) = match known {
        Some((text, origin)) if !text.is_empty() => (format!("{own};{text}"), origin),
        _ => (own.to_owned(), crate::config::Origin::Default),
    };
    config.table.set("namesrvAddr", &text, origin).map_err(invalid)
}

/// A name server at work.
struct ServedNameServer {
    role: Arc<NameServer>,
    serving: Serving,
    _expiry: crate::nameserver::Expiry,
}

impl ServedNameServer {
    fn start(config: NameServerConfig) -> Result<ServedNameServer, RunError> {
        let ip = config.bind_address.parse().map_err(|_| {
            invalid(format!("bindAddress={} is no IP address", config.bind_address))
        })?;
        let address = SocketAddr::new(ip, config.listen_port);
        let idle_seconds = config.server_channel_max_idle_time_seconds.max(1);
        let limits = Limits {
            connections_max: config.max_connections,
            idle_time: Duration::from_secs(idle_seconds),
            ..Limits::default()
        };
        let listener = Listener::bind(address, limits)
            .map_err(|source| StartError::Port { address, source })?;
        let environment = env::os();
        let role = Arc::new(NameServer::new(config, environment.files, environment.clock)?);
        let expiry = role.start_expiry();
        let serving = listener.serve(Arc::clone(&role));
        Ok(ServedNameServer { role, serving, _expiry: expiry })
    }

    async fn stop(self) {
        self.serving.stop_accepting();
        let role = Arc::clone(&self.role);
        let stopped = tokio::task::spawn_blocking(move || role.stop(STOP_PATIENCE)).await;
        if !matches!(stopped, Ok(true)) {
            tracing::warn!("work is still running at the end of the name server");
        }
        self.serving.finish(STOP_PATIENCE).await;
    }
}

/// The HTTP port at work, if there is one.
struct ServedHttp {
    running: Option<(watch::Sender<bool>, JoinHandle<std::io::Result<()>>)>,
}

impl ServedHttp {
    async fn start(broker: &Broker) -> Result<ServedHttp, RunError> {
        let config = broker.rooms().config.broker();
        if config.http_listen_port == 0 {
            return Ok(ServedHttp { running: None });
        }
        let address = SocketAddr::new(broker.address().ip(), config.http_listen_port);
        let listener = admin_http::bind(address)
            .await
            .map_err(|source| StartError::Port { address, source })?;
        let (stop, stopped) = watch::channel(false);
        let probes = Arc::new(BrokerProbes {
            rooms: Arc::clone(broker.rooms()),
            connections: Box::new(broker.connections()),
        });
        let task = tokio::spawn(admin_http::serve(listener, probes, stopped));
        Ok(ServedHttp { running: Some((stop, task)) })
    }

    async fn stop(self) {
        let Some((stop, task)) = self.running else { return };
        stop.send_replace(true);
        // A scrape that is under way may end; one that hangs must not hold up the stop.
        if tokio::time::timeout(STOP_PATIENCE, task).await.is_err() {
            tracing::warn!("a request to the HTTP port is still open at the end");
        }
    }
}

/// What the HTTP port is told of a broker.
struct BrokerProbes {
    rooms: Arc<Rooms>,
    connections: Box<dyn Fn() -> usize + Send + Sync>,
}

impl Probes for BrokerProbes {
    fn metrics(&self) -> Result<String, String> {
        let rooms = &self.rooms;
        let config = rooms.config.broker();
        let tables = Tables {
            config: &config,
            store: &rooms.store,
            topics: &rooms.topics,
            groups: &rooms.groups,
            offsets: &rooms.offsets,
            clients: &rooms.clients,
        };
        let mut figures = figures::collect(tables, now_ms());
        let signed = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        figures.connections = signed((self.connections)());
        figures.held_pulls = signed(rooms.pull.held.count());
        figures.pool_queued = signed(rooms.pool.queued());
        metrics::render(&figures).map_err(|error| error.to_string())
    }

    fn ready(&self) -> Result<(), String> {
        self.rooms.store.writable().map_err(|reason| reason.to_string())
    }
}

/// The signals that end the process.
struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> std::io::Result<Stop> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn requested(&mut self) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
    }
}

/// Says where what can be reached.
fn banner(broker: Option<&Broker>, name_server: Option<&ServedNameServer>) {
    if let Some(served) = name_server {
        tracing::info!(address = %served.serving.address(), "name server ready");
    }
    if let Some(broker) = broker {
        let rooms = broker.rooms();
        let config = rooms.config.broker();
        tracing::info!(
            name = config.broker_name,
            cluster = config.broker_cluster_name,
            address = %broker.address(),
            vip = ?broker.vip_address(),
            routes_say = %rooms.send.store_host,
            store = %rooms.store.config().store_path_root_dir.display(),
            "broker ready"
        );
    }
}
