//! The store as its users see it: what is appended is there, also after a kill.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use broker_protocol::record::RecordView;

use super::*;
use crate::Queue;
use crate::env;

pub(crate) fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        store_path_root_dir: root.to_path_buf(),
        mapped_file_size_commit_log: 16 << 10,
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

fn open(root: &Path) -> Store {
    Store::open(config(root), env::os()).unwrap()
}

fn queue(topic: &str) -> Arc<Queue> {
    Arc::new(Queue::new(Arc::from(topic), 0, 0))
}

fn new<'a>(queue: &'a Arc<Queue>, body: &'a [u8]) -> NewRecord<'a> {
    let host = SocketAddr::from(([127, 0, 0, 1], 10911));
    NewRecord {
        queue,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 7,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"TAGS\x01a",
    }
}

fn body_at(store: &Store, appended: &Appended) -> Vec<u8> {
    let bytes = store.message_at(appended.physical_offset).unwrap();
    let record = RecordView::parse(&bytes).unwrap();
    assert_eq!(record.queue_offset, appended.queue_offset);
    assert_eq!(record.store_timestamp, appended.store_timestamp);
    record.body.to_vec()
}

#[test]
fn what_is_appended_survives_a_kill_and_a_clean_stop() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue("Topic");
    let mut all = Vec::new();
    for round in 0..6u8 {
        let store = open(folder.path());
        for (appended, body) in &all {
            assert_eq!(body_at(&store, appended), *body, "round {round}");
        }
        let end = all.last().map_or(0, |(appended, _): &(Appended, Vec<u8>)| appended.end());
        assert_eq!(store.max_offset(), end);
        for index in 0..30u8 {
            let body = vec![index; 700 + usize::from(index) * 3];
            let appended = store.append(&new(&queue, &body)).unwrap();
            assert_eq!(body_at(&store, &appended), body);
            all.push((appended, body));
        }
        assert!(folder.path().join("abort").exists());
        if round % 2 == 0 {
            store.shutdown();
        }
    }
    let offsets: Vec<i64> = all.iter().map(|(appended, _)| appended.queue_offset).collect();
    assert_eq!(offsets, (0..180).collect::<Vec<i64>>());
}

#[test]
fn a_second_store_is_refused_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let error = Store::open(config(folder.path()), env::os()).unwrap_err();
    assert!(matches!(&error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&folder.path().display().to_string()), "{error}");
    drop(store);
    open(folder.path());
}

#[test]
fn one_flush_answers_whoever_waits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let queue = queue("Topic");
    let (sender, receiver) = sync_channel(10);
    for _ in 0..3 {
        let appended = store.append(&new(&queue, b"body")).unwrap();
        let sender = sender.clone();
        let deadline = Instant::now() + Duration::from_secs(60);
        store.when_flushed(appended.end(), deadline, move |flushed| sender.send(flushed).unwrap());
    }
    for _ in 0..3 {
        assert_eq!(receiver.recv().unwrap(), Flushed::Done);
    }
    assert_eq!(store.flushed(), store.max_offset());
}
