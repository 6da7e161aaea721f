//! ConsumeQueues: for each queue of each topic a row of 20-byte units that say where its messages
//! lie in the commit log, as RocketMQ 4.9 writes them (8 bytes of log offset, 4 of size, 8 of tags
//! code, in network order; unit `n` at byte `20 n`). [`Queue`] is the handle that the rest of the
//! broker holds, `row` its files, `table` the place where all queues are found, `recovery` what
//! makes them whole again at start, `flush` what makes them durable. Who writes units is
//! [`crate::dispatcher`]; nothing here reads records.

pub(crate) mod flush;
pub(crate) mod queue;
pub(crate) mod recovery;
pub(crate) mod row;
pub(crate) mod table;

pub use queue::Queue;

/// Bytes of a unit.
pub(crate) const UNIT_LEN: u64 = 20;

/// What one unit says: where a message of the queue lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The message's offset in its queue.
    pub index: i64,
    /// Where its record starts in the commit log.
    pub physical_offset: u64,
    /// Bytes of the record.
    pub size: u32,
    /// Hash of its tag, sign-extended; 0 without one. In the delay topic, when it is due, in
    /// milliseconds since 1970.
    pub tags_code: i64,
}

/// A unit that stands for no message: it fills the front of a row that starts inside a file, and
/// indexes whose records are lost.
const BLANK: [u8; UNIT_LEN as usize] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];

/// What stands in the place of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A message.
    Unit(Unit),
    /// Filled, but with no message.
    Blank,
    /// Never written, or damaged.
    Empty,
}

impl Unit {
    /// Where the record ends in the commit log.
    pub fn end(&self) -> u64 {
        self.physical_offset.saturating_add(u64::from(self.size))
    }

    pub(crate) fn encode(&self) -> [u8; UNIT_LEN as usize] {
        let mut bytes = [0; UNIT_LEN as usize];
        bytes[..8].copy_from_slice(&self.physical_offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }
}

impl Slot {
    /// Reads the unit with `index` from its bytes; fewer than twenty count as none.
    pub(crate) fn decode(index: i64, bytes: &[u8]) -> Slot {
        let Some((physical, rest)) = bytes.split_first_chunk::<8>() else { return Slot::Empty };
        let Some((size, rest)) = rest.split_first_chunk::<4>() else { return Slot::Empty };
        let Some((tags_code, _)) = rest.split_first_chunk::<8>() else { return Slot::Empty };
        let physical = i64::from_be_bytes(*physical);
        let size = i32::from_be_bytes(*size);
        if physical < 0 || size <= 0 {
            return Slot::Empty;
        }
        if physical == 0 && size == i32::MAX {
            return Slot::Blank;
        }
        Slot::Unit(Unit {
            index,
            physical_offset: physical as u64,
            size: size as u32,
            tags_code: i64::from_be_bytes(*tags_code),
        })
    }

    pub(crate) fn unit(self) -> Option<Unit> {
        match self {
            Slot::Unit(unit) => Some(unit),
            Slot::Blank | Slot::Empty => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_rocketmqs_bytes() {
        let unit = Unit { index: 7, physical_offset: 0x0102_0304_0506, size: 259, tags_code: -2 };
        let bytes = unit.encode();
        assert_eq!(
            bytes,
            [0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 1, 3, 255, 255, 255, 255, 255, 255, 255, 254]
        );
        assert_eq!(Slot::decode(7, &bytes), Slot::Unit(unit));
        assert_eq!(unit.end(), 0x0102_0304_0506 + 259);
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        assert_eq!(Slot::decode(0, &BLANK), Slot::Blank);
        assert_eq!(Slot::decode(0, &[0; 20]), Slot::Empty);
        assert_eq!(Slot::decode(0, &[0xff; 20]), Slot::Empty);
        assert_eq!(Slot::decode(0, &BLANK[..19]), Slot::Empty);
        let negative_size = Unit { index: 0, physical_offset: 4, size: u32::MAX, tags_code: 0 };
        assert_eq!(Slot::decode(0, &negative_size.encode()), Slot::Empty);
    }
}
