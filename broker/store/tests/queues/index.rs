//! Queries by key.

use broker_protocol::record::RecordView;
use broker_store::{Store, StoreConfig, env};

use crate::support::*;

fn send_keyed(store: &Store, topic: &str, body: &str, keys: &str, unique: &str) {
    let properties = format!("KEYS\u{1}{keys}\u{2}UNIQ_KEY\u{1}{unique}\u{2}");
    send(store, topic, body, &properties);
}

fn ask(store: &Store, topic: &str, key: &str, max: usize) -> Vec<String> {
    let answer = store.query_index(topic, key, max, 0, i64::MAX);
    let body = |bytes: &bytes::Bytes| {
        String::from_utf8(RecordView::parse(bytes).unwrap().body.to_vec()).unwrap()
    };
    answer.messages.iter().map(body).collect()
}

#[test]
fn a_key_with_another_keys_hash_finds_its_own_messages() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for number in 0..10 {
        let key = if number % 2 == 0 { "orderAa" } else { "orderBB" };
        send_keyed(&store, "T", &format!("message {number}"), key, &format!("id{number}"));
    }
    settle(&store);
    let even: Vec<String> = [8, 6, 4, 2, 0].map(|number| format!("message {number}")).into();
    assert_eq!(ask(&store, "T", "orderAa", 64), even, "newest first");
    assert_eq!(ask(&store, "T", "orderAa", 3), even[..3]);
    assert_eq!(ask(&store, "T", "id3", 64), ["message 3"]);
    assert!(ask(&store, "T", "orderAaX", 64).is_empty());
    assert!(ask(&store, "U", "orderAa", 64).is_empty());
    assert!(ask(&store, "T", "orderAa", 0).is_empty());
}

#[test]
fn answers_are_bounded_by_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    let config = StoreConfig { max_msgs_num_batch: 5, ..config(folder.path()) };
    let store = open_with(config, env::os());
    for number in 0..20 {
        send_keyed(&store, "T", &format!("message {number}"), "k", &format!("id{number}"));
    }
    settle(&store);
    assert_eq!(ask(&store, "T", "k", 1_000).len(), 5);
}

#[test]
fn times_are_those_of_storing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let sent = send(&store, "T", "x", "KEYS\u{1}k");
    settle(&store);
    let count = |begin, end| store.query_index("T", "k", 64, begin, end).messages.len();
    let at = sent.store_timestamp;
    assert_eq!((count(at, at), count(0, i64::MAX)), (1, 1));
    assert_eq!((count(0, at - 1), count(at + 1, i64::MAX)), (0, 0));
    let answer = store.query_index("T", "k", 64, 0, i64::MAX);
    assert_eq!(answer.last_update_timestamp, at);
    assert_eq!(answer.last_update_physical, sent.physical_offset);
}

#[test]
fn keys_of_older_files_are_found_after_kills() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let store = open(folder.path());
        for number in round * 300..(round + 1) * 300 {
            let key = format!("k{number}");
            send_keyed(&store, "T", &format!("message {number}"), &key, &format!("id{number}"));
        }
        if round % 2 == 0 {
            settle(&store);
        }
    }
    let store = open(folder.path());
    // Two entries a message, 399 a file.
    until("the index has caught up", || store.index_files() == 7);
    for number in 0..1_200 {
        let expected = [format!("message {number}")];
        until("it is found", || ask(&store, "T", &format!("k{number}"), 64) == expected);
        assert_eq!(ask(&store, "T", &format!("id{number}"), 64), expected);
    }
}

#[test]
fn a_clean_stop_leaves_nothing_to_enter_twice() {
    let folder = tempfile::tempdir().unwrap();
    let size = |store: &Store| {
        let names = std::fs::read_dir(folder.path().join("index")).unwrap();
        let path = names.last().unwrap().unwrap().path();
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(store.index_files(), 1);
        i32::from_be_bytes(bytes[36..40].try_into().unwrap())
    };
    for round in 1..4 {
        let store = open(folder.path());
        send(&store, "T", "x", "KEYS\u{1}k");
        settle(&store);
        until("it is entered", || ask(&store, "T", "k", 64).len() == round);
        assert_eq!(size(&store), round as i32 + 1);
        store.shutdown();
    }
}
