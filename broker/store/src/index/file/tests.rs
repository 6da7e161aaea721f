use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

use super::*;
use crate::env;

const SHAPE: Shape = Shape { slots: 10, entries: 50 };

fn create(folder: &Path, shape: Shape) -> IndexFile {
    let path = folder.join("20260101000000000");
    IndexFile::create(&*env::os().files, path, shape, None).unwrap()
}

fn reopen(file: IndexFile) -> IndexFile {
    let path = file.path().to_path_buf();
    drop(file);
    IndexFile::open(&*env::os().files, path, SHAPE).unwrap()
}

/// Entries 1 to `count`, entry n with hash n, at log offset 100 n, stored at second 1000 + n.
fn fill(file: &IndexFile, count: u32) {
    for number in 1..=count {
        let number = i64::from(number);
        file.put(number as u32, number as u64 * 100, (1000 + number) * 1000).unwrap();
    }
}

fn found(file: &IndexFile, hash: u32) -> Vec<u64> {
    let mut found = Vec::new();
    file.walk(hash, 0, i64::MAX, |physical| {
        found.push(physical);
        true
    });
    found
}

fn poke(path: &Path, at: usize, bytes: &[u8]) {
    OpenOptions::new().write(true).open(path).unwrap().write_all_at(bytes, at as u64).unwrap();
}

#[test]
fn bytes_are_rocketmqs() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    file.put(13, 0x0102_0304_0506, 7_000).unwrap();
    file.put(23, 0x0102_0304_0600, 9_999).unwrap();
    let bytes = fs::read(file.path()).unwrap();
    assert_eq!(bytes.len(), 40 + 10 * 4 + 50 * 20);
    let long = |at: usize| i64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let int = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((long(0), long(8)), (7_000, 9_999));
    assert_eq!((long(16), long(24)), (0x0102_0304_0506, 0x0102_0304_0600));
    assert_eq!((int(32), int(36)), (1, 3), "slots in use, number of the next entry");
    assert_eq!(int(40 + 3 * 4), 2, "slot 3 leads to the newest");
    let entry = |number: usize| 40 + 10 * 4 + number * 20;
    assert_eq!((int(entry(1)), long(entry(1) + 4)), (13, 0x0102_0304_0506));
    assert_eq!((int(entry(1) + 12), int(entry(1) + 16)), (0, 0));
    assert_eq!((int(entry(2)), int(entry(2) + 12), int(entry(2) + 16)), (23, 2, 1));
}

#[test]
fn the_newest_come_first_and_other_hashes_of_the_slot_are_passed() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    for (hash, physical) in [(3, 1), (13, 2), (3, 3), (13, 4), (3, 5)] {
        file.put(hash, physical, 1_000).unwrap();
    }
    assert_eq!(found(&file, 3), [5, 3, 1]);
    assert_eq!(found(&file, 13), [4, 2]);
    assert!(found(&file, 23).is_empty());
    let file = reopen(file);
    assert_eq!(found(&file, 3), [5, 3, 1]);
    assert_eq!(file.end_physical(), 5);
}

#[test]
fn times_are_kept_to_the_second_and_never_too_narrow() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    for (physical, stored) in [(1, 5_500), (2, 7_499), (3, 7_500), (4, 9_000)] {
        file.put(3, physical, stored).unwrap();
    }
    let between = |begin, end| {
        let mut found = Vec::new();
        file.walk(3, begin, end, |physical| {
            found.push(physical);
            true
        });
        found
    };
    assert_eq!(between(0, i64::MAX), [4, 3, 2, 1]);
    assert_eq!(between(7_499, 7_499), [2], "entry 3 begins in the next second");
    assert_eq!(between(6_500, 6_500), [2], "seconds are all it knows");
    assert!(between(0, 5_000).is_empty());
    assert!(file.overlaps(9_000, 10_000) && file.overlaps(0, 5_500));
    assert!(!file.overlaps(9_001, 10_000) && !file.overlaps(0, 5_499));
}

#[test]
fn a_file_takes_one_entry_less_than_its_shape_says() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    assert!(file.is_empty() && !file.is_full());
    fill(&file, 48);
    assert!(!file.is_full());
    fill(&file, 1);
    assert!(file.is_full());
}

#[test]
fn a_large_file_costs_its_slots_at_first() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), Shape { slots: 100_000, entries: 1_000_000 });
    let cost = || fs::metadata(file.path()).unwrap().blocks() * 512;
    assert_eq!(fs::metadata(file.path()).unwrap().len(), 40 + 400_000 + 20_000_000);
    assert!((400_000..600_000).contains(&cost()), "{}", cost());
    file.put(1, 1, 1).unwrap();
    assert!(cost() < 2_000_000, "{}", cost());
}

