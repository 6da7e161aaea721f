//! Topics and groups: names that must not become paths, lengths, queues that shrink, permissions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use broker_client::Message;
use broker_protocol::body::{SubscriptionGroupConfig, TopicConfig};
use broker_protocol::code::{request, response};
use broker_protocol::request::topic::{CreateTopic, TopicOf};

use crate::support::{SHORT_LEVELS, Server, bodies, client, member, refusal, send_header, until};

const BAD_NAMES: [&str; 20] = [
    "../../../x",
    "a/b",
    "..",
    ".",
    "/",
    "/tmp/x",
    "a\0b",
    "\0",
    "",
    " ",
    "   ",
    "a b",
    "tab\t",
    "line\n",
    "a\\b",
    "a.b",
    "a:b",
    "名字",
    "ü",
    "$x",
];

/// Every folder below a folder.
fn folders(of: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![of.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
        found.insert(folder);
    }
    found
}

fn create(topic: &str) -> CreateTopic<'_> {
    CreateTopic {
        topic: topic.into(),
        default_topic: Some("TBW102".into()),
        read_queue_nums: 4,
        write_queue_nums: 4,
        perm: 6,
        topic_filter_type: Some("SINGLE_TAG".into()),
        topic_sys_flag: Some(0),
        order: false,
        attributes: None,
        force: None,
    }
}

#[tokio::test]
async fn names_that_could_be_paths_are_refused_everywhere() {
    let server = Server::start(&[]);
    server.topic("Good", 1).await;
    server.send_numbered("Good", 0..3).await;
    let stored = server.read_when("Good", 0, 3).await;
    let home = server.broker.store_folder().parent().unwrap().to_path_buf();
    let before = folders(&home);
    let admin = server.client.admin();
    let topics = admin.topic_configs(server.address()).await.unwrap();
    let groups = admin.groups(server.address()).await.unwrap();
    let end = server.log_end().await;

    for name in BAD_NAMES {
        for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2, request::SEND_BATCH_MESSAGE] {
            let mut header = send_header(name, -1, "");
            header.batch = Some(code == request::SEND_BATCH_MESSAGE);
            let body = b"\0\0\0\x17\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01x\0\0";
            let (_, remark) = refusal(server.send_raw(code, &header, body).await);
            assert!(!remark.is_empty(), "send to {name:?}");
        }
        let made = server.call(request::UPDATE_AND_CREATE_TOPIC, &create(name), &[]).await;
        assert!(!refusal(made).1.is_empty(), "making {name:?}");
        let config = SubscriptionGroupConfig::new(name);
        let made = admin.update_group(server.address(), &config).await;
        assert!(!refusal(made).1.is_empty(), "group {name:?}");
        let joined = member(&server.client, name, "Good", "*").heartbeat(server.address()).await;
        assert!(!refusal(joined).1.is_empty(), "member of {name:?}");
        let back = server.send_back(name, stored[0].physical_offset, 0, Some(16)).await;
        assert!(!refusal(back).1.is_empty(), "back from {name:?}");
        let retry = format!("%RETRY%{name}");
        let header = send_header(&retry, 0, "");
        let sent = server.send_raw(request::SEND_MESSAGE_V2, &header, b"x").await;
        assert!(!refusal(sent).1.is_empty(), "send to {retry:?}");
        // Deleting must not reach outside either.
        let topic = TopicOf { topic: name.into() };
        let _any_answer = server.call(request::DELETE_TOPIC_IN_BROKER, &topic, &[]).await;
    }
    for escape in ["../config", "../commitlog", "../../store", "Good/0", "Good/../Good"] {
        let topic = TopicOf { topic: escape.into() };
        let _any_answer = server.call(request::DELETE_TOPIC_IN_BROKER, &topic, &[]).await;
    }
    assert_eq!(folders(&home), before);
    let after = admin.topic_configs(server.address()).await.unwrap();
    assert_eq!(after.topic_config_table, topics.topic_config_table);
    let after = admin.groups(server.address()).await.unwrap();
    assert_eq!(after.subscription_group_table, groups.subscription_group_table);
    assert_eq!(server.log_end().await, end);
    assert_eq!(server.read_all("Good", 0).await.len(), 3);
}

