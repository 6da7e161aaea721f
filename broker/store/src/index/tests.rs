use std::sync::atomic::{AtomicI64, Ordering};

use broker_protocol::properties::Properties;

use super::*;
use crate::env;

const SHAPE: Shape = Shape { slots: 10, entries: 50 };

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
struct StandingClock(AtomicI64);

impl Clock for StandingClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }
}

fn open(folder: &Path, log_end: u64, clean: bool) -> Index {
    let clock = Arc::new(StandingClock(AtomicI64::new(1_700_000_000_123)));
    Index::open(env::os().files, clock, folder.to_path_buf(), SHAPE, log_end, clean).unwrap()
}

fn enter(index: &Index, key: &str, physical: u64) {
    let properties = format!("KEYS\u{1}{key}\u{2}");
    let properties = Properties::new(properties.as_bytes());
    index.enter("T", properties, physical, physical as i64 * 10).unwrap();
}

fn found(index: &Index, key: &str) -> Vec<u64> {
    let mut found = Vec::new();
    index.find("T", key, 0, i64::MAX, |physical| {
        found.push(physical);
        true
    });
    found
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_hash_is_javas_made_positive() {
    // Java: Math.abs("FixKey#key-1".hashCode()) and so on.
    assert_eq!(key_hash("T", "k"), "T#k".bytes().fold(0, |hash, byte| hash * 31 + u32::from(byte)));
    assert_eq!(key_hash("T", "Aa"), key_hash("T", "BB"));
    // A string whose hash is Java's least integer, whose absolute value is itself.
    assert_eq!(java_hash_on(0, "polygenelubricants"), i32::MIN);
    let rest = "polygenelubricants".strip_prefix("poly").unwrap();
    assert_eq!(java_hash_on(java_hash_on(0, "poly"), rest), i32::MIN);
    assert_eq!(java_hash_on(0, "é😀"), (0xE9 * 31 + 0xD83D) * 31 + 0xDE00);
}

#[test]
fn names_are_local_time() {
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    assert_eq!(name_at(1_700_000_000_123, zone), "20231115001320123");
}

#[test]
fn all_keys_of_a_message_are_entered() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(folder.path(), 0, true);
    let text = "KEYS\u{1}one two  three\u{2}UNIQ_KEY\u{1}id\u{2}TAGS\u{1}tag";
    index.enter("T", Properties::new(text.as_bytes()), 77, 5_000).unwrap();
    for key in ["one", "two", "three", "id"] {
        assert_eq!(found(&index, key), [77], "{key}");
        assert!(bears_key(Properties::new(text.as_bytes()), key));
    }
    for key in ["", "tag", "one two"] {
        assert!(found(&index, key).is_empty(), "{key}");
        assert!(!bears_key(Properties::new(text.as_bytes()), key));
    }
    assert_eq!(index.last_update(), LastUpdate { timestamp: 5_000, physical: 77 });
}

#[test]
fn a_message_without_keys_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(folder.path(), 0, true);
    index.enter("T", Properties::new(b"TAGS\x01a"), 77, 5_000).unwrap();
    assert_eq!((index.file_count(), index.position()), (0, None));
    index.seen(77).unwrap();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn files_follow_each_other_even_when_the_clock_stands() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(folder.path(), 0, true);
    for physical in 1..=120 {
        enter(&index, if physical % 2 == 0 { "even" } else { "odd" }, physical);
    }
    assert_eq!(index.file_count(), 3);
    let names = names(folder.path());
    assert!(names.iter().all(|name| is_name(name)), "{names:?}");
    assert!(names[0].ends_with("123") && names[1].ends_with("124") && names[2].ends_with("125"));
    let even: Vec<u64> = (1..=60).rev().map(|half| half * 2).collect();
    assert_eq!(found(&index, "even"), even, "newest first, over all files");
    let again = open(folder.path(), 1_000, true);
    assert_eq!(found(&again, "even"), even);
    assert_eq!(again.position(), Some(120));
}

#[test]
fn the_times_asked_for_bound_the_search() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(folder.path(), 0, true);
    for physical in 1..=120 {
        enter(&index, "k", physical * 1_000);
    }
    let mut seen = Vec::new();
    index.find("T", "k", 500_000, 600_000, |physical| {
        seen.push(physical / 1_000);
        true
    });
    assert_eq!(seen, (50..=60).rev().collect::<Vec<u64>>());
    seen.clear();
    index.find("T", "k", 0, i64::MAX, |physical| {
        seen.push(physical / 1_000);
        seen.len() < 3
    });
    assert_eq!(seen, [120, 119, 118]);
}

#[test]
fn no_file_is_given_up_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(folder.path(), 0, true);
    for physical in 1..=120 {
        enter(&index, "k", physical);
    }
    let again = open(folder.path(), 121, false);
    assert_eq!(found(&again, "k").len(), 120);
    // The log lost its tail: two files and a part of the first.
    let again = open(folder.path(), 41, false);
    assert_eq!(found(&again, "k"), (1..=40).rev().collect::<Vec<u64>>());
    assert_eq!((again.position(), names(folder.path()).len()), (Some(40), 1));
}

#[test]
fn strange_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    enter(&open(folder.path(), 0, true), "k", 5);
    std::fs::write(folder.path().join("20990101000000000"), [0; 99]).unwrap();
    std::fs::write(folder.path().join("20990101000000001"), []).unwrap();
    std::fs::write(folder.path().join("readme"), vec![0; SHAPE.len() as usize]).unwrap();
    let index = open(folder.path(), 100, false);
    assert_eq!((index.file_count(), found(&index, "k")), (1, vec![5]));
    let names = names(folder.path());
    assert_eq!(names.len(), 3, "only the file of no bytes went: {names:?}");
}

#[test]
fn expired_files_go_but_never_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let index = open(folder.path(), 0, true);
    for physical in 1..=120 {
        enter(&index, "k", physical);
    }
    assert_eq!(index.remove_expired(49).unwrap(), 0, "its last record is still there");
    assert_eq!(index.remove_expired(50).unwrap(), 1);
    assert_eq!(index.remove_expired(u64::MAX).unwrap(), 1);
    assert_eq!(index.remove_expired(u64::MAX).unwrap(), 0);
    assert_eq!((index.file_count(), names(folder.path()).len()), (1, 1));
}

#[test]
fn pauses_after_failures_grow() {
    let start = Instant::now();
    let mut progress = Progress::at(0);
    assert!(progress.may_try(start));
    let pauses: Vec<u64> = (0..8).map(|_| progress.failed(start).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert!(!progress.may_try(start + Duration::from_secs(59)));
    assert!(progress.may_try(start + Duration::from_secs(60)));
    assert_eq!(progress.pause_left(start), Duration::from_secs(60));
    progress.succeeded();
    assert!(progress.may_try(start));
}
