use std::path::Path;

use super::*;
use crate::env;

/// Ten units a file.
const FILE_LEN: u64 = 200;

fn queue(folder: &Path) -> Queue {
    let row = Row::new(env::os().files, folder.join("T/0"), FILE_LEN, &[], 0);
    Queue::new(Arc::from("T"), 0, row, 0, 0, Arc::new(Wake::default()))
}

fn unit(index: i64, physical_offset: u64) -> Unit {
    Unit { index, physical_offset, size: 100, tags_code: 0 }
}

/// Enters the messages `from..to`, the record of each at `index * 100`.
fn fill(queue: &Queue, from: i64, to: i64) {
    for index in from..to {
        assert_eq!(queue.enter(&unit(index, index as u64 * 100)).unwrap(), Entered::Written);
    }
}

fn indexes(queue: &Queue) -> Vec<i64> {
    let mut seen = Vec::new();
    queue
        .row()
        .scan(queue.min_offset(), queue.max_offset(), |_, slot| {
            seen.extend(slot.unit().map(|unit| unit.index));
            true
        })
        .unwrap();
    seen
}

#[test]
fn a_record_is_entered_once() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 3);
    assert_eq!(queue.enter(&unit(2, 200)).unwrap(), Entered::Skipped);
    assert_eq!(queue.enter(&unit(0, 0)).unwrap(), Entered::Skipped);
    fill(&queue, 3, 4);
    assert_eq!(indexes(&queue), [0, 1, 2, 3]);
}

#[test]
fn a_used_index_is_not_given_away() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 3);
    assert_eq!(queue.enter(&unit(1, 900)).unwrap(), Entered::Refused);
    assert_eq!(queue.row().slot(1).unwrap().unit().unwrap().physical_offset, 100);
}

#[test]
fn a_new_queue_may_begin_anywhere() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 25, 27);
    assert_eq!((queue.min_offset(), queue.max_offset()), (25, 27));
    assert_eq!(indexes(&queue), [25, 26]);
    queue.correct_min(0).unwrap();
    assert_eq!(queue.min_offset(), 25, "blank units before are no messages");
}

#[test]
fn a_lost_record_leaves_its_place_blank() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 8);
    fill(&queue, 13, 15);
    assert_eq!((queue.min_offset(), queue.max_offset()), (0, 15));
    assert_eq!(indexes(&queue), [0, 1, 2, 3, 4, 5, 6, 7, 13, 14]);
    assert_eq!(queue.row().slot(10).unwrap(), Slot::Blank);
}

#[test]
fn a_gap_of_many_files_starts_the_queue_over() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 8);
    fill(&queue, 1_000_000_000_005, 1_000_000_000_007);
    assert_eq!(queue.min_offset(), 1_000_000_000_005);
    assert_eq!(indexes(&queue), [1_000_000_000_005, 1_000_000_000_006]);
    assert_eq!(std::fs::read_dir(folder.path().join("T/0")).unwrap().count(), 1);
}

#[test]
fn index_zero_again_means_a_topic_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 25);
    assert_eq!(queue.enter(&unit(0, 5_000)).unwrap(), Entered::Written);
    assert_eq!(queue.enter(&unit(1, 5_100)).unwrap(), Entered::Written);
    assert_eq!(queue.enter(&unit(24, 2_400)).unwrap(), Entered::Skipped, "an old record");
    assert_eq!((queue.min_offset(), queue.max_offset()), (0, 2));
}

#[test]
fn min_moves_up_with_the_log_and_never_beyond_max() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 25);
    for (log_start, min) in [(0, 0), (1, 1), (100, 1), (1_450, 15), (2_400, 24), (2_401, 25)] {
        queue.correct_min(log_start).unwrap();
        assert_eq!((queue.min_offset(), queue.max_offset()), (min, 25), "log from {log_start}");
    }
    queue.correct_min(0).unwrap();
    assert_eq!(queue.min_offset(), 25, "never goes back");
    fill(&queue, 25, 26);
    assert_eq!(indexes(&queue), [25], "sends continue");
}

#[test]
fn expired_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 35);
    queue.correct_min(1_950).unwrap();
    assert_eq!(queue.remove_expired(1_950).unwrap(), 2);
    assert_eq!(queue.min_offset(), 20);
    queue.correct_min(u64::MAX).unwrap();
    assert_eq!(queue.remove_expired(u64::MAX).unwrap(), 1);
    assert_eq!((queue.min_offset(), queue.max_offset()), (35, 35));
}

#[test]
fn deleting_keeps_what_came_after() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 25);
    queue.take(30);
    queue.restart_numbers(2_800);
    assert_eq!(queue.next_offset(), 0);
    assert_eq!(queue.enter(&unit(27, 2_700)).unwrap(), Entered::Skipped, "not dispatched in time");
    // The new topic's first message can be dispatched before the files are gone.
    assert_eq!(queue.enter(&unit(0, 2_800)).unwrap(), Entered::Written);
    queue.remove_files().unwrap();
    assert_eq!(indexes(&queue), [0]);
    queue.restart_numbers(9_000);
    queue.remove_files().unwrap();
    assert_eq!((queue.min_offset(), queue.max_offset()), (0, 0));
    assert!(!folder.path().join("T/0").exists());
}

#[test]
fn the_partition_is_found_among_blanks() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    fill(&queue, 0, 8);
    fill(&queue, 13, 15);
    fill(&queue, 20, 21);
    let present: Vec<i64> = (0..8).chain(13..15).chain(20..21).collect();
    for from in 0..21 {
        for bound in 0..23 {
            let found = queue.partition(from, 21, |unit| unit.index < bound).unwrap();
            let expected = present.iter().copied().find(|index| *index >= bound.max(from));
            assert_eq!(found, expected.unwrap_or(21), "from {from}, not before {bound}");
        }
    }
}

#[test]
fn a_watch_gives_one_notice() {
    let folder = tempfile::tempdir().unwrap();
    let queue = queue(folder.path());
    assert!(!queue.take_watch());
    queue.watch();
    assert!(queue.take_watch());
    assert!(!queue.take_watch());
    queue.watch();
    assert!(!queue.take_watch(), "the first notice still lies there");
    queue.notice_taken();
    queue.watch();
    assert!(queue.take_watch());
}