#[tokio::test]
async fn a_topic_has_at_most_127_characters() {
    let mut server = Server::start(&[]);
    let named = |length: usize, letter: &str| letter.repeat(length);
    let [sent, made] = [named(127, "s"), named(127, "m")];
    server.send(0, &Message::new(&sent, "by a send")).await;
    server.topic(&made, 1).await;
    server.send(0, &Message::new(&made, "by an administrator")).await;
    let batch = named(126, "b");
    let producer = crate::support::producer(&server.client);
    producer.send_batch(&server.queue(0), &[Message::new(&batch, "x")]).await.unwrap();
    for (topic, expected) in [(&sent, "by a send"), (&made, "by an administrator"), (&batch, "x")] {
        assert_eq!(bodies(&server.read_when(topic, 0, 1).await), [expected]);
    }
    for length in [128, 129, 255, 256, 40_000] {
        let name = named(length, "t");
        for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2] {
            let sent = server.send_raw(code, &send_header(&name, 0, ""), b"x").await;
            let (_, remark) = refusal(sent);
            assert!(remark.contains("127"), "{length}: {remark}");
        }
        let batch = producer.send_batch(&server.queue(0), &[Message::new(&name, "x")]).await;
        let (_, remark) = refusal(batch);
        assert!(remark.contains("127"), "{length}: {remark}");
        let made = server.call(request::UPDATE_AND_CREATE_TOPIC, &create(&name), &[]).await;
        let (_, remark) = refusal(made);
        assert!(remark.contains("127"), "{length}: {remark}");
    }
    // Characters that take several bytes are refused for what they are.
    for name in ["é".repeat(127), "é".repeat(60), "名".repeat(43)] {
        let made = server.call(request::UPDATE_AND_CREATE_TOPIC, &create(&name), &[]).await;
        let (_, remark) = refusal(made);
        assert!(remark.contains("illegal characters"), "{remark}");
    }
    server.stop().await;
    server.restart();
    assert_eq!(bodies(&server.read_all(&sent, 0).await), ["by a send"]);
}

#[tokio::test]
async fn a_group_can_retry_or_is_refused_at_once() {
    let server = Server::start(&[SHORT_LEVELS]);
    server.topic("Good", 1).await;
    server.send(0, &Message::new("Good", "failing")).await;
    let message = server.read_when("Good", 0, 1).await.remove(0);
    let admin = server.client.admin();
    let mut refused = Vec::new();
    for length in [1, 119, 120, 121, 126, 127, 128, 255] {
        let group = "g".repeat(length);
        let joined = member(&client(), &group, "Good", "*").heartbeat(server.address()).await;
        if let Err(error) = joined {
            let (_, remark) = refusal::<()>(Err(error));
            assert!(remark.contains("120"), "{remark}");
            refused.push(length);
            // Then it is refused everywhere.
            let config = SubscriptionGroupConfig::new(&*group);
            let made = admin.update_group(server.address(), &config).await;
            assert!(refusal(made).1.contains("120"));
            let back = server.send_back(&group, message.physical_offset, 0, Some(16)).await;
            assert!(!refusal(back).1.is_empty());
            continue;
        }
        for (level, topic) in [(0, format!("%RETRY%{group}")), (-1, format!("%DLQ%{group}"))] {
            let from = message.physical_offset;
            server.send_back(&group, from, level, Some(16)).await.unwrap();
            assert_eq!(bodies(&server.read_when(&topic, 0, 1).await), ["failing"]);
        }
    }
    assert!(refused.iter().all(|length| *length > 120), "{refused:?}");
}

#[tokio::test]
async fn queues_that_are_taken_away_get_nothing_new_and_can_be_emptied() {
    let server = Server::start(&[SHORT_LEVELS]);
    server.topic("Shrunk", 10).await;
    for queue in 0..10 {
        server.send(queue, &Message::new("Shrunk", queue.to_string())).await;
    }
    server.read_when("Shrunk", 9, 1).await;
    server.send(8, &Message::new("Shrunk", "delayed").delay_level(1)).await;
    server.set_topic("Shrunk", 10, 5, 6).await;

    // Queues of a route that is out of date: refused, or put where it is allowed.
    let producer = crate::support::producer(&server.client);
    for queue in 5..10 {
        let message = Message::new("Shrunk", "new");
        for sent in [
            server.try_send(queue, &message).await,
            producer.send_batch(&server.queue(queue), std::slice::from_ref(&message)).await,
        ] {
            match sent {
                Ok(receipt) => assert!((0..5).contains(&receipt.queue_id), "{receipt:?}"),
                refused => assert!(refusal(refused).1.contains("queue"), "no reason"),
            }
        }
    }
    for _ in 0..40 {
        let receipt = server.send(-1, &Message::new("Shrunk", "any")).await;
        assert!((0..5).contains(&receipt.queue_id));
    }
    // What was accepted before comes to a queue that is still written to.
    let everywhere = async || {
        let mut all = Vec::new();
        for queue in 0..10 {
            for message in server.read_all("Shrunk", queue).await {
                all.push((queue, String::from_utf8_lossy(&message.body).into_owned()));
            }
        }
        all
    };
    let all = until("the delayed message", async || {
        let all = everywhere().await;
        all.iter().any(|(_, body)| body == "delayed").then_some(all)
    })
    .await;
    for (queue, body) in &all {
        if *queue >= 5 {
            assert_eq!(body, &queue.to_string(), "in queue {queue}");
        }
    }
    for number in 0..10 {
        let old = (number, number.to_string());
        assert!(all.contains(&old), "{old:?} is gone");
    }
    // Reading fewer is the administrator's word.
    server.set_topic("Shrunk", 5, 5, 6).await;
    let (code, _) = refusal(server.try_pull("Shrunk", 7, 0, "*").await);
    assert_eq!(code, response::SYSTEM_ERROR);
    assert!(!server.read_all("Shrunk", 4).await.is_empty());
    // And grown again, all is there.
    server.set_topic("Shrunk", 10, 10, 6).await;
    assert_eq!(bodies(&server.read_all("Shrunk", 7).await), ["7"]);
    let receipt = server.send(7, &Message::new("Shrunk", "again")).await;
    assert_eq!((receipt.queue_id, receipt.queue_offset), (7, 1));
}

