//! Messages given back: they come again later, and go to the dead letters when they came too often.

use broker_protocol::body::{ConsumerData, HeartbeatData};
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;
use broker_protocol::json;
use broker_protocol::message_id::parse_offset_id;
use broker_protocol::request::send::{ConsumerSendMsgBack, SendMessage};

use crate::server::{Client, Record, Server, message, pull, wait_until};

fn join(client: &mut Client, group: &str) {
    let data = ConsumerData { group_name: group.into(), ..ConsumerData::default() };
    let heartbeat = HeartbeatData {
        client_id: "c".into(),
        consumer_data_set: vec![data],
        ..Default::default()
    };
    let body = json::to_vec(&heartbeat).unwrap();
    let answer = client.call(request::HEART_BEAT, &NoHeader, &body);
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
}

fn give_back(client: &mut Client, offset: i64, delay_level: i32) -> i32 {
    let header = ConsumerSendMsgBack {
        offset,
        group: "g".into(),
        delay_level,
        origin_msg_id: None,
        origin_topic: Some("orders".into()),
        unit_mode: false,
        max_reconsume_times: Some(2),
    };
    client.call(request::CONSUMER_SEND_MSG_BACK, &header, &[]).code
}

/// The record at `index` of a queue and its place in the log, once it is there.
fn arrived(server: &Server, client: &mut Client, topic: &str, index: i64) -> (Record, i64) {
    let mut found = Vec::new();
    wait_until("the message is there", || {
        let answer = client.call(request::PULL_MESSAGE, &pull(topic, 0, index), &[]);
        found = if answer.code == 0 { answer.records() } else { Vec::new() };
        !found.is_empty()
    });
    let store = &server.broker().rooms().store;
    let queue = store.find_queue(topic, 0).unwrap();
    let place = store.queue_units(&queue, index, 1)[0].physical_offset;
    (found.remove(0), i64::try_from(place).unwrap())
}

#[test]
fn a_failing_message_is_retried_and_ends_in_the_dead_letters() {
    let server = Server::start();
    let mut client = server.connect();
    join(&mut client, "g");
    let answer = client.send("orders", 0, b"body", "UNIQ_KEY\u{1}u\u{2}TAGS\u{1}a");
    let (_, first) = parse_offset_id(answer.text("msgId")).unwrap();
    let first_id = answer.text("msgId").to_owned();
    assert_eq!(give_back(&mut client, i64::try_from(first).unwrap(), 1), 0);

    let (retry, place) = arrived(&server, &mut client, "%RETRY%g", 0);
    assert_eq!((&*retry.body, retry.reconsume_times), (&b"body"[..], 1));
    assert_eq!(retry.properties["RETRY_TOPIC"], "orders");
    assert_eq!(retry.properties["ORIGIN_MESSAGE_ID"], first_id);
    assert_eq!(give_back(&mut client, place, 1), 0);
    let (retry, place) = arrived(&server, &mut client, "%RETRY%g", 1);
    assert_eq!(retry.reconsume_times, 2);

    // Third failure of two: to the dead letters, at once whatever level is asked for.
    assert_eq!(give_back(&mut client, place, 18), 0);
    let (dead, _) = arrived(&server, &mut client, "%DLQ%g", 0);
    assert_eq!((&*dead.body, dead.reconsume_times), (&b"body"[..], 3));
    assert!(!dead.properties.contains_key("DELAY"), "{dead:?}");
    assert_eq!(dead.properties["ORIGIN_MESSAGE_ID"], first_id);
    assert_eq!(dead.properties["UNIQ_KEY"], "u");
    assert_eq!(dead.properties["RETRY_TOPIC"], "orders");
}

#[test]
fn a_plain_send_to_the_retry_topic_obeys_the_limit_too() {
    let server = Server::start();
    let mut client = server.connect();
    join(&mut client, "g");
    let header = SendMessage {
        reconsume_times: Some(16),
        properties: Some("DELAY\u{1}18\u{2}UNIQ_KEY\u{1}u".into()),
        ..message("%RETRY%g", 0)
    };
    let answer = client.call(request::SEND_MESSAGE_V2, &header, b"body");
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    let (dead, _) = arrived(&server, &mut client, "%DLQ%g", 0);
    assert_eq!((dead.reconsume_times, dead.properties["UNIQ_KEY"].as_str()), (16, "u"));
    assert!(!dead.properties.contains_key("DELAY"));
}

#[test]
fn a_place_without_a_message_is_a_clear_error() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"body", "");
    join(&mut client, "g");
    assert_eq!(give_back(&mut client, 7, 1), response::SYSTEM_ERROR);
    assert_eq!(give_back(&mut client, i64::MAX, 1), response::SYSTEM_ERROR);
    assert_eq!(give_back(&mut client, 0, 1), response::SUCCESS);
}

#[test]
fn an_unknown_group_is_refused_where_groups_are_not_made_by_use() {
    let server = Server::with(|settings| settings.broker.auto_create_subscription_group = false);
    let mut client = server.connect();
    client.store("orders", 0, b"body", "");
    assert_eq!(give_back(&mut client, 0, 1), response::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert!(server.broker().rooms().groups.find("g").is_none());
}
