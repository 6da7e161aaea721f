//! Queues and index after kills, lost files and retention: whole, contiguous, never ahead of the
//! log.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use broker_protocol::tags::TagFilter;
use broker_store::{ReadStatus, Store, StoreConfig, env};

use crate::support::*;

/// What is still there when the process is killed: the store is dropped, not shut down.
fn kill(store: Store) {
    drop(store);
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

fn files_of(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn found(store: &Store, topic: &str, key: &str) -> usize {
    store.query_index(topic, key, 64, 0, i64::MAX).messages.len()
}

#[test]
fn queues_are_contiguous_after_kills_at_any_moment() {
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut sent = [0; 5];
        for round in 0..8 {
            let store = open(folder.path());
            for (topic, count) in sent.iter().enumerate() {
                let topic = format!("T{topic}");
                assert_eq!(
                    bodies(&store, &topic),
                    numbered(0..*count),
                    "{topic} seed {seed} round {round}"
                );
                assert_eq!(store.queue(&topic, 0).next_offset(), *count);
            }
            for _ in 0..random.usize(0..400) {
                let topic = random.usize(0..sent.len());
                let (name, number) = (format!("T{topic}"), sent[topic]);
                let keys = format!("TAGS\u{1}a\u{2}KEYS\u{1}all k{number}");
                send(&store, &name, &format!("message {number}"), &keys);
                sent[topic] += 1;
            }
            if random.bool() {
                kill(store);
            } else {
                store.shutdown();
            }
        }
        let store = open(folder.path());
        for (topic, count) in sent.into_iter().enumerate() {
            let name = format!("T{topic}");
            until("the index has caught up", || {
                (0..count).all(|n| found(&store, &name, &format!("k{n}")) == 1)
            });
            assert_eq!(found(&store, &name, "all"), 64.min(count as usize));
        }
    }
}

/// 215 messages of T over three files and one of U that is the newest.
fn store_to_damage(root: &Path) {
    let store = open(root);
    send_numbered(&store, "T", 0..215);
    send_numbered(&store, "U", 0..1);
    settle(&store);
    kill(store);
    let file = |name: &str| root.join("consumequeue/T/0").join(name);
    // The last thirty units are lost: fifteen in each of two files.
    fs::remove_file(file("00000000000000004000")).unwrap();
    write_at(&file("00000000000000002000"), 85 * 20, &[0; 15 * 20]);
}

#[test]
fn lost_units_are_rebuilt_whatever_the_checkpoint_promises() {
    let far =
        (SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 + 3_600_000).to_be_bytes();
    let checkpoints: [(&str, &dyn Fn(&Path)); 3] = [
        ("as it is", &|_| {}),
        ("times ahead of the queue", &|path| write_at(path, 0, &[far, far, far].concat())),
        ("lost", &|path| fs::remove_file(path).unwrap()),
    ];
    for (name, damage) in checkpoints {
        let folder = tempfile::tempdir().unwrap();
        store_to_damage(folder.path());
        damage(&folder.path().join("checkpoint"));
        let store = open(folder.path());
        assert_eq!(bodies(&store, "T"), numbered(0..215), "checkpoint {name}");
        send_numbered(&store, "T", 215..220);
        settle(&store);
        assert_eq!(bodies(&store, "T"), numbered(0..220), "checkpoint {name}");
        assert_eq!(bodies(&store, "U"), numbered(0..1));
    }
}

#[test]
fn lost_folders_are_rebuilt() {
    for clean in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        // More than one log file.
        send_numbered(&store, "T", 0..700);
        send_numbered(&store, "U", 0..3);
        settle(&store);
        if clean {
            store.shutdown();
        }
        kill(store);
        assert!(files_of(&folder.path().join("commitlog")).len() > 1);
        fs::remove_dir_all(folder.path().join("consumequeue")).unwrap();
        let store = open(folder.path());
        assert_eq!(bodies(&store, "T"), numbered(0..700), "clean: {clean}");
        assert_eq!(bodies(&store, "U"), numbered(0..3));
    }
}

#[test]
fn a_gap_far_back_is_found() {
    // Only T's early units are lost; all else, and the checkpoint, say that everything is there.
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "T", 0..50);
    send_numbered(&store, "U", 0..2_000);
    send_numbered(&store, "T", 50..51);
    settle(&store);
    kill(store);
    fs::remove_dir_all(folder.path().join("consumequeue/T")).unwrap();
    let store = open(folder.path());
    assert_eq!(bodies(&store, "T"), numbered(0..51));
    assert_eq!(bodies(&store, "U"), numbered(0..2_000));
}

#[test]
fn a_queue_file_whose_messages_were_lost_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "T", 0..120);
    settle(&store);
    let cut = store.queue_units(&store.queue("T", 0), 95, 1)[0].physical_offset;
    kill(store);
    // The log lost its tail, the second file of the queue only got its length.
    fs::remove_file(folder.path().join("checkpoint")).unwrap();
    let log = folder.path().join("commitlog/00000000000000000000");
    write_at(&log, cut, &vec![0; (64 << 10) - cut as usize]);
    write_at(&folder.path().join("consumequeue/T/0/00000000000000002000"), 0, &[0; 2000]);
    let store = open(folder.path());
    let queue = store.queue("T", 0);
    assert_eq!((queue.min_offset(), queue.max_offset(), queue.next_offset()), (0, 95, 95));
    send_numbered(&store, "T", 95..130);
    settle(&store);
    assert_eq!(bodies(&store, "T"), numbered(0..130));
    kill(store);
    assert_eq!(bodies(&open(folder.path()), "T"), numbered(0..130));
}

