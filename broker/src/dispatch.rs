//! The broker's code table: which request goes to which handler with which tables, and whether it
//! is served on the connection's task or on the pool. Nothing is decided here that a client could
//! notice, but what no code names.

mod seldom;

use std::sync::Arc;

use broker_protocol::code::{request, response};
use broker_protocol::frame::Frame;
use broker_store::Store;

use crate::clients::Clients;
use crate::config::Live;
use crate::groups::Groups;
use crate::handler::pull::PullPath;
use crate::handler::send::SendPath;
use crate::net::{Peer, Reply, Role};
use crate::offsets::ConsumerOffsets;
use crate::pool::Pool;
use crate::queue_locks::QueueLocks;
use crate::rates::Rates;
use crate::registration::Registration;
use crate::schedule::Schedule;
use crate::stats::Stats;
use crate::topics::Topics;

/// Every room that a request may need. Handlers never see it: they get what they use.
#[derive(Debug)]
pub struct Rooms {
    /// Settings.
    pub config: Arc<Live>,
    /// Messages.
    pub store: Store,
    /// Topics.
    pub topics: Arc<Topics>,
    /// Groups' settings.
    pub groups: Arc<Groups>,
    /// Groups' progress.
    pub offsets: Arc<ConsumerOffsets>,
    /// Who is online.
    pub clients: Arc<Clients>,
    /// Queues locked for orderly consuming.
    pub queue_locks: QueueLocks,
    /// Sends.
    pub send: Arc<SendPath>,
    /// Pulls.
    pub pull: Arc<PullPath>,
    /// Delayed messages.
    pub schedule: Schedule,
    /// The broker's place at the name servers.
    pub registration: Registration,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Samples of the counters.
    pub rates: Rates,
    /// brokerName.
    pub broker_name: Arc<str>,
    /// `host:port` that clients are given.
    pub address: String,
    /// Threads for what waits for a disk.
    pub pool: Pool,
}

impl Rooms {
    /// Drops who was silent for too long.
    pub fn expire(&self) {
        seldom::expire(self);
    }
}

/// Which of the broker's two ports a connection came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port {
    /// The port that routes name.
    Main,
    /// The one two below it, for clients that keep sends apart from pulls: it serves no pulls.
    Vip,
}

/// The broker as a listener sees it.
#[derive(Debug)]
pub struct BrokerRole {
    rooms: Arc<Rooms>,
    port: Port,
}

impl BrokerRole {
    /// The broker behind one of its ports.
    pub fn new(rooms: Arc<Rooms>, port: Port) -> BrokerRole {
        BrokerRole { rooms, port }
    }
}

impl Role for BrokerRole {
    fn handle(&self, peer: &Arc<Peer>, request: Frame<'_>, reply: &mut Reply<'_>) {
        let rooms = &self.rooms;
        match request.head.code {
            request::SEND_MESSAGE | request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE => {
                rooms.send.handle(peer, &request, reply);
            }
            // Clients of 5.x pull by the second code when the application assigns the queues.
            request::PULL_MESSAGE | request::LITE_PULL_MESSAGE if self.port == Port::Main => {
                rooms.pull.handle(peer, &request, reply);
            }
            _ if seldom::handle(rooms, peer, &request, reply) => {}
            code => {
                let remark = format!(" request type {code} not supported");
                reply.error(response::REQUEST_CODE_NOT_SUPPORTED, &remark);
            }
        }
    }

    fn closed(&self, peer: &Arc<Peer>) {
        self.rooms.pull.held.closed(peer.id);
        seldom::closed(&self.rooms, peer);
    }
}
