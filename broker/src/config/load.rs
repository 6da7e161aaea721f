//! Where values come from, later wins: defaults, a file, the environment, flags.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{Table, TableError, properties, yaml};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable of that name.
    Environment(String),
    /// A flag of the command line.
    Flag,
    /// Changed while the broker runs.
    Admin,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Flag => f.write_str("flag"),
            Origin::Admin => f.write_str("changed at run time"),
        }
    }
}

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `-c FILE`.
    pub file: Option<PathBuf>,
    /// `-n ADDRESSES`.
    pub namesrv_addr: Option<String>,
    /// `--set key=value`, in order.
    pub set: Vec<(String, String)>,
}

/// Everything [`load`] reads, so that tests can bring their own.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The command line.
    pub flags: Flags,
    /// The environment, as pairs.
    pub environment: Vec<(String, String)>,
}

/// Why the configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file of `-c` can't be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    File {
        /// The file as given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is neither YAML nor properties.
    #[error("{}: {reason}", path.display())]
    Syntax {
        /// The file as given.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A key or a value is wrong.
    #[error("{origin}: {error}")]
    Key {
        /// Where it was said.
        origin: Origin,
        /// What is wrong.
        error: TableError,
    },
    /// The values don't fit together.
    #[error("{0}")]
    Invalid(String),
}

/// A filled table and what a person should be told about it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The effective values.
    pub table: Table,
    /// The file they were read from, for changes at run time.
    pub file: Option<PathBuf>,
    /// Sentences to log once logging works.
    pub warnings: Vec<String>,
}

/// Fills `table` from every source.
///
/// A key that nobody knows is an error that names the nearest known one; in an Apache properties file, which may
/// hold many keys that mean nothing here, all of them make one warning.
///
/// # Errors
/// When the file can't be read or a key or value is wrong.
pub fn load(table: Table, source: &Source) -> Result<Config, ConfigError> {
    let mut config = Config { table, file: source.flags.file.clone(), warnings: Vec::new() };
    if let Some(path) = &source.flags.file {
        load_file(&mut config, path)?;
    }
    load_environment(&mut config.table, &source.environment)?;
    let namesrv = source.flags.namesrv_addr.iter().map(|value| ("namesrvAddr", value.as_str()));
    let set = source.flags.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in namesrv.chain(set) {
        set_key(&mut config.table, key, value, Origin::Flag)?;
    }
    Ok(config)
}

fn set_key(table: &mut Table, key: &str, value: &str, origin: Origin) -> Result<(), ConfigError> {
    table.set(key, value, origin.clone()).map_err(|error| ConfigError::Key { origin, error })
}

fn load_file(config: &mut Config, path: &Path) -> Result<(), ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::File { path: path.to_owned(), source })?;
    let origin = Origin::File(path.to_owned());
    if !looks_like_properties(&text) {
        let pairs = yaml::parse(&text)
            .map_err(|reason| ConfigError::Syntax { path: path.to_owned(), reason })?;
        for (key, value) in pairs {
            set_key(&mut config.table, &key, &value, origin.clone())?;
        }
        return Ok(());
    }
    let mut unknown = Vec::new();
    for (key, value) in properties::parse_properties(&text) {
        match config.table.set(&key, &value, origin.clone()) {
            Err(TableError::UnknownKey { key, .. }) => unknown.push(key),
            Err(error) => return Err(ConfigError::Key { origin, error }),
            Ok(()) => {}
        }
    }
    if !unknown.is_empty() {
        config.warnings.push(format!(
            "{}: these keys mean nothing here and are left out: {}",
            path.display(),
            unknown.join(", ")
        ));
    }
    Ok(())
}

/// Apache's `broker.conf` has `key=value` lines, YAML has `key: value`: the first line that says anything decides.
pub(super) fn looks_like_properties(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .and_then(|line| line.chars().find(|c| matches!(c, '=' | ':' | '{' | '-')))
        == Some('=')
}

fn load_environment(
    table: &mut Table,
    environment: &[(String, String)],
) -> Result<(), ConfigError> {
    for (name, value) in environment {
        let origin = Origin::Environment(name.clone());
        if name == "NAMESRV_ADDR" {
            if table.find("namesrvAddr").is_some() {
                set_key(table, "namesrvAddr", value, origin)?;
            }
        } else if is_service_link(name, value) {
            continue;
        } else if let Some(key) = name.strip_prefix("TANDEM_") {
            let plain = |key: &str| key.replace('_', "").to_ascii_lowercase();
            let known = table
                .settings()
                .iter()
                .map(|setting| setting.key.clone())
                .find(|known| plain(known) == plain(key));
            set_key(table, known.as_deref().unwrap_or(key), value, origin)?;
        }
    }
    Ok(())
}

