//! Sockets: accepts connections, cuts the byte stream into frames, hands each frame to the
//! listener's [`Role`], and gathers the answers into few writes.
//!
//! Nothing here knows a request code, a topic or a file. One task serves one connection and
//! handles its frames in order; what cannot be answered at once leaves through a [`Later`], and
//! may overtake nothing but itself.

mod buffers;
mod connection;
mod listener;
mod outbound;
mod owned;
mod peer;
mod reply;
#[cfg(test)]
mod tests;

pub use listener::{Limits, Listener, Serving};
pub use outbound::OutFrame;
pub use owned::OwnedFrame;
pub use peer::{CallError, Peer, PeerGone};
pub use reply::{Answer, Later, Reply};

use std::sync::Arc;

use broker_protocol::frame::Frame;

/// What a listener serves: the broker or the name server. The net knows no more about them.
///
/// `handle` runs on the connection's own task, so it must not block: what waits for a disk or for
/// another peer takes a [`Later`] out of the reply and answers from elsewhere. It is called for
/// requests only; answers to the broker's own requests go back to [`Peer::request`].
pub trait Role: Send + Sync + 'static {
    /// Serves one request. Leaving without an answer, a [`Reply::later`] or [`Reply::silent`]
    /// makes the connection answer SYSTEM_ERROR.
    fn handle(&self, peer: &Arc<Peer>, request: Frame<'_>, reply: &mut Reply<'_>);

    /// The connection is gone; called once for each peer, after its last `handle`.
    fn closed(&self, peer: &Arc<Peer>);
}
