//! Stores that Apache RocketMQ 4.9.3 wrote, one closed in order and one killed, open here with
//! every message that its own client saw in them.

#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

use std::path::{Path, PathBuf};
use std::process::Command;

use broker_protocol::record::RecordView;
use broker_protocol::tags::TagFilter;
use broker_store::{ColdReads, Read, ReadStatus, Store, StoreConfig, env};
use serde::Deserialize;
use tempfile::TempDir;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    topic: String,
    queue_id: i32,
    queue_offset: i64,
    commit_log_offset: u64,
    store_size: u32,
    sys_flag: i32,
    flag: i32,
    born_timestamp: i64,
    store_timestamp: i64,
    reconsume_times: i32,
    prepared_transaction_offset: i64,
    properties: std::collections::BTreeMap<String, String>,
}

struct Fixture {
    folder: TempDir,
    expected: Vec<Expected>,
}

fn unpack(name: &str) -> Fixture {
    let archive = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status();
    assert!(done.unwrap().success(), "tar unpacks {name}");
    let text = std::fs::read(folder.path().join("expected.json")).unwrap();
    Fixture { expected: serde_json::from_slice(&text).unwrap(), folder }
}

/// The sizes of the `broker.conf` that lies in the archive.
fn config(folder: &Path) -> StoreConfig {
    StoreConfig {
        store_path_root_dir: folder.join("store"),
        mapped_file_size_commit_log: 1_048_576,
        mapped_file_size_consume_queue: 20_000,
        max_hash_slot_num: 1000,
        max_index_num: 4000,
        file_reserved_time: 24 * 365 * 100,
        disk_space_warning_level_ratio: 100,
        disk_max_used_space_ratio: 100,
        disk_space_clean_forcibly_ratio: 100,
        ..StoreConfig::default()
    }
}

fn check_log(store: &Store, expected: &[Expected]) {
    assert!(!expected.is_empty());
    for message in expected {
        let bytes = store.message_at(message.commit_log_offset).unwrap();
        assert_eq!(bytes.len(), message.store_size as usize, "{message:?}");
        let record = RecordView::parse(&bytes).unwrap();
        assert!(record.body_is_intact());
        assert_eq!(record.topic, message.topic);
        assert_eq!(record.queue_id, message.queue_id);
        assert_eq!(record.queue_offset, message.queue_offset);
        // Apache's client clears the bit of a compressed body when it has unpacked it.
        assert_eq!(record.sys_flag & !1, message.sys_flag & !1, "{message:?}");
        assert_eq!(record.flag, message.flag);
        assert_eq!(record.born_timestamp, message.born_timestamp);
        assert_eq!(record.store_timestamp, message.store_timestamp);
        assert_eq!(record.reconsume_times, message.reconsume_times);
        assert_eq!(record.prepared_transaction_offset, message.prepared_transaction_offset);
        for (name, _) in record.properties.iter() {
            // A batch's records hold some properties twice; the last one counts.
            let name = std::str::from_utf8(name).unwrap();
            let expected = message.properties.get(name).map(String::as_str);
            assert_eq!(record.properties.get(name), expected, "{name} of {message:?}");
        }
    }
}

fn check_queues(store: &Store, expected: &[Expected]) {
    let filter = TagFilter::parse("*").unwrap();
    for message in expected {
        let queue = store.find_queue(&message.topic, message.queue_id).unwrap();
        let offset = message.queue_offset;
        let read = Read { offset, max_messages: 1, filter: &filter, cold: ColdReads::Allow };
        let outcome = store.read(&queue, &read);
        assert_eq!((outcome.status, outcome.messages), (ReadStatus::Found, 1), "{message:?}");
        let stored = store.message_at(message.commit_log_offset).unwrap();
        assert_eq!(outcome.slices, [stored]);
    }
    // And no further ones: the numbers go on where Apache's would.
    for topic in store.topics() {
        for queue in store.queues_of(&topic) {
            let of_queue =
                expected.iter().filter(|m| *m.topic == *topic && m.queue_id == queue.id());
            let next = of_queue.map(|m| m.queue_offset + 1).max();
            // Apache's client can't read the topic of its own transaction log.
            if let Some(next) = next {
                assert_eq!((queue.max_offset(), queue.next_offset()), (next, next), "{topic}");
            }
        }
    }
}

#[test]
fn a_closed_store_opens_with_every_message() {
    let Fixture { folder, expected } = unpack("store-4.9.3.tar.gz");
    for _ in 0..3 {
        let store = Store::open(config(folder.path()), env::os()).unwrap();
        assert_eq!(store.max_offset(), expected_end(&expected));
        check_log(&store, &expected);
        check_queues(&store, &expected);
        store.shutdown();
    }
}

#[test]
fn a_killed_store_opens_with_every_message() {
    let Fixture { folder, expected } = unpack("store-dirty-4.9.3.tar.gz");
    for _ in 0..3 {
        let store = Store::open(config(folder.path()), env::os()).unwrap();
        assert_eq!(store.max_offset(), expected_end(&expected));
        check_log(&store, &expected);
        check_queues(&store, &expected);
    }
}

/// In both stores the last record is one that the client saw.
fn expected_end(expected: &[Expected]) -> u64 {
    let ends = expected.iter().map(|m| m.commit_log_offset + u64::from(m.store_size));
    ends.max().unwrap_or(0)
}
