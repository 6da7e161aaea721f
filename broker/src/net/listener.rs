//! Accepts connections for one role, within limits, and closes those that fall silent.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Role;
use super::connection::{self, PartialBytes};
use super::peer::Peer;

/// Connections the kernel completes before we accept them, as Apache's serverSocketBacklog.
const BACKLOG: u32 = 1024;
/// Turns of the idle sweep within one idle time.
const SWEEPS_PER_IDLE_TIME: u32 = 12;
/// Pause after a failed accept (out of file descriptors, mostly).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What one listener allows.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open connections; further ones are closed at once.
    pub connections_max: usize,
    /// A connection on which nothing was read or written for this long is closed.
    pub idle_time: Duration,
    /// Bytes of frames that have not arrived in full, over all connections. The one that would
    /// exceed it is closed: nobody may fill the memory with frames that never end.
    pub partial_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 65_535,
            idle_time: Duration::from_secs(120),
            partial_bytes_max: 512 * 1024 * 1024,
        }
    }
}

/// A bound socket that does not accept yet.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

impl Listener {
    /// Binds `address`; port 0 takes a free one.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<Listener> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let socket = socket.listen(BACKLOG)?;
        let address = socket.local_addr()?;
        Ok(Listener { socket, address, limits })
    }

    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts to accept.
    pub fn serve<R: Role>(self, role: Arc<R>) -> Serving {
        let peers = Arc::new(Peers::default());
        let budget = Arc::new(PartialBytes::new(self.limits.partial_bytes_max));
        let accepting =
            tokio::spawn(accept(self.socket, role, Arc::clone(&peers), budget, self.limits));
        let sweeping = tokio::spawn(sweep(Arc::clone(&peers), self.limits.idle_time));
        Serving { address: self.address, peers, accepting, sweeping }
    }
}

/// A listener at work. Dropped, it stops accepting and closes its connections.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    peers: Arc<Peers>,
    accepting: JoinHandle<()>,
    sweeping: JoinHandle<()>,
}

impl Serving {
    /// The bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.peers.table.lock().len()
    }

    /// Counts the open connections, for as long as the counter is kept.
    pub fn counter(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let peers = Arc::clone(&self.peers);
        move || peers.table.lock().len()
    }

    /// Accepts no further connection; open ones go on.
    pub fn stop_accepting(&self) {
        self.accepting.abort();
    }

    /// Lets every connection write what it still has to, then closes it. Returns when all are
    /// closed or `patience` is over; those that remain are closed without mercy.
    pub async fn finish(&self, patience: Duration) {
        self.stop_accepting();
        for (peer, _) in self.peers.table.lock().values() {
            peer.finish();
        }
        let gone = async {
            while self.connections() > 0 {
                self.peers.emptied.notified().await;
            }
        };
        if tokio::time::timeout(patience, gone).await.is_err() {
            self.close_all();
        }
    }

    /// Closes all connections.
    pub fn close_all(&self) {
        let peers: Vec<_> = self.peers.table.lock().values().cloned().collect();
        for (peer, _) in peers {
            peer.close();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.accepting.abort();
        self.sweeping.abort();
        self.close_all();
    }
}

/// The open connections of one listener, with the sweeps each was silent.
#[derive(Debug, Default)]
struct Peers {
    table: Mutex<HashMap<u64, (Arc<Peer>, u32)>>,
    /// Told when the last connection is gone.
    emptied: Notify,
}

async fn accept<R: Role>(
    socket: TcpListener,
    role: Arc<R>,
    peers: Arc<Peers>,
    budget: Arc<PartialBytes>,
    limits: Limits,
) {
    loop {
        match socket.accept().await {
            Ok((stream, address)) => {
                if peers.table.lock().len() >= limits.connections_max {
                    tracing::debug!(%address, limit = limits.connections_max, "too many connections");
                    continue;
                }
                open(stream, address, &role, &peers, &budget);
            }
            Err(error) => {
                tracing::warn!(%error, "accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn open<R: Role>(
    stream: TcpStream,
    address: SocketAddr,
    role: &Arc<R>,
    peers: &Arc<Peers>,
    budget: &Arc<PartialBytes>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "connection closed before it was accepted");
        return;
    }
    let peer = Arc::new(Peer::new(address));
    peers.table.lock().insert(peer.id, (Arc::clone(&peer), 0));
    let entry = Entry { peers: Arc::clone(peers), id: peer.id };
    let (role, budget) = (Arc::clone(role), Arc::clone(budget));
    tokio::spawn(async move {
        let _entry = entry;
        connection::serve(stream, peer, role, budget).await;
    });
}

/// Takes a connection out of the table when its task ends, also by a panic.
struct Entry {
    peers: Arc<Peers>,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let is_empty = {
            let mut table = self.peers.table.lock();
            table.remove(&self.id);
            table.is_empty()
        };
        if is_empty {
            self.peers.emptied.notify_one();
        }
    }
}

/// Closes connections that were silent for the idle time.
async fn sweep(peers: Arc<Peers>, idle_time: Duration) {
    let mut ticks = tokio::time::interval(idle_time / SWEEPS_PER_IDLE_TIME);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut silent = Vec::new();
        for (peer, sweeps) in peers.table.lock().values_mut() {
            *sweeps = if peer.take_active() { 0 } else { *sweeps + 1 };
            if *sweeps > SWEEPS_PER_IDLE_TIME {
                silent.push(Arc::clone(peer));
            }
        }
        for peer in silent {
            tracing::debug!(peer = %peer.address_text, "closing an idle connection");
            peer.close();
        }
    }
}
