//! Name servers and brokers under test, ours or Apache's, started from the same options.
//!
//! Everything lives in a temporary folder and on a block of free ports. "Started" means: it said
//! that it serves, and for a broker also that its name server knows it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use tempfile::TempDir;

use crate::apache;
use crate::ports::Ports;
use crate::process::{Process, listens, run};

/// A start may share the machine with builds and other suites.
const START: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(60);

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Apache RocketMQ 4.9.3, from Maven Central's jars.
    Apache,
    /// Ours, the `broker` binary of this workspace.
    Tandem,
}

/// How a broker is configured. The same text configures both makers' brokers.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// `brokerName`: master and slaves of one group share it.
    pub name: String,
    /// `brokerId`: 0 is the master.
    pub id: u64,
    /// `brokerRole`: `ASYNC_MASTER`, `SYNC_MASTER` or `SLAVE`.
    pub role: &'static str,
    /// The store's folder; `None`: `store` in the broker's own folder.
    pub store: Option<PathBuf>,
    /// Further lines, which win over the ones written by default.
    pub extra: Vec<(String, String)>,
    /// Heap of a Java broker, as `-Xmx` takes it.
    pub heap: &'static str,
}

impl BrokerOptions {
    /// An asynchronous master of the cluster `DefaultCluster`.
    pub fn master(name: &str) -> BrokerOptions {
        BrokerOptions {
            name: name.to_owned(),
            id: 0,
            role: "ASYNC_MASTER",
            store: None,
            extra: Vec::new(),
            heap: "512m",
        }
    }

    /// The same with one more line.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl ToString) -> BrokerOptions {
        self.extra.push((key.to_owned(), value.to_string()));
        self
    }

    /// The same with its store in `folder`.
    #[must_use]
    pub fn store(mut self, folder: &Path) -> BrokerOptions {
        self.store = Some(folder.to_path_buf());
        self
    }

    /// The text of a `broker.conf`.
    fn properties(&self, folder: &Path, ports: &Ports, name_servers: &str) -> String {
        let store = self.store_folder(folder);
        let mut lines = vec![
            ("brokerClusterName".to_owned(), "DefaultCluster".to_owned()),
            ("brokerName".to_owned(), self.name.clone()),
            ("brokerId".to_owned(), self.id.to_string()),
            ("brokerRole".to_owned(), self.role.to_owned()),
            ("listenPort".to_owned(), ports.listen().to_string()),
            ("brokerIP1".to_owned(), "127.0.0.1".to_owned()),
            ("brokerIP2".to_owned(), "127.0.0.1".to_owned()),
            ("storePathRootDir".to_owned(), store.display().to_string()),
            ("storePathCommitLog".to_owned(), store.join("commitlog").display().to_string()),
            // Small files keep the disk small and roll over often.
            ("mappedFileSizeCommitLog".to_owned(), (64 << 20).to_string()),
        ];
        if !name_servers.is_empty() {
            lines.push(("namesrvAddr".to_owned(), name_servers.to_owned()));
        }
        for (key, value) in &self.extra {
            lines.retain(|(known, _)| known != key);
            lines.push((key.clone(), value.clone()));
        }
        lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }

    fn store_folder(&self, folder: &Path) -> PathBuf {
        self.store.clone().unwrap_or_else(|| folder.join("store"))
    }
}

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    /// Its process; `None` after it was stopped.
    pub process: Option<Process>,
    /// Its ports.
    pub ports: Ports,
    /// Its options; a change counts from the next start.
    pub options: BrokerOptions,
    /// Whose program it is; a change counts from the next start.
    pub maker: Maker,
    folder: PathBuf,
    name_servers: String,
}

impl Broker {
    /// Starts a broker with its files in `folder`, known to `name_servers` (`host:port;...`,
    /// empty: none).
    ///
    /// # Errors
    /// When it does not serve in time; the end of its log is told.
    pub fn start(
        maker: Maker,
        options: BrokerOptions,
        folder: &Path,
        name_servers: &str,
    ) -> Result<Broker> {
        std::fs::create_dir_all(folder).context("make a broker's folder")?;
        let mut broker = Broker {
            process: None,
            ports: Ports::take()?,
            options,
            maker,
            folder: folder.to_path_buf(),
            name_servers: name_servers.to_owned(),
        };
        broker.restart()?;
        Ok(broker)
    }

