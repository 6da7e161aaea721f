//! Topics, groups, settings, figures and queries, as operators ask for them.

use std::collections::BTreeMap;

use broker_protocol::body::{
    BrokerStatsData, ConsumeQueueAnswer, KvTable, MessageQueue, SubscriptionGroupConfig,
    SubscriptionGroups, TopicConfigs, TopicList, TopicStatsTable,
};
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;
use broker_protocol::json;
use broker_protocol::message_id::{offset_id, parse_offset_id};
use broker_protocol::request::admin::ViewBrokerStatsData;
use broker_protocol::request::group::DeleteSubscriptionGroup;
use broker_protocol::request::offset::{QueryConsumerOffset, UpdateConsumerOffset};
use broker_protocol::request::query::{QueryConsumeQueue, QueryMessage, ViewMessage};
use broker_protocol::request::topic::{CreateTopic, TopicOf};
use serde::de::DeserializeOwned;

use crate::server::{Answer, Client, Server, pull, wait_until};

fn body<T: DeserializeOwned>(answer: &Answer) -> T {
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    json::from_slice(&answer.body).unwrap()
}

fn create(client: &mut Client, topic: &str, queues: i32) -> Answer {
    let header = CreateTopic {
        topic: topic.into(),
        default_topic: Some("TBW102".into()),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm: 6,
        topic_filter_type: Some("SINGLE_TAG".into()),
        topic_sys_flag: Some(0),
        order: false,
        attributes: None,
        force: None,
    };
    client.call(request::UPDATE_AND_CREATE_TOPIC, &header, &[])
}

fn delete(client: &mut Client, topic: &str) -> Answer {
    client.call(request::DELETE_TOPIC_IN_BROKER, &TopicOf { topic: topic.into() }, &[])
}

fn topics(client: &mut Client) -> TopicConfigs {
    body(&client.call(request::GET_ALL_TOPIC_CONFIG, &NoHeader, &[]))
}

#[test]
fn topics_are_made_changed_listed_and_deleted() {
    let server = Server::start();
    let mut client = server.connect();
    assert_eq!(create(&mut client, "orders", 8).code, response::SUCCESS);
    let version = topics(&mut client).data_version;
    assert_eq!(create(&mut client, "orders", 16).code, response::SUCCESS);
    let all = topics(&mut client);
    assert_eq!(all.topic_config_table["orders"].read_queue_nums, 16);
    assert!(all.data_version.counter > version.counter);
    assert_eq!(delete(&mut client, "orders").code, response::SUCCESS);
    assert!(!topics(&mut client).topic_config_table.contains_key("orders"));

    let list: TopicList =
        body(&client.call(request::GET_SYSTEM_TOPIC_LIST_FROM_BROKER, &NoHeader, &[]));
    assert!(list.topic_list.iter().any(|topic| &**topic == "TBW102"));
}

#[test]
fn names_that_are_no_topics_and_system_topics_are_refused() {
    let server = Server::start();
    let mut client = server.connect();
    let too_long = "t".repeat(128);
    for name in
        ["../../../x", "a/b", "..", "a\0b", " ", "\u{4e3b}", &too_long, "TBW102", "broker-a"]
    {
        let answer = create(&mut client, name, 4);
        assert_eq!(answer.code, response::SYSTEM_ERROR, "{name}");
        assert!(!answer.remark.is_empty());
    }
    assert_eq!(create(&mut client, &"t".repeat(127), 4).code, response::SUCCESS);
    assert_eq!(create(&mut client, "queues", -1).code, response::SYSTEM_ERROR);
    assert_eq!(delete(&mut client, "SCHEDULE_TOPIC_XXXX").code, response::SYSTEM_ERROR);
    let made = topics(&mut client).topic_config_table;
    assert!(made.keys().all(|name| !name.contains(['.', '/', ' '])));
}

#[test]
fn a_deleted_topic_takes_its_progress_with_it() {
    let server = Server::start();
    let mut client = server.connect();
    create(&mut client, "orders", 4);
    for _ in 0..10 {
        client.store("orders", 0, b"old", "");
    }
    let commit = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "orders".into(),
        queue_id: 0,
        commit_offset: 10,
    };
    assert_eq!(client.call(request::UPDATE_CONSUMER_OFFSET, &commit, &[]).code, 0);
    assert_eq!(delete(&mut client, "orders").code, 0);
    // A consumer that does not know yet commits on.
    let late = client.call(request::UPDATE_CONSUMER_OFFSET, &commit, &[]);
    assert_eq!(late.code, response::TOPIC_NOT_EXIST);
    create(&mut client, "orders", 4);
    assert_eq!(client.store("orders", 0, b"new", ""), 0);
    let query = QueryConsumerOffset {
        consumer_group: "g".into(),
        topic: "orders".into(),
        queue_id: 0,
        set_zero_if_not_found: None,
    };
    let answer = client.call(request::QUERY_CONSUMER_OFFSET, &query, &[]);
    assert_eq!(answer.number("offset"), 0);
    let mut found = Vec::new();
    wait_until("the new one is there", || {
        let answer = client.call(request::PULL_MESSAGE, &pull("orders", 0, 0), &[]);
        found = if answer.code == 0 { answer.records() } else { Vec::new() };
        !found.is_empty()
    });
    assert_eq!((found.len(), &*found[0].body), (1, &b"new"[..]));
}

