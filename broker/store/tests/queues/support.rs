//! A small store in a temporary folder, and messages to put into it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_protocol::record::RecordView;
use broker_protocol::tags::TagFilter;
use broker_store::env::{self, Env};
use broker_store::{
    Appended, ColdReads, NewRecord, Queue, Read, ReadOutcome, ReadStatus, Store, StoreConfig,
};

/// 64 KiB of log, 100 units and 400 index entries a file.
pub(crate) fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        store_path_root_dir: root.to_path_buf(),
        mapped_file_size_commit_log: 64 << 10,
        mapped_file_size_consume_queue: 2000,
        max_hash_slot_num: 100,
        max_index_num: 400,
        // The machine that runs the tests may be nearly full.
        disk_space_warning_level_ratio: 100,
        disk_max_used_space_ratio: 100,
        disk_space_clean_forcibly_ratio: 100,
        ..StoreConfig::default()
    }
}

pub(crate) fn open(root: &Path) -> Store {
    open_with(config(root), env::os())
}

pub(crate) fn open_with(config: StoreConfig, env: Env) -> Store {
    Store::open(config, env).unwrap()
}

/// Appends a message to queue 0 of `topic`.
pub(crate) fn send(store: &Store, topic: &str, body: &str, properties: &str) -> Appended {
    send_to(store, &store.queue(topic, 0), body, properties)
}

pub(crate) fn send_to(store: &Store, queue: &Arc<Queue>, body: &str, properties: &str) -> Appended {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    let appended = store.append(&NewRecord {
        queue,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 7,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: body.as_bytes(),
        properties: properties.as_bytes(),
    });
    appended.unwrap()
}

/// Waits until `done`.
pub(crate) fn until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until everything appended is in its queue.
pub(crate) fn settle(store: &Store) {
    until("all is dispatched", || store.dispatched() == store.max_offset());
}

pub(crate) fn read(queue: &Queue, store: &Store, offset: i64, filter: &TagFilter) -> ReadOutcome {
    store.read(queue, &Read { offset, max_messages: 32, filter, cold: ColdReads::Allow })
}

/// Bodies of all messages of the queue from `offset` on that pass `filter`, read as a consumer
/// does.
pub(crate) fn bodies_from(
    store: &Store,
    queue: &Queue,
    offset: i64,
    filter: &TagFilter,
) -> Vec<String> {
    let mut bodies = Vec::new();
    let mut next = offset;
    while next < queue.max_offset() {
        let found = read(queue, store, next, filter);
        assert!(
            matches!(found.status, ReadStatus::Found | ReadStatus::NoMatchedMessage),
            "{found:?}"
        );
        let records = records(&found);
        assert_eq!(records.len(), found.messages as usize);
        for (offset, body) in records {
            assert!(next <= offset && offset < found.next_offset);
            bodies.push(body);
        }
        assert!(found.next_offset > next);
        next = found.next_offset;
    }
    bodies
}

pub(crate) fn bodies(store: &Store, topic: &str) -> Vec<String> {
    let Some(queue) = store.find_queue(topic, 0) else { return Vec::new() };
    bodies_from(store, &queue, queue.min_offset(), &TagFilter::All)
}

/// Queue offset and body of each record found.
pub(crate) fn records(found: &ReadOutcome) -> Vec<(i64, String)> {
    let mut records = Vec::new();
    let mut bytes = 0;
    for slice in &found.slices {
        let mut rest: &[u8] = slice;
        bytes += slice.len();
        while !rest.is_empty() {
            let record = RecordView::parse(rest).unwrap();
            let body = String::from_utf8(record.body.to_vec()).unwrap();
            records.push((record.queue_offset, body));
            rest = &rest[record.bytes.len()..];
        }
    }
    assert_eq!(bytes, found.bytes);
    records
}

/// `from` to `to` as the bodies that tests send.
pub(crate) fn numbered(numbers: std::ops::Range<i64>) -> Vec<String> {
    numbers.map(|number| format!("message {number}")).collect()
}

/// Sends "message n" for each n.
pub(crate) fn send_numbered(store: &Store, topic: &str, numbers: std::ops::Range<i64>) {
    for number in numbers {
        send(store, topic, &format!("message {number}"), "TAGS\u{1}a");
    }
}
