//! Reading: statuses, limits, filters, slices.

use std::time::Duration;

use broker_protocol::properties::name as property;
use broker_protocol::tags::{TagFilter, java_string_hash};
use broker_store::config::FlushDiskType;
use broker_store::{ColdReads, Read, ReadStatus, StoreConfig, env};

use crate::support::*;

#[test]
fn statuses_are_those_of_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let queue = store.queue("T", 0);
    assert!(store.find_queue("T", 1).is_none());
    let status = |offset| {
        let found = read(&queue, &store, offset, &TagFilter::All);
        (found.status, found.next_offset)
    };
    assert_eq!(status(0), (ReadStatus::NoMessageInQueue, 0));
    assert_eq!(status(5), (ReadStatus::NoMessageInQueue, 0));
    send_numbered(&store, "T", 0..10);
    settle(&store);
    assert_eq!(status(-1), (ReadStatus::OffsetTooSmall, 0));
    assert_eq!(status(0), (ReadStatus::Found, 10));
    assert_eq!(status(9), (ReadStatus::Found, 10));
    assert_eq!(status(10), (ReadStatus::OffsetOverflowOne, 10));
    assert_eq!(status(11), (ReadStatus::OffsetOverflowBadly, 10));
    assert_eq!(status(i64::MAX), (ReadStatus::OffsetOverflowBadly, 10));
}

#[test]
fn records_side_by_side_are_one_slice() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "T", 0..5);
    send_numbered(&store, "U", 0..1);
    send_numbered(&store, "T", 5..8);
    settle(&store);
    let queue = store.queue("T", 0);
    let found = read(&queue, &store, 1, &TagFilter::All);
    assert_eq!((found.messages, found.slices.len()), (7, 2));
    let expected: Vec<_> = (1..8).zip(numbered(1..8)).collect();
    assert_eq!(records(&found), expected);
    assert_eq!((found.min_offset, found.max_offset, found.suggest_slave), (0, 8, false));
}

#[test]
fn slices_outlive_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "T", 0..3);
    settle(&store);
    let found = read(&store.queue("T", 0), &store, 0, &TagFilter::All);
    store.shutdown();
    drop(store);
    std::fs::remove_dir_all(folder.path().join("commitlog")).unwrap();
    assert_eq!(records(&found).len(), 3);
}

#[test]
fn an_answer_has_limits_but_at_least_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        max_transfer_bytes_on_message_in_memory: 20_000,
        max_transfer_count_on_message_in_memory: 6,
        ..config(folder.path())
    };
    let store = open_with(config, env::os());
    send(&store, "T", &"x".repeat(30_000), "");
    for _ in 0..10 {
        send(&store, "T", &"y".repeat(6_000), "");
    }
    for _ in 0..10 {
        send(&store, "T", "z", "");
    }
    settle(&store);
    let queue = store.queue("T", 0);
    let counts = |offset, max_messages| {
        let filter = &TagFilter::All;
        let read = Read { offset, max_messages, filter, cold: ColdReads::Allow };
        let found = store.read(&queue, &read);
        assert_eq!(found.next_offset, offset + i64::from(found.messages));
        found.messages
    };
    assert_eq!(counts(0, 32), 1, "larger than an answer, yet it must get through");
    assert_eq!(counts(1, 32), 3, "bytes");
    assert_eq!(counts(11, 32), 6, "count");
    assert_eq!(counts(11, 2), 2, "asked for");
    assert_eq!(counts(11, 0), 1, "none asked for is one");
}

#[test]
fn what_a_filter_passes_over_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..2_000 {
        let tag = if number % 900 == 450 { "b" } else { "a" };
        send(&store, "T", &format!("message {number}"), &format!("TAGS\u{1}{tag}"));
    }
    settle(&store);
    let queue = store.queue("T", 0);
    let filter = TagFilter::parse("b || c").unwrap();
    let found = read(&queue, &store, 451, &filter);
    assert_eq!((found.status, found.next_offset), (ReadStatus::NoMatchedMessage, 1251));
    let found = read(&queue, &store, found.next_offset, &filter);
    assert_eq!((found.status, found.messages), (ReadStatus::Found, 1));
    assert_eq!(found.next_offset, 2_000, "the unmatched tail is passed");
    assert_eq!(bodies_from(&store, &queue, 0, &filter), ["message 450", "message 1350"]);
    // A larger request looks further.
    let read = Read { offset: 0, max_messages: 1_500, filter: &filter, cold: ColdReads::Allow };
    assert_eq!(store.read(&queue, &read).next_offset, 1_500);
}

