//! The store as its users see it: what is appended is there, also after a kill.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use broker_protocol::record::RecordView;

use super::*;
use crate::Queue;
use crate::env;
use crate::env::Space;
use crate::env::faults::FaultyFiles;

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

pub(crate) fn open(root: &Path) -> Store {
    Store::open(config(root), env::os()).unwrap()
}

pub(crate) fn queue(topic: &str) -> Arc<Queue> {
    Arc::new(Queue::without_files(topic))
}

pub(crate) fn new<'a>(queue: &'a Arc<Queue>, body: &'a [u8]) -> NewRecord<'a> {
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
    let mut all = Vec::new();
    for round in 0..6u8 {
        let store = open(folder.path());
        let queue = store.queue("Topic", 0);
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
            assert!(!folder.path().join("abort").exists());
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
    let queue = store.queue("Topic", 0);
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

/// Syncs hang, so the flusher only works when a test lets it.
fn open_faulty(root: &Path, files: &FaultyFiles) -> Store {
    let config = StoreConfig {
        flush_disk_type: crate::config::FlushDiskType::SyncFlush,
        flush_interval_commit_log: 3_600_000,
        ..config(root)
    };
    Store::open(config, files.env()).unwrap()
}

fn far() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

#[test]
fn requests_that_come_during_a_sync_share_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = open_faulty(folder.path(), &files);
    let queue = queue("Topic");
    let (sender, receiver) = sync_channel(100);
    files.set(|faults| faults.sync_hangs = true);
    let send = |index: u32| {
        let appended = store.append(&new(&queue, b"body")).unwrap();
        let sender = sender.clone();
        store.when_flushed(appended.end(), far(), move |flushed| {
            sender.send((index, flushed)).unwrap();
        });
    };
    send(0);
    files.wait_for_syncs(1);
    (1..50).for_each(send);
    assert_eq!(store.status().flush_waiting, 50);
    assert!(receiver.try_recv().is_err(), "nothing is answered before its sync");
    files.set(|faults| faults.sync_hangs = false);
    let answers: Vec<_> = (0..50).map(|_| receiver.recv().unwrap()).collect();
    assert_eq!(answers, (0..50).map(|index| (index, Flushed::Done)).collect::<Vec<_>>());
    assert_eq!(files.syncs(), 2);
    assert_eq!(store.flushed(), store.max_offset());
    // What is flushed is answered at once, on this thread.
    send_flushed(&store);
}

fn send_flushed(store: &Store) {
    let (sender, receiver) = sync_channel(1);
    store.when_flushed(store.flushed(), Instant::now(), move |flushed| {
        sender.send(flushed).unwrap();
    });
    assert_eq!(receiver.try_recv(), Ok(Flushed::Done));
}

#[test]
fn a_deadline_is_kept_while_a_sync_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = open_faulty(folder.path(), &files);
    let queue = queue("Topic");
    files.set(|faults| faults.sync_hangs = true);
    let (sender, receiver) = sync_channel(10);
    let appended = store.append(&new(&queue, b"body")).unwrap();
    for (name, deadline) in [("far", far()), ("near", Instant::now() + Duration::from_millis(20))] {
        let sender = sender.clone();
        store.when_flushed(appended.end(), deadline, move |flushed| {
            sender.send((name, flushed)).unwrap();
        });
    }
    assert_eq!(receiver.recv().unwrap(), ("near", Flushed::TimedOut));
    files.set(|faults| faults.sync_hangs = false);
    assert_eq!(receiver.recv().unwrap(), ("far", Flushed::Done));
}

#[test]
fn a_failed_sync_poisons_the_store_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = open_faulty(folder.path(), &files);
    let queue = queue("Topic");
    let wait = |end: u64| {
        let (sender, receiver) = sync_channel(1);
        store.when_flushed(end, far(), move |flushed| sender.send(flushed).unwrap());
        receiver.recv().unwrap()
    };
    let kept = store.append(&new(&queue, b"body")).unwrap();
    assert_eq!(wait(kept.end()), Flushed::Done);
    files.set(|faults| faults.sync_fails = true);
    let lost = store.append(&new(&queue, b"body")).unwrap();
    assert_eq!(wait(lost.end()), Flushed::Failed);
    // The disk seems well again, but what the failed sync dropped is gone.
    files.set(|faults| faults.sync_fails = false);
    assert_eq!(wait(lost.end()), Flushed::Failed);
    assert_eq!(store.writable(), Err(NotWritable::Poisoned));
    let refused = store.append(&new(&queue, b"body")).unwrap_err();
    assert_eq!(refused, AppendError::NotWritable(NotWritable::Poisoned));
    assert_eq!(store.flushed(), kept.end());
    store.shutdown();
    assert_eq!(store.flushed(), kept.end());
    assert!(folder.path().join("abort").exists(), "the next start must recover");
}

