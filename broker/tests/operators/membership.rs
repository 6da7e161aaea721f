//! Who is online: heartbeats, lists, notices, locks, and questions passed on to clients.

use broker_protocol::body::{CheckClientConfig, ConsumerConnection};
use broker_protocol::body::{
    ConsumerData, ConsumerIdList, HeartbeatData, LockBatch, LockedQueues, MessageQueue,
    ProducerConnection, ProducerData, ProducerTable, SubscriptionData,
};
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;
use broker_protocol::json;
use broker_protocol::request::client::{GetConsumerListByGroup, UnregisterClient};
use broker_protocol::request::group::{
    ConsumeMessageDirectly, GetConsumerConnectionList, GetConsumerRunningInfo, GetConsumerStatus,
    GetProducerConnectionList,
};

use crate::server::{Answer, Client, Pushed, Server, wait_until};

pub fn heartbeat(id: &str, group: &str, topics: &[&str]) -> HeartbeatData {
    let subscription = |topic: &&str| SubscriptionData {
        topic: (*topic).into(),
        sub_string: "*".into(),
        sub_version: 1,
        ..SubscriptionData::default()
    };
    let data = ConsumerData {
        group_name: group.into(),
        subscription_data_set: topics.iter().map(subscription).collect(),
        ..ConsumerData::default()
    };
    HeartbeatData { client_id: id.into(), consumer_data_set: vec![data], ..Default::default() }
}

pub fn beat(client: &mut Client, heartbeat: &HeartbeatData) -> Answer {
    client.call(request::HEART_BEAT, &NoHeader, &json::to_vec(heartbeat).unwrap())
}

pub fn join(client: &mut Client, id: &str, group: &str, topics: &[&str]) {
    let answer = beat(client, &heartbeat(id, group, topics));
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
}

fn members(client: &mut Client, group: &str) -> Vec<String> {
    let header = GetConsumerListByGroup { consumer_group: group.into() };
    let answer = client.call(request::GET_CONSUMER_LIST_BY_GROUP, &header, &[]);
    if answer.code != response::SUCCESS {
        assert_eq!(answer.code, response::SYSTEM_ERROR);
        assert_eq!(answer.remark, format!("no consumer for this group, {group}"));
        return Vec::new();
    }
    let list: ConsumerIdList = json::from_slice(&answer.body).unwrap();
    list.consumer_id_list.iter().map(|id| id.to_string()).collect()
}

fn assert_told(client: &mut Client, group: &str) {
    let Pushed { code, oneway, fields, .. } = client.receive_pushed();
    assert_eq!((code, oneway), (request::NOTIFY_CONSUMER_IDS_CHANGED, true));
    assert_eq!(fields["consumerGroup"], group);
}

#[test]
fn members_are_listed_and_told_of_each_other() {
    let server = Server::start();
    let (mut one, mut two) = (server.connect(), server.connect());
    assert!(members(&mut one, "g").is_empty());
    join(&mut one, "c1", "g", &["t"]);
    assert_told(&mut one, "g");
    join(&mut two, "c2", "g", &["t"]);
    assert_told(&mut one, "g");
    assert_told(&mut two, "g");
    assert_eq!(members(&mut one, "g"), ["c1", "c2"]);

    let leave = UnregisterClient {
        client_id: "c2".into(),
        producer_group: None,
        consumer_group: Some("g".into()),
    };
    assert_eq!(two.call(request::UNREGISTER_CLIENT, &leave, &[]).code, 0);
    assert_told(&mut one, "g");
    assert_eq!(members(&mut one, "g"), ["c1"]);

    join(&mut two, "c2", "g", &["t"]);
    assert_told(&mut one, "g");
    drop(two);
    assert_told(&mut one, "g");
    assert_eq!(members(&mut one, "g"), ["c1"]);
    let mut looking = server.connect();
    drop(one);
    wait_until("nobody is left", || members(&mut looking, "g").is_empty());
}

#[test]
fn a_restart_forgets_who_was_there() {
    let mut server = Server::start();
    let mut client = server.connect();
    join(&mut client, "c1", "g", &["t"]);
    server.restart();
    let mut client = server.connect();
    assert!(members(&mut client, "g").is_empty());
    let rooms = server.broker().rooms();
    assert!(rooms.groups.find("g").is_some() && rooms.topics.find("%RETRY%g").is_some());
}

#[test]
fn tables_are_empty_after_a_storm_of_producers() {
    let server = Server::start();
    for n in 0..200 {
        let mut client = server.connect();
        let data = ProducerData { group_name: format!("random-{n}").into() };
        let heartbeat = HeartbeatData {
            client_id: format!("p{n}").into(),
            producer_data_set: vec![data],
            ..Default::default()
        };
        assert_eq!(beat(&mut client, &heartbeat).code, 0);
    }
    wait_until("all are forgotten", || {
        let counts = server.broker().rooms().clients.counts();
        counts.connections == 0 && counts.producer_groups == 0
    });
}

