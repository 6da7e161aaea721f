//! The name server: tells clients which broker has a topic. Brokers register by the remoting
//! protocol; this is a [`Role`] beside the broker's own, on the same net.
//!
//! Questions for a route are answered on the connection's own task. Registrations run one after the
//! other on a thread of their own, in the order in which each connection sent them, so that an older
//! table never overtakes a newer one; what waits for a disk or makes long lists runs on another.

mod expiry;
mod handlers;
mod kv_config;
mod routes;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use broker_protocol::code::{request, response};
use broker_protocol::frame::Frame;
use broker_store::StoreError;
use broker_store::env::{Clock, FileSystem};
use parking_lot::Mutex;

use crate::config::NameServerConfig;
use crate::net::{Answer, OwnedFrame, Peer, Reply, Role};
use crate::pool::Pool;

pub use expiry::Expiry;
pub use kv_config::{KvConfig, KvError, ORDER_TOPIC_CONFIG};
pub use routes::{MemberKey, RegisterError, Registered, Registration, Routes};

/// Registrations that may wait. Each holds its frame, at most 16 MiB.
const REGISTRATIONS_WAITING_MAX: usize = 256;
/// Threads for lists and for what waits for a disk.
const COLD_THREADS: usize = 2;
/// Requests for these that may wait.
const COLD_WAITING_MAX: usize = 1_000;

/// A name server, ready to be served by a listener.
pub struct NameServer {
    state: Arc<State>,
    registrations: Pool,
    cold: Pool,
}

/// What the threads of the name server share.
struct State {
    routes: Routes,
    kv: KvConfig,
    config: ArcSwap<NameServerConfig>,
    /// Held while the settings change.
    changing: Mutex<()>,
    clock: Arc<dyn Clock>,
    /// The connections by which brokers registered, to close those that fell silent.
    brokers: Mutex<HashMap<u64, Arc<Peer>>>,
}

type Handler = fn(&State, &mut OwnedFrame) -> Answer;

impl NameServer {
    /// A name server that knows no broker yet; its key-value configuration is read.
    ///
    /// # Errors
    /// When the key-value file and its backup are damaged.
    pub fn new(
        config: NameServerConfig,
        files: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
    ) -> Result<NameServer, StoreError> {
        let kv = KvConfig::load(files, PathBuf::from(&config.kv_config_path))?;
        let state = Arc::new(State {
            routes: Routes::default(),
            kv,
            config: ArcSwap::from_pointee(config),
            changing: Mutex::default(),
            clock,
            brokers: Mutex::default(),
        });
        let registrations = Pool::new("register", 1, REGISTRATIONS_WAITING_MAX);
        let cold = Pool::new("nameserver", COLD_THREADS, COLD_WAITING_MAX);
        Ok(NameServer { state, registrations, cold })
    }

    /// Starts the task that takes silent brokers out.
    #[must_use]
    pub fn start_expiry(self: &Arc<Self>) -> Expiry {
        expiry::start(Arc::clone(self))
    }

    /// Takes the brokers out that have been silent too long, and closes their connections.
    pub fn expire(&self) {
        let expired = self.state.routes.expire(self.state.clock.instant());
        for connection in expired {
            if let Some(peer) = self.state.brokers.lock().remove(&connection) {
                tracing::warn!(
                    address = &*peer.address_text,
                    "broker is silent, connection closed"
                );
                peer.close();
            }
        }
    }

    /// The routes, for figures and lists.
    #[must_use]
    pub fn routes(&self) -> &Routes {
        &self.state.routes
    }

    /// Waits until what was begun is done, at most `patience`. False if some is not.
    pub fn stop(&self, patience: Duration) -> bool {
        self.registrations.stop(patience) & self.cold.stop(patience)
    }

    fn cold(&self, request: &Frame<'_>, reply: &mut Reply<'_>, handler: Handler) {
        let state = Arc::clone(&self.state);
        self.cold.answer(request, reply, move |request| handler(&state, request));
    }