#[test]
fn queue_ends_are_shown() {
    let server = Server::start();
    let mut client = server.connect();
    create(&mut client, "orders", 4);
    client.store("orders", 2, b"x", "");
    let header = TopicOf { topic: "orders".into() };
    let mut stats = TopicStatsTable::default();
    wait_until("the message is in its queue", || {
        stats = body(&client.call(request::GET_TOPIC_STATS_INFO, &header, &[]));
        stats.offset_table.values().any(|of| of.max_offset == 1)
    });
    assert_eq!(stats.offset_table.len(), 4);
    let used = &stats.offset_table[&MessageQueue::new("orders", "broker-a", 2)];
    assert!((used.min_offset, used.max_offset) == (0, 1) && used.last_update_timestamp > 0);
    let missing = client.call(request::GET_TOPIC_STATS_INFO, &TopicOf { topic: "no".into() }, &[]);
    assert_eq!(
        (missing.code, &*missing.remark),
        (response::TOPIC_NOT_EXIST, "topic[no] not exist")
    );
}

#[test]
fn groups_are_made_listed_and_deleted() {
    let server = Server::start();
    let mut client = server.connect();
    let group = SubscriptionGroupConfig { retry_max_times: 3, ..SubscriptionGroupConfig::new("g") };
    let update = json::to_vec(&group).unwrap();
    let code = request::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP;
    assert_eq!(client.call(code, &NoHeader, &update).code, response::SUCCESS);
    let refused = json::to_vec(&SubscriptionGroupConfig::new("a/b")).unwrap();
    assert_eq!(client.call(code, &NoHeader, &refused).code, response::SYSTEM_ERROR);
    let all: SubscriptionGroups =
        body(&client.call(request::GET_ALL_SUBSCRIPTIONGROUP_CONFIG, &NoHeader, &[]));
    assert_eq!(*all.subscription_group_table["g"], group);

    server.broker().rooms().offsets.commit("g", "t", 0, 5).unwrap();
    let mut remove = |remove_offset| {
        let header = DeleteSubscriptionGroup { group_name: "g".into(), remove_offset };
        client.call(request::DELETE_SUBSCRIPTIONGROUP, &header, &[]).code
    };
    assert_eq!(remove(false), 0);
    assert_eq!(server.broker().rooms().offsets.query("g", "t", 0), Some(5));
    assert_eq!(remove(true), 0);
    assert_eq!(server.broker().rooms().offsets.query("g", "t", 0), None);
    assert!(server.broker().rooms().groups.find("g").is_none());
}

#[test]
fn settings_are_shown_and_changed() {
    let server = Server::start();
    let mut client = server.connect();
    let mut update =
        |text: &str| client.call(request::UPDATE_BROKER_CONFIG, &NoHeader, text.as_bytes());
    assert_eq!(update("maxMessageSize=10\n").code, response::SUCCESS);
    assert_eq!(update("storePathRootDir=/tmp/p\n").code, response::NO_PERMISSION);
    assert_eq!(update("noSuchKey=1\n").code, response::SYSTEM_ERROR);
    let answer = client.call(request::GET_BROKER_CONFIG, &NoHeader, &[]);
    let text = String::from_utf8(answer.body.clone()).unwrap();
    assert!(
        text.contains("maxMessageSize=10\n") && text.contains("brokerName=broker-a\n"),
        "{text}"
    );
    assert!(answer.text("version").starts_with(r#"{"counter":1,"#), "{answer:?}");
    let answer = client.send("orders", 0, &[b'x'; 11], "");
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL);
    assert!(answer.remark.contains("10"), "{answer:?}");
    client.store("orders", 0, &[b'x'; 10], "");
}

#[test]
fn figures_are_shown_under_rocketmqs_names() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "DELAY\u{1}18");
    wait_until("it waits in its queue", || server.broker().rooms().schedule.status()[17].max == 1);
    let info: KvTable = body(&client.call(request::GET_BROKER_RUNTIME_INFO, &NoHeader, &[]));
    let table: BTreeMap<&str, &str> =
        info.table.iter().map(|(key, value)| (&**key, &**value)).collect();
    for key in [
        "bootTimestamp",
        "runtime",
        "putTps",
        "getTransferedTps",
        "getTransferredTps",
        "putMessageDistributeTime",
        "commitLogDiskRatio",
        "commitLogMaxOffset",
        "sendThreadPoolQueueSize",
        "pullThreadPoolQueueHeadWaitTimeMills",
        "dispatchBehindBytes",
        "pageCacheLockTimeMills",
        "earliestMessageTimeStamp",
        "remainHowManyDataToFlush",
        "commitLogDirCapacity",
        "msgPutTotalTodayMorning",
    ] {
        assert!(table.contains_key(key), "{key}");
    }
    assert_eq!((table["brokerVersionDesc"], table["brokerVersion"]), ("V4_9_3", "399"));
    assert_eq!((table["msgPutTotalTodayNow"], table["putMessageTimesTotal"]), ("1", "1"));
    assert_eq!(table["scheduleMessageOffset_18"], "0,1");
    assert!(!table.contains_key("scheduleMessageOffset_1"));

    let rooms = server.broker().rooms();
    rooms.rates.tick(&rooms.stats, &rooms.topics, broker_now());
    let mut view = |name: &'static str, key: &'static str| {
        let header = ViewBrokerStatsData { stats_name: name.into(), stats_key: key.into() };
        client.call(request::VIEW_BROKER_STATS_DATA, &header, &[])
    };
    let figure: BrokerStatsData = body(&view("TOPIC_PUT_NUMS", "orders"));
    assert_eq!((figure.stats_minute.sum, figure.stats_day.sum), (1, 1));
    let missing = view("TOPIC_PUT_NUMS", "no");
    assert_eq!(missing.code, response::SYSTEM_ERROR);
    assert_eq!(missing.remark, "The stats <TOPIC_PUT_NUMS> <no> not exist");
}

