use std::sync::Arc;

use broker_protocol::body::{SubscriptionGroupConfig, TopicConfig};
use broker_protocol::code::request;
use broker_protocol::frame::{RequestHead, Serialize, encode_request};
use broker_protocol::name;
use broker_protocol::version::Language;
use tempfile::TempDir;

use super::*;
use crate::testing::{ManualClock, Stored, host, messages, open_store, state_file, topics};

struct World {
    _folder: TempDir,
    store: Store,
    topics: Arc<Topics>,
    groups: Groups,
    levels: DelayLevels,
    config: BrokerConfig,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        let groups = Groups::load(state_file(folder.path(), "subscriptionGroup.json"), 1).unwrap();
        groups.find_or_create("g", true, 1).unwrap();
        let store = open_store(folder.path(), ManualClock::at(1_700_000_000_000));
        World {
            store,
            topics: topics(folder.path()),
            groups,
            levels: DelayLevels::parse(&broker_store::StoreConfig::default().message_delay_level)
                .unwrap(),
            config: BrokerConfig::default(),
            _folder: folder,
        }
    }

    fn stored(&self, reconsume_times: i32, properties: &[u8]) -> i64 {
        let queue = self.store.queue("orders", 2);
        let record = NewRecord {
            queue: &queue,
            flag: 5,
            sys_flag: 0,
            born_timestamp: 7,
            born_host: ([10, 0, 0, 9], 4).into(),
            // An address that the broker had before it moved.
            store_host: ([10, 9, 9, 9], 1).into(),
            reconsume_times,
            prepared_transaction_offset: 0,
            body: b"body",
            properties,
        };
        self.store.append(&record).unwrap().physical_offset as i64
    }

    fn give_back(&self, header: &ConsumerSendMsgBack<'_>) -> Result<GivenBack, Refusal> {
        let head = RequestHead {
            code: request::CONSUMER_SEND_MSG_BACK,
            opaque: 1,
            oneway: false,
            serialize: Serialize::Json,
            language: Language::Java,
            version: 399,
            short_names: false,
        };
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &head, header, 0);
        let send_back = SendBack {
            config: &self.config,
            store: &self.store,
            topics: &self.topics,
            groups: &self.groups,
            levels: &self.levels,
            store_host: host(),
            now: 2,
        };
        send_back.serve(&Frame::parse(&mut bytes).unwrap())
    }

    fn waiting(&self, level: i32) -> Vec<Stored> {
        messages(&self.store, name::SCHEDULE_TOPIC, level - 1)
    }
}

fn header(offset: i64, delay_level: i32) -> ConsumerSendMsgBack<'static> {
    ConsumerSendMsgBack {
        offset,
        group: "g".into(),
        delay_level,
        origin_msg_id: Some("whatever".into()),
        origin_topic: Some("orders".into()),
        unit_mode: false,
        max_reconsume_times: None,
    }
}

fn code(outcome: Result<GivenBack, Refusal>) -> i32 {
    outcome.unwrap_err().code
}

#[test]
fn a_message_comes_again_after_a_delay_that_grows() {
    let world = World::new();
    let fresh = world.stored(0, b"TAGS\x01a\x02UNIQ_KEY\x01u");
    world.give_back(&header(fresh, 0)).unwrap();
    let retry = &world.waiting(3)[0];
    let first_id = offset_id(([10, 9, 9, 9], 1).into(), fresh as u64);
    assert_eq!(retry.property("REAL_TOPIC").as_deref(), Some("%RETRY%g"));
    assert_eq!(retry.property("REAL_QID").as_deref(), Some("0"));
    assert_eq!(retry.property("RETRY_TOPIC").as_deref(), Some("orders"));
    assert_eq!(retry.property("ORIGIN_MESSAGE_ID").as_deref(), Some(first_id.as_str()));
    assert_eq!(retry.property("UNIQ_KEY").as_deref(), Some("u"));
    assert_eq!(retry.property("TAGS").as_deref(), Some("a"));
    assert_eq!(retry.property("DELAY").as_deref(), Some("3"));
    assert_eq!(retry.property("WAIT").as_deref(), Some("false"));
    assert_eq!((retry.reconsume_times, retry.flag, retry.born_timestamp), (1, 5, 7));
    assert_eq!((retry.body.as_str(), retry.store_host), ("body", host()));
    assert!(world.topics.find("%RETRY%g").is_some());

    let third = world.stored(2, b"");
    world.give_back(&header(third, 0)).unwrap();
    assert_eq!(world.waiting(5)[0].reconsume_times, 3);
    world.give_back(&header(third, 1)).unwrap();
    assert_eq!(world.waiting(1).len(), 1, "the client may choose the level");
    world.give_back(&header(third, 99)).unwrap();
    assert_eq!(world.waiting(18)[0].property("DELAY").as_deref(), Some("18"));
}

#[test]
fn a_copy_keeps_what_the_first_one_was() {
    let world = World::new();
    let properties = b"RETRY_TOPIC\x01orders\x02ORIGIN_MESSAGE_ID\x01FIRST\x02DELAY\x013\
        \x02REAL_TOPIC\x01%RETRY%g\x02REAL_QID\x010\x02INNER_MULTI_DISPATCH\x01%LMQ%a";
    let again = world.stored(1, properties);
    world.give_back(&header(again, 0)).unwrap();
    let retry = &world.waiting(4)[0];
    assert_eq!(retry.property("RETRY_TOPIC").as_deref(), Some("orders"));
    assert_eq!(retry.property("ORIGIN_MESSAGE_ID").as_deref(), Some("FIRST"));
    assert_eq!(retry.property("DELAY").as_deref(), Some("4"));
    assert_eq!(retry.property("INNER_MULTI_DISPATCH"), None);
    let names = broker_protocol::properties::Properties::new(&retry.properties);
    assert_eq!(names.iter().filter(|(name, _)| *name == b"REAL_TOPIC").count(), 1);
}

