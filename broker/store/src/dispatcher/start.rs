//! Where dispatching begins when a store opens. A store that was closed in order needs nothing;
//! after a kill or a power loss, queues may lack units, and no time in the checkpoint is believed
//! alone: the log says which indexes were given out, and as long as a queue lacks one of them the
//! search goes on backwards, file by file. The same pass sets the counters that number new
//! messages.

use std::collections::HashMap;
use std::sync::Arc;

use broker_protocol::record::RecordView;
use broker_protocol::sys_flag;

use super::{Step, look};
use crate::checkpoint::Marks;
use crate::commit_log::{CommitLog, recovery};
use crate::consume_queue::Queue;
use crate::consume_queue::table::{Table, can_be_folder};

/// What was known when the store was opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The last process didn't close the store.
    pub(crate) unclean: bool,
    /// The checkpoint file.
    pub(crate) marks: Marks,
}

/// The log offset from which records must be entered again so that no queue lacks one. Sets each
/// queue's counter to follow the log's last record of it.
pub(crate) fn find(log: &CommitLog, table: &Table, known: &Known) -> u64 {
    let (first, end) = (log.min_offset(), log.frontiers.appended());
    let mut start = guess(log, table.queued(), known).clamp(first, end);
    let mut seen = Seen::default();
    let mut to = end;
    loop {
        pass(log, start, to, |record| seen.record(table, record));
        seen.pass += 1;
        if start <= first || !seen.lacks() {
            seen.set_counters();
            tracing::info!(start, end, unclean = known.unclean, "queues are completed from here");
            return start;
        }
        // The file before, or the front of this one.
        to = start;
        let len = log.segments.file_len();
        start = ((start - 1) / len * len).max(first);
    }
}

/// Where to look first: what the checkpoint promises, but no later than what queues hold.
fn guess(log: &CommitLog, queued: u64, known: &Known) -> u64 {
    let promised = match known.marks.dispatched {
        Some(dispatched) => dispatched,
        None if known.unclean => recovery::by_checkpoint_time(&log.segments, known.marks),
        None => queued,
    };
    let start = promised.min(queued);
    if !known.unclean {
        return start;
    }
    // What is promised was synced, but a look at the last file costs little and finds what nobody
    // could foresee.
    let end = log.frontiers.appended();
    let len = log.segments.file_len();
    start.min(end.saturating_sub(1) / len * len)
}

fn pass(log: &CommitLog, from: u64, to: u64, mut each: impl FnMut(&RecordView<'_>)) {
    let mut at = from;
    while at < to {
        at = match look(log, at, &mut each) {
            Step::Record((), next) | Step::Skip(next) => next,
            Step::End => return,
        };
    }
}

/// What was met of each queue. Passes go backwards through the log, each reads forwards.
#[derive(Default)]
struct Seen {
    pass: u32,
    queues: HashMap<(Arc<str>, i32), Met, ahash::RandomState>,
}

struct Met {
    queue: Arc<Queue>,
    /// The pass that met it first, which is the one that met its last record.
    pass: u32,
    /// The lowest index.
    lowest: i64,
    /// That of its last record. Nearly always the highest, but lower if the topic was made anew.
    last: i64,
}

impl Seen {
    fn record(&mut self, table: &Table, record: &RecordView<'_>) {
        let index = record.queue_offset;
        if !sys_flag::is_visible(record.sys_flag)
            || !can_be_folder(record.topic)
            || record.queue_id < 0
            || index < 0
        {
            return;
        }
        let queue = table.queue(record.topic, record.queue_id);
        if queue.is_dead(record.physical_offset as u64) {
            return;
        }
        let pass = self.pass;
        self.queues
            .entry((Arc::clone(queue.topic()), queue.id()))
            .and_modify(|met| {
                met.lowest = index.min(met.lowest);
                if met.pass == pass {
                    met.last = index;
                }
            })
            .or_insert(Met { queue, pass, lowest: index, last: index });
    }

    /// True if a queue ends before the lowest index that was met.
    fn lacks(&self) -> bool {
        self.queues.values().any(|met| met.queue.max_offset() < met.lowest)
    }

    fn set_counters(&self) {
        for met in self.queues.values() {
            met.queue.next_is(met.last + 1);
        }
    }
}