#[test]
fn an_entry_that_was_not_linked_is_harmless() {
    // Killed after the entry was counted and before its slot led to it.
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    fill(&file, 3);
    file.put(13, 400, 2_000_000).unwrap();
    let path = file.path().to_path_buf();
    drop(file);
    poke(&path, 40 + 3 * 4, &3_u32.to_be_bytes());
    let file = IndexFile::open(&*env::os().files, path, SHAPE).unwrap();
    assert_eq!((found(&file, 3), found(&file, 13)), (vec![300], vec![]));
    file.put(13, 400, 2_000_000).unwrap();
    assert_eq!((found(&file, 3), found(&file, 13)), (vec![300], vec![400]));
}

#[test]
fn entries_beyond_the_log_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    fill(&file, 30);
    let file = reopen(file);
    assert!(file.repair(2_050).unwrap());
    assert_eq!(file.end_physical(), 2_000);
    for hash in 1..=30 {
        let expected = if hash <= 20 { vec![u64::from(hash) * 100] } else { vec![] };
        assert_eq!(found(&file, hash), expected, "hash {hash}");
    }
    file.put(25, 2_500, 1_025_000).unwrap();
    let file = reopen(file);
    assert_eq!((found(&file, 25), found(&file, 5)), (vec![2_500], vec![500]));
    assert!(!file.repair(100).unwrap(), "nothing is left");
}

#[test]
fn a_file_that_is_whole_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let file = reopen({
        let file = create(folder.path(), SHAPE);
        fill(&file, 30);
        file
    });
    let before = fs::read(file.path()).unwrap();
    assert!(file.repair(3_001).unwrap());
    assert_eq!(fs::read(file.path()).unwrap(), before);
}

#[test]
fn pages_that_a_power_loss_took_are_noticed() {
    // Entries 11 to 13 never reached the disk, those after did.
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    fill(&file, 30);
    let path = file.path().to_path_buf();
    drop(file);
    poke(&path, SHAPE.entry_at(11), &[0; 60]);
    let file = IndexFile::open(&*env::os().files, path.clone(), SHAPE).unwrap();
    assert!(file.repair(3_001).unwrap());
    assert_eq!(file.end_physical(), 1_000);
    assert!((1..=10).all(|hash| found(&file, hash) == [u64::from(hash) * 100]));
    assert!((11..=30).all(|hash| found(&file, hash).is_empty()));
    drop(file);
    // Slots never reached the disk.
    poke(&path, SHAPE.slot_at(0), &[0; 20]);
    let file = IndexFile::open(&*env::os().files, path.clone(), SHAPE).unwrap();
    assert!(found(&file, 3).is_empty());
    assert!(file.repair(3_001).unwrap());
    assert!((1..=10).all(|hash| found(&file, hash) == [u64::from(hash) * 100]));
    drop(file);
    // The header didn't, and slots lead beyond it.
    poke(&path, COUNT, &6_u32.to_be_bytes());
    let file = IndexFile::open(&*env::os().files, path, SHAPE).unwrap();
    assert!(file.repair(3_001).unwrap());
    assert!((1..=5).all(|hash| found(&file, hash) == [u64::from(hash) * 100]));
    assert!((6..=10).all(|hash| found(&file, hash).is_empty()));
}

#[test]
fn garbage_ends_a_walk() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    fill(&file, 30);
    let path = file.path().to_path_buf();
    drop(file);
    // Entry 13 leads to itself, entry 24 forwards, slot 5 to an entry that is none.
    poke(&path, SHAPE.entry_at(13) + 16, &13_u32.to_be_bytes());
    poke(&path, SHAPE.entry_at(24) + 16, &29_u32.to_be_bytes());
    poke(&path, SHAPE.slot_at(5), &u32::MAX.to_be_bytes());
    let file = IndexFile::open(&*env::os().files, path, SHAPE).unwrap();
    assert_eq!(found(&file, 23), [2_300]);
    assert!(found(&file, 3).is_empty() && found(&file, 4).is_empty() && found(&file, 5).is_empty());
}

#[test]
fn what_was_seen_is_noted_without_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let file = create(folder.path(), SHAPE);
    fill(&file, 3);
    let file = reopen(file);
    file.seen(5_000).unwrap();
    file.seen(4_000).unwrap();
    assert_eq!(reopen(file).end_physical(), 5_000);
}
