//! Who is online: lists hold only who is there now, everybody hears of changes at once, and peers
//! that leave out or add fields are understood.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use broker_client::{Client, ClientError, Consumer};
use broker_protocol::code::request;
use broker_protocol::header::NoHeader;
use broker_protocol::request::name_server::RegisterBroker;
use system_tests::cluster::{Maker, NameServer};

use crate::support::{Seen, Server, client, client_of, listening, member, options, refusal, until};

const TOPIC: &str = "Shared";
const GROUP: &str = "shared_group";

fn notices(seen: &Seen) -> usize {
    let all = seen.of(request::NOTIFY_CONSUMER_IDS_CHANGED);
    all.iter().filter(|notice| notice.field("consumerGroup") == Some(GROUP)).count()
}

/// Waits until a member was told more often than it was, but no longer than a second.
async fn told_again(seen: &Seen, before: usize) {
    let began = Instant::now();
    until("a notice", async || (notices(seen) > before).then_some(())).await;
    assert!(began.elapsed() < Duration::from_secs(1), "told after {:?}", began.elapsed());
}

/// The ids of the group's members; none when it has none.
async fn ids(server: &Server) -> BTreeSet<String> {
    match server.client.admin().consumer_ids(server.address(), GROUP).await {
        Ok(list) => list.consumer_id_list.iter().map(|id| id.to_string()).collect(),
        Err(ClientError::Refused { .. }) => BTreeSet::new(),
        Err(error) => panic!("{error}"),
    }
}

fn three() -> Vec<(Client, Seen, Consumer)> {
    let one = |_| {
        let (client, seen) = listening(options(), |_| None);
        let consumer = member(&client, GROUP, TOPIC, "*");
        (client, seen, consumer)
    };
    (0..3).map(one).collect()
}

fn ids_of(members: &[(Client, Seen, Consumer)]) -> BTreeSet<String> {
    members.iter().map(|(client, ..)| client.id().to_owned()).collect()
}

#[tokio::test]
async fn members_hear_at_once_who_joins_and_leaves() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let members = three();
    let (_, first_seen, first) = &members[0];
    first.heartbeat(server.address()).await.unwrap();
    let before = notices(first_seen);
    members[1].2.heartbeat(server.address()).await.unwrap();
    told_again(first_seen, before).await;
    let before = notices(first_seen);
    members[2].2.heartbeat(server.address()).await.unwrap();
    told_again(first_seen, before).await;
    assert_eq!(ids(&server).await, ids_of(&members));

    // A heartbeat that says nothing new is no change.
    let quiet = notices(first_seen);
    for (.., consumer) in &members {
        consumer.heartbeat(server.address()).await.unwrap();
    }
    assert_eq!(notices(first_seen), quiet);
    // A further topic is one.
    server.topic("Further", 1).await;
    let options = broker_client::ConsumerOptions::pushed(GROUP)
        .subscribe(TOPIC, "*")
        .subscribe("Further", "*");
    Consumer::new(&members[1].0, options).heartbeat(server.address()).await.unwrap();
    told_again(first_seen, quiet).await;

    let before = notices(first_seen);
    members[2].2.unregister(server.address()).await.unwrap();
    told_again(first_seen, before).await;
    assert_eq!(ids(&server).await, ids_of(&members[..2]));
    let before = notices(first_seen);
    members[1].0.connection(server.address()).await.unwrap().close();
    told_again(first_seen, before).await;
    assert_eq!(ids(&server).await, ids_of(&members[..1]));
}

