//! What travels the other way: answers to calls, and the server's own requests.

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::header::FromExt;
use bytes::Bytes;

use crate::error::ClientError;

/// The answer to a call.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Response code, see [`broker_protocol::code::response`].
    pub code: i32,
    /// The peer's explanation.
    pub remark: Option<String>,
    /// Body, possibly empty.
    pub body: Bytes,
    /// The frame without its body, as it came.
    pub(super) head: Vec<u8>,
    /// The copy that [`Reply::header`] decodes in place.
    pub(super) scratch: Vec<u8>,
    /// Who answered.
    pub(super) address: String,
}

impl Reply {
    /// The reply, if its code is 0; otherwise the refusal of `request`.
    pub fn accepted(self, request: i32) -> Result<Self, ClientError> {
        if self.code == response::SUCCESS { Ok(self) } else { Err(self.refusal(request)) }
    }

    /// The error that says what this reply refuses.
    pub fn refusal(self, request: i32) -> ClientError {
        ClientError::Refused {
            address: self.address,
            request,
            code: self.code,
            remark: self.remark.unwrap_or_default(),
        }
    }

    /// Who answered, as the caller addressed it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The typed header fields.
    pub fn header<'a, H: FromExt<'a>>(&'a mut self) -> Result<H, ClientError> {
        let Self { head, scratch, address, .. } = self;
        scratch.clone_from(head);
        let malformed =
            |reason: String| ClientError::Malformed { address: address.clone(), reason };
        let frame = Frame::parse(scratch).map_err(|error| malformed(error.to_string()))?;
        frame.ext.decode().map_err(|error| malformed(error.to_string()))
    }

    /// All header fields as text, in the order they came.
    pub fn fields(&self) -> Vec<(String, String)> {
        let mut scratch = self.head.clone();
        match Frame::parse(&mut scratch) {
            Ok(frame) => fields_of(&frame),
            // It parsed when it came.
            Err(_) => Vec::new(),
        }
    }

    /// A JSON body.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, ClientError> {
        broker_protocol::json::from_slice(&self.body).map_err(|error| ClientError::Malformed {
            address: self.address.clone(),
            reason: error.to_string(),
        })
    }

    /// The error for a body that can't be read.
    pub(crate) fn malformed(&self, reason: impl ToString) -> ClientError {
        ClientError::Malformed { address: self.address.clone(), reason: reason.to_string() }
    }
}

/// A request that the server makes on the client's connection.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    /// Request code, see [`broker_protocol::code::request`].
    pub code: i32,
    /// Whether the server expects no answer.
    pub oneway: bool,
    /// Header fields as text.
    pub fields: Vec<(String, String)>,
    /// Body, possibly empty.
    pub body: Bytes,
    /// The server, as the caller addressed it.
    pub address: String,
}

impl ServerRequest {
    /// The value of a header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The client's answer to a [`ServerRequest`].
#[derive(Clone, Debug, Default)]
pub struct ServerAnswer {
    /// Response code, 0 for success.
    pub code: i32,
    /// Explanation.
    pub remark: Option<String>,
    /// Body.
    pub body: Vec<u8>,
}

pub(super) fn fields_of(frame: &Frame<'_>) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    frame.ext.for_each(|key, value| fields.push((key.to_owned(), value.to_owned())));
    fields
}
