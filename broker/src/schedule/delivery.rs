//! Delivering one level: from its queue, in order, whatever is due. A message that can't become
//! one in its own topic is skipped with an error in the log, so that it does not hold up the level.

use std::sync::atomic::Ordering;
use std::time::Duration;

use broker_protocol::name;
use broker_protocol::properties::name as property;
use broker_protocol::record::RecordView;
use broker_store::{AppendError, NewRecord, Unit};
use bytes::Bytes;

use super::{LOOK_INTERVAL, Level, Shared};

/// Messages that one level delivers before the others have their turn.
const TURN_MAX: usize = 512;

/// Queue entries read at a time.
const UNITS_AT_A_TIME: usize = 64;

enum Outcome {
    /// It is in its topic, or never can be.
    Settled,
    /// The store takes nothing now.
    Later,
}

impl Shared {
    /// Delivers what is due in the level, and says how long nothing further will be.
    pub(super) fn deliver_due(&self, level: &Level, now: i64) -> Duration {
        self.keep_within_queue(level);
        let mut turn = TURN_MAX;
        while turn > 0 {
            let next = level.next.load(Ordering::Relaxed);
            let units = self.store.queue_units(&level.queue, next, UNITS_AT_A_TIME.min(turn));
            if units.is_empty() {
                return LOOK_INTERVAL;
            }
            for unit in units {
                // A delivery time further away than the delay comes of a clock that was set back:
                // the message is due now.
                let due = unit.tags_code;
                if due > now && due <= now + level.delay_ms {
                    return Duration::from_millis(due.abs_diff(now)).min(LOOK_INTERVAL);
                }
                match self.deliver(level, &unit) {
                    Outcome::Settled => {
                        level.next.store(unit.index + 1, Ordering::Release);
                        self.dirty.store(true, Ordering::Release);
                    }
                    Outcome::Later => return LOOK_INTERVAL,
                }
                turn -= 1;
            }
        }
        Duration::ZERO
    }

    /// Progress outside the queue (a stale file, a queue whose old part was deleted) would stop the
    /// level for ever.
    pub(super) fn keep_within_queue(&self, level: &Level) {
        let next = level.next.load(Ordering::Relaxed);
        let (min, max) = (level.queue.min_offset(), level.queue.max_offset());
        let within = next.clamp(min, max.max(min));
        if within != next {
            tracing::warn!(
                level = level.number,
                next,
                min,
                max,
                "the progress of a delay level was outside its queue and is corrected"
            );
            level.next.store(within, Ordering::Release);
            self.dirty.store(true, Ordering::Release);
        }
    }

    fn deliver(&self, level: &Level, unit: &Unit) -> Outcome {
        let Some(bytes) = self.store.record_at(unit.physical_offset, unit.size) else {
            if unit.physical_offset >= self.store.min_offset() {
                self.skip(level, unit, "it can't be read");
            }
            // Otherwise its file was deleted for its age, and the message with it.
            return Outcome::Settled;
        };
        match self.put_into_own_topic(&bytes) {
            Ok(()) => {
                if level.held_up.swap(false, Ordering::Relaxed) {
                    tracing::info!(level = level.number, "delayed messages are delivered again");
                }
                Outcome::Settled
            }
            Err(Undelivered::ForNow(error)) => {
                if !level.held_up.swap(true, Ordering::Relaxed) {
                    tracing::warn!(level = level.number, %error, "delayed messages have to wait");
                }
                Outcome::Later
            }
            Err(Undelivered::ForEver(error)) => {
                self.skip(level, unit, &error);
                Outcome::Settled
            }
        }
    }

    fn skip(&self, level: &Level, unit: &Unit, error: &str) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            level = level.number,
            index = unit.index,
            physical_offset = unit.physical_offset,
            error,
            "a delayed message is skipped"
        );
    }

    /// The queue, or another one of the topic that still takes messages: while the message waited
    /// the topic may have shrunk, and in a queue that was given up nobody would ever look.
    fn open_queue(&self, topic: &str, queue_id: i32) -> i32 {
        match (self.write_queues)(topic) {
            Some(open @ 1..) if queue_id >= open => queue_id % open,
            _ => queue_id,
        }
    }

    /// Appends the message as it was sent: only topic and queue change. As in RocketMQ the
    /// properties that were added for the wait stay, so the message can't outgrow a limit here.
    fn put_into_own_topic(&self, bytes: &Bytes) -> Result<(), Undelivered> {
        let for_ever = |error: String| Undelivered::ForEver(error);
        let waiting = RecordView::parse(bytes).map_err(|error| for_ever(error.to_string()))?;
        let (topic, queue_id) = own_place(&waiting).map_err(|e| for_ever(e.to_owned()))?;
        let queue = self.store.queue(topic, self.open_queue(topic, queue_id));
        let record = NewRecord {
            queue: &queue,
            flag: waiting.flag,
            sys_flag: waiting.sys_flag,
            born_timestamp: waiting.born_timestamp,
            born_host: waiting.born_host,
            store_host: waiting.store_host,
            reconsume_times: waiting.reconsume_times,
            prepared_transaction_offset: waiting.prepared_transaction_offset,
            body: waiting.body,
            properties: waiting.properties.raw(),
        };
        let appended = self.store.append_again(&record).map_err(Undelivered::from)?;
        self.delivered_end.fetch_max(appended.end(), Ordering::AcqRel);
        self.delivered.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

enum Undelivered {
    ForNow(String),
    ForEver(String),
}

impl From<AppendError> for Undelivered {
    fn from(error: AppendError) -> Undelivered {
        match error {
            AppendError::NotWritable(_) | AppendError::NoFile(_) => {
                Undelivered::ForNow(error.to_string())
            }
            AppendError::Illegal(_) | AppendError::PropertiesTooLong { .. } => {
                Undelivered::ForEver(error.to_string())
            }
        }
    }
}

fn own_place<'r>(waiting: &RecordView<'r>) -> Result<(&'r str, i32), &'static str> {
    let topic = waiting.properties.get(property::REAL_TOPIC).ok_or("it has no topic of its own")?;
    name::check_topic(topic).map_err(|_| "the name of its own topic is illegal")?;
    if topic == name::TRANS_HALF_TOPIC || topic == name::SCHEDULE_TOPIC {
        return Err("its own topic is one of the system's");
    }
    let queue_id = waiting.properties.get(property::REAL_QUEUE_ID);
    let queue_id = queue_id.and_then(|id| id.parse().ok()).filter(|id: &i32| *id >= 0);
    Ok((topic, queue_id.ok_or("it has no queue of its own")?))
}