#[tokio::test]
async fn a_broker_that_is_read_only_takes_no_send_of_any_kind() {
    let server = Server::start(&[]);
    server.topic("Guarded", 1).await;
    let consumer = member(&server.client, "guard_group", "Guarded", "*");
    consumer.heartbeat(server.address()).await.unwrap();
    server.send_numbered("Guarded", 0..3).await;
    let stored = server.read_when("Guarded", 0, 3).await;
    let admin = server.client.admin();
    let permission = async |value: &str| {
        let change = [("brokerPermission", value)];
        admin.update_broker_config(server.address(), &change).await
    };
    permission("4").await.unwrap();
    let end = server.log_end().await;
    let no = |outcome: (i32, String)| {
        assert_eq!(outcome.0, response::NO_PERMISSION, "{}", outcome.1);
        assert!(!outcome.1.is_empty());
    };
    for topic in ["Guarded", "%RETRY%guard_group", "BrandNew"] {
        let header = send_header(topic, 0, "");
        for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2] {
            no(refusal(server.send_raw(code, &header, b"x").await));
        }
        let delayed = send_header(topic, 0, "DELAY\x013");
        no(refusal(server.send_raw(request::SEND_MESSAGE_V2, &delayed, b"x").await));
    }
    let producer = crate::support::producer(&server.client);
    let message = Message::new("Guarded", "x");
    let batch = producer.send_batch(&server.queue(0), std::slice::from_ref(&message)).await;
    no(refusal(batch));
    let mixed = [(0, message)];
    no(refusal(producer.send_mixed(server.address(), &mixed).await));
    let offset = stored[0].physical_offset;
    no(refusal(server.send_back("guard_group", offset, 0, Some(16)).await));
    assert_eq!(server.log_end().await, end);
    // Everything else goes on.
    assert_eq!(server.read_all("Guarded", 0).await.len(), 3);
    server.commit("guard_group", "Guarded", 0, 2).await;
    consumer.heartbeat(server.address()).await.unwrap();

    permission("2").await.unwrap();
    server.send(0, &Message::new("Guarded", "written")).await;
    no(refusal(server.try_pull("Guarded", 0, 0, "*").await));
    permission("6").await.unwrap();
    assert_eq!(server.read_when("Guarded", 0, 4).await.len(), 4);
    for nonsense in ["9", "-1", "rw", ""] {
        assert!(!refusal(permission(nonsense).await).1.is_empty());
    }
    server.send(0, &Message::new("Guarded", "still writable")).await;
}

#[tokio::test]
async fn a_topic_that_is_read_only_takes_no_send_over_an_old_route() {
    let server = Server::start(&[SHORT_LEVELS]);
    server.topic("Closed", 1).await;
    server.send(0, &Message::new("Closed", "before")).await;
    server.send(0, &Message::new("Closed", "delayed").delay_level(1)).await;
    server.set_topic("Closed", 1, 1, 4).await;
    let producer = crate::support::producer(&server.client);
    let message = Message::new("Closed", "x");
    let mixed = [(0, message.clone())];
    for outcome in [
        server.try_send(0, &message).await,
        server.try_send(0, &message.clone().delay_level(1)).await,
        producer.send_batch(&server.queue(0), std::slice::from_ref(&message)).await,
        producer.send_mixed(server.address(), &mixed).await,
    ] {
        let (code, remark) = refusal(outcome);
        assert_eq!(code, response::NO_PERMISSION);
        assert!(remark.contains("Closed"), "{remark}");
    }
    // What was accepted before still comes, and all can be read.
    let stored = server.read_when("Closed", 0, 2).await;
    assert_eq!(bodies(&stored), ["before", "delayed"]);
    server.set_topic("Closed", 1, 1, 6).await;
    server.send(0, &message).await;
}

