//! What producers, consumers and admin calls share: name servers, open connections, the client's
//! identity, and the routes of topics.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker_protocol::code::request;
use broker_protocol::header::Header;
use broker_protocol::message_id::{MessageId, UniqueIds};
use broker_protocol::request::name_server::GetRouteInfo;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

use crate::connection::{Connection, ConnectionOptions, Reply};
use crate::error::ClientError;
use crate::namespace::Namespace;
use crate::route::Route;

/// Routes that are kept; the least recently fetched go first.
const ROUTES_MAX: usize = 10_000;

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Name servers, `host:port` each. None is needed to talk to brokers by address.
    pub name_servers: Vec<String>,
    /// Namespace of every topic and group. Default none.
    pub namespace: Namespace,
    /// Last part of the client id, after `ip@`. Default `PID#number`, unique in this process.
    pub instance: Option<String>,
    /// How its connections behave.
    pub connection: ConnectionOptions,
    /// Age from which a cached route is fetched again. Default 30 s.
    pub route_age_max: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            name_servers: Vec::new(),
            namespace: Namespace::NONE,
            instance: None,
            connection: ConnectionOptions::default(),
            route_age_max: Duration::from_secs(30),
        }
    }
}

impl ClientOptions {
    /// Defaults, with the name servers of a `host:port;host:port` list.
    pub fn name_servers(list: &str) -> Self {
        let name_servers =
            list.split(';').map(str::trim).filter(|a| !a.is_empty()).map(str::to_owned).collect();
        Self { name_servers, ..Self::default() }
    }
}

/// One client of a cluster. Clones share it; its connections close with the last of them.
#[derive(Clone, Debug)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ClientOptions,
    id: String,
    unique_ids: UniqueIds,
    /// Index of the name server that answered last; the next call begins with it.
    name_server: AtomicUsize,
    connections: Mutex<HashMap<String, Slot>>,
    routes: Mutex<HashMap<String, CachedRoute>>,
}

/// A place for the connection to one address. The lock is held while connecting, so that callers
/// at once make one connection, and a dead address holds up nobody else.
type Slot = Arc<AsyncMutex<Option<Connection>>>;

#[derive(Clone, Debug)]
struct CachedRoute {
    route: Arc<Route>,
    fetched: Instant,
}

impl Client {
    /// A client; nothing is connected before it is needed.
    pub fn new(options: ClientOptions) -> Self {
        static INSTANCES: AtomicUsize = AtomicUsize::new(0);
        let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let ip = local_ip_address::local_ip().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let process = std::process::id();
        let instance = match &options.instance {
            Some(instance) => instance.clone(),
            None => format!("{process}#{number}"),
        };
        // Java puts the low half of the process id and a class loader's hash here; what matters is
        // that no other client on this address has the same.
        let unique_ids = UniqueIds::new(ip, (process & 0xFFFF) as u16, fastrand::u32(..), 0);
        Self(Arc::new(Inner {
            id: format!("{ip}@{instance}"),
            options,
            unique_ids,
            name_server: AtomicUsize::new(0),
            connections: Mutex::default(),
            routes: Mutex::default(),
        }))
    }

    /// The client id, `ip@instance`, by which brokers know this client.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The namespace of every topic and group.
    pub fn namespace(&self) -> &Namespace {
        &self.0.options.namespace
    }

    /// The options it was made with.
    pub fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    /// A new unique message id, made as Java's client makes it.
    pub fn unique_id(&self) -> MessageId {
        self.0.unique_ids.next(now_millis())
    }

