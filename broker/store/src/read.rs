//! The pull's way: from an offset in a queue to the bytes of its messages. Units are filtered by
//! tag without a look at the log, records that lie side by side become one slice of the mapped
//! file, and nothing is copied. What a consumer may see ends at the log offset that its store
//! allows. How an outcome is told to a client is the server's business.

use broker_protocol::tags::TagFilter;
use bytes::Bytes;

use crate::config::StoreConfig;
use crate::consume_queue::{Queue, Slot, Unit};
use crate::store::{Shared, Store};

/// Bytes of units that one read looks through at least, as in RocketMQ; with more messages asked
/// for, as many as those take.
const SCAN_BYTES_MIN: usize = 16_000;
const UNIT_LEN: usize = 20;
/// Units copied out of the queue at a time.
const SCAN_STEP: usize = 32;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// Offset in the queue of the first message wanted.
    pub offset: i64,
    /// Most messages wanted.
    pub max_messages: usize,
    /// Which tags.
    pub filter: &'a TagFilter,
    /// Whether the read may wait for the disk.
    pub cold: ColdReads,
}

/// Whether a read may wait for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdReads {
    /// It may not: [`ReadStatus::Cold`] if it would have to for its first message, a shorter answer
    /// if it would have to later.
    Refuse,
    /// It may.
    Allow,
}

/// How a read ended; RocketMQ's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadStatus {
    /// There are messages.
    Found,
    /// None of those looked at has a wanted tag.
    NoMatchedMessage,
    /// The store doesn't know the queue. For callers that have no handle; a read with one never
    /// says so.
    NoMatchedLogicQueue,
    /// The queue never had a message.
    NoMessageInQueue,
    /// The offset lies before the first message.
    OffsetTooSmall,
    /// The offset is the next message's, or that message may not be seen yet.
    OffsetOverflowOne,
    /// The offset lies beyond the next message's.
    OffsetOverflowBadly,
    /// The queue's file could not be read now.
    OffsetFoundNull,
    /// The messages were removed while they were read, or are damaged.
    MessageWasRemoving,
    /// The first message must come from the disk, and the read may not wait for it.
    Cold,
}

/// What a read found.
#[derive(Clone, Debug)]
pub struct ReadOutcome {
    /// How it ended.
    pub status: ReadStatus,
    /// Where to read next: after the last message looked at, wanted or not.
    pub next_offset: i64,
    /// First offset of the queue.
    pub min_offset: i64,
    /// Offset after the queue's last message.
    pub max_offset: i64,
    /// Messages found.
    pub messages: u32,
    /// Their bytes.
    pub bytes: usize,
    /// Their records in order, those side by side in one slice. They keep the mapped file alive.
    pub slices: Vec<Bytes>,
    /// The consumer is so far behind that a slave should serve it.
    pub suggest_slave: bool,
}

/// How much one answer may hold.
struct Limits {
    messages: usize,
    bytes_in_memory: usize,
    count_in_memory: usize,
    bytes_on_disk: usize,
    count_on_disk: usize,
}

impl Limits {
    fn of(config: &StoreConfig, messages: usize) -> Limits {
        Limits {
            messages: messages.max(1),
            bytes_in_memory: config.max_transfer_bytes_on_message_in_memory,
            count_in_memory: config.max_transfer_count_on_message_in_memory,
            bytes_on_disk: config.max_transfer_bytes_on_message_in_disk,
            count_on_disk: config.max_transfer_count_on_message_in_disk,
        }
    }

    /// Whether a further message of `size` would be too much. The first never is.
    fn full(&self, found: &ReadOutcome, size: u32, on_disk: bool) -> bool {
        let messages = found.messages as usize;
        if messages == 0 {
            return false;
        }
        let (bytes, count) = if on_disk {
            (self.bytes_on_disk, self.count_on_disk)
        } else {
            (self.bytes_in_memory, self.count_in_memory)
        };
        messages >= self.messages || found.bytes + size as usize > bytes || messages >= count
    }
}

impl Store {
    /// Reads messages of `queue`. Never waits for the disk if the read says so; otherwise it may,
    /// so it belongs on a thread that may block.
    pub fn read(&self, queue: &Queue, read: &Read<'_>) -> ReadOutcome {
        let shared = &self.shared;
        let (min, max) = (queue.min_offset(), queue.max_offset());
        let mut outcome = ReadOutcome {
            status: ReadStatus::NoMatchedMessage,
            next_offset: read.offset,
            min_offset: min,
            max_offset: max,
            messages: 0,
            bytes: 0,
            slices: Vec::new(),
            suggest_slave: false,
        };
        let (status, next) = match read.offset {
            _ if max == 0 => (ReadStatus::NoMessageInQueue, 0),
            offset if offset < min => (ReadStatus::OffsetTooSmall, min),
            offset if offset == max => (ReadStatus::OffsetOverflowOne, offset),
            offset if offset > max => (ReadStatus::OffsetOverflowBadly, max),
            _ => {
                Reading::new(shared, read).run(queue, &mut outcome);
                return outcome;
            }
        };
        (outcome.status, outcome.next_offset) = (status, next);
        outcome
    }

    /// The units of `queue` from the offset `from` on, at most `max` of them. Offsets without a
    /// message are left out. Empty if the queue's file can't be read now.
    pub fn queue_units(&self, queue: &Queue, from: i64, max: usize) -> Vec<Unit> {
        let mut units = Vec::new();
        let readable = self.shared.readable_to();
        let from = from.max(queue.min_offset());
        let read = queue.row().scan(from, queue.max_offset(), |_, slot| {
            match slot {
                Slot::Unit(unit) if unit.end() > readable => return false,
                Slot::Unit(unit) => units.push(unit),
                Slot::Blank | Slot::Empty => {}
            }
            units.len() < max
        });
        if let Err(error) = read {
            self.shared.queue_unreadable(queue, &error);
        }
        units
    }
}