#[tokio::test]
async fn topics_are_made_by_a_send_only_as_the_settings_allow() {
    let server = Server::start(&[("defaultTopicQueueNums", "3")]);
    // As many queues as the sender asks for, at most those of the template.
    for (asked, expected) in [(2, 2), (8, 3)] {
        let name = format!("Made{asked}");
        let mut header = send_header(&name, 0, "");
        header.default_topic_queue_nums = asked;
        server.send_raw(request::SEND_MESSAGE_V2, &header, b"x").await.unwrap();
        let topics = server.client.admin().topic_configs(server.address()).await.unwrap();
        let made = &topics.topic_config_table[&*name];
        assert_eq!((made.write_queue_nums, made.read_queue_nums), (expected, expected));
        assert_eq!(made.perm, 6);
    }
    let mut header = send_header("NoTemplate", 0, "");
    header.default_topic = "NoSuchTemplate".into();
    let sent = server.send_raw(request::SEND_MESSAGE_V2, &header, b"x").await;
    assert_eq!(refusal(sent).0, response::TOPIC_NOT_EXIST);

    let strict = Server::start(&[("autoCreateTopicEnable", "false")]);
    let (code, remark) = refusal(strict.try_send(0, &Message::new("Unknown", "x")).await);
    assert_eq!(code, response::TOPIC_NOT_EXIST);
    assert!(remark.contains("Unknown"), "{remark}");
    let topics = strict.client.admin().topic_configs(strict.address()).await.unwrap();
    assert!(!topics.topic_config_table.contains_key("Unknown"));
}

#[tokio::test]
async fn the_systems_own_topics_are_not_for_producers_or_administrators() {
    let server = Server::start(&[]);
    let end = server.log_end().await;
    for topic in ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "OFFSET_MOVED_EVENT"] {
        let (code, remark) = refusal(server.try_send(0, &Message::new(topic, "x")).await);
        assert_eq!(code, response::NO_PERMISSION, "{topic}: {remark}");
        let config = TopicConfig::new(topic, 1);
        let admin = server.client.admin();
        let made = admin.update_topic(server.address(), &config).await;
        assert!(refusal(made).1.contains(topic));
        let deleted = admin.delete_topic(server.address(), topic).await;
        assert!(refusal(deleted).1.contains(topic));
    }
    assert_eq!(server.log_end().await, end);
}

#[tokio::test]
async fn a_topic_made_again_begins_at_zero() {
    let mut server = Server::start(&[]);
    server.topic("Reborn", 2).await;
    for _ in 0..100 {
        server.send(0, &Message::new("Reborn", "old")).await;
    }
    server.read_when("Reborn", 0, 100).await;
    server.commit("reborn_group", "Reborn", 0, 100).await;
    let admin = server.client.admin();
    admin.delete_topic(server.address(), "Reborn").await.unwrap();
    let stats = admin.topic_stats(server.address(), "Reborn").await;
    assert_eq!(refusal(stats).0, response::TOPIC_NOT_EXIST);
    server.topic("Reborn", 2).await;
    for number in 0..10 {
        server.send(0, &Message::new("Reborn", number.to_string())).await;
    }
    let expected: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    for restarted in [false, true] {
        if restarted {
            server.kill().await;
            server.restart();
        }
        assert_eq!(bodies(&server.read_when("Reborn", 0, 10).await), expected);
        assert_eq!(server.max_offset("Reborn", 0).await, 10, "restarted: {restarted}");
        assert_eq!(server.progress("reborn_group", "Reborn", 0).await, Some(0));
    }
}

#[tokio::test]
async fn queue_numbers_out_of_range_are_refused() {
    let server = Server::start(&[]);
    for (read, write) in [(-1, 4), (4, -1), (i32::MAX, 4), (4, i32::MAX)] {
        let mut wanted = create("Odd");
        (wanted.read_queue_nums, wanted.write_queue_nums) = (read, write);
        let made = server.call(request::UPDATE_AND_CREATE_TOPIC, &wanted, &[]).await;
        assert!(!refusal(made).1.is_empty(), "{read} {write}");
    }
    for perm in [-1, 8, 255, i32::MAX] {
        let wanted = CreateTopic { perm, ..create("Odd") };
        let made = server.call(request::UPDATE_AND_CREATE_TOPIC, &wanted, &[]).await;
        assert!(refusal(made).1.contains("perm"), "{perm}");
    }
    server.topic("Even", 4).await;
    for queue in [4, 5, i32::MAX] {
        let (code, remark) = refusal(server.try_send(queue, &Message::new("Even", "x")).await);
        assert_eq!(code, response::SYSTEM_ERROR);
        assert!(remark.contains(&queue.to_string()), "{remark}");
    }
    // Below 0 the broker chooses.
    for queue in [-1, i32::MIN] {
        let receipt = server.send(queue, &Message::new("Even", "x")).await;
        assert!((0..4).contains(&receipt.queue_id));
    }
}
