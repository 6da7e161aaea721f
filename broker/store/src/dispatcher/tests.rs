use std::net::SocketAddr;
use std::path::Path;

use broker_protocol::properties::name as property;
use broker_protocol::tags::TagFilter;

use super::*;
use crate::env::faults::FaultyFiles;
use crate::{ColdReads, NewRecord, Read, ReadStatus, Store, StoreConfig};

fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        mapped_file_size_commit_log: 1 << 20,
        mapped_file_size_consume_queue: 200,
        ..crate::store::tests::config(root)
    }
}

fn send(store: &Store, topic: &str, sys_flag: i32, properties: &str) -> u64 {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    let record = NewRecord {
        queue: &store.queue(topic, 0),
        flag: 0,
        sys_flag,
        born_timestamp: 7,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"body",
        properties: properties.as_bytes(),
    };
    store.append(&record).unwrap().physical_offset
}

fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn settle(store: &Store) {
    until(|| store.dispatched() == store.max_offset());
}

fn key(key: &str) -> String {
    format!("{}\u{1}{key}", property::KEYS)
}

fn found(store: &Store, topic: &str, key: &str) -> usize {
    store.query_index(topic, key, 64, 0, i64::MAX).messages.len()
}

#[test]
fn prepared_and_rolled_back_records_are_in_no_queue() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(config(folder.path()), crate::env::os()).unwrap();
    let queue = store.queue("T", 0);
    let flags = [
        (sys_flag::TRANSACTION_PREPARED, 0),
        (sys_flag::TRANSACTION_ROLLBACK, 0),
        (sys_flag::TRANSACTION_COMMIT, 1),
        (0, 2),
    ];
    for (flag, max) in flags {
        send(&store, "T", flag, &key("k"));
        settle(&store);
        // The two that stay out of the queue take no offset there either.
        assert_eq!((queue.max_offset(), queue.next_offset()), (max, max), "flag {flag}");
    }
    assert_eq!(found(&store, "T", "k"), 3, "all but the one rolled back have keys");
}

#[test]
fn a_queue_that_cant_be_written_refuses_sends_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = Store::open(config(folder.path()), files.env()).unwrap();
    let queue = store.queue("T", 0);
    send(&store, "T", 0, "");
    settle(&store);
    files.set(|faults| faults.no_space = true);
    // The queue's first file has room for ten.
    let mut sent = 1;
    while store.writable().is_ok() {
        send(&store, "T", 0, "");
        sent += 1;
        if sent > 10 {
            until(|| store.writable().is_err());
        }
    }
    assert_eq!(store.writable(), Err(NotWritable::QueueError));
    assert_eq!((queue.max_offset(), queue.next_offset()), (10, sent));
    files.set(|faults| faults.no_space = false);
    until(|| store.writable().is_ok());
    send(&store, "T", 0, "");
    settle(&store);
    assert_eq!(queue.max_offset(), sent + 1);
    let filter = TagFilter::All;
    let read = Read { offset: 0, max_messages: 32, filter: &filter, cold: ColdReads::Allow };
    let read = store.read(&queue, &read);
    assert_eq!((read.status, i64::from(read.messages)), (ReadStatus::Found, sent + 1));
}

#[test]
fn an_index_that_cant_be_made_holds_nothing_up_and_catches_up() {
    let folder = tempfile::tempdir().unwrap();
    // A file where the index folder should be.
    std::fs::write(folder.path().join("index"), "in the way").unwrap();
    let store = Store::open(config(folder.path()), crate::env::os());
    assert!(store.is_err(), "told at start, where somebody can act");
    std::fs::remove_file(folder.path().join("index")).unwrap();
    let store = Store::open(config(folder.path()), crate::env::os()).unwrap();
    std::fs::write(folder.path().join("index"), "in the way").unwrap();
    for number in 0..1_000 {
        send(&store, "T", 0, &key(&format!("k{}", number % 100)));
    }
    settle(&store);
    assert_eq!(store.queue("T", 0).max_offset(), 1_000);
    assert_eq!((store.index_files(), found(&store, "T", "k1")), (0, 0));
    assert!(store.writable().is_ok());
    std::fs::remove_file(folder.path().join("index")).unwrap();
    // No further message is needed for it to try again.
    until(|| found(&store, "T", "k1") == 10 && found(&store, "T", "k99") == 10);
    assert_eq!(store.index_files(), 3, "as many as the entries need");
}

#[test]
fn a_switched_off_index_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let off = StoreConfig { message_index_enable: false, ..config(folder.path()) };
    let store = Store::open(off, crate::env::os()).unwrap();
    send(&store, "T", 0, &key("off"));
    settle(&store);
    assert!(store.reconfigure("messageIndexEnable", "true").unwrap());
    send(&store, "T", 0, &key("on"));
    until(|| found(&store, "T", "on") == 1);
    assert_eq!(found(&store, "T", "off"), 0);
}

#[test]
fn a_record_whose_topic_is_a_path_reaches_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(config(folder.path()), crate::env::os()).unwrap();
    send(&store, "../escaped", 0, "");
    send(&store, "T", 0, "");
    settle(&store);
    assert_eq!(store.queue("T", 0).max_offset(), 1);
    assert!(!folder.path().join("escaped").exists());
}
