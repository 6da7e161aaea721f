use std::fs;

use broker_store::env;
use tempfile::TempDir;

use super::*;

fn file(folder: &TempDir) -> StateFile {
    StateFile::new(env::os().files, folder.path(), "consumerOffset.json")
}

fn empty() -> (TempDir, ConsumerOffsets) {
    let folder = TempDir::new().unwrap();
    let offsets = ConsumerOffsets::load(file(&folder)).unwrap();
    (folder, offsets)
}

fn from_text(text: &str) -> (TempDir, ConsumerOffsets) {
    let folder = TempDir::new().unwrap();
    let file = file(&folder);
    fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    fs::write(file.path(), text).unwrap();
    let offsets = ConsumerOffsets::load(file).unwrap();
    (folder, offsets)
}

#[test]
fn a_commit_is_what_a_query_answers_also_backwards() {
    let (_folder, offsets) = empty();
    assert_eq!(offsets.query("g", "t", 0), None);
    offsets.commit("g", "t", 0, 10).unwrap();
    offsets.commit("g", "t", 1, 7).unwrap();
    offsets.commit("g", "t", 0, 4).unwrap();
    assert_eq!(offsets.query("g", "t", 0), Some(4));
    assert_eq!(offsets.queues_of("g", "t"), BTreeMap::from([(0, 4), (1, 7)]));
    assert_eq!(offsets.query("g", "t", 2), None);
    assert_eq!(offsets.query("h", "t", 0), None);
}

#[test]
fn what_no_file_could_hold_is_refused() {
    let (_folder, offsets) = empty();
    assert_eq!(offsets.commit("g", "t", -1, 1), Err(CommitError::QueueId(-1)));
    assert_eq!(offsets.commit("g", "t", QUEUE_ID_MAX + 1, 1), Err(CommitError::QueueId(65_536)));
    assert_eq!(offsets.commit("g", "t", 0, -1), Err(CommitError::Offset(-1)));
    assert_eq!(offsets.commit("g@h", "t", 0, 1), Err(CommitError::Name));
    assert_eq!(offsets.commit("g", "t@u", 0, 1), Err(CommitError::Name));
    assert_eq!(offsets.commit("g", "", 0, 1), Err(CommitError::Name));
    assert_eq!(offsets.snapshot(), ConsumerOffsetTable::default());
}

#[test]
fn topics_and_groups_are_found_and_forgotten() {
    let (_folder, offsets) = empty();
    for (group, topic) in [("g", "t"), ("g", "u"), ("h", "t")] {
        offsets.commit(group, topic, 0, 1).unwrap();
    }
    let mut groups = offsets.groups_of("t");
    groups.sort();
    assert_eq!(groups, [Arc::from("g"), Arc::from("h")]);
    let mut topics = offsets.topics_of("g");
    topics.sort();
    assert_eq!(topics, [Arc::from("t"), Arc::from("u")]);

    offsets.remove_topic("t");
    assert_eq!((offsets.query("g", "t", 0), offsets.query("h", "t", 0)), (None, None));
    assert_eq!(offsets.query("g", "u", 0), Some(1));
    offsets.remove_group("g");
    assert_eq!(offsets.query("g", "u", 0), None);
    assert_eq!(offsets.pairs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_clone_has_the_progress_of_its_source() {
    let (_folder, offsets) = empty();
    offsets.commit("g", "t", 0, 5).unwrap();
    offsets.commit("g", "t", 3, 6).unwrap();
    offsets.commit("h", "t", 0, 99).unwrap();
    offsets.clone_group("g", "h", "t").unwrap();
    assert_eq!(offsets.queues_of("h", "t"), BTreeMap::from([(0, 5), (3, 6)]));
}

#[test]
fn the_file_has_the_form_of_rocketmq() {
    let (folder, offsets) = empty();
    offsets.commit("g", "t", 1, 6).unwrap();
    offsets.commit("g", "t", 0, 5).unwrap();
    offsets.persist().unwrap();
    let text = fs::read_to_string(offsets.file.path()).unwrap();
    assert_eq!(text, "{\n\t\"offsetTable\":{\n\t\t\"t@g\":{0:5,1:6\n\t\t}\n\t}\n}");
    let again = ConsumerOffsets::load(file(&folder)).unwrap();
    assert_eq!(again.snapshot(), offsets.snapshot());
}

#[test]
fn a_file_of_a_newer_broker_is_read() {
    let (_folder, offsets) = from_text(
        r#"{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1},
            "groupTopicMap":{"g":["t"]},"offsetTable":{"t@g":{"0":5,"1":6}}}"#,
    );
    assert_eq!(offsets.queues_of("g", "t"), BTreeMap::from([(0, 5), (1, 6)]));
}

#[test]
fn an_unchanged_table_is_not_written() {
    let (folder, offsets) = from_text(r#"{"offsetTable":{"t@g":{0:5}}}"#);
    fs::remove_file(file(&folder).path()).unwrap();
    offsets.persist().unwrap();
    assert!(!file(&folder).path().exists(), "loading alone is no change");
    offsets.commit("g", "t", 0, 6).unwrap();
    offsets.persist().unwrap();
    assert!(file(&folder).path().exists());
}

#[test]
fn a_failed_write_is_tried_again() {
    let (folder, offsets) = empty();
    offsets.commit("g", "t", 0, 6).unwrap();
    // A file where the folder should be: nothing can be written.
    fs::write(folder.path().join("config"), b"").unwrap();
    offsets.persist().unwrap_err();
    fs::remove_file(folder.path().join("config")).unwrap();
    offsets.persist().unwrap();
    assert!(file(&folder).path().exists());
}

#[test]
fn an_unreadable_file_is_an_error_and_stays() {
    let folder = TempDir::new().unwrap();
    let file = file(&folder);
    fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    fs::write(file.path(), b"\0\0\0").unwrap();
    assert!(ConsumerOffsets::load(file.clone()).is_err());
    assert_eq!(fs::read(file.path()).unwrap(), b"\0\0\0");
}