#[test]
fn a_group_whose_retries_would_have_no_topic_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    let answer = beat(&mut client, &heartbeat("c", &"g".repeat(121), &["t"]));
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark.contains("longer than"), "{answer:?}");
    assert!(members(&mut client, &"g".repeat(121)).is_empty());
    join(&mut client, "c", &"g".repeat(120), &["t"]);
    let retry = format!("%RETRY%{}", "g".repeat(120));
    assert!(server.broker().rooms().topics.find(&retry).is_some());
}

#[test]
fn strange_heartbeats_are_errors_or_taken_with_defaults() {
    let server = Server::start();
    let mut client = server.connect();
    for body in [&b""[..], b"{", b"[1,2", b"\"text\""] {
        let answer = client.call(request::HEART_BEAT, &NoHeader, body);
        assert_eq!(answer.code, response::SYSTEM_ERROR, "{body:?}");
        assert!(!answer.remark.is_empty());
    }
    let sparse = br#"{'clientID':"c",consumerDataSet:[{groupName:"g","subscriptionDataSet":null,
        "consumeType":null,"@type":"java.lang.Runtime"}],"producerDataSet":null,"new":{"a":[1]}}"#;
    assert_eq!(client.call(request::HEART_BEAT, &NoHeader, sparse).code, 0);
    assert_eq!(members(&mut client, "g"), ["c"]);
}

#[test]
fn connections_are_shown_to_operators() {
    let server = Server::start();
    let (mut consumer, mut producer) = (server.connect(), server.connect());
    join(&mut consumer, "c1", "g", &["t"]);
    let data = ProducerData { group_name: "p".into() };
    let sends = HeartbeatData {
        client_id: "p1".into(),
        producer_data_set: vec![data],
        ..Default::default()
    };
    assert_eq!(beat(&mut producer, &sends).code, 0);

    let header = GetConsumerConnectionList { consumer_group: "g".into() };
    let answer = consumer.call(request::GET_CONSUMER_CONNECTION_LIST, &header, &[]);
    let shown: ConsumerConnection = json::from_slice(&answer.body).unwrap();
    let address = consumer.socket.local_addr().unwrap().to_string();
    assert_eq!(shown.connection_set.len(), 1);
    assert_eq!(&*shown.connection_set[0].client_addr, address);
    assert_eq!((&*shown.connection_set[0].client_id, shown.connection_set[0].version), ("c1", 399));
    assert_eq!(shown.connection_set[0].language, "JAVA");
    assert_eq!(&*shown.subscription_table["t"].sub_string, "*");
    let header = GetConsumerConnectionList { consumer_group: "h".into() };
    let answer = consumer.call(request::GET_CONSUMER_CONNECTION_LIST, &header, &[]);
    assert_eq!(answer.code, response::CONSUMER_NOT_ONLINE);

    let header = GetProducerConnectionList { producer_group: "p".into() };
    let answer = consumer.call(request::GET_PRODUCER_CONNECTION_LIST, &header, &[]);
    let shown: ProducerConnection = json::from_slice(&answer.body).unwrap();
    assert_eq!(&*shown.connection_set[0].client_id, "p1");
    let answer = consumer.call(request::GET_ALL_PRODUCER_INFO, &NoHeader, &[]);
    let shown: ProducerTable = json::from_slice(&answer.body).unwrap();
    assert_eq!(&*shown.data["p"][0].client_id, "p1");
    let header = GetProducerConnectionList { producer_group: "q".into() };
    let answer = consumer.call(request::GET_PRODUCER_CONNECTION_LIST, &header, &[]);
    assert_eq!(answer.code, response::SYSTEM_ERROR);
}

#[test]
fn queues_are_locked_for_one_client() {
    let server = Server::start();
    let mut client = server.connect();
    let queue = MessageQueue::new("t", "broker-a", 0);
    let mut lock = |id: &str, code| {
        let wanted = LockBatch {
            client_id: id.into(),
            consumer_group: "g".into(),
            mq_set: vec![queue.clone()],
        };
        client.call(code, &NoHeader, &json::to_vec(&wanted).unwrap())
    };
    let held = |answer: &Answer| -> usize {
        let held: LockedQueues = json::from_slice(&answer.body).unwrap();
        held.lock_ok_mq_set.len()
    };
    assert_eq!(held(&lock("c1", request::LOCK_BATCH_MQ)), 1);
    assert_eq!(held(&lock("c2", request::LOCK_BATCH_MQ)), 0);
    assert_eq!(lock("c1", request::UNLOCK_BATCH_MQ).code, 0);
    assert_eq!(held(&lock("c2", request::LOCK_BATCH_MQ)), 1);
}

