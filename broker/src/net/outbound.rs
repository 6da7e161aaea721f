//! The output of one connection: frame heads in one buffer, bodies that are slices of mapped files
//! between them, written with as few system calls as the socket allows.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use super::buffers;

/// Slices given to one vectored write.
const SLICES_PER_WRITE: usize = 64;

/// A whole encoded frame: the head, then the body, which is never copied.
#[derive(Debug, Default)]
pub struct OutFrame {
    /// The frame up to its body (or all of it, when the body is small).
    pub head: Vec<u8>,
    /// The body in pieces; its total length is what the head announces.
    pub body: Vec<Bytes>,
}

impl OutFrame {
    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.iter().map(Bytes::len).sum::<usize>()
    }

    /// True for a frame without bytes, which is no frame.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A body that stands at `at` in the inline bytes.
#[derive(Debug)]
struct Spliced {
    at: usize,
    body: Bytes,
}

/// Frames that wait to be written.
#[derive(Debug, Default)]
pub(super) struct Output {
    inline: Vec<u8>,
    /// Inline bytes already written.
    written: usize,
    spliced: VecDeque<Spliced>,
    spliced_bytes: usize,
}

impl Output {
    /// The buffer that frames are encoded into.
    pub(super) fn inline(&mut self) -> &mut Vec<u8> {
        if self.inline.capacity() == 0 {
            self.inline = buffers::take();
        }
        &mut self.inline
    }

    /// Puts a body behind the bytes encoded so far.
    pub(super) fn splice(&mut self, body: Bytes) {
        if !body.is_empty() {
            self.spliced_bytes += body.len();
            self.spliced.push_back(Spliced { at: self.inline.len(), body });
        }
    }

    /// Appends a frame that was encoded elsewhere.
    pub(super) fn push(&mut self, frame: OutFrame) {
        self.inline().extend_from_slice(&frame.head);
        for body in frame.body {
            self.splice(body);
        }
    }

    /// Bytes not yet written.
    pub(super) fn len(&self) -> usize {
        self.inline.len() - self.written + self.spliced_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes until nothing is left. `Pending` when the socket takes no more.
    pub(super) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let count = if self.spliced.is_empty() {
                ready!(Pin::new(&mut *socket).poll_write(cx, &self.inline[self.written..]))?
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES_PER_WRITE];
                let used = self.fill(&mut slices);
                ready!(Pin::new(&mut *socket).poll_write_vectored(cx, &slices[..used]))?
            };
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(count);
        }
        self.reset();
        Poll::Ready(Ok(()))
    }

    /// Lays the unwritten bytes out as slices; returns how many are used.
    fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_PER_WRITE]) -> usize {
        let mut used = 0;
        let mut from = self.written;
        for spliced in &self.spliced {
            if used + 2 > SLICES_PER_WRITE {
                return used;
            }
            if spliced.at > from {
                slices[used] = IoSlice::new(&self.inline[from..spliced.at]);
                used += 1;
                from = spliced.at;
            }
            slices[used] = IoSlice::new(&spliced.body);
            used += 1;
        }
        if from < self.inline.len() && used < SLICES_PER_WRITE {
            slices[used] = IoSlice::new(&self.inline[from..]);
            used += 1;
        }
        used
    }

    /// Forgets `count` bytes that were written.
    fn advance(&mut self, mut count: usize) {
        loop {
            let boundary = self.spliced.front().map_or(self.inline.len(), |next| next.at);
            let inline = boundary - self.written;
            if count < inline {
                self.written += count;
                return;
            }
            count -= inline;
            self.written = boundary;
            let Some(front) = self.spliced.front_mut() else { return };
            let body = front.body.len();
            if count < body {
                front.body.advance(count);
                self.spliced_bytes -= count;
                return;
            }
            count -= body;
            self.spliced_bytes -= body;
            self.spliced.pop_front();
        }
    }

    /// Everything is written: the buffer may serve other connections of this thread.
    fn reset(&mut self) {
        self.written = 0;
        if self.inline.capacity() > 0 {
            buffers::give_back(std::mem::take(&mut self.inline));
        }
        if self.spliced.capacity() > SLICES_PER_WRITE {
            self.spliced = VecDeque::new();
        }
    }
}
