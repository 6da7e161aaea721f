//! The other end of one connection, as the rest of the server sees it: who it is, and a bounded
//! way to send it frames from any thread.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use broker_protocol::frame::{RequestHead, Serialize, encode_request};
use broker_protocol::header::Header;
use broker_protocol::version;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::outbound::{OutFrame, Output};
use super::owned::OwnedFrame;

/// Frames that may wait for one peer before it counts as gone.
const WAITING_FRAMES_MAX: usize = 16_384;
/// Bytes that may wait for one peer before it counts as gone.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Requests of the broker that one peer may leave unanswered.
const CALLS_MAX: usize = 1024;

/// The connection is closed, or was closed now because the peer reads too slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct PeerGone;

/// Why a request to a peer brought no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The connection is closed, or closed before the answer came.
    #[error("the connection is closed")]
    Gone,
    /// No answer within the given time.
    #[error("no answer in time")]
    TimedOut,
    /// The peer leaves too many requests unanswered.
    #[error("too many unanswered requests")]
    Busy,
}

/// One connected client or server.
#[derive(Debug)]
pub struct Peer {
    /// Unique in this process; never reused.
    pub id: u64,
    /// The remote end of the socket.
    pub address: SocketAddr,
    /// `address` as clients write it, `1.2.3.4:5678`; formatted once.
    pub address_text: Arc<str>,
    next_opaque: AtomicI32,
    open: AtomicBool,
    /// Set when the connection should end once its output is written.
    finishing: AtomicBool,
    /// Set by each read and write, cleared by the idle sweep.
    active: AtomicBool,
    /// Frames in `waiting`, readable without its lock.
    waiting_count: AtomicU64,
    waiting: Mutex<Waiting>,
    calls: Mutex<HashMap<i32, oneshot::Sender<OwnedFrame>>>,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: Vec<OutFrame>,
    bytes: usize,
    /// Wakes the connection's task; registered once, the task stays the same.
    waker: Option<Waker>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr) -> Peer {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        Peer {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            address,
            address_text: address.to_string().into(),
            next_opaque: AtomicI32::new(0),
            open: AtomicBool::new(true),
            finishing: AtomicBool::new(false),
            active: AtomicBool::new(true),
            waiting_count: AtomicU64::new(0),
            waiting: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// Hands a frame to the connection. It leaves with the next write, in the order of the calls.
    /// Does not wait: a peer with too many unread frames is closed instead.
    pub fn send(&self, frame: OutFrame) -> Result<(), PeerGone> {
        let waker = {
            let mut waiting = self.waiting.lock();
            if !self.is_alive() {
                return Err(PeerGone);
            }
            waiting.bytes += frame.len();
            waiting.frames.push(frame);
            if waiting.frames.len() > WAITING_FRAMES_MAX || waiting.bytes > WAITING_BYTES_MAX {
                drop(waiting);
                tracing::debug!(peer = %self.address_text, "closing a peer that does not read");
                self.close();
                return Err(PeerGone);
            }
            self.waiting_count.store(waiting.frames.len() as u64, Ordering::Release);
            waiting.waker.clone()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Bytes handed to [`Peer::send`] that the connection has not taken up yet.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting.lock().bytes
    }

    /// Sends a request that wants no answer.
    pub fn request_oneway<H: Header + ?Sized>(
        &self,
        code: i32,
        header: &H,
        body: Vec<u8>,
    ) -> Result<(), PeerGone> {
        let opaque = self.next_opaque.fetch_add(1, Ordering::Relaxed);
        self.send(request_frame(code, opaque, true, header, body))
    }

    /// Sends a request and waits for the peer's answer.
    pub async fn request<H: Header + ?Sized>(
        &self,
        code: i32,
        header: &H,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<OwnedFrame, CallError> {
        let opaque = self.next_opaque.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        {
            let mut calls = self.calls.lock();
            if calls.len() >= CALLS_MAX {
                return Err(CallError::Busy);
            }
            calls.insert(opaque, answered);
        }
        // Taken out again on every way out of here, also when the caller stops waiting.
        let _entry = CallEntry { peer: self, opaque };
        self.send(request_frame(code, opaque, false, header, body)).map_err(|_| CallError::Gone)?;
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(_)) => Err(CallError::Gone),
            Err(_) => Err(CallError::TimedOut),
        }
    }

    /// False once the connection is closed, by either end.
    pub fn is_alive(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Closes the connection. Frames not yet written are dropped.
    pub fn close(&self) {
        self.open.store(false, Ordering::Release);
        let waker = {
            let mut waiting = self.waiting.lock();
            waiting.frames = Vec::new();
            waiting.bytes = 0;
            self.waiting_count.store(0, Ordering::Release);
            waiting.waker.take()
        };
        self.calls.lock().clear();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the connection as soon as everything handed over so far is written.
    pub(super) fn finish(&self) {
        self.finishing.store(true, Ordering::Release);
        let waker = self.waiting.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.finishing.load(Ordering::Acquire)
    }

    /// Hands an answer of the peer to the request that waits for it.
    pub(super) fn answered(&self, opaque: i32, frame: OwnedFrame) {
        let waiting = self.calls.lock().remove(&opaque);
        if let Some(waiting) = waiting {
            // An error means that the caller gave up in this very moment.
            let _ = waiting.send(frame);
        }
    }

    /// True if a request of ours with this opaque waits for its answer.
    pub(super) fn awaits(&self, opaque: i32) -> bool {
        self.calls.lock().contains_key(&opaque)
    }

    /// Tells whom to wake when a frame is handed over. Called by the connection's task, first.
    pub(super) fn register(&self, waker: &Waker) {
        self.waiting.lock().waker = Some(waker.clone());
    }

    /// True if frames wait to be taken up.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting_count.load(Ordering::Acquire) > 0
    }

    /// Moves the frames handed over so far into the connection's output.
    pub(super) fn drain_into(&self, output: &mut Output) {
        if !self.has_waiting() {
            return;
        }
        let frames = {
            let mut waiting = self.waiting.lock();
            waiting.bytes = 0;
            self.waiting_count.store(0, Ordering::Release);
            std::mem::take(&mut waiting.frames)
        };
        for frame in frames {
            output.push(frame);
        }
    }

    /// Notes that bytes moved.
    pub(super) fn touch(&self) {
        self.active.store(true, Ordering::Relaxed);
    }

    /// True if bytes moved since the last call.
    pub(super) fn take_active(&self) -> bool {
        self.active.swap(false, Ordering::Relaxed)
    }
}

/// A peer without a socket, for tests of what is sent to one.
#[cfg(test)]
impl Peer {
    pub(crate) fn detached() -> std::sync::Arc<Peer> {
        std::sync::Arc::new(Peer::new(([127, 0, 0, 1], 1).into()))
    }

    /// The frames that were sent to it since the last call, each whole.
    pub(crate) fn take_sent(&self) -> Vec<Vec<u8>> {
        let frames = std::mem::take(&mut self.waiting.lock().frames);
        let whole = |frame: OutFrame| {
            frame.body.iter().fold(frame.head, |mut bytes, part| {
                bytes.extend_from_slice(part);
                bytes
            })
        };
        frames.into_iter().map(whole).collect()
    }
}

/// Takes a call's entry out of the table when the caller is done with it.
struct CallEntry<'p> {
    peer: &'p Peer,
    opaque: i32,
}

impl Drop for CallEntry<'_> {
    fn drop(&mut self) {
        self.peer.calls.lock().remove(&self.opaque);
    }
}

fn request_frame<H: Header + ?Sized>(
    code: i32,
    opaque: i32,
    oneway: bool,
    header: &H,
    body: Vec<u8>,
) -> OutFrame {
    let mut head = Vec::with_capacity(256);
    let request = RequestHead {
        code,
        opaque,
        oneway,
        serialize: Serialize::Json,
        language: version::REPORTED_LANGUAGE,
        version: version::REPORTED,
        short_names: false,
    };
    encode_request(&mut head, &request, header, body.len());
    OutFrame { head, body: vec![Bytes::from(body)] }
}