/// Far enough from the broker's own samples that another one is due.
fn broker_now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap() + 60_000
}

fn by_key(key: &str) -> QueryMessage<'_> {
    QueryMessage {
        topic: "orders".into(),
        key: key.into(),
        max_num: 32,
        begin_timestamp: 0,
        end_timestamp: i64::MAX,
        unique_key: None,
        index_type: None,
        last_key: None,
    }
}

#[test]
fn messages_are_found_by_key_and_by_place() {
    let server = Server::start();
    let mut client = server.connect();
    let sent =
        client.send("orders", 1, b"found", "KEYS\u{1}k1 k2\u{2}UNIQ_KEY\u{1}u1\u{2}TAGS\u{1}a");
    client.store("orders", 1, b"other", "KEYS\u{1}k3");
    for key in ["k1", "k2", "u1"] {
        let mut answer = client.call(request::QUERY_MESSAGE, &by_key(key), &[]);
        wait_until("it is indexed", || {
            answer = client.call(request::QUERY_MESSAGE, &by_key(key), &[]);
            answer.code == response::SUCCESS
        });
        assert_eq!(answer.records().len(), 1);
        assert_eq!(answer.records()[0].body, b"found");
        assert!(answer.number("indexLastUpdateTimestamp") > 0);
    }
    let missing = client.call(request::QUERY_MESSAGE, &by_key("k4"), &[]);
    assert_eq!(missing.code, response::QUERY_NOT_FOUND);

    let (_, place) = parse_offset_id(sent.text("msgId")).unwrap();
    let view = |offset: i64| ViewMessage { offset, topic: None };
    let answer = client.call(request::VIEW_MESSAGE_BY_ID, &view(place as i64), &[]);
    assert_eq!(answer.records()[0].body, b"found");
    // The host inside an id says where the broker was, not where the message is.
    let moved = offset_id(([192, 0, 2, 1], 1).into(), place);
    assert_eq!(parse_offset_id(&moved).unwrap().1, place);
    for offset in [-1, 1, i64::MAX] {
        let answer = client.call(request::VIEW_MESSAGE_BY_ID, &view(offset), &[]);
        assert_eq!(answer.code, response::SYSTEM_ERROR);
        assert_eq!(answer.remark, format!("can not find message by the offset, {offset}"));
    }

    let look = |index| QueryConsumeQueue {
        topic: "orders".into(),
        queue_id: 1,
        index,
        count: 10,
        consumer_group: None,
    };
    let units: ConsumeQueueAnswer = body(&client.call(request::QUERY_CONSUME_QUEUE, &look(0), &[]));
    assert_eq!((units.min_queue_index, units.max_queue_index, units.queue_data.len()), (0, 2, 2));
    assert_eq!(
        (units.queue_data[0].tags_code, units.queue_data[0].physic_offset),
        (97, place as i64)
    );
    let beyond = client.call(request::QUERY_CONSUME_QUEUE, &look(7), &[]);
    assert_eq!((beyond.code, &*beyond.remark), (0, "Index 7 of 1@orders is not exist!"));
}

#[test]
fn cleaning_commands_answer_and_lose_nothing() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"kept", "");
    let commands = [
        request::CLEAN_EXPIRED_CONSUMEQUEUE,
        request::CLEAN_UNUSED_TOPIC,
        request::DELETE_EXPIRED_COMMITLOG,
    ];
    for code in commands {
        assert_eq!(client.call(code, &NoHeader, &[]).code, response::SUCCESS);
    }
    wait_until("it can be read", || {
        client.call(request::PULL_MESSAGE, &pull("orders", 0, 0), &[]).code == 0
    });
}

#[test]
fn codes_of_other_versions_are_refused_and_the_link_is_kept() {
    let server = Server::start();
    let mut client = server.connect();
    for code in [13, 22, 27, 301, 302, 37, 324, 351, 200_050, 9_999] {
        let answer = client.call(code, &NoHeader, &[]);
        assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
        assert_eq!(answer.remark, format!(" request type {code} not supported"));
    }
    client.store("orders", 0, b"still served", "");
}