    /// Starts it again after a stop, with the same ports and files, and waits until it serves.
    ///
    /// # Errors
    /// As for [`Broker::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.spawn()?;
        let (listen, http, maker) = (self.ports.listen(), self.ports.http(), self.maker);
        let process = self.running()?;
        let before = process.log_text().matches(apache::BROKER_SERVES).count();
        process.wait_until("serving", START, || match maker {
            Maker::Apache => listens(listen),
            Maker::Tandem => answers_ready(http),
        })?;
        if maker == Maker::Apache {
            let log = process.log_file().to_path_buf();
            process.wait_until("registered", START, || {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                text.matches(apache::BROKER_SERVES).count() > before
            })?;
        }
        Ok(())
    }

    /// Starts it and does not wait.
    ///
    /// # Errors
    /// When it can't be started or still runs.
    pub fn spawn(&mut self) -> Result<()> {
        if self.process.is_some() {
            bail!("broker {} runs already", self.options.name);
        }
        let file = self.folder.join("broker.conf");
        let mut text = self.options.properties(&self.folder, &self.ports, &self.name_servers);
        let command = match self.maker {
            Maker::Apache => apache::broker_command(&self.folder, &file, self.options.heap)?,
            Maker::Tandem => {
                text.push_str(&format!("httpListenPort={}\n", self.ports.http()));
                let mut command = broker_command()?;
                command.arg("serve").arg("-c").arg(&file);
                command
            }
        };
        std::fs::write(&file, text).context("write broker.conf")?;
        let log = self.folder.join("broker.out");
        self.process = Some(Process::spawn(&self.options.name, &command, &log)?);
        Ok(())
    }

    /// `host:port` of the listen port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.listen())
    }

    /// The folder of its store.
    pub fn store_folder(&self) -> PathBuf {
        self.options.store_folder(&self.folder)
    }

    /// Its process.
    ///
    /// # Errors
    /// When it was stopped.
    pub fn running(&mut self) -> Result<&mut Process> {
        self.process.as_mut().ok_or_else(|| anyhow!("broker {} is stopped", self.options.name))
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Stops it in order with SIGTERM.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        let status = self.running()?.terminate(STOP)?;
        self.process = None;
        Ok(status)
    }
}

/// A running name server.
#[derive(Debug)]
pub struct NameServer {
    /// Its process.
    pub process: Process,
    /// Its ports; only [`Ports::name_server`] is used.
    pub ports: Ports,
    maker: Maker,
    folder: PathBuf,
}

impl NameServer {
    /// Starts a name server with its files in `folder`.
    ///
    /// # Errors
    /// When it does not serve in time; the end of its log is told.
    pub fn start(maker: Maker, folder: &Path) -> Result<NameServer> {
        std::fs::create_dir_all(folder).context("make a name server's folder")?;
        let ports = Ports::take()?;
        let process = Self::run(maker, folder, ports.name_server())?;
        Ok(NameServer { process, ports, maker, folder: folder.to_path_buf() })
    }

    fn run(maker: Maker, folder: &Path, port: u16) -> Result<Process> {
        let kv = folder.join("kvConfig.json");
        let file = folder.join("namesrv.conf");
        std::fs::write(&file, format!("listenPort={port}\nkvConfigPath={}\n", kv.display()))
            .context("write namesrv.conf")?;
        let command = match maker {
            Maker::Apache => apache::name_server_command(folder, &file)?,
            Maker::Tandem => {
                let mut command = broker_command()?;
                command.arg("nameserver").arg("-c").arg(&file);
                command
            }
        };
        let mut process = Process::spawn("name server", &command, &folder.join("namesrv.out"))?;
        process.wait_until("serving", START, || listens(port))?;
        Ok(process)
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it if it runs, and starts it with the same port and files.
    ///
    /// # Errors
    /// As for [`NameServer::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.process.kill();
        self.process = Self::run(self.maker, &self.folder, self.ports.name_server())?;
        Ok(())
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.name_server())
    }
}

/// One name server and brokers that registered with it.
#[derive(Debug)]
pub struct Cluster {
    /// The name server.
    pub name_server: NameServer,
    /// The brokers, in the order of the options.
    pub brokers: Vec<Broker>,
    folder: TempDir,
}

