use std::os::unix::fs::MetadataExt;

use super::*;
use crate::env;

const FILE_LEN: u64 = 200;

fn row(folder: &Path) -> Row {
    row_of(folder, FILE_LEN)
}

fn row_of(folder: &Path, file_len: u64) -> Row {
    Row::new(env::os().files, folder.join("T/0"), file_len, &[], 0)
}

fn unit(index: i64) -> Unit {
    Unit { index, physical_offset: index as u64 * 100, size: 100, tags_code: index * 7 }
}

fn fill(row: &Row, to: i64) {
    if row.start().is_none() {
        row.begin_at(0).unwrap();
    }
    for index in row.end()..to {
        row.push(&unit(index)).unwrap();
    }
}

fn units(row: &Row, from: i64, to: i64) -> Vec<i64> {
    let mut seen = Vec::new();
    row.scan(from, to, |index, slot| {
        if let Some(found) = slot.unit() {
            assert_eq!(found, unit(index));
            seen.push(index);
        }
        true
    })
    .unwrap();
    seen
}

#[test]
fn units_are_read_back_across_files() {
    let folder = tempfile::tempdir().unwrap();
    let row = row(folder.path());
    assert_eq!((row.start(), row.end()), (None, 0));
    assert!(units(&row, 0, 100).is_empty());
    fill(&row, 75);
    assert_eq!((row.start(), row.end()), (Some(0), 75));
    assert_eq!(units(&row, 3, 200), (3..75).collect::<Vec<_>>());
    assert_eq!(units(&row, 9, 11), [9, 10]);
    assert_eq!(row.slot(74).unwrap(), Slot::Unit(unit(74)));
    assert_eq!(row.slot(75).unwrap(), Slot::Empty);
    assert_eq!(row.slot(-1).unwrap(), Slot::Unit(unit(0)));
    let names = std::fs::read_dir(folder.path().join("T/0")).unwrap().count();
    assert_eq!(names, 8);
}

#[test]
fn a_file_has_its_full_length_but_few_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let row = row_of(folder.path(), 6_000_000);
    fill(&row, 1);
    let file = folder.path().join("T/0/00000000000000000000");
    let meta = std::fs::metadata(&file).unwrap();
    assert_eq!(meta.len(), 6_000_000);
    assert!(meta.blocks() * 512 <= 64 << 10, "{} blocks", meta.blocks());
    fill(&row, 40_000);
    let meta = std::fs::metadata(&file).unwrap();
    assert!(meta.blocks() * 512 >= 800_000, "{} blocks", meta.blocks());
    assert!(meta.blocks() * 512 <= 2_200_000, "{} blocks", meta.blocks());
    assert_eq!(units(&row, 39_990, 50_000).len(), 10);
}

#[test]
fn a_row_can_begin_inside_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let row = row(folder.path());
    row.begin_at(23).unwrap();
    row.push(&unit(23)).unwrap();
    assert_eq!((row.start(), row.end()), (Some(20), 24));
    assert_eq!(row.slot(22).unwrap(), Slot::Blank);
    assert!(units(&row, 0, 24).is_empty());
    assert_eq!(units(&row, 20, 24), [23]);
}

#[test]
fn idle_files_are_unmapped_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let row = row(folder.path());
    fill(&row, 25);
    let mapped = |row: &Row| row.parts.read().iter().filter(|part| part.mapped.is_some()).count();
    row.release_idle();
    row.release_idle();
    assert_eq!(mapped(&row), 3, "unsynced files must stay");
    row.sync().unwrap();
    row.release_idle();
    assert_eq!(mapped(&row), 0);
    assert_eq!(units(&row, 0, 15), (0..15).collect::<Vec<_>>());
    assert_eq!(mapped(&row), 2);
    fill(&row, 30);
    row.release_idle();
    assert_eq!(mapped(&row), 3, "just used");
    assert_eq!(units(&row, 0, 30), (0..30).collect::<Vec<_>>());
}

#[test]
fn sync_covers_what_was_written_before() {
    let folder = tempfile::tempdir().unwrap();
    let row = row(folder.path());
    fill(&row, 15);
    assert_eq!(row.unsynced(), 300);
    row.sync().unwrap();
    assert_eq!(row.unsynced(), 0);
    fill(&row, 16);
    assert_eq!(row.unsynced(), 20);
}

#[test]
fn expired_files_go_from_the_front_but_never_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let row = row(folder.path());
    fill(&row, 35);
    let removed = row.remove_expired(|slot| slot.unit().unwrap().index < 25).unwrap();
    assert_eq!((removed, row.start()), (2, Some(20)));
    assert_eq!(units(&row, 20, 35), (20..35).collect::<Vec<_>>());
    assert_eq!(row.slot(19).unwrap(), Slot::Empty);
    assert_eq!(row.remove_expired(|_| true).unwrap(), 1);
    assert_eq!((row.start(), row.end()), (Some(30), 35));
}

#[test]
fn a_cleared_row_is_as_new() {
    let folder = tempfile::tempdir().unwrap();
    let row = row(folder.path());
    fill(&row, 35);
    row.clear().unwrap();
    assert_eq!((row.start(), row.end()), (None, 0));
    assert!(!folder.path().join("T/0").exists());
    assert_eq!(row.slot(0).unwrap(), Slot::Empty);
    row.clear().unwrap();
    fill(&row, 3);
    assert_eq!(units(&row, 0, 9), [0, 1, 2]);
}

#[test]
fn readers_see_whole_units_while_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let row = Arc::new(row(folder.path()));
    let reading = Arc::clone(&row);
    let reader = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < 5_000 {
            let end = reading.end();
            assert_eq!(units(&reading, seen, end), (seen..end).collect::<Vec<_>>());
            seen = end;
        }
    });
    fill(&row, 5_000);
    reader.join().unwrap();
}
