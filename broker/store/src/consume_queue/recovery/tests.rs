use std::fs;
use std::os::unix::fs::FileExt;

use super::*;
use crate::consume_queue::BLANK;
use crate::env;

/// Ten units a file.
const FILE_LEN: u64 = 200;

fn unit(index: i64) -> Unit {
    Unit { index, physical_offset: index as u64 * 100, size: 100, tags_code: 0 }
}

/// Makes the file that starts at unit `first` with `units`.
fn file(folder: &Path, first: u64, units: &[[u8; 20]]) {
    let mut bytes = units.concat();
    bytes.resize(FILE_LEN as usize, 0);
    fs::write(folder.join(file_name(first * 20)), bytes).unwrap();
}

fn written(folder: &Path, from: i64, to: i64) {
    for first in (from / 10 * 10..to).step_by(10) {
        let units: Vec<_> = (first..to.min(first + 10))
            .map(|index| if index < from { BLANK } else { unit(index).encode() })
            .collect();
        file(folder, first as u64, &units);
    }
}

fn overwrite(folder: &Path, index: u64, unit: [u8; 20]) {
    let path = folder.join(file_name(index / 10 * 200));
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&unit, index % 10 * 20).unwrap();
}

fn run(folder: &Path, clean: bool, log_end: u64) -> Recovered {
    run_with(folder, clean, log_end, &|_| true)
}

fn run_with(folder: &Path, clean: bool, log_end: u64, holds: &dyn Fn(&Unit) -> bool) -> Recovered {
    let files = env::os().files;
    recover(&files, folder, FILE_LEN, &LogFacts { clean, log_end, holds }).unwrap()
}

/// First file's first unit, index after the last unit, end of the last record.
fn told(recovered: &Recovered) -> (Option<u64>, u64, u64) {
    (recovered.starts.first().map(|start| start / 20), recovered.end / 20, recovered.last_end)
}

#[test]
fn whole_queues_are_found_whole() {
    for clean in [true, false] {
        for (from, to) in [(0, 1), (0, 9), (0, 10), (0, 11), (0, 45), (0, 50), (27, 28), (27, 60)] {
            let folder = tempfile::tempdir().unwrap();
            written(folder.path(), from, to);
            let found = run(folder.path(), clean, 1 << 40);
            let expected = (Some(from as u64 / 10 * 10), to as u64, to as u64 * 100);
            assert_eq!(told(&found), expected, "{from} to {to}, clean: {clean}");
        }
    }
}

#[test]
fn a_missing_or_empty_folder_is_an_empty_queue() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(told(&run(&folder.path().join("none"), false, 0)), (None, 0, 0));
    assert_eq!(told(&run(folder.path(), true, 0)), (None, 0, 0));
}

#[test]
fn a_preallocated_last_file_is_dropped() {
    for clean in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), 0, 10);
        file(folder.path(), 10, &[]);
        assert_eq!(told(&run(folder.path(), clean, 1 << 40)), (Some(0), 10, 1000));
        assert!(!folder.path().join(file_name(200)).exists());
    }
}

#[test]
fn an_empty_only_file_keeps_its_place() {
    for clean in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), 30, &[]);
        assert_eq!(told(&run(folder.path(), clean, 1 << 40)), (Some(30), 30, 0));
    }
}

#[test]
fn a_file_of_no_bytes_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 0, 10);
    fs::write(folder.path().join(file_name(200)), []).unwrap();
    assert_eq!(told(&run(folder.path(), false, 1 << 40)), (Some(0), 10, 1000));
}

#[test]
fn units_beyond_the_log_are_cut_and_zeroed() {
    for clean in [true, false] {
        for (log_end, units) in [(2_250, 22), (2_000, 20), (150, 1), (99, 0), (0, 0)] {
            let folder = tempfile::tempdir().unwrap();
            written(folder.path(), 0, 45);
            assert_eq!(told(&run(folder.path(), clean, log_end)), (Some(0), units, units * 100));
            let last = units.saturating_sub(1) / 10 * 10;
            let bytes = fs::read(folder.path().join(file_name(last * 20))).unwrap();
            assert!(bytes[((units - last) * 20) as usize..].iter().all(|byte| *byte == 0));
            let files = fs::read_dir(folder.path()).unwrap().count() as u64;
            assert_eq!(files, last / 10 + 1);
        }
    }
}

#[test]
fn a_hole_left_by_a_power_loss_ends_the_queue() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 0, 45);
    overwrite(folder.path(), 33, [0; 20]);
    assert_eq!(told(&run(folder.path(), false, 1 << 40)), (Some(0), 33, 3_300));
    let bytes = fs::read(folder.path().join(file_name(600))).unwrap();
    assert!(bytes[60..].iter().all(|byte| *byte == 0), "what follows can't come back");
}

#[test]
fn a_hole_over_two_files_is_found() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 0, 45);
    for index in 27..45 {
        overwrite(folder.path(), index, [0; 20]);
    }
    assert_eq!(told(&run(folder.path(), false, 1 << 40)), (Some(0), 27, 2_700));
}

#[test]
fn units_left_by_an_earlier_truncation_are_no_units() {
    // RocketMQ cut the queue at 20 without zeroing, went on to 22, and stopped.
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 0, 28);
    for index in [20, 21] {
        overwrite(
            folder.path(),
            index,
            Unit { physical_offset: 9_000 + index * 100, ..unit(0) }.encode(),
        );
    }
    let holds = |unit: &Unit| unit.index < 20 || unit.physical_offset >= 9_000;
    assert_eq!(told(&run_with(folder.path(), false, 1 << 40, &holds)), (Some(0), 22, 11_200));
    // A clean stop is searched, not read; the log tells the same.
    assert_eq!(told(&run_with(folder.path(), true, 1 << 40, &holds)), (Some(0), 22, 11_200));
}

#[test]
fn strange_files_are_refused_by_name() {
    let facts = LogFacts { clean: true, log_end: 1 << 40, holds: &|_| true };
    let files = env::os().files;
    let folder = tempfile::tempdir().unwrap();
    written(folder.path(), 0, 25);
    fs::write(folder.path().join(file_name(200)), [0; 77]).unwrap();
    let refused = recover(&files, folder.path(), FILE_LEN, &facts).unwrap_err();
    assert!(matches!(refused, StoreError::WrongSize { expected: 200, found: 77, .. }), "{refused}");
    fs::remove_file(folder.path().join(file_name(200))).unwrap();
    let refused = recover(&files, folder.path(), FILE_LEN, &facts).unwrap_err();
    assert!(matches!(refused, StoreError::Gap { .. }), "{refused}");
    fs::write(folder.path().join("notes.txt"), "x").unwrap();
    let refused = recover(&files, folder.path(), FILE_LEN, &facts).unwrap_err();
    assert!(matches!(refused, StoreError::Gap { .. } | StoreError::StrangeFile { .. }));
}
