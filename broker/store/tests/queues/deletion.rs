//! Deleted topics stay deleted, and their names can be used again.

use std::sync::Arc;

use broker_store::Store;

use crate::support::*;

fn found(store: &Store, key: &str) -> usize {
    store.query_index("T", key, 64, 0, i64::MAX).messages.len()
}

fn send_keyed(store: &Store, numbers: std::ops::Range<i64>) {
    for number in numbers {
        send(store, "T", &format!("message {number}"), "KEYS\u{1}key");
    }
}

#[test]
fn a_topic_made_anew_starts_at_zero_and_the_old_one_stays_away() {
    for clean in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        send_keyed(&store, 0..150);
        send_numbered(&store, "U", 0..10);
        settle(&store);
        assert_eq!(found(&store, "key"), 64);
        store.delete_topic("T").unwrap();
        assert!(!folder.path().join("consumequeue/T").exists());
        assert_eq!(found(&store, "key"), 0);
        assert_eq!(store.topics(), ["U".into()]);
        send_keyed(&store, 0..10);
        settle(&store);
        for _ in 0..2 {
            assert_eq!(bodies(&store, "T"), numbered(0..10));
            assert_eq!(found(&store, "key"), 10);
        }
        if clean {
            store.shutdown();
        }
        drop(store);
        let store = open(folder.path());
        assert_eq!(bodies(&store, "T"), numbered(0..10), "clean: {clean}");
        assert_eq!(store.queue("T", 0).next_offset(), 10);
        until("the index has caught up", || found(&store, "key") == 10);
        assert_eq!(bodies(&store, "U"), numbered(0..10));
    }
}

#[test]
fn a_topic_that_is_not_made_anew_stays_away() {
    for clean in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path());
        send_keyed(&store, 0..150);
        settle(&store);
        store.delete_topic("T").unwrap();
        if clean {
            store.shutdown();
        }
        drop(store);
        // Even if all queues must be made from the log.
        let _ = std::fs::remove_dir_all(folder.path().join("consumequeue"));
        let store = open(folder.path());
        assert!(store.find_queue("T", 0).is_none(), "clean: {clean}");
        assert_eq!(store.topics(), []);
        assert_eq!(found(&store, "key"), 0);
        send_keyed(&store, 0..1);
        settle(&store);
        assert_eq!(bodies(&store, "T"), numbered(0..1));
    }
}

#[test]
fn a_deletion_meets_messages_on_their_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let queue = store.queue("T", 0);
    for round in 0..30 {
        // Some of these are not dispatched yet when the topic goes.
        send_numbered(&store, "T", 0..round * 7);
        store.delete_topic("T").unwrap();
        // An old handle still works.
        for number in 0..3 {
            send_to(&store, &queue, &format!("message {number}"), "");
        }
        settle(&store);
        assert!(Arc::ptr_eq(&queue, &store.queue("T", 0)));
        assert_eq!(bodies(&store, "T"), numbered(0..3), "round {round}");
        store.delete_topic("T").unwrap();
    }
    drop(store);
    assert!(open(folder.path()).find_queue("T", 0).is_none());
}

#[test]
fn a_kill_before_the_deletion_was_noted_loses_no_new_message() {
    // The new topic's messages follow the old one's, and no mark tells them apart.
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    send_numbered(&store, "T", 0..150);
    settle(&store);
    store.delete_topic("T").unwrap();
    send_numbered(&store, "T", 0..10);
    settle(&store);
    drop(store);
    std::fs::remove_file(folder.path().join("config/deletedTopics.json")).unwrap();
    std::fs::remove_dir_all(folder.path().join("consumequeue")).unwrap();
    let store = open(folder.path());
    assert_eq!(bodies(&store, "T"), numbered(0..10));
    send_numbered(&store, "T", 10..12);
    settle(&store);
    assert_eq!(bodies(&store, "T"), numbered(0..12));
}

#[test]
fn unused_topics_go_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for topic in ["keep", "drop", "drop2"] {
        send_numbered(&store, topic, 0..5);
    }
    settle(&store);
    store.clean_unused(|topic| topic == "keep").unwrap();
    assert_eq!(store.topics(), ["keep".into()]);
    store.clean_expired_queues().unwrap();
    assert_eq!(bodies(&store, "keep"), numbered(0..5));
}