#[test]
fn waiting_requests_are_answered_when_the_store_closes() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = open_faulty(folder.path(), &files);
    let (sender, receiver) = sync_channel(1);
    store.when_flushed(u64::MAX, far(), move |flushed| sender.send(flushed).unwrap());
    store.shutdown();
    assert_eq!(receiver.recv().unwrap(), Flushed::Failed);
    let refused = store.append(&new(&queue("Topic"), b"body")).unwrap_err();
    assert_eq!(refused, AppendError::NotWritable(NotWritable::ShuttingDown));
}

#[test]
fn a_disk_without_room_refuses_and_recovers_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = Store::open(config(folder.path()), files.env()).unwrap();
    let queue = queue("Topic");
    let body = [7; 3000];
    let mut stored = vec![store.append(&new(&queue, b"the queue's file")).unwrap()];
    while store.dispatched() < store.max_offset() {
        std::thread::yield_now();
    }
    files.set(|faults| faults.no_space = true);
    let error = loop {
        match store.append(&new(&queue, &body)) {
            Ok(appended) => stored.push(appended),
            Err(error) => break error,
        }
        assert!(stored.len() < 100, "files without blocks");
    };
    assert!(matches!(&error, AppendError::NoFile(_)), "{error}");
    assert_eq!(queue.next_offset(), stored.len() as i64, "no offset was taken");
    // Small ones still fit into the current file.
    stored.push(store.append(&new(&queue, b"small")).unwrap());
    files.set(|faults| faults.no_space = false);
    loop {
        match store.append(&new(&queue, &body)) {
            Ok(appended) => break stored.push(appended),
            Err(AppendError::NoFile(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    let offsets: Vec<i64> = stored.iter().map(|appended| appended.queue_offset).collect();
    assert_eq!(offsets, (0..stored.len() as i64).collect::<Vec<i64>>());
    drop(store);
    let store = open(folder.path());
    assert_eq!(store.max_offset(), stored.last().unwrap().end());
    for appended in &stored {
        assert!(store.message_at(appended.physical_offset).is_some());
    }
}

#[test]
fn a_map_limit_is_a_clear_error_and_goes_away() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = Store::open(config(folder.path()), files.env()).unwrap();
    let queue = queue("Topic");
    files.set(|faults| faults.no_maps = true);
    let mut count = 0;
    while store.append(&new(&queue, &[7; 3000])).is_ok() {
        count += 1;
        assert!(count < 100);
    }
    files.set(|faults| faults.no_maps = false);
    while store.append(&new(&queue, &[7; 3000])).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(queue.next_offset(), count + 1);
}

#[test]
fn sends_are_refused_while_the_disk_is_filled_beyond_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let full = Space { total: 100, available: 9 };
    files.set(|faults| faults.space = Some(full));
    let config = StoreConfig {
        disk_space_warning_level_ratio: 90,
        clean_resource_interval: 1,
        store_path_commit_log: Some(folder.path().join("elsewhere/commitlog")),
        ..config(folder.path())
    };
    let store = Store::open(config, files.env()).unwrap();
    let queue = queue("Topic");
    assert_eq!(store.writable(), Err(NotWritable::DiskFull));
    assert!((store.status().commit_log_disk_ratio - 0.91).abs() < 1e-9);
    let refused = store.append(&new(&queue, b"body")).unwrap_err();
    assert_eq!(refused, AppendError::NotWritable(NotWritable::DiskFull));
    files.set(|faults| faults.space = Some(Space { available: 10, ..full }));
    while store.writable().is_err() {
        std::thread::yield_now();
    }
    store.append(&new(&queue, b"body")).unwrap();
    assert!(folder.path().join("elsewhere/commitlog/00000000000000000000").exists());
}

#[test]
fn a_thread_that_dies_poisons_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let files = FaultyFiles::default();
    let store = open_faulty(folder.path(), &files);
    files.set(|faults| faults.sync_hangs = true);
    let queue = store.queue("Topic", 0);
    let end = store.append(&new(&queue, b"body")).unwrap().end();
    let (sender, receiver) = sync_channel(1);
    store.when_flushed(end, Instant::now(), |_| panic!("on purpose"));
    store.when_flushed(end, far(), move |flushed| sender.send(flushed).unwrap());
    assert_eq!(receiver.recv().unwrap(), Flushed::Failed);
    assert_eq!(store.writable(), Err(NotWritable::Poisoned));
    files.set(|faults| faults.sync_hangs = false);
}
