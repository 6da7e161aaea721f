//! Why a request is not served, as the handlers of seldom requests return it, and the small steps
//! that all of them begin with.

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::header::HeaderError;
use broker_protocol::json::{self, JsonError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::net::Answer;

/// An error answer in the making.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Response code.
    pub code: i32,
    /// Text for people.
    pub remark: String,
}

impl Refusal {
    /// A refusal with its code and text.
    pub fn new(code: i32, remark: impl Into<String>) -> Refusal {
        Refusal { code, remark: remark.into() }
    }

    /// SYSTEM_ERROR, which 4.9 answers for whatever has no code of its own.
    pub fn error(remark: impl ToString) -> Refusal {
        Refusal::new(response::SYSTEM_ERROR, remark.to_string())
    }
}

impl From<HeaderError> for Refusal {
    fn from(error: HeaderError) -> Refusal {
        Refusal::error(error)
    }
}

impl From<JsonError> for Refusal {
    fn from(error: JsonError) -> Refusal {
        Refusal::error(format!("the body is no JSON that this request takes: {error}"))
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        Answer::error(refusal.code, refusal.remark)
    }
}

/// The body of a request that has one.
pub(super) fn read_body<T: DeserializeOwned>(request: &Frame<'_>) -> Result<T, Refusal> {
    if request.body.is_empty() {
        return Err(Refusal::error("the request has no body"));
    }
    Ok(json::from_slice(request.body)?)
}

/// SUCCESS with a JSON body.
pub(super) fn json_answer<T: Serialize + ?Sized>(body: &T) -> Result<Answer, Refusal> {
    let body = json::to_vec(body).map_err(|error| Refusal::error(format!("encode: {error}")))?;
    Ok(Answer::ok_body(body))
}