#[test]
fn what_came_too_often_goes_to_the_dead_letters_at_once() {
    let world = World::new();
    let properties = b"DELAY\x0118\x02REAL_TOPIC\x01%RETRY%g\x02REAL_QID\x010\x02\
        RETRY_TOPIC\x01orders\x02ORIGIN_MESSAGE_ID\x01FIRST\x02UNIQ_KEY\x01u";
    let worn = world.stored(16, properties);
    world.give_back(&header(worn, 0)).unwrap();
    // A wish for other limits and levels: fewer attempts, and none at all.
    let fresh = world.stored(2, b"");
    let few = ConsumerSendMsgBack { max_reconsume_times: Some(2), ..header(fresh, 2) };
    world.give_back(&few).unwrap();
    world.give_back(&header(fresh, -1)).unwrap();

    let dead = messages(&world.store, "%DLQ%g", 0);
    assert_eq!(dead.len(), 3);
    assert!(dead.iter().all(|letter| letter.property("DELAY").is_none()));
    assert!(dead.iter().all(|letter| letter.property("REAL_TOPIC").is_none()));
    assert_eq!(dead[0].property("ORIGIN_MESSAGE_ID").as_deref(), Some("FIRST"));
    assert_eq!(dead[0].property("UNIQ_KEY").as_deref(), Some("u"));
    assert_eq!((dead[0].reconsume_times, dead[1].reconsume_times), (17, 3));
    assert!(world.topics.find("%DLQ%g").is_some());
}

#[test]
fn what_is_given_back_counts_for_the_topic_it_was_sent_to() {
    let world = World::new();
    let orders = world.topics.create(TopicConfig::new("orders", 4), 1).unwrap();
    let fresh = world.stored(0, b"");
    world.give_back(&header(fresh, 0)).unwrap();
    let again = world.stored(1, b"RETRY_TOPIC\x01orders");
    world.give_back(&header(again, -1)).unwrap();
    let reader = orders.counters.reader(world.groups.find("g").unwrap().name());
    assert_eq!(reader.send_backs.get(), 2);
}

#[test]
fn the_limit_of_an_old_client_does_not_count() {
    let world = World::new();
    let group = SubscriptionGroupConfig { retry_max_times: 1, ..SubscriptionGroupConfig::new("g") };
    world.groups.update(group, 2).unwrap();
    let message = world.stored(1, b"");
    world.give_back(&header(message, 0)).unwrap();
    assert_eq!(messages(&world.store, "%DLQ%g", 0).len(), 1);
}

#[test]
fn an_unknown_message_or_group_is_a_clear_error() {
    let mut world = World::new();
    let message = world.stored(0, b"");
    assert_eq!(code(world.give_back(&header(message + 1, 0))), response::SYSTEM_ERROR);
    assert_eq!(code(world.give_back(&header(-1, 0))), response::SYSTEM_ERROR);
    world.config.auto_create_subscription_group = false;
    let stranger = ConsumerSendMsgBack { group: "h".into(), ..header(message, 0) };
    assert_eq!(code(world.give_back(&stranger)), response::SUBSCRIPTION_GROUP_NOT_EXIST);
}

#[test]
fn a_group_that_was_deleted_meanwhile_is_made_again_like_by_any_use() {
    let world = World::new();
    let message = world.stored(0, b"");
    assert!(world.groups.delete("g", 3).unwrap());
    world.give_back(&header(message, 1)).unwrap();
    assert_eq!(world.waiting(1).len(), 1);
    assert!(world.groups.find("g").is_some());
}

#[test]
fn a_read_only_broker_takes_nothing_back() {
    let mut world = World::new();
    world.config.broker_permission = perm::READ;
    let message = world.stored(0, b"");
    assert_eq!(code(world.give_back(&header(message, 0))), response::NO_PERMISSION);
}

#[test]
fn a_group_without_retry_queues_gets_nothing_back() {
    let world = World::new();
    let group =
        SubscriptionGroupConfig { retry_queue_nums: 0, ..SubscriptionGroupConfig::new("g") };
    world.groups.update(group, 2).unwrap();
    let message = world.stored(0, b"");
    let end = world.store.max_offset();
    assert!(matches!(world.give_back(&header(message, 0)).unwrap(), GivenBack::Dropped));
    assert_eq!(world.store.max_offset(), end);
}

#[test]
fn a_message_is_not_refused_for_what_the_broker_adds() {
    let world = World::new();
    let mut properties =
        b"CLUSTER\x01a cluster of a rather long name, so long that it counts\x02".to_vec();
    properties.extend(b"ORIGIN_MESSAGE_ID\x01");
    properties.extend(std::iter::repeat_n(b'0', 56));
    properties.extend(b"\x02mine\x01");
    properties.resize(PROPERTIES_LEN_MAX - 50, b'x');
    let full = world.stored(0, &properties);
    world.store.reconfigure("maxMessageSize", "1").unwrap();
    world.give_back(&header(full, 0)).unwrap();
    let retry = &world.waiting(3)[0];
    assert_eq!(retry.property("RETRY_TOPIC").as_deref(), Some("orders"));
    assert!(retry.property("mine").unwrap().len() > 30_000);
}
