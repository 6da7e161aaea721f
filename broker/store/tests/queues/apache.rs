//! What Apache RocketMQ 4.9.3 wrote into its queues and index, we find; what we make of its log is
//! byte for byte what it made.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use broker_protocol::record::RecordView;
use broker_store::{Store, StoreConfig, env};
use serde::Deserialize;
use tempfile::TempDir;

use crate::support::*;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    topic: String,
    queue_id: i32,
    queue_offset: i64,
    commit_log_offset: u64,
    store_size: u32,
    store_timestamp: i64,
    keys: Option<String>,
    msg_id: String,
}

fn unpack(name: &str) -> (TempDir, Vec<Expected>) {
    let archive = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status();
    assert!(done.unwrap().success(), "tar unpacks {name}");
    let text = fs::read(folder.path().join("expected.json")).unwrap();
    (folder, serde_json::from_slice(&text).unwrap())
}

/// The sizes of the `broker.conf` that lies in the archive.
fn open(folder: &Path) -> Store {
    let config = StoreConfig {
        mapped_file_size_commit_log: 1_048_576,
        mapped_file_size_consume_queue: 20_000,
        max_hash_slot_num: 1000,
        max_index_num: 4000,
        file_reserved_time: 24 * 365 * 100,
        ..config(&folder.join("store"))
    };
    open_with(config, env::os())
}

fn check(store: &Store, expected: &[Expected]) {
    let mut ends: BTreeMap<(&str, i32), i64> = BTreeMap::new();
    for message in expected {
        let queue = store.find_queue(&message.topic, message.queue_id).unwrap();
        let unit = store.queue_units(&queue, message.queue_offset, 1)[0];
        assert_eq!(unit.index, message.queue_offset);
        assert_eq!(
            (unit.physical_offset, unit.size),
            (message.commit_log_offset, message.store_size),
            "{message:?}"
        );
        let end = ends.entry((&message.topic, message.queue_id)).or_default();
        *end = (message.queue_offset + 1).max(*end);
        assert!(store.offset_by_time(&queue, message.store_timestamp) <= message.queue_offset);
        assert!(store.offset_by_time(&queue, message.store_timestamp + 1) > message.queue_offset);
    }
    for ((topic, id), end) in ends {
        let queue = store.queue(topic, id);
        assert_eq!((queue.min_offset(), queue.max_offset()), (0, end), "{topic} {id}");
        assert_eq!(queue.next_offset(), end);
    }
}

fn check_keys(store: &Store, expected: &[Expected]) {
    let mut asked = 0;
    for message in expected {
        let keys =
            message.keys.iter().flat_map(|keys| keys.split(' ')).filter(|key| !key.is_empty());
        for key in keys {
            let find = || {
                let answer = store.query_index(&message.topic, key, 64, 0, i64::MAX);
                let offset = |bytes| RecordView::parse(bytes).unwrap().physical_offset as u64;
                let found: Vec<u64> = answer.messages.iter().map(|bytes| offset(bytes)).collect();
                found
            };
            until("the key is found", || {
                let found = find();
                found.contains(&message.commit_log_offset) || found.len() == 64
            });
            assert!(find().is_sorted_by(|a, b| a > b), "newest first, each once");
            asked += 1;
        }
    }
    assert!(asked > 10, "the fixture has keys");
}

#[test]
fn a_closed_stores_queues_and_keys_are_found() {
    let (folder, expected) = unpack("store-4.9.3.tar.gz");
    for _ in 0..2 {
        let store = open(folder.path());
        check(&store, &expected);
        check_keys(&store, &expected);
        store.shutdown();
    }
}

#[test]
fn a_killed_stores_queues_and_keys_are_found() {
    let (folder, expected) = unpack("store-dirty-4.9.3.tar.gz");
    for _ in 0..2 {
        let store = open(folder.path());
        check(&store, &expected);
        check_keys(&store, &expected);
    }
}

#[test]
fn queues_made_from_its_log_are_byte_for_byte_its_own() {
    let (folder, expected) = unpack("store-4.9.3.tar.gz");
    let ours = folder.path().join("store/consumequeue");
    let theirs = folder.path().join("theirs");
    fs::rename(&ours, &theirs).unwrap();
    fs::remove_dir_all(folder.path().join("store/index")).unwrap();
    let store = open(folder.path());
    check(&store, &expected);
    store.shutdown();
    drop(store);
    let (ours, theirs) = (tree(&ours), tree(&theirs));
    assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (path, bytes) in theirs {
        assert!(ours[&path] == bytes, "{path:?} differs");
    }
}

/// Every file below `root` with its content.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(
                    path.strip_prefix(root).unwrap().to_path_buf(),
                    fs::read(&path).unwrap(),
                );
            }
        }
    }
    files
}

#[test]
fn sends_go_on_behind_its_messages() {
    let (folder, expected) = unpack("store-dirty-4.9.3.tar.gz");
    let store = open(folder.path());
    let queue = store.find_queue("FixPlain", 0).unwrap();
    let next = queue.max_offset();
    for number in 0..2_000 {
        let sent = send_to(&store, &queue, "x", "KEYS\u{1}ours");
        assert_eq!(sent.queue_offset, next + number);
    }
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.queue("FixPlain", 0).max_offset(), next + 2_000);
    assert_eq!(store.query_index("FixPlain", "ours", 64, 0, i64::MAX).messages.len(), 64);
    let first = &expected[0];
    until("an old id is found", || {
        !store.query_index(&first.topic, &first.msg_id, 1, 0, i64::MAX).messages.is_empty()
    });
}
