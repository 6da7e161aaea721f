//! What can go wrong for a caller of this crate.

use std::time::Duration;

use broker_protocol::code::response;
use thiserror::Error;

/// Why a call failed. Each says whom it asked.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No connection could be made.
    #[error("connect to {address}: {reason}")]
    Connect {
        /// Address as the caller gave it.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The connection ended before the answer came. Whether the request took effect is unknown.
    #[error("connection to {address} is closed: {reason}")]
    Closed {
        /// Address of the peer.
        address: String,
        /// Why it was closed.
        reason: String,
    },
    /// No answer in time. Whether the request took effect is unknown.
    #[error("no answer from {address} to request {code} within {within:?}")]
    Timeout {
        /// Address of the peer.
        address: String,
        /// Request code.
        code: i32,
        /// How long was waited.
        within: Duration,
    },
    /// The peer answered with an error code.
    #[error("{address} refused request {request} with code {code}: {remark}")]
    Refused {
        /// Address of the peer.
        address: String,
        /// Request code.
        request: i32,
        /// Response code, see [`broker_protocol::code::response`].
        code: i32,
        /// The peer's explanation; may be empty.
        remark: String,
    },
    /// The peer's bytes make no sense.
    #[error("{address} sent what is no valid answer: {reason}")]
    Malformed {
        /// Address of the peer.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What the caller asks for can't be sent.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// No name server answered.
    #[error("no name server answered: {0}")]
    NoNameServer(String),
    /// The route has no broker that could serve this.
    #[error("no broker serves topic {topic}: {reason}")]
    NoBroker {
        /// Topic that was asked for.
        topic: String,
        /// What is missing.
        reason: &'static str,
    },
}

impl ClientError {
    /// The response code, if the peer answered with an error.
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the peer said that the topic does not exist.
    pub fn is_topic_missing(&self) -> bool {
        self.code() == Some(response::TOPIC_NOT_EXIST)
    }
}