#[tokio::test]
async fn after_a_restart_only_who_came_back_is_listed() {
    let mut server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let members = three();
    for (.., consumer) in &members {
        consumer.heartbeat(server.address()).await.unwrap();
    }
    assert_eq!(ids(&server).await.len(), 3);
    for orderly in [true, false] {
        if orderly {
            server.stop().await;
        } else {
            server.kill().await;
        }
        server.restart();
        for back in 0..=3 {
            assert_eq!(ids(&server).await, ids_of(&members[..back]), "{back} are back");
            if let Some((.., consumer)) = members.get(back) {
                consumer.heartbeat(server.address()).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_group_without_members_has_an_answer_that_clients_know() {
    let server = Server::start(&[]);
    let admin = server.client.admin();
    let (code, remark) = refusal(admin.consumer_ids(server.address(), "nobody").await);
    assert_eq!(code, broker_protocol::code::response::SYSTEM_ERROR);
    assert!(remark.contains("nobody"), "{remark}");
    let (code, _) = refusal(admin.consumer_connections(server.address(), "nobody").await);
    assert_eq!(code, broker_protocol::code::response::CONSUMER_NOT_ONLINE);
}

#[tokio::test]
async fn a_client_that_is_there_twice_is_listed_once() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut named = options();
    named.instance = Some("same".to_owned());
    let clients = [named.clone(), named].map(Client::new);
    for client in &clients {
        member(client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    }
    let list = server.client.admin().consumer_ids(server.address(), GROUP).await.unwrap();
    let all: Vec<String> = list.consumer_id_list.iter().map(|id| id.to_string()).collect();
    assert!(all.iter().all(|id| id == clients[0].id()), "{all:?}");
    // When its old link ends, the client is still there by the new one.
    clients[0].connection(server.address()).await.unwrap().close();
    until("the old link is gone", async || {
        (server.metric("rocketmq_consumer_connections") == 1.0).then_some(())
    })
    .await;
    assert_eq!(ids(&server).await, [clients[1].id().to_owned()].into());
}

#[tokio::test]
async fn silent_links_are_closed() {
    let server = Server::start(&[("serverChannelMaxIdleTimeSeconds", "2")]);
    server.topic(TOPIC, 1).await;
    let members = three();
    for (.., consumer) in &members[..2] {
        consumer.heartbeat(server.address()).await.unwrap();
    }
    let silent = members[1].0.connection(server.address()).await.unwrap();
    until("the silent one is gone", async || {
        members[0].2.heartbeat(server.address()).await.unwrap();
        (ids(&server).await == ids_of(&members[..1])).then_some(())
    })
    .await;
    until("its link is closed", async || (!silent.is_open()).then_some(())).await;
}

#[tokio::test]
async fn heartbeats_with_nulls_gaps_and_more_are_understood() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let one = client();
    let beat = async |text: &str| {
        one.call(server.address(), request::HEART_BEAT, &NoHeader, text.as_bytes()).await
    };
    let bodies = [
        r#"{"clientID":"c@1","consumerDataSet":null,"producerDataSet":null}"#.to_owned(),
        r#"{"clientID":"c@1"}"#.to_owned(),
        r#"{"clientID":"c@1","producerDataSet":[{"groupName":"p","color":"red"}]}"#.to_owned(),
        format!(
            r#"{{"clientID":"c@1","consumerDataSet":[{{"groupName":"{GROUP}",
            "subscriptionDataSet":[{{"topic":"{TOPIC}","subString":"*","tagsSet":null,
            "codeSet":null,"expressionType":null,"filterClassSource":null,"more":{{"x":[1]}}}}],
            "unitMode":null,"consumeFromWhere":null,"consumeType":"CONSUME_PASSIVELY",
            "messageModel":"CLUSTERING"}}],"heartbeatFingerprint":0,"withoutSub":false,
            "unknown":{{"deep":[null,{{}}]}}}}"#
        ),
    ];
    for body in bodies {
        beat(&body).await.unwrap_or_else(|error| panic!("{error}: {body}"));
    }
    assert_eq!(ids(&server).await, ["c@1".to_owned()].into());
    let admin = server.client.admin();
    let seen = admin.consumer_connections(server.address(), GROUP).await.unwrap();
    let subscription = &seen.subscription_table[TOPIC];
    assert_eq!((&*subscription.sub_string, &*subscription.expression_type), ("*", "TAG"));
    // It can consume at once.
    server.send_numbered(TOPIC, 0..1).await;
    server.read_when(TOPIC, 0, 1).await;
    for nonsense in ["", "null", "[]", "{", "\"text\"", "{\"consumerDataSet\":7}"] {
        let (_, remark) = refusal(beat(nonsense).await);
        assert!(!remark.is_empty(), "{nonsense:?}");
    }
    assert_eq!(ids(&server).await.len(), 1);
}

