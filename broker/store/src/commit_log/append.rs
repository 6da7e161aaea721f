//! Putting records in. Everything that can be done before is done before the one short lock; under
//! it the record takes its place, its queue offset and its store time, and is encoded straight into
//! the mapping. No system call, no allocation, no fault: the file maker was there before. Making it
//! durable is the flusher's concern.

use std::sync::atomic::Ordering;

use broker_protocol::limits::{PROPERTIES_LEN_MAX, TOPIC_LEN_MAX};
use broker_protocol::record::{self, BLANK_LEN, RecordParts};
use broker_protocol::sys_flag;

use super::{Appended, CommitLog, NewRecord, Put};
use crate::error::{AppendError, NotWritable};

/// Longest body of a message that was accepted before: what a record can say.
const BODY_ONCE_ACCEPTED_MAX: usize = i32::MAX as usize - OVERHEAD_MAX;

/// What a record may have beyond the longest body.
const OVERHEAD_MAX: usize = 64 << 10;

impl CommitLog {
    /// Stores one record, or nothing.
    pub(crate) fn append(&self, new: &NewRecord<'_>) -> Result<Appended, AppendError> {
        self.append_up_to(new, self.body_max())
    }

    /// Stores the record of a message that was accepted before, when the limit may have been higher.
    pub(crate) fn append_again(&self, new: &NewRecord<'_>) -> Result<Appended, AppendError> {
        self.append_up_to(new, BODY_ONCE_ACCEPTED_MAX)
    }

    fn append_up_to(&self, new: &NewRecord<'_>, body_max: usize) -> Result<Appended, AppendError> {
        let started_ms = self.clock.now_ms();
        check(new, body_max)?;
        let mut parts = parts(new, record::crc(new.body));
        let len = parts.encoded_len();
        self.check_len(len, body_max)?;

        let mut put = self.put.lock();
        self.figures.lock_taken(started_ms);
        let done = self.room(&mut put, len).and_then(|()| {
            let newest_ms = started_ms.max(put.newest_ms);
            let appended = encode(&put, put.used, &mut parts, new, newest_ms)?;
            new.queue.take(offsets_of(new));
            let used = put.used + len;
            self.publish(&mut put, used, newest_ms);
            Ok(appended)
        });
        self.figures.lock_released();
        drop(put);

        let appended = done?;
        self.tell_maker(appended.end());
        self.figures.stored(1, len as u64, self.clock.now_ms() - started_ms);
        Ok(appended)
    }

