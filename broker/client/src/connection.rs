//! One TCP connection to a broker or name server: many calls at once, told apart by `opaque`.
//!
//! A writer task sends what callers queue (bounded), a reader task gives answers to the callers
//! that wait and the server's own requests to a handler. No routing and no retries here.

mod reader;
mod reply;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use broker_protocol::frame::{RequestHead, Serialize, encode_request};
use broker_protocol::header::Header;
use broker_protocol::version::{self, Language};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::AbortHandle;

pub use reply::{Reply, ServerAnswer, ServerRequest};

use crate::error::ClientError;

/// Frames that may wait for the writer task.
const OUTGOING_MAX: usize = 1024;
/// The writer joins waiting frames into one write up to about this many bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// Answers what a server asks of a client: notices that group members changed (40), offset resets
/// (220), status (221), running info (307), direct consumption (309), transaction checks (39).
///
/// Called on the connection's reader task, so it must not block. The answer to a one-way request
/// is dropped; `None` leaves a request unanswered.
pub type ServerRequestHandler = dyn Fn(ServerRequest) -> Option<ServerAnswer> + Send + Sync;

/// How a connection behaves.
#[derive(Clone)]
pub struct ConnectionOptions {
    /// Longest wait for the TCP connection. Default 3 s.
    pub connect_within: Duration,
    /// Longest wait for an answer, unless a call says otherwise. Default 3 s.
    pub answer_within: Duration,
    /// How request headers are written. Default JSON.
    pub serialize: Serialize,
    /// The language that requests name. Default Java: brokers adapt to it, and this client
    /// behaves as Java's does.
    pub language: Language,
    /// The version that requests name. Default 4.9.3.
    pub version: i32,
    /// Unanswered calls that the connection may have; more wait for their turn. Default 65,535.
    pub in_flight_max: usize,
    /// What answers the server's requests. Default: nothing does.
    pub handler: Option<Arc<ServerRequestHandler>>,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            connect_within: Duration::from_secs(3),
            answer_within: Duration::from_secs(3),
            serialize: Serialize::Json,
            language: Language::Java,
            version: version::V4_9_3,
            in_flight_max: 65_535,
            handler: None,
        }
    }
}

impl std::fmt::Debug for ConnectionOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionOptions")
            .field("connect_within", &self.connect_within)
            .field("answer_within", &self.answer_within)
            .field("serialize", &self.serialize)
            .field("handler", &self.handler.is_some())
            .finish_non_exhaustive()
    }
}

/// An open connection. Clones share it; it closes when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    core: Arc<Core>,
    outgoing: mpsc::Sender<Vec<u8>>,
    tasks: [AbortHandle; 2],
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.close("this side closed it");
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What calls and the two tasks share.
struct Core {
    address: String,
    local: String,
    options: ConnectionOptions,
    next_opaque: AtomicI32,
    in_flight: Semaphore,
    calls: Mutex<Calls>,
    closed: watch::Sender<bool>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The calls that wait for an answer; and why there will be none any more.
#[derive(Default)]
struct Calls {
    waiting: HashMap<i32, oneshot::Sender<Reply>>,
    closed: Option<String>,
}

impl Core {
    /// Fails every waiting and every later call. The first reason stays.
    fn close(&self, reason: &str) {
        let mut calls = self.calls.lock();
        calls.closed.get_or_insert_with(|| reason.to_owned());
        // Dropping the senders wakes the callers.
        calls.waiting.clear();
        drop(calls);
        self.closed.send_replace(true);
    }

    fn closed_error(&self) -> ClientError {
        let reason = self.calls.lock().closed.clone();
        ClientError::Closed {
            address: self.address.clone(),
            reason: reason.unwrap_or_else(|| "it is closing".to_owned()),
        }
    }

    /// Gives an answer to its caller; answers that nobody waits for any more are dropped.
    fn answered(&self, opaque: i32, reply: Reply) {
        let waiting = self.calls.lock().waiting.remove(&opaque);
        if let Some(caller) = waiting {
            // The caller may have given up in this very moment.
            let _ = caller.send(reply);
        }
    }
}

/// Removes a call from the table when its caller stops waiting, for whatever reason.
struct Waiting<'a> {
    core: &'a Core,
    opaque: i32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.core.calls.lock().waiting.remove(&self.opaque);
    }
}