    /// The open connection to `address`, or a new one.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub async fn connection(&self, address: &str) -> Result<Connection, ClientError> {
        let slot = {
            let mut connections = self.0.connections.lock();
            match connections.get(address) {
                Some(slot) => Arc::clone(slot),
                None => Arc::clone(connections.entry(address.to_owned()).or_default()),
            }
        };
        let mut slot = slot.lock().await;
        if let Some(open) = slot.as_ref().filter(|connection| connection.is_open()) {
            return Ok(open.clone());
        }
        let new = Connection::connect(address, self.0.options.connection.clone()).await?;
        *slot = Some(new.clone());
        Ok(new)
    }

    /// Calls a broker or name server by address; any answer but success is an error.
    pub async fn call<H: Header + ?Sized>(
        &self,
        address: &str,
        code: i32,
        header: &H,
        body: &[u8],
    ) -> Result<Reply, ClientError> {
        let connection = self.connection(address).await?;
        connection.call(code, header, body).await?.accepted(code)
    }

    /// Calls a name server: the one that answered last, or else the others in turn. An answer that
    /// refuses is final.
    pub async fn call_name_server<H: Header + ?Sized>(
        &self,
        code: i32,
        header: &H,
        body: &[u8],
    ) -> Result<Reply, ClientError> {
        let servers = &self.0.options.name_servers;
        let first = self.0.name_server.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for step in 0..servers.len() {
            let index = (first + step) % servers.len();
            let Some(address) = servers.get(index) else { continue };
            match self.call(address, code, header, body).await {
                Err(
                    error @ (ClientError::Connect { .. }
                    | ClientError::Closed { .. }
                    | ClientError::Timeout { .. }),
                ) => failures.push(error.to_string()),
                outcome => {
                    self.0.name_server.store(index, Ordering::Relaxed);
                    return outcome;
                }
            }
        }
        if failures.is_empty() {
            failures.push("none is configured".to_owned());
        }
        Err(ClientError::NoNameServer(failures.join("; ")))
    }

    /// The route of a topic (with namespace already), from the cache while it is young enough.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with `TOPIC_NOT_EXIST` when no broker has the topic;
    /// [`ClientError::NoNameServer`], unless an older route is known, which is used then.
    pub async fn route(&self, topic: &str) -> Result<Arc<Route>, ClientError> {
        let cached = self.0.routes.lock().get(topic).cloned();
        let Some(cached) = cached else { return self.fresh_route(topic).await };
        if cached.fetched.elapsed() < self.0.options.route_age_max {
            return Ok(cached.route);
        }
        match self.fresh_route(topic).await {
            Err(ClientError::NoNameServer(reason)) => {
                tracing::warn!(topic, reason, "using an old route");
                Ok(cached.route)
            }
            outcome => outcome,
        }
    }

    /// The route of a topic, asked anew, for use after a broker refused or vanished.
    pub async fn fresh_route(&self, topic: &str) -> Result<Arc<Route>, ClientError> {
        let header = GetRouteInfo { topic: topic.into(), accept_standard_json_only: None };
        let outcome = self.call_name_server(request::GET_ROUTEINFO_BY_TOPIC, &header, &[]).await;
        let mut routes = self.0.routes.lock();
        let reply = match outcome {
            Ok(reply) => reply,
            Err(error) => {
                if error.is_topic_missing() {
                    routes.remove(topic);
                }
                return Err(error);
            }
        };
        let route = Arc::new(Route::new(topic, reply.json()?));
        if routes.len() >= ROUTES_MAX
            && let Some(oldest) =
                routes.iter().min_by_key(|(_, c)| c.fetched).map(|(topic, _)| topic.clone())
        {
            routes.remove(&oldest);
        }
        let cached = CachedRoute { route: Arc::clone(&route), fetched: Instant::now() };
        routes.insert(topic.to_owned(), cached);
        Ok(route)
    }
}

/// Milliseconds of Unix time.
pub(crate) fn now_millis() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_name_servers_may_have_gaps() {
        let options = ClientOptions::name_servers(" a:1; ;b:2;");
        assert_eq!(options.name_servers, ["a:1", "b:2"]);
    }

    #[test]
    fn clients_of_one_process_have_different_ids() {
        let [one, other] = [(), ()].map(|()| Client::new(ClientOptions::default()));
        assert_ne!(one.id(), other.id());
        assert_ne!(one.unique_id().as_str(), other.unique_id().as_str());
    }
}
