//! One connection: reads bytes, cuts frames, calls the role for each in order, writes the answers.
//!
//! The task is one poll function instead of an async loop, because reading, writing and the frames
//! that other threads hand over must all be looked at in each turn, and a turn must cost one
//! receive and one send.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use broker_protocol::frame::{self, Frame};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::Role;
use super::buffers::{self, READ_SIZE};
use super::outbound::Output;
use super::owned::OwnedFrame;
use super::peer::Peer;
use super::reply::Reply;

/// Unwritten output at which no further frame is read or handled before a write.
const BATCH_BYTES: usize = 256 * 1024;

/// Serves a connection until either end closes it.
pub(super) async fn serve<R: Role>(
    stream: TcpStream,
    peer: Arc<Peer>,
    role: Arc<R>,
    budget: Arc<PartialBytes>,
) {
    let mut connection = Connection {
        stream,
        left: Gone { peer, role },
        input: Vec::new(),
        output: Output::default(),
        registered: false,
        ended: false,
        kept: Kept { budget, bytes: 0 },
    };
    if let Err(error) = poll_fn(|cx| connection.poll_serve(cx)).await {
        let peer = &connection.left.peer.address_text;
        tracing::debug!(%peer, %error, "connection ends");
    }
}

/// Tells everybody that the peer is gone, also when a handler panics.
struct Gone<R: Role> {
    peer: Arc<Peer>,
    role: Arc<R>,
}

impl<R: Role> Drop for Gone<R> {
    fn drop(&mut self) {
        self.peer.close();
        self.role.closed(&self.peer);
    }
}

struct Connection<R: Role> {
    stream: TcpStream,
    left: Gone<R>,
    /// A frame that has not arrived in full; without capacity when there is none.
    input: Vec<u8>,
    output: Output,
    registered: bool,
    /// The peer sends no more.
    ended: bool,
    kept: Kept,
}

/// What all connections of a listener keep of frames that have not arrived in full.
#[derive(Debug)]
pub(super) struct PartialBytes {
    used: AtomicUsize,
    max: usize,
}

impl PartialBytes {
    pub(super) fn new(max: usize) -> PartialBytes {
        PartialBytes { used: AtomicUsize::new(0), max }
    }
}

/// One connection's share of [`PartialBytes`]; given back when it ends.
struct Kept {
    budget: Arc<PartialBytes>,
    bytes: usize,
}

impl Kept {
    /// Takes `bytes` in all; false when that is too much for all connections together.
    fn resize(&mut self, bytes: usize) -> bool {
        if bytes == self.bytes {
            return true;
        }
        let others = self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed) - self.bytes;
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = bytes < self.bytes || others.saturating_add(bytes) <= self.budget.max;
        self.bytes = bytes;
        fits
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl<R: Role> Connection<R> {
    /// One turn: everything that can be done now. `Ready` when the connection is over.
    // Never inlined: what a turn executes is counted by this name.
    #[inline(never)]
    fn poll_serve(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.registered {
            self.left.peer.register(cx.waker());
            self.registered = true;
        }
        let mut input = self.take_input();
        let mut handled = 0;
        let turn = self.turn(cx, &mut input, &mut handled);
        if turn.is_pending() && !self.keep_input(input, handled) {
            return Poll::Ready(Err(io::Error::other("too many unfinished frames on this port")));
        }
        turn
    }

    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
        handled: &mut usize,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.left.peer.is_alive() {
                return Poll::Ready(Ok(()));
            }
            let drained = self.handle_frames(input, handled)?;
            if self.output.len() < BATCH_BYTES {
                self.left.peer.drain_into(&mut self.output);
            }
            if !self.output.is_empty() {
                let before = self.output.len();
                let written = self.output.poll_write(&mut self.stream, cx);
                if self.output.len() < before {
                    self.left.peer.touch();
                }
                match written {
                    Poll::Ready(done) => done?,
                    // A peer that does not read is not read from.
                    Poll::Pending if !drained || self.ended => return Poll::Pending,
                    Poll::Pending if self.output.len() >= BATCH_BYTES => return Poll::Pending,
                    Poll::Pending => {}
                }
            }
            if !drained || (self.output.len() < BATCH_BYTES && self.left.peer.has_waiting()) {
                continue;
            }
            if self.ended || (self.left.peer.is_finishing() && self.output.is_empty()) {
                return Poll::Ready(Ok(()));
            }
            match self.poll_read(cx, input, handled) {
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(_)) => self.left.peer.touch(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Handles the whole frames in `input` from `handled` on, until the output is a full batch.
    /// True when no whole frame is left.
    fn handle_frames(&mut self, input: &mut [u8], handled: &mut usize) -> io::Result<bool> {
        loop {
            let rest = &mut input[*handled..];
            let size = match frame::frame_size(rest).map_err(io::Error::other)? {
                Some(size) if size <= rest.len() => size,
                _ => return Ok(true),
            };
            if self.output.len() >= BATCH_BYTES {
                return Ok(false);
            }
            self.handle_frame(&mut rest[..size])?;
            *handled += size;
        }
    }

    fn handle_frame(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let peer = &self.left.peer;
        let frame = Frame::parse(bytes).map_err(io::Error::other)?;
        if frame.head.is_response() {
            if peer.awaits(frame.head.opaque) {
                peer.answered(frame.head.opaque, OwnedFrame::copy(&frame));
            }
            return Ok(());
        }
        let mut reply = Reply::new(&mut self.output, peer, &frame.head);
        self.left.role.handle(peer, frame, &mut reply);
        reply.finish();
        Ok(())
    }

    /// Reads what has arrived behind the frame that is not whole yet.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        input: &mut Vec<u8>,
        handled: &mut usize,
    ) -> Poll<io::Result<usize>> {
        if *handled == input.len() {
            input.clear();
            *handled = 0;
        } else if *handled > 0 {
            input.drain(..*handled);
            *handled = 0;
        }
        if let Ok(Some(size)) = frame::frame_size(input)
            && size > input.capacity()
        {
            // Grows with what really arrived, whatever the length field promises.
            input.reserve((size - input.len()).min(input.len().max(READ_SIZE)));
        } else if input.len() == input.capacity() {
            input.reserve(READ_SIZE);
        }
        pin!(self.stream.read_buf(input)).poll(cx)
    }

    /// The bytes kept from the last turn, in a buffer with room to read.
    fn take_input(&mut self) -> Vec<u8> {
        let kept = std::mem::take(&mut self.input);
        if kept.capacity() >= READ_SIZE {
            return kept;
        }
        let mut input = buffers::take();
        input.extend_from_slice(&kept);
        input
    }

    /// Keeps the frame that is not whole, in no more memory than it needs. False when all
    /// connections together keep too much.
    fn keep_input(&mut self, mut input: Vec<u8>, handled: usize) -> bool {
        let rest = &input[handled..];
        let fits = self.kept.resize(rest.len());
        if rest.len() >= READ_SIZE / 2 {
            input.drain(..handled);
            self.input = input;
        } else {
            self.input = rest.to_vec();
            buffers::give_back(input);
        }
        fits
    }
}