impl Connection {
    /// Connects to `address`, `host:port`.
    pub async fn connect(address: &str, options: ConnectionOptions) -> Result<Self, ClientError> {
        let failed = |reason: String| ClientError::Connect { address: address.to_owned(), reason };
        let within = options.connect_within;
        let stream = tokio::time::timeout(within, TcpStream::connect(address))
            .await
            .map_err(|_| failed(format!("no connection within {within:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        let local = stream.local_addr().map_err(|error| failed(error.to_string()))?.to_string();
        let (read, write) = stream.into_split();
        let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
        let core = Arc::new(Core {
            address: address.to_owned(),
            local,
            in_flight: Semaphore::new(options.in_flight_max.min(Semaphore::MAX_PERMITS)),
            options,
            next_opaque: AtomicI32::new(0),
            calls: Mutex::default(),
            closed: watch::Sender::new(false),
        });
        let writer = tokio::spawn(write_queue(Arc::clone(&core), write, queue));
        let reader = tokio::spawn(reader::read_frames(
            Arc::clone(&core),
            read,
            // Answers to the server must not keep the connection open.
            outgoing.downgrade(),
        ));
        let tasks = [writer.abort_handle(), reader.abort_handle()];
        Ok(Self(Arc::new(Handle { core, outgoing, tasks })))
    }

    /// Address of the peer, as it was given to [`Connection::connect`].
    pub fn address(&self) -> &str {
        &self.0.core.address
    }

    /// `ip:port` of this side.
    pub fn local_address(&self) -> &str {
        &self.0.core.local
    }

    /// Whether calls can still be made. A peer that vanished without a word is noticed late.
    pub fn is_open(&self) -> bool {
        self.0.core.calls.lock().closed.is_none()
    }

    /// Returns when the connection is closed, by either side.
    pub async fn closed(&self) {
        let mut closed = self.0.core.closed.subscribe();
        // The sender lives as long as `self`.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// Closes the connection; calls that wait fail.
    pub fn close(&self) {
        self.0.core.close("this side closed it");
        for task in &self.0.tasks {
            task.abort();
        }
    }

    /// Sends a request and waits for its answer, whatever its code: see [`Reply::accepted`].
    ///
    /// # Errors
    /// [`ClientError::Timeout`] after the options' `answer_within`, [`ClientError::Closed`],
    /// [`ClientError::Invalid`] for a frame above the protocol's limit.
    pub async fn call<H: Header + ?Sized>(
        &self,
        code: i32,
        header: &H,
        body: &[u8],
    ) -> Result<Reply, ClientError> {
        self.call_within(code, header, body, self.0.core.options.answer_within).await
    }

    /// As [`Connection::call`], with its own limit on the wait.
    pub async fn call_within<H: Header + ?Sized>(
        &self,
        code: i32,
        header: &H,
        body: &[u8],
        within: Duration,
    ) -> Result<Reply, ClientError> {
        let core = &self.0.core;
        let timeout = || ClientError::Timeout { address: core.address.clone(), code, within };
        let exchange = async {
            let _permit = core.in_flight.acquire().await.map_err(|_closed| core.closed_error())?;
            let opaque = self.next_opaque();
            let (caller, answer) = oneshot::channel();
            core.calls.lock().waiting.insert(opaque, caller);
            let _waiting = Waiting { core, opaque };
            self.queue(code, opaque, false, header, body).await?;
            answer.await.map_err(|_closed| core.closed_error())
        };
        let reply =
            tokio::time::timeout(within, exchange).await.map_err(|_elapsed| timeout())??;
        Ok(reply)
    }

    /// Sends a request that is not answered. `Ok` means that it is queued to be sent, no more.
    pub async fn oneway<H: Header + ?Sized>(
        &self,
        code: i32,
        header: &H,
        body: &[u8],
    ) -> Result<(), ClientError> {
        self.queue(code, self.next_opaque(), true, header, body).await
    }

    fn next_opaque(&self) -> i32 {
        self.0.core.next_opaque.fetch_add(1, Ordering::Relaxed) & i32::MAX
    }

    async fn queue<H: Header + ?Sized>(
        &self,
        code: i32,
        opaque: i32,
        oneway: bool,
        header: &H,
        body: &[u8],
    ) -> Result<(), ClientError> {
        let options = &self.0.core.options;
        let head = RequestHead {
            code,
            opaque,
            oneway,
            serialize: options.serialize,
            language: options.language,
            version: options.version,
            short_names: uses_short_names(code),
        };
        let mut frame = Vec::with_capacity(512 + body.len());
        encode_request(&mut frame, &head, header, body.len());
        frame.extend_from_slice(body);
        if frame.len() > broker_protocol::limits::FRAME_MAX {
            return Err(ClientError::Invalid(format!(
                "a frame of {} bytes, more than {} allowed",
                frame.len(),
                broker_protocol::limits::FRAME_MAX
            )));
        }
        if !self.is_open() {
            return Err(self.0.core.closed_error());
        }
        self.0.outgoing.send(frame).await.map_err(|_gone| self.0.core.closed_error())
    }
}

/// Whether a request's header has one-letter field names.
pub fn uses_short_names(code: i32) -> bool {
    use broker_protocol::code::request;
    matches!(
        code,
        request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE | request::SEND_REPLY_MESSAGE_V2
    )
}

/// The writer task: ends with the connection.
async fn write_queue(
    core: Arc<Core>,
    mut socket: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Vec<u8>>,
) {
    while let Some(mut bytes) = queue.recv().await {
        while bytes.len() < WRITE_BYTES
            && let Ok(next) = queue.try_recv()
        {
            bytes.extend_from_slice(&next);
        }
        if let Err(error) = socket.write_all(&bytes).await {
            core.close(&format!("write: {error}"));
            return;
        }
    }
}

#[cfg(test)]
mod tests;
