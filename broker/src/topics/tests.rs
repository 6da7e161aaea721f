//! The table against a real file.

use std::fs;

use broker_store::env;
use tempfile::TempDir;

use super::*;

fn boot() -> BootTopics<'static> {
    BootTopics {
        cluster: "cluster",
        broker: "broker-a",
        default_queues: 8,
        delay_levels: 18,
        auto_create: true,
        cluster_topic: true,
        broker_topic: true,
        trace_topic: None,
    }
}

fn load(folder: &TempDir) -> Topics {
    let file = StateFile::new(env::os().files, folder.path(), "topics.json");
    Topics::load(file, &boot()).unwrap()
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("config")).unwrap();
    folder
}

fn wanted(topic: &str) -> CreateOnSend<'_> {
    CreateOnSend { topic, default_topic: "TBW102", queues: 4, sys_flag: 0, auto_create: true }
}

#[test]
fn a_topic_made_by_a_send_inherits_and_outlives_a_restart() {
    let folder = folder();
    let topics = load(&folder);
    let created = topics.create_on_send(wanted("orders"), 7).unwrap().unwrap();
    let expected = TopicConfig { perm: 6, ..TopicConfig::new("orders", 4) };
    assert_eq!(*created.config(), expected);
    assert_eq!(topics.data_version(), DataVersion { counter: 1, timestamp: 7, state_version: 0 });
    let again = load(&folder);
    assert_eq!(*again.find("orders").unwrap().config(), expected);
    assert_eq!(again.data_version(), topics.data_version());
}

#[test]
fn a_send_gets_no_more_queues_than_the_default_topic_has() {
    let folder = folder();
    let topics = load(&folder);
    let many = CreateOnSend { queues: 100, ..wanted("many") };
    let created = topics.create_on_send(many, 0).unwrap().unwrap();
    assert_eq!(created.config().write_queue_nums, 8);
    let none = CreateOnSend { queues: 0, ..wanted("none") };
    assert!(topics.create_on_send(none, 0).unwrap().is_none());
}

#[test]
fn the_rules_forbid_creation() {
    let folder = folder();
    let topics = load(&folder);
    let off = CreateOnSend { auto_create: false, ..wanted("a") };
    assert!(topics.create_on_send(off, 0).unwrap().is_none());
    let unknown = CreateOnSend { default_topic: "nowhere", ..wanted("a") };
    assert!(topics.create_on_send(unknown, 0).unwrap().is_none());
    let no_inherit = CreateOnSend { default_topic: "SELF_TEST_TOPIC", ..wanted("a") };
    assert!(topics.create_on_send(no_inherit, 0).unwrap().is_none());
    let by_cluster = CreateOnSend { default_topic: "cluster", auto_create: false, ..wanted("a") };
    assert!(topics.create_on_send(by_cluster, 0).unwrap().is_some());
}

#[test]
fn illegal_names_leave_no_trace() {
    let folder = folder();
    let topics = load(&folder);
    let long = "x".repeat(128);
    for name in ["../../../x", "a/b", "..", "", " ", "a\0b", &long] {
        let refused = topics.create_on_send(wanted(name), 0);
        assert!(matches!(refused, Err(TopicError::Name(_))), "{name}");
    }
    assert!(topics.create_on_send(wanted(&"x".repeat(127)), 0).unwrap().is_some());
    assert_eq!(load(&folder).count(), topics.count());
    let too_many = TopicConfig::new("q", QUEUES_MAX + 1);
    assert_eq!(topics.update(too_many, 0).unwrap_err(), TopicError::Queues);
}

#[test]
fn a_topic_whose_file_can_not_be_written_does_not_exist() {
    let folder = folder();
    let topics = load(&folder);
    // A file where the folder should be.
    fs::remove_dir_all(folder.path().join("config")).unwrap();
    fs::write(folder.path().join("config"), b"").unwrap();
    let refused = topics.create_on_send(wanted("orders"), 0);
    assert!(matches!(refused, Err(TopicError::File(_))), "{refused:?}");
    assert!(topics.find("orders").is_none());
    assert_eq!(topics.data_version().counter, 0);
}

#[test]
fn many_topics_made_at_once_are_all_in_the_file() {
    let folder = folder();
    let topics = load(&folder);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let topics = &topics;
            scope.spawn(move || {
                for number in 0..10 {
                    let name = format!("t-{thread}-{number}");
                    let created = topics.create_on_send(wanted(&name), 0).unwrap().unwrap();
                    assert!(Arc::ptr_eq(&created, &topics.find(&name).unwrap()));
                }
            });
        }
    });
    let again = load(&folder);
    assert_eq!(again.count(), topics.count());
    assert!(again.find("t-7-9").is_some());
    assert_eq!(again.data_version(), topics.data_version());
}

#[test]
fn two_creations_of_one_topic_give_one_handle() {
    let folder = folder();
    let topics = load(&folder);
    let handles: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| topics.create_on_send(wanted("one"), 0).unwrap().unwrap()))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(handles.iter().all(|handle| Arc::ptr_eq(handle, &handles[0])));
}

#[test]
fn settings_change_under_the_same_handle_and_tell_of_it() {
    let folder = folder();
    let topics = load(&folder);
    let changes = topics.changes();
    let topic = topics.create(TopicConfig::new("orders", 4), 0).unwrap();
    assert_eq!(*changes.borrow(), 1);
    topics.update(TopicConfig { perm: 4, ..TopicConfig::new("orders", 2) }, 9).unwrap();
    assert_eq!((topic.config().perm, topic.settings().queue_count()), (4, 2));
    assert_eq!(topics.data_version(), DataVersion { counter: 2, timestamp: 9, state_version: 0 });
    assert!(topics.delete("orders", 10).unwrap());
    assert!(!topics.delete("orders", 11).unwrap());
    assert_eq!(*changes.borrow(), 3);
    assert!(load(&folder).find("orders").is_none());
}

#[test]
fn every_broker_has_the_systems_topics() {
    let folder = folder();
    let topics = load(&folder);
    let shape = |name: &str| {
        let config = topics.find(name).unwrap().config();
        (config.write_queue_nums, config.perm)
    };
    assert_eq!(shape("TBW102"), (8, 7));
    assert_eq!(shape("SELF_TEST_TOPIC"), (1, 6));
    assert_eq!(shape("BenchmarkTest"), (1024, 6));
    assert_eq!(shape("cluster"), (16, 7));
    assert_eq!(shape("broker-a"), (1, 7));
    assert_eq!(shape("OFFSET_MOVED_EVENT"), (1, 6));
    assert_eq!(shape("SCHEDULE_TOPIC_XXXX"), (18, 6));
    assert_eq!(shape("cluster_REPLY_TOPIC"), (1, 6));
    assert!(topics.is_system("cluster") && topics.is_system("TBW102"));
    assert!(!topics.is_system("orders"));
    assert!(!topics.find("SCHEDULE_TOPIC_XXXX").unwrap().is_sendable());
    assert!(topics.find("BenchmarkTest").unwrap().is_sendable());
}

#[test]
fn what_the_file_says_of_a_systems_topic_counts() {
    let folder = folder();
    load(&folder).update(TopicConfig::new("TBW102", 3), 0).unwrap();
    assert_eq!(load(&folder).find("TBW102").unwrap().config().write_queue_nums, 3);
}
