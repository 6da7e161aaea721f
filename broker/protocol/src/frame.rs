//! One remoting frame: length, header, body. Reading works in the connection's own buffer and
//! allocates nothing; writing goes straight into the connection's output. What the header fields of
//! each request mean is in [`crate::request`]; nothing here knows a request code.
//!
//! Layout, all numbers big-endian: `length:u32` (all that follows it), `serialization:u8`,
//! `header length:u24`, the header, the body.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod binary;
mod encode;
mod ext;
mod json;
mod scan;

use std::borrow::Cow;
use std::ops::Range;

use crate::limits::{FRAME_LENGTH_BYTES, FRAME_MAX, FRAME_PREFIX_BYTES, HEADER_MAX};
use crate::version::Language;

pub use encode::{FieldName, FieldWriter, ReplyHead, RequestHead, encode_request, encode_response};
pub use ext::{Entries, ExtFields};
pub(crate) use scan::integer;

/// Flag bit of an answer.
pub const FLAG_RESPONSE: i32 = 1;
/// Flag bit of a request that wants no answer, not even an error.
pub const FLAG_ONEWAY: i32 = 2;

/// How a header is written. A peer may change it from frame to frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Serialize {
    /// A JSON object; byte 0 on the wire.
    Json,
    /// The fixed binary layout that is called ROCKETMQ; byte 1 on the wire.
    Binary,
}

/// Why bytes are not a frame. All of them mean: close the connection, for the place where the next
/// frame would begin is not known or the peer speaks something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The length that opens the frame is below its own minimum or above [`FRAME_MAX`].
    #[error("frame length {0} is outside 4..={max}", max = FRAME_MAX - FRAME_LENGTH_BYTES)]
    Length(u32),
    /// The header is longer than the frame that holds it.
    #[error("header length {header} does not fit in frame length {frame}")]
    HeaderLength {
        /// Length of the header as written.
        header: usize,
        /// Length of the frame as written.
        frame: usize,
    },
    /// The byte before the header length names no known serialization.
    #[error("unknown header serialization {0}")]
    Serialization(u8),
    /// Fewer or more bytes were passed than the frame's own length says.
    #[error("frame says it has {expected} bytes but {actual} are there")]
    Size {
        /// Size by the frame's own length, with the length bytes.
        expected: usize,
        /// Bytes passed.
        actual: usize,
    },
    /// The header is not JSON as any client writes it.
    #[error("JSON header: {problem} at byte {at}")]
    Json {
        /// What is wrong there.
        problem: &'static str,
        /// Byte within the header.
        at: usize,
    },
    /// The header breaks the binary layout.
    #[error("binary header: {0}")]
    Binary(&'static str),
    /// The header is not UTF-8.
    #[error("header is not UTF-8")]
    Utf8,
}

/// The fixed part of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// Request code, or response code in an answer. Binary headers carry 16 bits: codes above 32767
    /// arrive cut to their signed low half, as the peers of this format cut them.
    pub code: i32,
    /// Language of the sender.
    pub language: Language,
    /// Version number of the sender, see [`crate::version`].
    pub version: i32,
    /// Number by which the answer finds its request.
    pub opaque: i32,
    /// [`FLAG_RESPONSE`] and [`FLAG_ONEWAY`].
    pub flag: i32,
    /// Text for people; errors say here what is wrong.
    pub remark: Option<Cow<'a, str>>,
    /// How this header was written, and so how the answer must be.
    pub serialize: Serialize,
}

impl Head<'_> {
    /// Is this an answer to one of our requests?
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    /// Does the sender want no answer?
    #[must_use]
    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }
}

/// A frame read in place.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    /// The fixed part of the header.
    pub head: Head<'a>,
    /// The request's own fields, not yet decoded.
    pub ext: ExtFields<'a>,
    /// All that follows the header.
    pub body: &'a [u8],
}

/// Where the parts of a header are, before the buffer is lent out.
struct RawHead {
    code: i32,
    language: Language,
    version: i32,
    opaque: i32,
    flag: i32,
    remark: Option<Range<usize>>,
    ext: Option<Range<usize>>,
}

/// Size of the first frame in `buffered`, with its length bytes; `None` while the length is not
/// there yet. Looks at the header length too when it is there, so that foreign protocols are
/// found out at their first bytes.
///
/// # Errors
/// When no frame of this protocol starts so; the connection must be closed.
pub fn frame_size(buffered: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(length) = scan::u32_at(buffered, 0) else { return Ok(None) };
    let size = (length as usize).saturating_add(FRAME_LENGTH_BYTES);
    if !(FRAME_PREFIX_BYTES..=FRAME_MAX).contains(&size) {
        return Err(FrameError::Length(length));
    }
    if let Some(word) = scan::u32_at(buffered, FRAME_LENGTH_BYTES) {
        header_word(word, size)?;
    }
    Ok(Some(size))
}

/// Splits the word before the header into serialization and header length.
fn header_word(word: u32, size: usize) -> Result<(Serialize, usize), FrameError> {
    let serialize = match word >> 24 {
        0 => Serialize::Json,
        1 => Serialize::Binary,
        other => return Err(FrameError::Serialization(other.to_le_bytes()[0])),
    };
    let header = word as usize & HEADER_MAX;
    if header > size.saturating_sub(FRAME_PREFIX_BYTES) {
        return Err(FrameError::HeaderLength { header, frame: size - FRAME_LENGTH_BYTES });
    }
    Ok((serialize, header))
}

impl<'a> Frame<'a> {
    /// Reads one whole frame, the length bytes included. JSON strings are unescaped where they
    /// stand, which is why the buffer is taken mutably; nothing is allocated. Parsing the same
    /// bytes a second time is not possible.
    ///
    /// # Errors
    /// When the bytes are no frame of this protocol; the connection must be closed.
    pub fn parse(frame: &'a mut [u8]) -> Result<Frame<'a>, FrameError> {
        let actual = frame.len();
        let size = frame_size(frame)?.unwrap_or(FRAME_PREFIX_BYTES);
        let word = scan::u32_at(frame, FRAME_LENGTH_BYTES);
        let (true, Some(word)) = (size == actual, word) else {
            return Err(FrameError::Size { expected: size, actual });
        };
        let (serialize, header_length) = header_word(word, size)?;
        let parts = frame
            .split_at_mut_checked(FRAME_PREFIX_BYTES)
            .and_then(|(_, rest)| rest.split_at_mut_checked(header_length));
        let Some((header, body)) = parts else {
            return Err(FrameError::Size { expected: size, actual });
        };
        let raw = match serialize {
            Serialize::Json => json::read_head(header)?,
            Serialize::Binary => binary::read_head(header)?,
        };
        let header: &'a [u8] = header;
        let remark = match raw.remark {
            Some(range) => {
                let bytes = header.get(range).unwrap_or_default();
                Some(Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| FrameError::Utf8)?))
            }
            None => None,
        };
        let head = Head {
            code: raw.code,
            language: raw.language,
            version: raw.version,
            opaque: raw.opaque,
            flag: raw.flag,
            remark,
            serialize,
        };
        let ext = ExtFields::new(raw.ext.and_then(|range| header.get(range)), serialize);
        Ok(Frame { head, ext, body })
    }
}

#[cfg(test)]
mod tests;