#[tokio::test]
async fn registrations_with_nulls_gaps_and_more_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let server = NameServer::start(Maker::Tandem, folder.path()).unwrap();
    let client = client_of(&server.address());
    let bodies = [
        r#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"T0":{"topicName":"T0"}}}}"#,
        r#"{"filterServerList":null,"topicConfigSerializeWrapper":{"dataVersion":null,
            "topicConfigTable":{"T1":{"topicName":"T1","perm":null,"readQueueNums":4,
            "writeQueueNums":null,"order":null,"attributes":{"+a":"b"},"topicFilterType":null}}}}"#,
        r#"{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":3,
            "timestamp":9,"stateVersion":1},"mappingDataVersion":{"counter":0},
            "topicQueueMappingInfoMap":{},"topicQueueMappingDetailMap":{},"topicConfigTable":{
            "T2":{"topicName":"T2","perm":6,"readQueueNums":4,"writeQueueNums":4}},
            "new":[{"x":null}]}}"#,
    ];
    let header = |name: usize| {
        [
            ("brokerName".to_owned(), format!("broker{name}")),
            ("brokerAddr".to_owned(), format!("127.0.0.1:{}", 20_000 + name)),
            ("clusterName".to_owned(), "C".to_owned()),
            ("haServerAddr".to_owned(), String::new()),
            ("brokerId".to_owned(), "0".to_owned()),
            ("heartbeatTimeoutMillis".to_owned(), "120000".to_owned()),
            ("enableActingMaster".to_owned(), "false".to_owned()),
            ("future".to_owned(), "?".to_owned()),
        ]
    };
    for (number, body) in bodies.iter().enumerate() {
        let header = header(number);
        client
            .call_name_server(request::REGISTER_BROKER, &header[..], body.as_bytes())
            .await
            .unwrap_or_else(|error| panic!("{error}: {body}"));
        let topic = format!("T{number}");
        let route = client.admin().topic_route(&topic).await.unwrap().unwrap();
        assert_eq!(&*route.queue_datas[0].broker_name, format!("broker{number}"));
        assert!(route.queue_datas[0].read_queue_nums > 0 && route.queue_datas[0].perm == 6);
    }
    // No body at all: a broker without topics.
    client.call_name_server(request::REGISTER_BROKER, &header(7)[..], b"").await.unwrap();
    let cluster = client.admin().cluster_info().await.unwrap();
    assert!(cluster.broker_addr_table.contains_key("broker7"));
    for nonsense in ["{", "[1]", "7", "{\"topicConfigSerializeWrapper\":[]}"] {
        let registered = client
            .call_name_server(request::REGISTER_BROKER, &header(8)[..], nonsense.as_bytes())
            .await;
        assert!(!refusal(registered).1.is_empty(), "{nonsense}");
    }
    // A body that is not what its checksum says.
    let checked = RegisterBroker {
        broker_name: "broker9".into(),
        broker_addr: "127.0.0.1:20009".into(),
        cluster_name: "C".into(),
        ha_server_addr: "".into(),
        broker_id: 0,
        compressed: false,
        body_crc32: 12_345,
        enable_acting_master: None,
        heartbeat_timeout_millis: None,
        zone_name: None,
    };
    let registered =
        client.call_name_server(request::REGISTER_BROKER, &checked, bodies[0].as_bytes()).await;
    assert!(refusal(registered).1.contains("crc"), "no word of the checksum");
}

#[tokio::test]
async fn a_member_that_never_answers_holds_up_nobody() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let (mute, seen) = listening(options(), |_| None);
    member(&mute, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    let admin = server.client.admin();
    let asking = admin.consumer_running_info(server.address(), GROUP, mute.id());
    let meanwhile = async {
        until("the member is asked", async || {
            (!seen.of(request::GET_CONSUMER_RUNNING_INFO).is_empty()).then_some(())
        })
        .await;
        for _ in 0..20 {
            server.send_numbered(TOPIC, 0..1).await;
            assert_eq!(ids(&server).await.len(), 1);
        }
    };
    let (answer, ()) = tokio::join!(asking, meanwhile);
    let (code, remark) = refusal(answer);
    assert_eq!(code, broker_protocol::code::response::CONSUME_MSG_TIMEOUT, "{remark}");
    // One that leaves instead of answering is noticed at once.
    let asking = admin.consumer_running_info(server.address(), GROUP, mute.id());
    let leaving = async {
        until("the member is asked again", async || {
            (seen.of(request::GET_CONSUMER_RUNNING_INFO).len() == 2).then_some(())
        })
        .await;
        mute.connection(server.address()).await.unwrap().close();
        Instant::now()
    };
    let (answer, left) = tokio::join!(asking, leaving);
    assert!(!refusal(answer).1.is_empty());
    assert!(left.elapsed() < Duration::from_secs(5), "{:?}", left.elapsed());
}