#[test]
fn tags_of_equal_hash_are_left_to_the_client() {
    assert_eq!(java_string_hash("Aa"), java_string_hash("BB"));
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..5 {
        send(&store, "T", &format!("message {number}"), "TAGS\u{1}BB");
    }
    settle(&store);
    let queue = store.queue("T", 0);
    let found = read(&queue, &store, 0, &TagFilter::parse("Aa").unwrap());
    assert_eq!((found.status, found.next_offset), (ReadStatus::Found, 5), "the client drops them");
    let found = read(&queue, &store, 0, &TagFilter::parse("C").unwrap());
    assert_eq!((found.status, found.next_offset), (ReadStatus::NoMatchedMessage, 5));
}

#[test]
fn units_hold_javas_hash_of_any_tag() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let long = "t".repeat(40);
    let tags = [long.as_str(), "标签", "😀", ""];
    for tag in tags {
        let properties = if tag.is_empty() { String::new() } else { format!("TAGS\u{1}{tag}") };
        send(&store, "T", "x", &properties);
    }
    settle(&store);
    let units = store.queue_units(&store.queue("T", 0), 0, 10);
    let codes: Vec<i64> = units.iter().map(|unit| unit.tags_code).collect();
    // Java: "t" forty times, two Chinese characters, a surrogate pair, none.
    let expected: Vec<i64> = tags
        .iter()
        .map(|tag| if tag.is_empty() { 0 } else { java_string_hash(tag).into() })
        .collect();
    assert_eq!(codes, expected);
    assert_eq!(codes[2], 0xD83D * 31 + 0xDE00);
    assert_eq!(units[1].index, 1);
}

#[test]
fn a_unit_of_the_delay_topic_says_when_it_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        StoreConfig { message_delay_level: "1s 5s 2m".to_owned(), ..config(folder.path()) };
    let store = open_with(config, env::os());
    let delay = |level: &str| format!("TAGS\u{1}a\u{2}{}\u{1}{level}", property::DELAY_TIME_LEVEL);
    let topic = "SCHEDULE_TOPIC_XXXX";
    let sent = [
        (send(&store, topic, "x", &delay("2")), 5_000),
        (send(&store, topic, "x", &delay("99")), 120_000),
    ];
    let plain = send(&store, "T", "x", &delay("2"));
    settle(&store);
    let units = store.queue_units(&store.queue(topic, 0), 0, 10);
    for ((appended, delay_ms), unit) in sent.iter().zip(&units) {
        assert_eq!(unit.tags_code, appended.store_timestamp + delay_ms);
        assert_eq!(unit.physical_offset, appended.physical_offset);
        assert_eq!(unit.size, appended.size);
    }
    let units = store.queue_units(&store.queue("T", 0), plain.queue_offset, 1);
    assert_eq!(units[0].tags_code, i64::from(java_string_hash("a")));
}

#[test]
fn under_sync_flush_nothing_is_shown_before_it_is_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        flush_disk_type: FlushDiskType::SyncFlush,
        // Nobody asks for a flush here, and the timer doesn't come in time.
        flush_interval_commit_log: 3_600_000,
        ..config(folder.path())
    };
    let store = open_with(config, env::os());
    let sent = send(&store, "T", "message 0", "");
    let queue = store.queue("T", 0);
    std::thread::yield_now();
    assert_eq!((queue.max_offset(), queue.next_offset()), (0, 1));
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    store.when_flushed(sent.end(), deadline, |_| {});
    until("it is shown", || queue.max_offset() == 1);
    assert_eq!(bodies(&store, "T"), numbered(0..1));
    assert!(store.flushed() >= sent.end());
}

#[tokio::test]
async fn a_watched_queue_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let (watched, other) = (store.queue("T", 0), store.queue("T", 1));
    let mut arrivals = store.arrivals();
    let mut arrived = Vec::new();
    for round in 1..=200 {
        watched.watch();
        send_to(&store, &other, "x", "");
        send_to(&store, &watched, "x", "");
        arrivals.next(&mut arrived).await;
        assert_eq!(arrived.len(), 1);
        assert_eq!((arrived[0].topic().as_ref(), arrived[0].id()), ("T", 0));
        assert_eq!(arrived[0].max_offset(), round);
        arrived.clear();
    }
}

#[tokio::test]
async fn many_watched_queues_are_all_announced() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let queues: Vec<_> = (0..300).map(|id| store.queue("T", id)).collect();
    let mut arrivals = store.arrivals();
    queues.iter().for_each(|queue| queue.watch());
    let sender = store.clone();
    let sending = queues.clone();
    let thread = std::thread::spawn(move || {
        for queue in &sending {
            send_to(&sender, queue, "x", "");
        }
    });
    let mut arrived = Vec::new();
    while arrived.len() < queues.len() {
        arrivals.next(&mut arrived).await;
    }
    let mut ids: Vec<i32> = arrived.iter().map(|queue| queue.id()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..300).collect::<Vec<_>>(), "each once");
    thread.join().unwrap();
}
