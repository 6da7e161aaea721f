//! Answers: written into the connection's output at once, or taken along and given later.

use std::sync::Arc;

use broker_protocol::code::response;
use broker_protocol::frame::{Head, ReplyHead, encode_response};
use broker_protocol::header::{Header, NoHeader};
use bytes::Bytes;

use super::outbound::{OutFrame, Output};
use super::peer::Peer;

/// Room of an answer's head that is encoded away from the connection.
const HEAD_CAPACITY: usize = 320;

/// Longest text of an answer, in bytes. Texts quote what the client sent, which may be megabytes.
const REMARK_MAX: usize = 4_096;

fn cut(remark: Option<&str>) -> Option<&str> {
    remark.map(|text| &text[..text.floor_char_boundary(REMARK_MAX)])
}

/// An answer in plain values, as the handlers of seldom requests return it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Response code.
    pub code: i32,
    /// Text for people; errors always have one.
    pub remark: Option<String>,
    /// Header fields, in no particular order.
    pub ext: Vec<(&'static str, String)>,
    /// Writes the header fields as an empty object when there are none. Some answers have that,
    /// others have no fields at all; JSON peers can tell.
    pub empty_header: bool,
    /// Body; may be empty.
    pub body: Bytes,
}

impl Answer {
    /// SUCCESS without fields or body.
    pub fn ok() -> Answer {
        Answer::default()
    }

    /// SUCCESS with a header object that has no fields.
    pub fn ok_empty_header() -> Answer {
        Answer { empty_header: true, ..Answer::default() }
    }

    /// SUCCESS with a body.
    pub fn ok_body(body: Vec<u8>) -> Answer {
        Answer { body: body.into(), ..Answer::default() }
    }

    /// An error with its text.
    pub fn error(code: i32, remark: impl Into<String>) -> Answer {
        Answer { code, remark: Some(remark.into()), ..Answer::default() }
    }

    /// The same answer with one more header field.
    pub fn with(mut self, name: &'static str, value: impl ToString) -> Answer {
        self.ext.push((name, value.to_string()));
        self
    }
}

/// What an answer needs of its request.
#[derive(Debug, Clone, Copy)]
struct Origin {
    head: ReplyHead,
    oneway: bool,
}

/// Writes the answer to one request into its connection's output. Oneway requests get none,
/// whatever is called.
pub struct Reply<'o> {
    output: &'o mut Output,
    peer: &'o Arc<Peer>,
    origin: Origin,
    settled: bool,
}

impl<'o> Reply<'o> {
    pub(super) fn new(output: &'o mut Output, peer: &'o Arc<Peer>, request: &Head<'_>) -> Self {
        let head = ReplyHead { opaque: request.opaque, serialize: request.serialize };
        let origin = Origin { head, oneway: request.is_oneway() };
        Reply { output, peer, origin, settled: false }
    }

    /// SUCCESS with a header.
    pub fn ok<H: Header + ?Sized>(&mut self, header: &H) {
        self.with_body(response::SUCCESS, None, header, &[]);
    }

    /// An error with its text and no header.
    pub fn error(&mut self, code: i32, remark: &str) {
        self.with_body(code, Some(remark), &NoHeader, &[]);
    }

    /// Any answer whose body is copied: right for small ones.
    pub fn with_body<H: Header + ?Sized>(
        &mut self,
        code: i32,
        remark: Option<&str>,
        header: &H,
        body: &[u8],
    ) {
        self.settled = true;
        if !self.origin.oneway {
            let out = self.output.inline();
            encode_response(out, &self.origin.head, code, cut(remark), header, body.len());
            out.extend_from_slice(body);
        }
    }

    /// An answer whose body is slices of mapped files, written without a copy.
    pub fn with_slices<H: Header + ?Sized>(
        &mut self,
        code: i32,
        remark: Option<&str>,
        header: &H,
        body: Vec<Bytes>,
    ) {
        self.settled = true;
        if !self.origin.oneway {
            let length = body.iter().map(Bytes::len).sum();
            let out = self.output.inline();
            encode_response(out, &self.origin.head, code, cut(remark), header, length);
            for slice in body {
                self.output.splice(slice);
            }
        }
    }

    /// Takes the answer along, to be given later and from any thread.
    pub fn later(&mut self) -> Later {
        self.settled = true;
        Later { peer: Arc::clone(self.peer), origin: self.origin, settled: false }
    }

    /// Leaves the request without an answer, for the few codes that have none.
    pub fn silent(&mut self) {
        self.settled = true;
    }

    /// True if the sender asked for no answer.
    pub fn is_oneway(&self) -> bool {
        self.origin.oneway
    }

    /// Answers a request that its handler left without an answer.
    pub(super) fn finish(mut self) {
        if !self.settled {
            self.error(response::SYSTEM_ERROR, "the broker has no answer to this request");
        }
    }
}

/// The right and the duty to answer one request later. Dropped unanswered, it answers
/// SYSTEM_ERROR, so that no caller waits in vain.
#[derive(Debug)]
pub struct Later {
    peer: Arc<Peer>,
    origin: Origin,
    settled: bool,
}

impl Later {
    /// Who asked.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// True if the sender asked for no answer.
    pub fn is_oneway(&self) -> bool {
        self.origin.oneway
    }

    /// SUCCESS with a header.
    pub fn ok<H: Header + ?Sized>(self, header: &H) {
        self.with_slices(response::SUCCESS, None, header, Vec::new());
    }

    /// An error with its text and no header.
    pub fn error(self, code: i32, remark: &str) {
        self.with_slices(code, Some(remark), &NoHeader, Vec::new());
    }

    /// An answer in plain values.
    pub fn answer(self, answer: Answer) {
        let body = if answer.body.is_empty() { Vec::new() } else { vec![answer.body] };
        let remark = answer.remark.as_deref();
        if answer.ext.is_empty() && !answer.empty_header {
            self.with_slices(answer.code, remark, &NoHeader, body);
        } else {
            self.with_slices(answer.code, remark, answer.ext.as_slice(), body);
        }
    }

    /// Leaves the request without an answer, for the few codes that have none.
    pub fn silent(mut self) {
        self.settled = true;
    }

    /// Any answer. A peer that is gone meanwhile gets nothing, which is no error.
    pub fn with_slices<H: Header + ?Sized>(
        mut self,
        code: i32,
        remark: Option<&str>,
        header: &H,
        body: Vec<Bytes>,
    ) {
        self.settled = true;
        self.send(code, remark, header, body);
    }

    fn send<H: Header + ?Sized>(
        &self,
        code: i32,
        remark: Option<&str>,
        header: &H,
        body: Vec<Bytes>,
    ) {
        if self.origin.oneway {
            return;
        }
        let mut head = Vec::with_capacity(HEAD_CAPACITY);
        let length = body.iter().map(Bytes::len).sum();
        encode_response(&mut head, &self.origin.head, code, cut(remark), header, length);
        // The answer of a closed connection has nobody to go to.
        let _ = self.peer.send(OutFrame { head, body });
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        if !self.settled {
            let remark = "the request was given up by the broker";
            self.send(response::SYSTEM_ERROR, Some(remark), &NoHeader, Vec::new());
        }
    }
}
