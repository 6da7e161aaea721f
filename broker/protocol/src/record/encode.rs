//! Writing records: straight into the slot that the caller reserved.

use std::net::{IpAddr, SocketAddr};

use super::{BLANK_LEN, MAGIC_BLANK, MAGIC_V1, RecordError};
use crate::{
    limits::{PROPERTIES_LEN_MAX, TOPIC_LEN_MAX},
    sys_flag,
};

/// Where a record keeps its queue offset (8 bytes).
pub const QUEUE_OFFSET_AT: usize = 20;
/// Where a record keeps its physical offset (8 bytes).
pub const PHYSICAL_OFFSET_AT: usize = 28;
/// Where a record with an IPv4 born host keeps its store timestamp (8 bytes); 12 later with an IPv6
/// one.
pub const STORE_TIMESTAMP_AT_V4: usize = 56;
/// Size of a record with IPv4 hosts and no topic, body or properties, up to and including
/// `preparedTransactionOffset`.
pub const FIXED_LEN_V4: usize = 84;

/// Size of the lengths after the fixed part: body 4, topic 1, properties 2.
const LENGTHS: usize = 4 + 1 + 2;

/// Everything that a record holds. The body's checksum is the caller's to compute, outside any
/// lock; offsets and store time may be filled in later with [`patch`].
#[derive(Debug, Clone, Copy)]
pub struct RecordParts<'a> {
    /// Topic, at most 127 bytes.
    pub topic: &'a str,
    /// Queue of the topic.
    pub queue_id: i32,
    /// The producer's own flag, kept as it came.
    pub flag: i32,
    /// Index of the message in its queue.
    pub queue_offset: i64,
    /// Place of the record in the CommitLog.
    pub physical_offset: i64,
    /// Bits of [`sys_flag`]; the two address bits are set from the hosts, whatever comes in.
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
    /// [`super::crc`] of the body.
    pub body_crc: u32,
    /// The body as the producer sent it.
    pub body: &'a [u8],
    /// The property string in its final form, at most 32,767 bytes.
    pub properties: &'a [u8],
}

impl RecordParts<'_> {
    /// Bytes that [`Self::encode_into`] will write.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let wide_hosts = usize::from(is_v6(self.born_host)) + usize::from(is_v6(self.store_host));
        FIXED_LEN_V4
            + 12 * wide_hosts
            + LENGTHS
            + self.body.len()
            + self.topic.len()
            + self.properties.len()
    }

    /// Writes the record at the start of `slot` and returns its length. Nothing is written when the
    /// slot is too short or a field is longer than the format can say.
    pub fn encode_into(&self, slot: &mut [u8]) -> Result<usize, RecordError> {
        let needed = self.encoded_len();
        let topic_len = u8::try_from(self.topic.len())
            .ok()
            .filter(|len| usize::from(*len) <= TOPIC_LEN_MAX)
            .ok_or(RecordError::TopicTooLong(self.topic.len()))?;
        let properties_len = i16::try_from(self.properties.len())
            .map_err(|_| RecordError::PropertiesTooLong(self.properties.len()))?;
        let total = i32::try_from(needed).map_err(|_| RecordError::BodyTooLong(self.body.len()))?;
        // Fits: it is less than `total`.
        let body_len = self.body.len() as i32;
        let available = slot.len();
        let slot = slot.get_mut(..needed).ok_or(RecordError::Truncated { needed, available })?;

        let mut to = Cursor { rest: slot };
        to.put(&total.to_be_bytes());
        to.put(&MAGIC_V1.to_be_bytes());
        to.put(&self.body_crc.to_be_bytes());
        to.put(&self.queue_id.to_be_bytes());
        to.put(&self.flag.to_be_bytes());
        to.put(&self.queue_offset.to_be_bytes());
        to.put(&self.physical_offset.to_be_bytes());
        to.put(&stored_sys_flag(self.sys_flag, self.born_host, self.store_host).to_be_bytes());
        to.put(&self.born_timestamp.to_be_bytes());
        to.put_host(self.born_host);
        to.put(&self.store_timestamp.to_be_bytes());
        to.put_host(self.store_host);
        to.put(&self.reconsume_times.to_be_bytes());
        to.put(&self.prepared_transaction_offset.to_be_bytes());
        to.put(&body_len.to_be_bytes());
        to.put(self.body);
        to.put(&[topic_len]);
        to.put(self.topic.as_bytes());
        to.put(&properties_len.to_be_bytes());
        to.put(self.properties);
        debug_assert!(to.rest.is_empty(), "encoded_len and encode_into disagree");
        Ok(needed)
    }
}

/// Fills in, in an encoded record, what is only known once its place is taken.
///
/// `born_host` must be the one that the record was encoded with. A record shorter than its fixed
/// part is left alone, which can't be the outcome of an encoding.
pub fn patch(
    record: &mut [u8],
    born_host: SocketAddr,
    queue_offset: i64,
    physical_offset: i64,
    store_timestamp: i64,
) {
    let store_timestamp_at = STORE_TIMESTAMP_AT_V4 + if is_v6(born_host) { 12 } else { 0 };
    let fields = [
        (QUEUE_OFFSET_AT, queue_offset),
        (PHYSICAL_OFFSET_AT, physical_offset),
        (store_timestamp_at, store_timestamp),
    ];
    for (at, value) in fields {
        if let Some(field) = record.get_mut(at..at + 8) {
            field.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// `flag` with the two address bits set from the hosts, as a record stores it.
#[must_use]
pub fn stored_sys_flag(flag: i32, born_host: SocketAddr, store_host: SocketAddr) -> i32 {
    let born = if is_v6(born_host) { sys_flag::BORN_HOST_V6 } else { 0 };
    let store = if is_v6(store_host) { sys_flag::STORE_HOST_V6 } else { 0 };
    (flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6)) | born | store
}

/// Writes the mark that says that the rest of a CommitLog file is empty. `rest` is that rest: from
/// the mark to the end of the file.
pub fn write_blank(rest: &mut [u8]) -> Result<(), RecordError> {
    let available = rest.len();
    let size = i32::try_from(available).map_err(|_| RecordError::Length("blank"))?;
    let Some((mark, _)) = rest.split_first_chunk_mut::<BLANK_LEN>() else {
        return Err(RecordError::Truncated { needed: BLANK_LEN, available });
    };
    let (to_size, to_magic) = mark.split_at_mut(4);
    to_size.copy_from_slice(&size.to_be_bytes());
    to_magic.copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    Ok(())
}

/// Addresses of IPv4 peers on a dual-stack socket count as IPv4, as Java sees them.
fn is_v6(host: SocketAddr) -> bool {
    host.ip().to_canonical().is_ipv6()
}

/// The unwritten rest of a slot whose length was checked before.
struct Cursor<'a> {
    rest: &'a mut [u8],
}

impl Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (to, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        to.copy_from_slice(bytes);
        self.rest = rest;
    }

    fn put_host(&mut self, host: SocketAddr) {
        match host.ip().to_canonical() {
            IpAddr::V4(ip) => self.put(&ip.octets()),
            IpAddr::V6(ip) => self.put(&ip.octets()),
        }
        self.put(&i32::from(host.port()).to_be_bytes());
    }
}

const _: () = assert!(PROPERTIES_LEN_MAX == i16::MAX as usize);