    fn in_order(&self, request: &Frame<'_>, reply: &mut Reply<'_>, handler: Handler) {
        let state = Arc::clone(&self.state);
        self.registrations.answer(request, reply, move |request| handler(&state, request));
    }

    fn register(&self, peer: &Arc<Peer>, request: &Frame<'_>, reply: &mut Reply<'_>) {
        let (state, peer) = (Arc::clone(&self.state), Arc::clone(peer));
        self.registrations.answer(request, reply, move |request| {
            handlers::register_broker(&state, &peer, request)
        });
    }
}

impl Role for NameServer {
    fn handle(&self, peer: &Arc<Peer>, frame: Frame<'_>, reply: &mut Reply<'_>) {
        match frame.head.code {
            request::GET_ROUTEINFO_BY_TOPIC => handlers::route_of_topic(&self.state, &frame, reply),
            request::GET_BROKER_CLUSTER_INFO => self.cold(&frame, reply, handlers::cluster_info),
            request::REGISTER_BROKER => self.register(peer, &frame, reply),
            request::UNREGISTER_BROKER => {
                self.in_order(&frame, reply, handlers::unregister_broker);
            }
            request::QUERY_DATA_VERSION => {
                self.in_order(&frame, reply, handlers::query_data_version);
            }
            request::PUT_KV_CONFIG => self.cold(&frame, reply, handlers::put_kv),
            request::GET_KV_CONFIG => self.cold(&frame, reply, handlers::find_kv),
            request::DELETE_KV_CONFIG => self.cold(&frame, reply, handlers::delete_kv),
            request::GET_KVLIST_BY_NAMESPACE => self.cold(&frame, reply, handlers::list_kv),
            request::WIPE_WRITE_PERM_OF_BROKER => {
                self.cold(&frame, reply, handlers::wipe_write_perm);
            }
            request::ADD_WRITE_PERM_OF_BROKER => {
                self.cold(&frame, reply, handlers::add_write_perm);
            }
            request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => {
                self.cold(&frame, reply, handlers::all_topics);
            }
            request::DELETE_TOPIC_IN_NAMESRV => self.cold(&frame, reply, handlers::delete_topic),
            request::GET_TOPICS_BY_CLUSTER => {
                self.cold(&frame, reply, handlers::topics_of_cluster);
            }
            request::GET_SYSTEM_TOPIC_LIST_FROM_NS => {
                self.cold(&frame, reply, handlers::system_topics);
            }
            request::GET_UNIT_TOPIC_LIST => self.cold(&frame, reply, handlers::unit_topics),
            request::GET_HAS_UNIT_SUB_TOPIC_LIST => {
                self.cold(&frame, reply, handlers::unit_sub_topics);
            }
            request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => {
                self.cold(&frame, reply, handlers::unit_sub_ununit_topics);
            }
            request::UPDATE_NAMESRV_CONFIG => self.cold(&frame, reply, handlers::update_config),
            request::GET_NAMESRV_CONFIG => self.cold(&frame, reply, handlers::show_config),
            code => reply.error(
                response::REQUEST_CODE_NOT_SUPPORTED,
                &format!(" request type {code} not supported"),
            ),
        }
    }

    fn closed(&self, peer: &Arc<Peer>) {
        // Behind the registrations of the same connection that still wait.
        let (state, id) = (Arc::clone(&self.state), peer.id);
        let is_brokers = state.brokers.lock().contains_key(&id);
        let job = move || state.connection_closed(id);
        if is_brokers && self.registrations.run(job).is_err() {
            self.state.connection_closed(id);
        }
    }
}

impl State {
    /// Notes by which connection a broker registers, before it is entered.
    fn remember(&self, peer: &Arc<Peer>) {
        self.brokers.lock().insert(peer.id, Arc::clone(peer));
    }

    fn connection_closed(&self, connection: u64) {
        self.brokers.lock().remove(&connection);
        self.routes.disconnected(connection);
    }
}
