use std::fs;
use std::path::PathBuf;

use broker_protocol::code::request;
use broker_protocol::frame::{RequestHead, Serialize, encode_request};
use broker_protocol::header::NoHeader;
use broker_protocol::version::Language;
use tempfile::TempDir;

use super::*;
use crate::testing::{ManualClock, open_store};

struct World {
    folder: TempDir,
    live: Live,
    store: Store,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let live = Live::new(BrokerConfig { broker_name: "b".into(), ..BrokerConfig::default() });
        let store = open_store(&folder.path().join("store"), ManualClock::at(1));
        World { folder, live, store }
    }

    fn with_file(text: &str) -> World {
        let world = World::new();
        fs::write(world.file(), text).unwrap();
        world.live.came_from(world.file());
        world
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("broker.conf")
    }

    fn update(&self, text: &str) -> Result<Changed, Refusal> {
        let head = RequestHead {
            code: request::UPDATE_BROKER_CONFIG,
            opaque: 1,
            oneway: false,
            serialize: Serialize::Json,
            language: Language::Java,
            version: 399,
            short_names: false,
        };
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &head, &NoHeader, text.len());
        bytes.extend_from_slice(text.as_bytes());
        update(&self.live, &self.store, 9, &Frame::parse(&mut bytes).unwrap())
    }

    fn shown(&self, key: &str) -> Option<String> {
        let answer = read(&self.live, &self.store).unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        parse_properties(&text).into_iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }
}

#[test]
fn all_settings_are_shown_with_their_version() {
    let world = World::new();
    assert_eq!(world.shown("brokerName").as_deref(), Some("b"));
    assert_eq!(world.shown("fileReservedTime").as_deref(), Some("72"));
    let answer = read(&world.live, &world.store).unwrap();
    assert_eq!(answer.ext, [("version", r#"{"counter":0,"timestamp":0}"#.to_owned())]);
}

#[test]
fn a_change_counts_at_once_and_is_in_the_file() {
    let world = World::with_file("# ours\nbrokerName=b\nfileReservedTime=48\n");
    let changed = world.update("fileReservedTime=24\nautoCreateTopicEnable=false\n").unwrap();
    assert_eq!(changed, Changed::default());
    assert!(!world.live.broker().auto_create_topic_enable);
    assert_eq!(world.store.config().file_reserved_time, 24);
    assert_eq!(world.shown("fileReservedTime").as_deref(), Some("24"));
    let text = fs::read_to_string(world.file()).unwrap();
    assert_eq!(text, "# ours\nbrokerName=b\nfileReservedTime=24\nautoCreateTopicEnable=false\n");
    let version = *world.live.version();
    assert_eq!((version.counter, version.timestamp), (1, 9));
}

#[test]
fn what_the_name_servers_must_hear_is_told() {
    let world = World::new();
    assert!(world.update("brokerPermission=4").unwrap().registration);
    assert_eq!(world.live.broker().broker_permission, 4);
    assert!(world.update("namesrvAddr=10.0.0.1:9876").unwrap().registration);
    assert!(!world.update("traceOn=false").unwrap().registration);
}

#[test]
fn paths_and_unknown_keys_are_refused_and_nothing_is_changed() {
    let world = World::with_file("brokerName=b\n");
    let paths = ["storePathRootDir", "storePathCommitLog", "rocketmqHome", "brokerConfigPath"];
    for key in paths.into_iter().chain(["configBlackList", "kvConfigPath"]) {
        let refused = world.update(&format!("traceOn=false\n{key}=/tmp/p\n")).unwrap_err();
        assert_eq!(refused.code, response::NO_PERMISSION, "{key}");
    }
    let unknown = world.update("traceOn=false\nbrokerPermision=4\n").unwrap_err();
    assert_eq!(unknown.code, response::SYSTEM_ERROR);
    assert!(unknown.remark.contains("did you mean brokerPermission?"), "{}", unknown.remark);
    for bad in ["brokerPermission=9", "brokerPermission=x", "maxMessageSize=lots", "junk"] {
        assert_eq!(world.update(bad).unwrap_err().code, response::SYSTEM_ERROR, "{bad}");
    }
    // As from Apache's: no change at all is none.
    assert_eq!(world.update("").unwrap(), Changed::default());
    assert!(world.live.broker().trace_on);
    assert_eq!(fs::read_to_string(world.file()).unwrap(), "brokerName=b\n");
    assert_eq!(world.live.version().counter, 0);
}

#[test]
fn a_value_with_line_breaks_adds_no_key() {
    let world = World::with_file("brokerName=b\n");
    let refused = world.update("deleteWhen=04\\nstorePathRootDir=/tmp/p\n").unwrap_err();
    assert!(refused.remark.contains("line breaks"), "{}", refused.remark);
    assert_eq!(fs::read_to_string(world.file()).unwrap(), "brokerName=b\n");
}

#[test]
fn what_needs_a_start_goes_to_the_file_or_is_refused() {
    let world = World::with_file("brokerName=b\n");
    let changed = world.update("listenPort=20911\n").unwrap();
    assert_eq!(changed.remark.as_deref(), Some("counts from the next start: listenPort"));
    assert_eq!(world.live.broker().listen_port, 10911);
    assert_eq!(fs::read_to_string(world.file()).unwrap(), "brokerName=b\nlistenPort=20911\n");

    let without = World::new();
    let refused = without.update("traceOn=false\nlistenPort=20911\n").unwrap_err();
    assert!(refused.remark.contains("listenPort can't be changed"), "{}", refused.remark);
    assert!(without.live.broker().trace_on, "all or nothing");
    // Saying what is so already asks for nothing.
    without.update("listenPort=10911\ntraceOn=false\n").unwrap();
    assert!(!without.live.broker().trace_on);
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    let world = World::new();
    world.live.came_from(world.folder.path().join("gone.conf"));
    let changed = world.update("traceOn=false\n").unwrap();
    assert!(changed.remark.unwrap().contains("gone.conf is not changed"));
    assert!(!world.live.broker().trace_on);
    assert!(world.update("listenPort=1\n").is_err());
}