impl Cluster {
    /// Starts the name server, then each broker.
    ///
    /// # Errors
    /// When one does not serve in time.
    pub fn start(maker: Maker, brokers: Vec<BrokerOptions>) -> Result<Cluster> {
        let folder = tempfile::Builder::new().prefix("tandem-cluster-").tempdir()?;
        let name_server = NameServer::start(maker, &folder.path().join("namesrv"))?;
        let address = name_server.address();
        let brokers = brokers
            .into_iter()
            .map(|options| {
                let home = folder.path().join(format!("{}-{}", options.name, options.id));
                Broker::start(maker, options, &home, &address)
            })
            .collect::<Result<Vec<Broker>>>()?;
        Ok(Cluster { name_server, brokers, folder })
    }

    /// `host:port` of the name server.
    pub fn address(&self) -> String {
        self.name_server.address()
    }

    /// Where all files lie.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The ends of all logs, for a failure's text.
    pub fn logs(&self) -> String {
        let brokers = self.brokers.iter().filter_map(|broker| broker.process.as_ref());
        let all = brokers.chain([&self.name_server.process]);
        all.map(Process::log_end).collect::<Vec<_>>().join("\n")
    }
}

/// The name server and broker in one process that `broker standalone` runs, with its files in
/// `folder`, serving on [`Ports::name_server`], [`Ports::listen`] and [`Ports::http`].
///
/// # Errors
/// When it is not ready in time; the end of its log is told.
pub fn standalone(folder: &Path) -> Result<(Process, Ports)> {
    standalone_with(folder, &[])
}

/// [`standalone`] with further settings.
///
/// # Errors
/// As for [`standalone`].
pub fn standalone_with(folder: &Path, settings: &[(&str, &str)]) -> Result<(Process, Ports)> {
    let ports = Ports::take()?;
    let mut command = broker_command()?;
    command.arg("standalone").arg("--data").arg(folder.join("data"));
    command.arg("--namesrv-port").arg(ports.name_server().to_string());
    for (key, value) in [("listenPort", ports.listen()), ("httpListenPort", ports.http())] {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    for (key, value) in settings {
        command.arg("--set").arg(format!("{key}={value}"));
    }
    let mut process = Process::spawn("standalone", &command, &folder.join("standalone.out"))?;
    process.wait_until("ready", START, || answers_ready(ports.http()))?;
    Ok((process, ports))
}

/// Our binary as a command, without the variables that steer these suites: the broker takes every
/// `TANDEM_` variable for a setting.
///
/// # Errors
/// When it does not build.
pub fn broker_command() -> Result<Command> {
    let mut command = Command::new(broker_binary()?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TANDEM_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Our binary, of the same profile as the running test, built when it is not fresh.
///
/// # Errors
/// When it does not build.
pub fn broker_binary() -> Result<&'static Path> {
    binary("broker", "broker", {
        static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        &PATH
    })
}

/// The load generator, built like [`broker_binary`].
///
/// # Errors
/// When it does not build.
pub fn mqbench_binary() -> Result<&'static Path> {
    binary("broker-client", "mqbench", {
        static PATH: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        &PATH
    })
}

fn binary(
    package: &str,
    name: &str,
    path: &'static OnceLock<Result<PathBuf, String>>,
) -> Result<&'static Path> {
    let built = path.get_or_init(|| build(package, name).map_err(|error| format!("{error:#}")));
    built.as_deref().map_err(|error| anyhow!("{error}"))
}

fn build(package: &str, name: &str) -> Result<PathBuf> {
    // target/<profile>/<program>, a test or an example one folder further down
    let program = std::env::current_exe().context("find the running program")?;
    let mut folder = program.parent().ok_or_else(|| anyhow!("not in a target folder"))?;
    if folder.ends_with("deps") || folder.ends_with("examples") {
        folder = folder.parent().unwrap_or(folder);
    }
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "-q", "-p", package, "--bin", name, "--profile", profile]);
    command.current_dir(crate::workspace_folder());
    run("cargo build", &mut command)?;
    Ok(folder.join(name))
}

fn answers_ready(http: u16) -> bool {
    crate::http_get(http, "/readyz").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
