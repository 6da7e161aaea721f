use super::*;
use crate::env;

const FILE_LEN: u64 = 200;

fn open(root: &Path, log_end: u64, clean: bool) -> Table {
    let files = env::os().files;
    let folder = root.join("consumequeue");
    let deleted = DeletedTopics::open(Arc::clone(&files), root.join("deleted.json")).unwrap();
    let facts = TableFacts { clean, log_end, holds: &|_, _, _| true };
    let wake = Arc::new(Wake::default());
    Table::open(files, folder, FILE_LEN, deleted, wake, &facts).unwrap()
}

fn fill(queue: &Queue, count: i64, physical: u64) {
    for index in 0..count {
        let physical_offset = physical + index as u64 * 100;
        queue.enter(&Unit { index, physical_offset, size: 100, tags_code: 0 }).unwrap();
    }
}

#[test]
fn handles_are_shared_and_found_again_on_disk() {
    let root = tempfile::tempdir().unwrap();
    let table = open(root.path(), 0, true);
    assert!(table.find("T", 0).is_none());
    let queue = table.queue("T", 3);
    assert!(table.find("T", 3).is_none(), "no message yet");
    queue.take(1);
    assert!(Arc::ptr_eq(&queue, &table.queue("T", 3)));
    assert!(Arc::ptr_eq(&queue, &table.find("T", 3).unwrap()));
    assert!(Arc::ptr_eq(table.queue("T", 1).topic(), queue.topic()), "one name for all");
    fill(&queue, 25, 0);
    let again = open(root.path(), 1 << 40, false);
    assert_eq!(again.topics(), [Arc::from("T")]);
    let ids: Vec<i32> = again.queues_of("T").iter().map(|queue| queue.id()).collect();
    assert_eq!(ids, [3], "a queue without a message leaves nothing behind");
    let queue = again.find("T", 3).unwrap();
    assert_eq!((queue.max_offset(), queue.next_offset()), (25, 25));
}

#[test]
fn queue_numbers_of_any_size_are_found() {
    let root = tempfile::tempdir().unwrap();
    let table = open(root.path(), 0, true);
    for id in [7, 0, i32::MAX, 1] {
        table.queue("T", id).take(1);
    }
    let ids: Vec<i32> = table.queues_of("T").iter().map(|queue| queue.id()).collect();
    assert_eq!(ids, [0, 1, 7, i32::MAX]);
    assert_eq!(table.find("T", i32::MAX).unwrap().id(), i32::MAX);
    assert!(table.find("T", 2).is_none());
    assert!(table.find("T", -1).is_none());
}

#[test]
fn a_deletion_survives_and_the_topic_starts_anew() {
    let root = tempfile::tempdir().unwrap();
    let table = open(root.path(), 0, true);
    let queue = table.queue("T", 0);
    fill(&queue, 25, 0);
    table.restart_numbers("T", 2_500);
    table.delete("T", 2_500).unwrap();
    assert!(!root.path().join("consumequeue/T").exists());
    assert_eq!(table.topics().len(), 0);
    table.forget_unused();
    assert!(Arc::ptr_eq(&queue, &table.queue("T", 0)), "somebody holds it, so it is kept");
    drop(queue);
    table.forget_unused();
    assert!(table.topics.read().is_empty());
    // Dispatched again by the next start.
    let again = open(root.path(), 1 << 40, false);
    fill(&again.queue("T", 0), 25, 0);
    assert_eq!(again.queue("T", 0).max_offset(), 0);
    fill(&again.queue("T", 0), 10, 2_500);
    assert_eq!(again.queue("T", 0).max_offset(), 10);
    assert_eq!(open(root.path(), 1 << 40, false).queue("T", 0).next_offset(), 10);
}

#[test]
fn a_deletion_cut_short_is_finished_at_the_next_start() {
    let root = tempfile::tempdir().unwrap();
    let table = open(root.path(), 0, true);
    fill(&table.queue("T", 0), 25, 0);
    fill(&table.queue("U", 0), 25, 0);
    table.deleted().mark("T", 2_500).unwrap();
    let again = open(root.path(), 1 << 40, false);
    assert_eq!((again.queue("T", 0).max_offset(), again.queue("T", 0).next_offset()), (0, 0));
    assert_eq!(again.queue("U", 0).max_offset(), 25);
}

#[test]
fn what_is_no_queue_is_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let strange = root.path().join("consumequeue/T/x");
    std::fs::create_dir_all(&strange).unwrap();
    std::fs::write(root.path().join("consumequeue/readme"), "x").unwrap();
    assert_eq!(open(root.path(), 0, true).topics().len(), 0);
    assert!(strange.exists());
}

#[test]
fn a_topic_that_is_a_path_is_no_folder() {
    for topic in ["", ".", "..", "../x", "a/b", "a\0b"] {
        assert!(!can_be_folder(topic), "{topic:?}");
    }
    assert!(can_be_folder("%RETRY%a.b"));
}
