//! The body of a batch request: small messages one behind the other, each to become a record.

use super::{RecordError, view::Reader};
use crate::{limits::PROPERTIES_LEN_MAX, properties::Properties};

/// Bytes of one message before and between its body and properties.
const OVERHEAD: usize = 4 + 4 + 4 + 4 + 4 + 2;

/// One message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchMessage<'a> {
    /// The producer's own flag.
    pub flag: i32,
    /// The body.
    pub body: &'a [u8],
    /// The property string, as the producer wrote it (with or without a last separator).
    pub properties: Properties<'a>,
}

/// The messages of a batch body, in order. Damage ends the iteration with one error.
#[derive(Debug, Clone)]
pub struct BatchMessages<'a> {
    rest: &'a [u8],
}

impl<'a> BatchMessages<'a> {
    /// Reads the body of a batch request.
    #[must_use]
    pub const fn new(body: &'a [u8]) -> BatchMessages<'a> {
        BatchMessages { rest: body }
    }

    fn read(&mut self) -> Result<BatchMessage<'a>, RecordError> {
        let mut from = Reader { rest: self.rest };
        let total = from.length("totalSize")?;
        let mut whole = Reader { rest: self.rest };
        let message = whole.take(total)?;
        let mut from = Reader { rest: message };
        // Size; magic and checksum, which producers leave 0 and brokers don't read.
        from.take(12)?;
        let flag = from.i32()?;
        let body_len = from.length("body")?;
        let body = from.take(body_len)?;
        let properties_len = from.short_length("properties")?;
        let properties = Properties::new(from.take(properties_len)?);
        if !from.rest.is_empty() {
            return Err(RecordError::Length("totalSize"));
        }
        self.rest = whole.rest;
        Ok(BatchMessage { flag, body, properties })
    }
}

impl<'a> Iterator for BatchMessages<'a> {
    type Item = Result<BatchMessage<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.read();
        if message.is_err() {
            self.rest = &[];
        }
        Some(message)
    }
}

/// Bytes that [`write_batch_message`] appends.
#[must_use]
pub const fn batch_message_len(body: &[u8], properties: &[u8]) -> usize {
    OVERHEAD + body.len() + properties.len()
}

/// Appends one message to a batch body. Nothing is appended on an error.
pub fn write_batch_message(
    out: &mut Vec<u8>,
    flag: i32,
    body: &[u8],
    properties: &[u8],
) -> Result<(), RecordError> {
    if properties.len() > PROPERTIES_LEN_MAX {
        return Err(RecordError::PropertiesTooLong(properties.len()));
    }
    let len = batch_message_len(body, properties);
    let total = i32::try_from(len).map_err(|_| RecordError::BodyTooLong(body.len()))?;
    out.reserve(len);
    out.extend_from_slice(&total.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&flag.to_be_bytes());
    // Both fit: the body is shorter than `total`, the properties were checked above.
    out.extend_from_slice(&(body.len() as i32).to_be_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(&(properties.len() as i16).to_be_bytes());
    out.extend_from_slice(properties);
    Ok(())
}
