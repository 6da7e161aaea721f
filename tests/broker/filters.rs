//! Tag filters: hashes that collide, tags in any script, members that disagree, and progress past
//! what nobody wants.

use broker_client::connection::ServerAnswer;
use broker_client::{Consumer, ConsumerOptions, Message, Pull, PullStatus};
use broker_protocol::body::SubscriptionData;
use broker_protocol::code::{request, response};

use crate::support::{Server, bodies, client, listening, member, options, refusal};

const TOPIC: &str = "Tagged";
const GROUP: &str = "tag_group";

fn pull_at(offset: i64) -> Pull<'static> {
    Pull { topic: TOPIC, queue_id: 0, offset, max: 32, hold: None, expression: None, commit: None }
}

async fn send_tags(server: &Server, tags: &[&str]) {
    for (number, tag) in tags.iter().enumerate() {
        server.send(0, &Message::new(TOPIC, format!("{tag}{number}")).tag(*tag)).await;
    }
}

#[tokio::test]
async fn tags_of_equal_hash_do_not_hold_up_progress() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    send_tags(&server, &["BB"; 5]).await;
    server.read_when(TOPIC, 0, 5).await;
    // Java hashes Aa and BB to 2112.
    let consumer = member(&server.client, GROUP, TOPIC, "Aa");
    consumer.heartbeat(server.address()).await.unwrap();
    let pulled = consumer.pull(server.address(), &pull_at(0)).await.unwrap();
    assert!(matches!(pulled.status, PullStatus::Found | PullStatus::NoMatchedMessage));
    let wanted = pulled.messages.iter().filter(|message| message.tag() == Some("Aa"));
    assert_eq!(wanted.count(), 0, "the client drops what has another tag");
    assert_eq!(pulled.next_offset, 5);
    consumer.commit(server.address(), TOPIC, 0, pulled.next_offset).await.unwrap();
    let stats = server.client.admin().consume_stats(server.address(), GROUP, Some(TOPIC)).await;
    assert_eq!(stats.unwrap().total_diff(), 0);
}

#[tokio::test]
async fn every_tag_finds_exactly_its_messages() {
    // The codes are what Java computes.
    let tags: [(&str, i64); 8] = [
        ("0123456789012345678901234567890123456789", 1_478_511_252),
        ("abcdefghijklmnopqrstuvwxyzabcdefghijklmn", 177_927_124),
        ("标签测试", 824_648_321),
        ("\u{1F680}", 1_773_027),
        ("\u{1F680}\u{1F4A9}标", 1_335_615_672),
        ("Überraschung", 453_868_536),
        ("polygenelubricants", -2_147_483_648),
        ("x", 120),
    ];
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    for (tag, _) in tags {
        server.send(0, &Message::new(TOPIC, tag.to_owned()).tag(tag)).await;
    }
    server.send(0, &Message::new(TOPIC, "untagged")).await;
    server.read_when(TOPIC, 0, 9).await;
    let folder = server.broker.store_folder().join("consumequeue").join(TOPIC).join("0");
    let units = std::fs::read(folder.join("0".repeat(20))).unwrap();
    let codes: Vec<i64> = units
        .chunks(20)
        .take(9)
        .map(|unit| i64::from_be_bytes(unit[12..20].try_into().unwrap()))
        .collect();
    let mut expected: Vec<i64> = tags.iter().map(|(_, code)| *code).collect();
    expected.push(0);
    assert_eq!(codes, expected);
    for (number, (tag, _)) in tags.iter().enumerate() {
        let consumer = member(&server.client, &format!("group{number}"), TOPIC, tag);
        consumer.heartbeat(server.address()).await.unwrap();
        let pulled = consumer.pull(server.address(), &pull_at(0)).await.unwrap();
        assert_eq!(bodies(&pulled.messages), [*tag]);
        // The tags that a pull names itself are hashed by the broker.
        assert_eq!(bodies(&server.pull(TOPIC, 0, 0, tag).await.messages), [*tag]);
    }
    let two = format!("{} || {}", tags[2].0, tags[3].0);
    assert_eq!(
        bodies(&server.pull(TOPIC, 0, 0, &two).await.messages),
        [tags[2].0, tags[3].0],
        "{two}"
    );
    for all in ["*", ""] {
        assert_eq!(server.pull(TOPIC, 0, 0, all).await.messages.len(), 9);
    }
}

#[tokio::test]
async fn the_newest_subscription_of_a_group_counts_and_nothing_is_skipped() {
    let mut server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    send_tags(&server, &["b"; 40]).await;
    server.read_when(TOPIC, 0, 40).await;
    let (first, second) = (client(), client());
    let consumer = |client, tags, version| {
        let mut options = ConsumerOptions::pushed(GROUP).subscribe(TOPIC, tags);
        options.version = version;
        Consumer::new(client, options)
    };
    let only_a = consumer(&first, "a", 1_000);
    let all = consumer(&second, "*", 2_000);
    let address = server.address().to_owned();
    only_a.heartbeat(&address).await.unwrap();
    let pulled = only_a.pull(&address, &pull_at(0)).await.unwrap();
    assert_eq!((pulled.messages.len(), pulled.next_offset), (0, 40));

    all.heartbeat(&address).await.unwrap();
    // The older one does not win by coming later.
    only_a.heartbeat(&address).await.unwrap();
    let connections = server.client.admin().consumer_connections(&address, GROUP).await.unwrap();
    assert_eq!(connections.connection_set.len(), 2);
    assert_eq!(connections.subscription_table[TOPIC].sub_string, "*");
    assert_eq!(connections.subscription_table[TOPIC].sub_version, 2_000);
    for member in [&only_a, &all] {
        let pulled = member.pull(&address, &pull_at(0)).await.unwrap();
        assert_eq!(pulled.messages.len(), 32);
    }
    let log = server.log();
    let warned = log
        .lines()
        .any(|line| line.contains("WARN") && line.contains("subscri") && line.contains(GROUP));
    assert!(warned, "no warning that the members disagree");

    // They agree on a: what is not filtered out comes.
    let agreed = [&first, &second].map(|client| consumer(client, "a", 3_000));
    send_tags(&server, &["a", "b", "a"]).await;
    server.read_when(TOPIC, 0, 43).await;
    for member in &agreed {
        member.heartbeat(&address).await.unwrap();
    }
    let pulled = agreed[0].pull(&address, &pull_at(32)).await.unwrap();
    assert_eq!(bodies(&pulled.messages), ["a0", "a2"]);
    assert_eq!(pulled.next_offset, 43);
}