    /// Stores all the records side by side in one file, or nothing. Adds one entry to `appended`
    /// for each.
    pub(crate) fn append_batch(
        &self,
        batch: &[NewRecord<'_>],
        appended: &mut Vec<Appended>,
    ) -> Result<(), AppendError> {
        if batch.is_empty() {
            return Err(AppendError::Illegal("a batch without messages".to_owned()));
        }
        let started_ms = self.clock.now_ms();
        let body_max = self.body_max();
        let mut crcs = Vec::with_capacity(batch.len());
        let mut total: usize = 0;
        for new in batch {
            check(new, body_max)?;
            crcs.push(record::crc(new.body));
            total = total.saturating_add(parts(new, 0).encoded_len());
        }
        self.check_len(total, body_max)?;
        appended.reserve(batch.len());
        let before = appended.len();

        let mut put = self.put.lock();
        self.figures.lock_taken(started_ms);
        let done = self.room(&mut put, total).and_then(|()| {
            let newest_ms = started_ms.max(put.newest_ms);
            let mut at = put.used;
            for (new, crc) in batch.iter().zip(crcs) {
                let one = encode(&put, at, &mut parts(new, crc), new, newest_ms);
                let one = match one {
                    Ok(one) => one,
                    Err(error) => {
                        // Not published, so nothing was stored; give the offsets back.
                        batch.iter().take(appended.len() - before).for_each(|taken| {
                            taken.queue.take(-offsets_of(taken));
                        });
                        return Err(error);
                    }
                };
                new.queue.take(offsets_of(new));
                at += one.size as usize;
                appended.push(one);
            }
            self.publish(&mut put, at, newest_ms);
            Ok(())
        });
        self.figures.lock_released();
        drop(put);

        if let Err(error) = done {
            appended.truncate(before);
            return Err(error);
        }
        if let Some(last) = appended.last() {
            self.tell_maker(last.end());
        }
        let took_ms = self.clock.now_ms() - started_ms;
        self.figures.stored(batch.len() as u64, total as u64, took_ms);
        Ok(())
    }

    fn body_max(&self) -> usize {
        self.max_message_size.load(Ordering::Relaxed)
    }

    /// `len` is a record's, or a whole batch's.
    fn check_len(&self, len: usize, body_max: usize) -> Result<(), AppendError> {
        let max = body_max.saturating_add(OVERHEAD_MAX);
        if len > max {
            let text = format!("{len} bytes to store, at most {max} are allowed at once");
            return Err(AppendError::Illegal(text));
        }
        let file_len = self.segments.file_len() as usize;
        if len + BLANK_LEN > file_len {
            return Err(AppendError::Illegal(format!(
                "{len} bytes to store, a commit log file has {file_len} (mappedFileSizeCommitLog)"
            )));
        }
        Ok(())
    }

    /// Sees to it that `len` bytes and an end mark fit into the current file: if they don't, the
    /// mark is written and the next file becomes the current one. Nothing changes on failure.
    fn room(&self, put: &mut Put, len: usize) -> Result<(), AppendError> {
        if put.closed {
            return Err(AppendError::NotWritable(NotWritable::ShuttingDown));
        }
        if put.file.allocated() < put.file.len() {
            return Err(AppendError::NoFile(self.maker.current_failure()));
        }
        let remaining = put.file.len() - put.used;
        if len + BLANK_LEN <= remaining {
            return Ok(());
        }
        let next = self.maker.take().map_err(AppendError::NoFile)?;
        if remaining >= BLANK_LEN {
            // The mark claims the whole rest, but only its own bytes are written.
            let marked = put.file.write(put.used, remaining, record::write_blank);
            debug_assert!(marked.is_ok(), "an end mark of {remaining} bytes");
        }
        put.file.publish(put.file.len());
        self.segments.push(std::sync::Arc::clone(&next));
        self.frontiers.append_to(next.start());
        put.file = next;
        put.used = 0;
        Ok(())
    }

    fn publish(&self, put: &mut Put, used: usize, newest_ms: i64) {
        put.file.publish(used);
        put.used = used;
        put.newest_ms = newest_ms;
        self.frontiers.append_to(put.file.start() + used as u64);
        // After the frontier: who reads this time knows that everything older is appended.
        self.newest_ms.store(newest_ms, Ordering::Release);
    }

    fn tell_maker(&self, end: u64) {
        if end >= self.maker.wake_at() {
            self.maker.nudge(end);
        }
    }
}

fn check(new: &NewRecord<'_>, max: usize) -> Result<(), AppendError> {
    let topic = new.queue.topic();
    if topic.is_empty() || topic.len() > TOPIC_LEN_MAX {
        return Err(AppendError::Illegal(format!(
            "the topic has {} bytes, 1 to {TOPIC_LEN_MAX} are allowed",
            topic.len()
        )));
    }
    if new.properties.len() > PROPERTIES_LEN_MAX {
        let (len, max) = (new.properties.len(), PROPERTIES_LEN_MAX);
        return Err(AppendError::PropertiesTooLong { len, max });
    }
    if new.body.len() > max {
        return Err(AppendError::Illegal(format!(
            "the body has {} bytes, maxMessageSize allows {max}",
            new.body.len()
        )));
    }
    Ok(())
}

fn parts<'a>(new: &NewRecord<'a>, body_crc: u32) -> RecordParts<'a> {
    RecordParts {
        topic: new.queue.topic(),
        queue_id: new.queue.id(),
        flag: new.flag,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: new.sys_flag,
        born_timestamp: new.born_timestamp,
        born_host: new.born_host,
        store_timestamp: 0,
        store_host: new.store_host,
        reconsume_times: new.reconsume_times,
        prepared_transaction_offset: new.prepared_transaction_offset,
        body_crc,
        body: new.body,
        properties: new.properties,
    }
}

/// Offsets of its queue that the record takes: none if it is prepared or rolled back, because such
/// a record never enters the queue and would leave a hole there.
fn offsets_of(new: &NewRecord<'_>) -> i64 {
    i64::from(sys_flag::is_visible(new.sys_flag))
}

/// Writes the record at `at` of the current file. Takes no queue offset yet.
fn encode(
    put: &Put,
    at: usize,
    parts: &mut RecordParts<'_>,
    new: &NewRecord<'_>,
    store_timestamp: i64,
) -> Result<Appended, AppendError> {
    let physical_offset = put.file.start() + at as u64;
    parts.queue_offset = if offsets_of(new) == 0 { 0 } else { new.queue.next_offset() };
    parts.physical_offset = physical_offset as i64;
    parts.store_timestamp = store_timestamp;
    let len = parts.encoded_len();
    let written = put.file.write(at, len, |slot| parts.encode_into(slot));
    let size = written.map_err(|error| AppendError::Illegal(error.to_string()))? as u32;
    Ok(Appended { physical_offset, size, queue_offset: parts.queue_offset, store_timestamp })
}
