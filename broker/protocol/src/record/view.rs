//! Reading records: a view of borrowed fields over bytes that may be anything.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{BLANK_LEN, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RecordError, crc};
use crate::{properties::Properties, sys_flag};

/// What stands at a place in a CommitLog file, judged by its first eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// A record that claims this many bytes (not checked beyond being positive).
    Record(u32),
    /// The end mark: this many bytes, itself included, are empty.
    Blank(u32),
    /// Zeros: nothing was ever written here.
    Unwritten,
    /// Anything else, or fewer than eight bytes.
    Other,
}

/// Judges what stands at the start of `bytes`.
#[must_use]
pub fn peek(bytes: &[u8]) -> Peek {
    let Some((head, _)) = bytes.split_first_chunk::<BLANK_LEN>() else { return Peek::Other };
    let [s0, s1, s2, s3, m0, m1, m2, m3] = *head;
    let size = i32::from_be_bytes([s0, s1, s2, s3]);
    let magic = i32::from_be_bytes([m0, m1, m2, m3]);
    match (u32::try_from(size), magic) {
        (Ok(0), 0) => Peek::Unwritten,
        (Ok(size), MAGIC_V1 | MAGIC_V2) if size > 0 => Peek::Record(size),
        (Ok(size), MAGIC_BLANK) => Peek::Blank(size),
        _ => Peek::Other,
    }
}

/// A record's fields, borrowed from the bytes that hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// The whole record.
    pub bytes: &'a [u8],
    /// The checksum that the record carries; see [`Self::body_is_intact`].
    pub body_crc: u32,
    /// Queue of the topic.
    pub queue_id: i32,
    /// The producer's own flag.
    pub flag: i32,
    /// Index of the message in its queue.
    pub queue_offset: i64,
    /// Place of the record in the CommitLog, as the record says.
    pub physical_offset: i64,
    /// Bits of [`sys_flag`].
    pub sys_flag: i32,
    /// When the producer made the message, in milliseconds of Unix time.
    pub born_timestamp: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// When the broker stored the message, in milliseconds of Unix time.
    pub store_timestamp: i64,
    /// The broker's address.
    pub store_host: SocketAddr,
    /// How many times consumers gave the message back.
    pub reconsume_times: i32,
    /// For the committed copy of a transactional message, the half record's place.
    pub prepared_transaction_offset: i64,
    /// The body as the producer sent it.
    pub body: &'a [u8],
    /// Topic.
    pub topic: &'a str,
    /// The property string.
    pub properties: Properties<'a>,
}

impl<'a> RecordView<'a> {
    /// Reads the record at the start of `bytes`; what follows it is ignored. Versions 1 and 2 are
    /// read. The body's checksum is not verified here: see [`Self::body_is_intact`].
    pub fn parse(bytes: &'a [u8]) -> Result<RecordView<'a>, RecordError> {
        let mut from = Reader { rest: bytes };
        let total = from.length("totalSize")?;
        let available = bytes.len();
        let bytes =
            bytes.get(..total).ok_or(RecordError::Truncated { needed: total, available })?;
        let mut from = Reader { rest: bytes };
        from.take(4)?;
        let magic = from.i32()?;
        if magic != MAGIC_V1 && magic != MAGIC_V2 {
            return Err(RecordError::Magic(magic));
        }
        let body_crc = from.i32()? as u32;
        let queue_id = from.i32()?;
        let flag = from.i32()?;
        let queue_offset = from.i64()?;
        let physical_offset = from.i64()?;
        let sys_flag = from.i32()?;
        let born_timestamp = from.i64()?;
        let born_host = from.host(sys_flag & sys_flag::BORN_HOST_V6 != 0)?;
        let store_timestamp = from.i64()?;
        let store_host = from.host(sys_flag & sys_flag::STORE_HOST_V6 != 0)?;
        let reconsume_times = from.i32()?;
        let prepared_transaction_offset = from.i64()?;
        let body_len = from.length("body")?;
        let body = from.take(body_len)?;
        let topic_len = if magic == MAGIC_V1 {
            // Java reads a signed byte: a length above 127 is damage.
            usize::try_from(from.take(1)?.first().map_or(-1, |byte| *byte as i8))
                .map_err(|_| RecordError::Length("topic"))?
        } else {
            from.short_length("topic")?
        };
        let topic = std::str::from_utf8(from.take(topic_len)?).map_err(|_| RecordError::Topic)?;
        let properties_len = from.short_length("properties")?;
        let properties = Properties::new(from.take(properties_len)?);
        if !from.rest.is_empty() {
            return Err(RecordError::Length("totalSize"));
        }
        Ok(RecordView {
            bytes,
            body_crc,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag,
            born_timestamp,
            born_host,
            store_timestamp,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body,
            topic,
            properties,
        })
    }

    /// Whether the body has the checksum that the record carries. A record without a body has
    /// nothing to check.
    #[must_use]
    pub fn body_is_intact(&self) -> bool {
        self.body.is_empty() || crc(self.body) == self.body_crc
    }
}

/// Big-endian fields off the front of a slice.
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(RecordError::Truncated { needed: len, available: self.rest.len() })?;
        self.rest = rest;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (chunk, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(RecordError::Truncated { needed: N, available: self.rest.len() })?;
        self.rest = rest;
        Ok(*chunk)
    }

    pub(super) fn i32(&mut self) -> Result<i32, RecordError> {
        Ok(i32::from_be_bytes(self.chunk()?))
    }

    fn i64(&mut self) -> Result<i64, RecordError> {
        Ok(i64::from_be_bytes(self.chunk()?))
    }

    pub(super) fn length(&mut self, field: &'static str) -> Result<usize, RecordError> {
        usize::try_from(self.i32()?).map_err(|_| RecordError::Length(field))
    }

    pub(super) fn short_length(&mut self, field: &'static str) -> Result<usize, RecordError> {
        usize::try_from(i16::from_be_bytes(self.chunk()?)).map_err(|_| RecordError::Length(field))
    }

    fn host(&mut self, v6: bool) -> Result<SocketAddr, RecordError> {
        let ip = if v6 {
            Ipv6Addr::from(self.chunk::<16>()?).into()
        } else {
            Ipv4Addr::from(self.chunk::<4>()?).into()
        };
        // Four bytes are kept for a port; only two can be meant.
        Ok(SocketAddr::new(ip, self.i32()? as u16))
    }
}
