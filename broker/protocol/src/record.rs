//! The CommitLog message record of RocketMQ 4.9 and the body of a batch request.
//!
//! A record is written once, straight into its place in a mapped file, and read back as a view of
//! borrowed fields. Nothing here allocates, and no length found in the bytes is believed before it
//! is checked against what is there. Where a record lies and how files end is the store's business.

mod batch;
mod encode;
mod view;

pub use batch::{BatchMessage, BatchMessages, batch_message_len, write_batch_message};
pub use encode::{
    FIXED_LEN_V4, PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, RecordParts, STORE_TIMESTAMP_AT_V4, patch,
    stored_sys_flag, write_blank,
};
pub use view::{Peek, RecordView, peek};

use thiserror::Error;

use crate::limits::{PROPERTIES_LEN_MAX, TOPIC_LEN_MAX};

/// Magic of the records that 4.9 writes: one byte of topic length.
pub const MAGIC_V1: i32 = 0xDAA3_20A7_u32 as i32;
/// Magic of the records that 5.x writes for long topics: two bytes of topic length. Read, never
/// written.
pub const MAGIC_V2: i32 = 0xDAA3_20AB_u32 as i32;
/// Magic of the mark that fills the end of a CommitLog file.
pub const MAGIC_BLANK: i32 = 0xCBD4_3194_u32 as i32;
/// Bytes of the mark that fills the end of a CommitLog file: size and magic.
pub const BLANK_LEN: usize = 8;

/// Why bytes are not a record, or a message can't become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Fewer bytes than the record, or the place for it, needs.
    #[error("record needs {needed} bytes, {available} are there")]
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        available: usize,
    },
    /// The magic is neither that of a record nor of an end mark.
    #[error("record magic {0:#010x} is unknown")]
    Magic(i32),
    /// The named length is negative or reaches past the record, or the fields don't add up to it.
    #[error("record field {0} has an impossible length")]
    Length(&'static str),
    /// The topic is not UTF-8.
    #[error("record topic is not UTF-8")]
    Topic,
    /// The topic is longer than a record can say.
    #[error("topic of {0} bytes is longer than {TOPIC_LEN_MAX}")]
    TopicTooLong(usize),
    /// The property string is longer than a record can say.
    #[error("properties of {0} bytes are longer than {PROPERTIES_LEN_MAX}")]
    PropertiesTooLong(usize),
    /// The body is longer than a record can say.
    #[error("body of {0} bytes is longer than a record can hold")]
    BodyTooLong(usize),
}

/// The checksum of a body as records keep it: CRC-32 without its top bit, 0 for no body.
#[must_use]
pub fn crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

#[cfg(test)]
mod tests;