#[test]
fn subscriptions_that_are_not_served_are_refused_in_advance() {
    let server = Server::start();
    let mut client = server.connect();
    let mut check = |kind: &str, expression: &str| {
        let data = SubscriptionData {
            expression_type: kind.into(),
            sub_string: expression.into(),
            ..SubscriptionData::default()
        };
        let asked = CheckClientConfig { subscription_data: Some(data), ..Default::default() };
        client.call(request::CHECK_CLIENT_CONFIG, &NoHeader, &json::to_vec(&asked).unwrap()).code
    };
    assert_eq!(check("TAG", "a || b"), response::SUCCESS);
    assert_eq!(check("SQL92", "a > 1"), response::SUBSCRIPTION_PARSE_FAILED);
}

/// Asks on one connection, answers as the client on another, and returns the asker's answer.
fn passed_on<H: broker_protocol::header::Header>(
    (asker, asked): (&mut Client, &mut Client),
    (code, header): (i32, &H),
    answer: impl FnOnce(&Pushed) -> (i32, Option<&'static str>, Vec<u8>),
) -> Answer {
    let opaque = asker.ask(code, header, &[]);
    let pushed = asked.receive_pushed();
    assert!(!pushed.oneway);
    let (code, remark, body) = answer(&pushed);
    asked.answer(&pushed, code, remark, &body);
    let answer = asker.receive();
    assert_eq!(answer.opaque, opaque);
    answer
}

#[test]
fn questions_about_a_client_are_passed_on_to_it() {
    let server = Server::start();
    let (mut asker, mut client) = (server.connect(), server.connect());
    join(&mut client, "c1", "g", &["t"]);
    client.receive_pushed();

    let header = GetConsumerRunningInfo {
        consumer_group: "g".into(),
        client_id: "c1".into(),
        jstack_enable: true,
    };
    let asked = (request::GET_CONSUMER_RUNNING_INFO, &header);
    let answer = passed_on((&mut asker, &mut client), asked, |pushed| {
        assert_eq!(pushed.code, request::GET_CONSUMER_RUNNING_INFO);
        assert_eq!(pushed.fields["jstackEnable"], "true");
        (0, None, br#"{"properties":{}}"#.to_vec())
    });
    assert_eq!((answer.code, &*answer.body), (0, &br#"{"properties":{}}"#[..]));

    let header = GetConsumerStatus { topic: "t".into(), group: "g".into(), client_id: None };
    let asked = (request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &header);
    let answer = passed_on((&mut asker, &mut client), asked, |pushed| {
        assert_eq!(pushed.code, request::GET_CONSUMER_STATUS_FROM_CLIENT);
        let body = br#"{"messageQueueTable":{{"brokerName":"b","queueId":1,"topic":"t"}:7}}"#;
        (0, None, body.to_vec())
    });
    let text = String::from_utf8(answer.body).unwrap();
    let expected = r#"{"consumerTable":{"c1":{{"brokerName":"b","queueId":1,"topic":"t"}:7}},"messageQueueTable":{}}"#;
    assert_eq!(text, expected);

    let sent = asker.send("t", 0, b"consume me", "");
    let header = ConsumeMessageDirectly {
        consumer_group: "g".into(),
        client_id: Some("c1".into()),
        msg_id: Some(sent.text("msgId").to_owned().into()),
        broker_name: None,
        topic: None,
        topic_sys_flag: None,
        group_sys_flag: None,
    };
    let asked = (request::CONSUME_MESSAGE_DIRECTLY, &header);
    let answer = passed_on((&mut asker, &mut client), asked, |pushed| {
        assert_eq!(pushed.fields["brokerName"], "broker-a");
        assert!(pushed.body.windows(10).any(|bytes| bytes == b"consume me"));
        (1, Some("no"), Vec::new())
    });
    assert_eq!((answer.code, &*answer.remark), (1, "no"));
}

#[test]
fn nobody_there_to_ask_is_an_error() {
    let server = Server::start();
    let mut asker = server.connect();
    let header = GetConsumerRunningInfo {
        consumer_group: "g".into(),
        client_id: "c1".into(),
        jstack_enable: false,
    };
    let answer = asker.call(request::GET_CONSUMER_RUNNING_INFO, &header, &[]);
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark.contains("not online"), "{answer:?}");
    let header = GetConsumerStatus { topic: "t".into(), group: "g".into(), client_id: None };
    let answer = asker.call(request::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &header, &[]);
    assert_eq!(answer.code, response::SYSTEM_ERROR);

    // One that leaves while it is asked, too.
    let mut client = server.connect();
    join(&mut client, "c1", "g", &["t"]);
    client.receive_pushed();
    let header = GetConsumerRunningInfo {
        consumer_group: "g".into(),
        client_id: "c1".into(),
        jstack_enable: false,
    };
    asker.ask(request::GET_CONSUMER_RUNNING_INFO, &header, &[]);
    client.receive_pushed();
    drop(client);
    let answer = asker.receive();
    assert_eq!(answer.code, response::SYSTEM_ERROR);
}