/// What Kubernetes puts into every container for a Service whose name begins with `tandem`; nobody meant a setting.
fn is_service_link(name: &str, value: &str) -> bool {
    let of_port = ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| name.contains(protocol));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.contains("_PORT_") && of_port)
        || (name.ends_with("_PORT") && value.contains("://"))
}

/// The home folder that RocketMQ's default paths start from.
pub(super) fn home() -> String {
    std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::BrokerConfig;
    use super::*;

    fn table() -> Table {
        Table::default().with_section::<BrokerConfig>()
    }

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broker.conf");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn from_file(text: &str) -> Result<Config, ConfigError> {
        let (_folder, path) = file(text);
        let flags = Flags { file: Some(path), ..Flags::default() };
        load(table(), &Source { flags, environment: Vec::new() })
    }

    #[test]
    fn a_later_source_wins_and_is_remembered() {
        let (_folder, path) = file("brokerName=f\nlistenPort=1000\nbrokerClusterName=f\n");
        let source = Source {
            flags: Flags {
                file: Some(path.clone()),
                namesrv_addr: Some("flag:1".into()),
                set: vec![("brokerName".into(), "flag".into())],
            },
            environment: vec![
                ("TANDEM_LISTEN_PORT".into(), "2000".into()),
                ("TANDEM_brokerName".into(), "env".into()),
                ("NAMESRV_ADDR".into(), "env:1".into()),
                ("OTHER".into(), "x".into()),
            ],
        };
        let config = load(table(), &source).unwrap();
        let origin = |key: &str| {
            let setting = config.table.find(key).unwrap();
            (setting.text(), setting.origin.clone())
        };
        assert_eq!(origin("brokerName"), ("flag".into(), Origin::Flag));
        assert_eq!(origin("namesrvAddr"), ("flag:1".into(), Origin::Flag));
        let environment = Origin::Environment("TANDEM_LISTEN_PORT".into());
        assert_eq!(origin("listenPort"), ("2000".into(), environment));
        assert_eq!(origin("brokerClusterName"), ("f".into(), Origin::File(path)));
        assert_eq!(origin("brokerPermission"), ("6".into(), Origin::Default));
    }

    #[test]
    fn an_apache_file_may_hold_unknown_keys_and_a_yaml_file_may_not() {
        let config = from_file("a=1\nbrokerName=x\nb=2\n").unwrap();
        assert_eq!(config.warnings.len(), 1);
        assert!(config.warnings[0].ends_with("left out: a, b"), "{:?}", config.warnings);
        let error = from_file("brokerNam: x\n").unwrap_err().to_string();
        assert!(error.contains("did you mean brokerName?"), "{error}");
        assert!(from_file("brokerName: x\nlistenPort: 5\n").is_ok());
        assert!(from_file("brokerName: [x]\n").is_err());
        assert!(from_file("listenPort=abc\n").is_err());
    }

    #[test]
    fn an_absent_file_is_an_error_that_names_it() {
        let flags = Flags { file: Some("/nowhere/x.conf".into()), ..Flags::default() };
        let error = load(table(), &Source { flags, environment: Vec::new() }).unwrap_err();
        assert!(error.to_string().contains("/nowhere/x.conf"), "{error}");
    }

    #[test]
    fn variables_that_kubernetes_makes_for_services_are_no_settings() {
        let environment = [
            ("TANDEM_NAMESERVER_SERVICE_HOST", "10.0.0.1"),
            ("TANDEM_NAMESERVER_SERVICE_PORT", "9876"),
            ("TANDEM_NAMESERVER_SERVICE_PORT_CLIENTS", "9876"),
            ("TANDEM_NAMESERVER_PORT", "tcp://10.0.0.1:9876"),
            ("TANDEM_NAMESERVER_PORT_9876_TCP_ADDR", "10.0.0.1"),
            ("TANDEM_LISTEN_PORT", "2000"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let config = load(table(), &Source { flags: Flags::default(), environment }).unwrap();
        assert_eq!(config.table.find("listenPort").unwrap().text(), "2000");
    }

    #[test]
    fn an_unknown_variable_of_ours_is_an_error() {
        let environment = vec![("TANDEM_BROKERNAM".to_owned(), "x".to_owned())];
        assert!(load(table(), &Source { flags: Flags::default(), environment }).is_err());
    }
}