impl Shared {
    /// The log offset up to which consumers may see records.
    fn readable_to(&self) -> u64 {
        let frontiers = &self.log.frontiers;
        if self.only_flushed { frontiers.flushed() } else { frontiers.appended() }
    }

    pub(crate) fn queue_unreadable(&self, queue: &Queue, error: &std::io::Error) {
        self.retention.tell(|| {
            tracing::error!(topic = %queue.topic(), queue = queue.id(), %error, "queue unreadable");
        });
    }
}

/// A read under way.
struct Reading<'a> {
    shared: &'a Shared,
    read: &'a Read<'a>,
    limits: Limits,
    readable: u64,
    newest: u64,
    /// Records side by side that are not in a slice yet: start, bytes, messages.
    run: Option<(u64, usize, u32)>,
    /// Where the last message found starts.
    last: u64,
    lost: bool,
}

/// Whether a read looks at the next unit.
#[derive(PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

impl<'a> Reading<'a> {
    fn new(shared: &'a Shared, read: &'a Read<'a>) -> Reading<'a> {
        Reading {
            shared,
            read,
            limits: Limits::of(&shared.config.load(), read.max_messages),
            readable: shared.readable_to(),
            newest: shared.log.frontiers.appended(),
            run: None,
            last: 0,
            lost: false,
        }
    }

    fn run(mut self, queue: &Queue, outcome: &mut ReadOutcome) {
        if self.read.cold == ColdReads::Refuse && !queue.row().is_hot(self.read.offset) {
            outcome.status = ReadStatus::Cold;
            return;
        }
        let units = (SCAN_BYTES_MIN / UNIT_LEN).max(self.read.max_messages);
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        let to = self.read.offset.saturating_add(units).min(outcome.max_offset);
        let mut slots = [Slot::Empty; SCAN_STEP];
        'scan: while outcome.next_offset < to {
            let wanted = usize::try_from(to - outcome.next_offset).unwrap_or(SCAN_STEP);
            let wanted = wanted.min(SCAN_STEP);
            let copied = match queue.row().copy(outcome.next_offset, &mut slots[..wanted]) {
                Ok(copied) => copied,
                Err(error) => {
                    self.shared.queue_unreadable(queue, &error);
                    outcome.status = ReadStatus::OffsetFoundNull;
                    break;
                }
            };
            for slot in &slots[..copied] {
                if self.look_at(*slot, outcome) == Go::Stop {
                    break 'scan;
                }
                outcome.next_offset += 1;
            }
            if copied < wanted {
                break;
            }
        }
        self.end_run(outcome);
        self.conclude(outcome);
    }

    fn look_at(&mut self, slot: Slot, outcome: &mut ReadOutcome) -> Go {
        let Slot::Unit(unit) = slot else { return Go::On };
        if unit.end() > self.readable {
            if outcome.next_offset == self.read.offset {
                outcome.status = ReadStatus::OffsetOverflowOne;
            }
            return Go::Stop;
        }
        if !matches(self.read.filter, unit.tags_code) {
            return Go::On;
        }
        let log = &self.shared.log;
        let behind = self.newest.saturating_sub(unit.physical_offset);
        let on_disk = behind > log.hot_bytes();
        if self.limits.full(outcome, unit.size, on_disk) {
            return Go::Stop;
        }
        if self.read.cold == ColdReads::Refuse
            && !log.is_hot(unit.physical_offset, unit.size as usize)
        {
            if outcome.messages == 0 {
                outcome.status = ReadStatus::Cold;
            }
            return Go::Stop;
        }
        if !log.is_intact(unit.physical_offset, unit.size) {
            self.lost = true;
            return Go::On;
        }
        self.take(&unit, outcome);
        Go::On
    }

    fn take(&mut self, unit: &Unit, outcome: &mut ReadOutcome) {
        let size = unit.size as usize;
        match &mut self.run {
            Some((start, bytes, messages)) if *start + *bytes as u64 == unit.physical_offset => {
                *bytes += size;
                *messages += 1;
            }
            _ => {
                self.end_run(outcome);
                self.run = Some((unit.physical_offset, size, 1));
            }
        }
        self.last = unit.physical_offset;
        outcome.messages += 1;
        outcome.bytes += size;
    }

    fn end_run(&mut self, outcome: &mut ReadOutcome) {
        let Some((start, bytes, messages)) = self.run.take() else { return };
        match self.shared.log.slice(start, bytes) {
            Some(slice) => outcome.slices.push(slice),
            None => {
                // The file went between the look and the slice.
                self.lost = true;
                outcome.messages -= messages;
                outcome.bytes -= bytes;
            }
        }
    }

    fn conclude(&self, outcome: &mut ReadOutcome) {
        if outcome.messages > 0 {
            outcome.status = ReadStatus::Found;
            outcome.suggest_slave =
                self.newest.saturating_sub(self.last) > self.shared.log.hot_bytes();
        } else if outcome.status == ReadStatus::NoMatchedMessage && self.lost {
            outcome.status = ReadStatus::MessageWasRemoving;
        }
    }
}

/// Whether a unit's tag is wanted. A code that no hash can be is the address of an extended unit,
/// which RocketMQ can be told to write: only the client can judge its tag.
fn matches(filter: &TagFilter, tags_code: i64) -> bool {
    tags_code < i64::from(i32::MIN) || filter.matches(tags_code)
}
