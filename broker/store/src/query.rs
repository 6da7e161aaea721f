//! Finding messages by topic and key: the index says where they may be, their records whether they
//! are.

use broker_protocol::record::RecordView;
use bytes::Bytes;

use crate::commit_log::LogEntry;
use crate::index::bears_key;
use crate::store::Store;

/// Index entries that one query follows at most. Only many messages with one hash, of which few are
/// wanted, can need so many.
const CANDIDATES_MAX: usize = 20_000;

/// What a query by key found.
#[derive(Clone, Debug, Default)]
pub struct IndexAnswer {
    /// The messages' records, newest first.
    pub messages: Vec<Bytes>,
    /// When the newest message in the index was stored, in milliseconds since 1970.
    pub last_update_timestamp: i64,
    /// Where its record starts in the log.
    pub last_update_physical: u64,
}

impl Store {
    /// The newest messages of `topic` that bear `key` among their KEYS or as UNIQ_KEY and were
    /// stored between `begin` and `end` (milliseconds since 1970, both included); at most `max`,
    /// and no more than `maxMsgsNumBatch`. May wait for the disk.
    pub fn query_index(
        &self,
        topic: &str,
        key: &str,
        max: usize,
        begin: i64,
        end: i64,
    ) -> IndexAnswer {
        let (log, followers) = (&self.shared.log, &self.shared.followers);
        let last_update = followers.index.last_update();
        let mut answer = IndexAnswer {
            messages: Vec::new(),
            last_update_timestamp: last_update.timestamp,
            last_update_physical: last_update.physical,
        };
        let max = max.min(self.shared.config.load().max_msgs_num_batch);
        if max == 0 {
            return answer;
        }
        let dead_below = followers.table.deleted().below(topic);
        let is_wanted = |record: &RecordView<'_>| {
            record.topic == topic
                && (begin..=end).contains(&record.store_timestamp)
                && bears_key(record.properties, key)
        };
        let mut candidates = 0;
        let mut found = Vec::new();
        followers.index.find(topic, key, begin, end, |physical| {
            candidates += 1;
            // An entry can be there twice, after a kill between two keys of one record.
            if physical >= dead_below && !found.contains(&physical) {
                let size = log.with_entry(physical, |entry| match entry {
                    LogEntry::Record(record) if is_wanted(&record) => Some(record.bytes.len()),
                    _ => None,
                });
                if let Some(bytes) = size.flatten().and_then(|size| log.slice(physical, size)) {
                    found.push(physical);
                    answer.messages.push(bytes);
                }
            }
            answer.messages.len() < max && candidates < CANDIDATES_MAX
        });
        answer
    }
}
