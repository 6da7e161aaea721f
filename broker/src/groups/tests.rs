use std::fs;
use std::thread;

use broker_protocol::limits::GROUP_LEN_MAX;
use broker_store::env;
use tempfile::TempDir;

use super::*;

fn file(folder: &TempDir) -> StateFile {
    StateFile::new(env::os().files, folder.path(), "subscriptionGroup.json")
}

fn fresh() -> (TempDir, Groups) {
    let folder = TempDir::new().unwrap();
    let groups = Groups::load(file(&folder), 7).unwrap();
    (folder, groups)
}

#[test]
fn the_built_in_groups_are_there_from_the_start() {
    let (folder, groups) = fresh();
    assert!(groups.find("TOOLS_CONSUMER").is_some());
    assert_eq!(groups.count(), name::BUILT_IN_GROUPS.len());
    assert_eq!(groups.snapshot().data_version, DataVersion { timestamp: 7, ..Default::default() });
    assert!(!file(&folder).path().exists(), "a start alone writes nothing");
}

#[test]
fn a_group_is_made_on_first_use_where_that_is_allowed() {
    let (folder, groups) = fresh();
    assert!(groups.find_or_create("g", false, 8).unwrap().is_none());
    assert!(groups.find_or_create("CID_RMQ_SYS_x", false, 8).unwrap().is_some());
    let group = groups.find_or_create("g", true, 9).unwrap().unwrap();
    assert_eq!(*group.config(), SubscriptionGroupConfig::new("g"));
    let again = Groups::load(file(&folder), 10).unwrap();
    assert_eq!(again.snapshot(), groups.snapshot());
    assert_eq!(again.snapshot().data_version.counter, 2);
    groups.find_or_create("g", true, 11).unwrap();
    assert_eq!(groups.snapshot().data_version.counter, 2, "nothing changed");
}

#[test]
fn a_change_reaches_who_holds_the_group() {
    let (_folder, groups) = fresh();
    let held = groups.find_or_create("g", true, 8).unwrap().unwrap();
    let changed = SubscriptionGroupConfig { retry_max_times: 3, ..(*held.config()).clone() };
    groups.update(changed.clone(), 9).unwrap();
    assert_eq!(*held.config(), changed);
    assert_eq!(
        groups.snapshot().data_version,
        DataVersion { counter: 2, state_version: 0, timestamp: 9 }
    );
}

#[test]
fn a_deleted_group_is_gone_from_the_file_too() {
    let (folder, groups) = fresh();
    groups.find_or_create("g", true, 8).unwrap();
    assert!(groups.delete("g", 9).unwrap());
    assert!(!groups.delete("g", 9).unwrap());
    assert!(groups.find("g").is_none());
    assert!(Groups::load(file(&folder), 10).unwrap().find("g").is_none());
}

#[test]
fn a_group_whose_retry_topic_would_be_no_topic_is_refused() {
    let (_folder, groups) = fresh();
    let longest = "g".repeat(GROUP_LEN_MAX);
    assert!(groups.find_or_create(&longest, true, 8).unwrap().is_some());
    for refused in [&*format!("{longest}g"), "", " ", "a/b", "a@b", "\u{7ec4}"] {
        let made = groups.find_or_create(refused, true, 8);
        assert!(matches!(made, Err(GroupError::Name(_))), "{refused}");
        let updated = groups.update(SubscriptionGroupConfig::new(refused), 8);
        assert!(matches!(updated, Err(GroupError::Name(_))), "{refused}");
    }
}

#[test]
fn a_file_of_a_newer_broker_is_read() {
    let folder = TempDir::new().unwrap();
    let file = file(&folder);
    fs::create_dir_all(file.path().parent().unwrap()).unwrap();
    let text = r#"{"dataVersion":{"counter":4,"stateVersion":1,"timestamp":5},"forbiddenTable":{},
        "subscriptionGroupTable":{"g":{"attributes":{},"brokerId":0,"consumeBroadcastEnable":false,
        "consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,
        "consumeTimeoutMinute":15,"groupName":"other","groupRetryPolicy":{"type":"CUSTOMIZED"},
        "retryMaxTimes":5,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":1}}}"#;
    fs::write(file.path(), text).unwrap();
    let groups = Groups::load(file, 9).unwrap();
    let group = groups.find("g").unwrap().config();
    assert_eq!((group.retry_max_times, group.retry_queue_nums), (5, 2));
    assert!(!group.consume_broadcast_enable && group.notify_consumer_ids_changed_enable);
    assert_eq!(&*group.group_name, "g");
    let expected = DataVersion { counter: 4, state_version: 1, timestamp: 5 };
    assert_eq!(groups.snapshot().data_version, expected);
}

#[test]
fn groups_made_at_once_are_all_in_the_file() {
    let (folder, groups) = fresh();
    thread::scope(|scope| {
        for n in 0..16 {
            let groups = &groups;
            scope.spawn(move || groups.find_or_create(&format!("g{n}"), true, 8).unwrap());
        }
    });
    let again = Groups::load(file(&folder), 9).unwrap();
    assert!((0..16).all(|n| again.find(&format!("g{n}")).is_some()));
    assert_eq!(again.snapshot(), groups.snapshot());
}

#[test]
fn a_failed_write_is_told_and_made_good_by_the_next_one() {
    let (folder, groups) = fresh();
    // A file where the folder should be: nothing can be written.
    fs::write(folder.path().join("config"), b"").unwrap();
    let failed = groups.update(SubscriptionGroupConfig::new("g"), 8);
    assert!(matches!(failed, Err(GroupError::File(_))));
    fs::remove_file(folder.path().join("config")).unwrap();
    groups.update(SubscriptionGroupConfig::new("h"), 9).unwrap();
    assert!(Groups::load(file(&folder), 9).unwrap().find("g").is_some());
}