#[tokio::test]
async fn members_that_disagree_can_be_told_apart() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut ids = Vec::new();
    let mut kept = Vec::new();
    for tags in ["a", "*"] {
        let (client, _) = listening(options(), move |asked| {
            let body =
                format!(r#"{{"subscriptionSet":[{{"topic":"{TOPIC}","subString":"{tags}"}}]}}"#);
            (asked.code == request::GET_CONSUMER_RUNNING_INFO)
                .then(|| ServerAnswer { body: body.into_bytes(), ..ServerAnswer::default() })
        });
        member(&client, GROUP, TOPIC, tags).heartbeat(server.address()).await.unwrap();
        ids.push(client.id().to_owned());
        kept.push(client);
    }
    let admin = server.client.admin();
    for (id, tags) in ids.iter().zip(["a", "*"]) {
        let info = admin.consumer_running_info(server.address(), GROUP, id).await.unwrap();
        let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
        assert_eq!(info["subscriptionSet"][0]["subString"], tags);
    }
    let unknown = admin.consumer_running_info(server.address(), GROUP, "nobody").await;
    assert_eq!(refusal(unknown).0, response::SYSTEM_ERROR);
}

#[tokio::test]
async fn a_tail_of_unwanted_tags_does_not_hold_up_progress() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut tags = vec!["A", "A", "B", "A"];
    tags.extend(["B"; 60]);
    send_tags(&server, &tags).await;
    server.read_when(TOPIC, 0, 64).await;
    let consumer = member(&server.client, GROUP, TOPIC, "A");
    consumer.heartbeat(server.address()).await.unwrap();
    let mut offset = 0;
    let mut seen = Vec::new();
    for _ in 0..20 {
        let mut pull = pull_at(offset);
        pull.commit = Some(offset);
        pull.hold = Some(std::time::Duration::from_millis(300));
        let pulled = consumer.pull(server.address(), &pull).await.unwrap();
        assert!(pulled.next_offset >= offset);
        offset = pulled.next_offset;
        seen.extend(bodies(&pulled.messages));
        if pulled.status == PullStatus::NoNewMessage {
            break;
        }
    }
    assert_eq!(seen, ["A0", "A1", "A3"]);
    assert_eq!(offset, 64);
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(64));
}

#[tokio::test]
async fn a_long_run_of_unwanted_tags_is_passed_step_by_step() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let unwanted: Vec<Message> = (0..100).map(|_| Message::new(TOPIC, "b").tag("B")).collect();
    let producer = crate::support::producer(&server.client);
    for _ in 0..50 {
        producer.send_batch(&server.queue(0), &unwanted).await.unwrap();
    }
    send_tags(&server, &["A"]).await;
    crate::support::until("all are dispatched", async || {
        (server.max_offset(TOPIC, 0).await == 5_001).then_some(())
    })
    .await;
    let mut offset = 0;
    let mut pulls = 0;
    let found = loop {
        let pulled = server.pull(TOPIC, 0, offset, "A").await;
        pulls += 1;
        assert!(pulled.next_offset > offset, "{pulled:?}");
        offset = pulled.next_offset;
        if pulled.status == PullStatus::Found {
            break pulled;
        }
        assert_eq!(pulled.status, PullStatus::NoMatchedMessage);
    };
    assert_eq!(bodies(&found.messages), ["A0"]);
    assert_eq!(offset, 5_001);
    assert!(pulls < 60, "{pulls} pulls");
}

#[tokio::test]
async fn filters_that_are_not_understood_are_refused() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    for bad in ["||", " || ", " "] {
        let (code, _) = refusal(server.try_pull(TOPIC, 0, 0, bad).await);
        assert_eq!(code, response::SUBSCRIPTION_PARSE_FAILED, "{bad:?}");
    }
    let sql = SubscriptionData {
        expression_type: "SQL92".to_owned(),
        sub_string: "a > 1".to_owned(),
        topic: TOPIC.into(),
        ..SubscriptionData::default()
    };
    let check = broker_protocol::body::CheckClientConfig {
        client_id: "c".into(),
        group: GROUP.into(),
        subscription_data: Some(sql),
    };
    let body = broker_protocol::json::to_vec(&check).unwrap();
    let none = broker_protocol::header::NoHeader;
    let (code, remark) = refusal(server.call(request::CHECK_CLIENT_CONFIG, &none, &body).await);
    assert!(matches!(code, response::SYSTEM_ERROR | response::SUBSCRIPTION_PARSE_FAILED));
    assert!(!remark.is_empty());
}