#[test]
fn a_queue_that_lost_every_message_goes_on_at_zero() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "T", 0..120);
    settle(&store);
    kill(store);
    fs::remove_file(folder.path().join("checkpoint")).unwrap();
    write_at(&folder.path().join("commitlog/00000000000000000000"), 0, &vec![0; 64 << 10]);
    let store = open(folder.path());
    let queue = store.queue("T", 0);
    assert_eq!((queue.min_offset(), queue.max_offset(), queue.next_offset()), (0, 0, 0));
    send_numbered(&store, "T", 0..3);
    settle(&store);
    assert_eq!(bodies(&store, "T"), numbered(0..3));
}

#[test]
fn topics_that_nobody_knows_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "unknown", 0..5);
    store.shutdown();
    drop(store);
    fs::create_dir_all(folder.path().join("config")).unwrap();
    fs::write(folder.path().join("config/topics.json"), "").unwrap();
    let store = open(folder.path());
    assert_eq!(bodies(&store, "unknown"), numbered(0..5));
    assert_eq!(store.topics(), ["unknown".into()]);
}

fn expire(path: &Path) {
    let past = SystemTime::now() - Duration::from_secs(7_200);
    File::options().write(true).open(path).unwrap().set_modified(past).unwrap();
}

#[test]
fn an_expired_queue_ends_where_it_begins_and_sends_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        file_reserved_time: 1,
        delete_commit_log_files_interval: 1,
        delete_consume_queue_files_interval: 1,
        delete_when: String::new(),
        ..config(folder.path())
    };
    let store = open_with(config.clone(), env::os());
    let key = |topic: &str, number| format!("KEYS\u{1}{topic}{number}");
    for topic in ["T", "U", "V"] {
        for number in 0..1_000 {
            send(&store, topic, &format!("message {number}"), &key(topic, number));
        }
    }
    settle(&store);
    let sent = store.max_offset();
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let (flushed, is_flushed) = std::sync::mpsc::sync_channel(1);
    store.when_flushed(sent, deadline, move |outcome| flushed.send(outcome).unwrap());
    is_flushed.recv().unwrap();
    until("the index has caught up", || found(&store, "V", "V999") == 1);

    // All files that hold messages of T, and the first of U.
    let first_of_u = store.queue_units(&store.queue("U", 0), 0, 1)[0].physical_offset;
    let expired = (first_of_u >> 16) + 1;
    for file in &files_of(&folder.path().join("commitlog"))[..expired as usize] {
        expire(file);
    }
    store.delete_expired_now();
    let queue = store.queue("T", 0);
    until("T has expired", || queue.min_offset() == 1_000);
    // Of T the last file stays, of U those that it still needs.
    let files = |topic: &str| files_of(&folder.path().join("consumequeue").join(topic).join("0"));
    until("all is cleaned", || files("T").len() == 1 && files("U").len() < 10);
    assert_eq!(store.min_offset(), expired << 16);
    check_expired(&store);
    assert_eq!((found(&store, "T", "T0"), found(&store, "V", "V999")), (0, 1));
    kill(store);
    let store = open_with(config.clone(), env::os());
    check_expired(&store);
    store.shutdown();
    drop(store);
    let store = open_with(config, env::os());
    check_expired(&store);
    send_numbered(&store, "T", 1_000..1_002);
    settle(&store);
    assert_eq!(bodies(&store, "T"), numbered(1_000..1_002));
}

fn check_expired(store: &Store) {
    let queue = store.queue("T", 0);
    let ends = (queue.min_offset(), queue.max_offset(), queue.next_offset());
    assert_eq!(ends, (1_000, 1_000, 1_000));
    let status = |offset| {
        let found = read(&queue, store, offset, &TagFilter::All);
        (found.status, found.next_offset)
    };
    assert_eq!(status(0), (ReadStatus::OffsetTooSmall, 1_000));
    assert_eq!(status(1_000), (ReadStatus::OffsetOverflowOne, 1_000));
    assert_eq!(store.offset_by_time(&queue, 0), 1_000);
    let other = store.queue("U", 0);
    assert!((1..1_000).contains(&other.min_offset()));
    assert_eq!(bodies(store, "U"), numbered(other.min_offset()..1_000));
    assert_eq!(bodies(store, "V"), numbered(0..1_000));
}

#[test]
fn files_of_another_size_are_refused_with_the_settings_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "T", 0..5);
    store.shutdown();
    drop(store);
    let other = StoreConfig { mapped_file_size_consume_queue: 4_000, ..config(folder.path()) };
    let error = Store::open(other, env::os()).unwrap_err().to_string();
    assert!(error.contains("mappedFileSizeConsumeQueue"), "{error}");
    assert_eq!(bodies(&open(folder.path()), "T"), numbered(0..5), "nothing was changed");
}
