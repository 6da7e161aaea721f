//! A group's progress: where resets move it, for groups online and offline, and that it survives.

use std::collections::BTreeMap;

use broker_client::{ClientOptions, Message};
use broker_protocol::body::{QueueOffsetList, QueueOffsets, SubscriptionGroupConfig};
use broker_protocol::code::{request, response};
use broker_protocol::request::offset::{OffsetResponse, QueryConsumerOffset};
use broker_protocol::version::Language;

use crate::support::{Server, listening, member, next_moment, now, options, refusal, until};

const TOPIC: &str = "Progress";
const GROUP: &str = "progress_group";

/// The offsets of a reset's answer by queue id.
async fn reset(server: &Server, timestamp: i64, force: bool) -> BTreeMap<i32, i64> {
    let admin = server.client.admin();
    let table = admin.reset_offset(server.address(), GROUP, TOPIC, timestamp, force).await.unwrap();
    assert!(table.keys().all(|queue| &*queue.broker_name == "broker-a" && &*queue.topic == TOPIC));
    table.into_iter().map(|(queue, offset)| (queue.queue_id, offset)).collect()
}

/// Ten messages in queue 0, each stored at another time; the times.
async fn ten_messages(server: &Server) -> Vec<i64> {
    for number in 0..10 {
        server.send(0, &Message::new(TOPIC, format!("{number}"))).await;
        next_moment().await;
    }
    let messages = server.read_when(TOPIC, 0, 10).await;
    messages.iter().map(|message| message.store_timestamp).collect()
}

#[tokio::test]
async fn a_reset_to_now_goes_behind_the_last_message() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let times = ten_messages(&server).await;
    let (client, seen) = listening(options(), |_| None);
    member(&client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    server.commit(GROUP, TOPIC, 0, 4).await;

    for timestamp in [-1, times[9] + 1, now() + 60_000, i64::MAX] {
        assert_eq!(reset(&server, timestamp, true).await, [(0, 10)].into(), "at {timestamp}");
    }
    let told = until("the member is told", async || {
        let told = seen.of(request::RESET_CONSUMER_CLIENT_OFFSET);
        (told.len() == 4).then_some(told)
    });
    for told in told.await {
        assert_eq!(told.field("group"), Some(GROUP));
        assert_eq!(told.field("topic"), Some(TOPIC));
        let table: QueueOffsets = broker_protocol::json::from_slice(&told.body).unwrap();
        assert_eq!(table.offset_table.into_values().collect::<Vec<_>>(), [10]);
        assert!(told.oneway);
    }
    // The last message itself is still to come when its own time is asked for.
    assert_eq!(reset(&server, times[9], true).await, [(0, 9)].into());
    // What tools do for groups that are offline.
    let admin = server.client.admin();
    for timestamp in [times[9] + 1, now()] {
        let found = admin.search_offset(server.address(), TOPIC, 0, timestamp).await.unwrap();
        assert_eq!(found, 10);
    }
}

#[tokio::test]
async fn a_reset_of_an_offline_group_is_refused_and_can_be_done_by_hand() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let times = ten_messages(&server).await;
    server.commit(GROUP, TOPIC, 0, 8).await;
    let admin = server.client.admin();
    for (timestamp, force) in [(times[2], true), (times[2], false), (-1, true), (-1, false)] {
        let outcome = admin.reset_offset(server.address(), GROUP, TOPIC, timestamp, force).await;
        let (code, remark) = refusal(outcome);
        assert_eq!(code, response::CONSUMER_NOT_ONLINE);
        assert!(remark.contains(GROUP), "{remark}");
    }
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(8));

    let stats = admin.consume_stats(server.address(), GROUP, Some(TOPIC)).await.unwrap();
    let (queue, before) = stats.offset_table.into_iter().next().unwrap();
    assert_eq!((before.consumer_offset, before.broker_offset), (8, 10));
    let address = server.address();
    let back = admin.search_offset(address, TOPIC, queue.queue_id, times[2]).await.unwrap();
    assert_eq!(back, 2);
    server.commit(GROUP, TOPIC, queue.queue_id, back).await;
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(2));
    let stats = admin.consume_stats(server.address(), GROUP, Some(TOPIC)).await.unwrap();
    assert_eq!(stats.total_diff(), 8);
}

#[tokio::test]
async fn a_reset_moves_each_queue_back_and_forward_only_by_force() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 3).await;
    let times = ten_messages(&server).await;
    // Queue 1 has one message, later than all of queue 0; queue 2 none.
    server.send(1, &Message::new(TOPIC, "late")).await;
    let (client, seen) = listening(options(), |_| None);
    member(&client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    server.commit(GROUP, TOPIC, 0, 5).await;
    server.commit(GROUP, TOPIC, 1, 1).await;
    server.commit(GROUP, TOPIC, 2, 0).await;

    let back = [(0, 2), (1, 0), (2, 0)].into();
    assert_eq!(reset(&server, times[2], false).await, back);
    assert_eq!(reset(&server, times[2], true).await, back);
    assert_eq!(reset(&server, times[7], false).await, [(0, 5), (1, 0), (2, 0)].into());
    assert_eq!(reset(&server, times[7], true).await, [(0, 7), (1, 0), (2, 0)].into());
    assert_eq!(reset(&server, -1, false).await, [(0, 5), (1, 1), (2, 0)].into());
    assert_eq!(reset(&server, -1, true).await, [(0, 10), (1, 1), (2, 0)].into());
    assert_eq!(reset(&server, 0, false).await, [(0, 0), (1, 0), (2, 0)].into());
    until("the member is told each time", async || {
        (seen.of(request::RESET_CONSUMER_CLIENT_OFFSET).len() == 7).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_in_cpp_are_told_a_reset_as_a_list() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    ten_messages(&server).await;
    let mut cpp: ClientOptions = options();
    cpp.connection.language = Language::Cpp;
    let (client, seen) = listening(cpp, |_| None);
    member(&client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    server.commit(GROUP, TOPIC, 0, 3).await;
    assert_eq!(reset(&server, -1, true).await, [(0, 10)].into());
    let told = until("the member is told", async || {
        seen.of(request::RESET_CONSUMER_CLIENT_OFFSET).into_iter().next()
    });
    let body = told.await.body;
    let list: QueueOffsetList = broker_protocol::json::from_slice(&body).unwrap();
    assert_eq!(list.offset_table.len(), 1);
    assert_eq!((list.offset_table[0].queue_id, list.offset_table[0].offset), (0, 10));
}

#[tokio::test]
async fn a_reset_of_an_unknown_topic_is_refused() {
    let server = Server::start(&[]);
    let client = crate::support::client();
    member(&client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    let admin = server.client.admin();
    let (code, remark) =
        refusal(admin.reset_offset(server.address(), GROUP, "NoSuchTopic", -1, true).await);
    assert!(matches!(code, response::SYSTEM_ERROR | response::TOPIC_NOT_EXIST), "{code}");
    assert!(remark.contains("NoSuchTopic"), "{remark}");
}

#[tokio::test]
async fn progress_survives_an_orderly_stop_and_a_kill() {
    let mut server = Server::start(&[("flushConsumerOffsetInterval", "200")]);
    server.topic(TOPIC, 2).await;
    ten_messages(&server).await;
    server.commit(GROUP, TOPIC, 0, 7).await;
    server.stop().await;
    server.restart();
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(7));

    server.commit(GROUP, TOPIC, 0, 9).await;
    let file = server.config_file("consumerOffset.json");
    until("the progress is saved", async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.contains(":9").then_some(())
    })
    .await;
    server.kill().await;
    server.restart();
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(9));
    // A smaller one counts, too: a reset is just that.
    server.commit(GROUP, TOPIC, 0, 1).await;
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(1));
}

#[tokio::test]
async fn a_new_group_begins_at_the_first_message() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    server.send(0, &Message::new(TOPIC, "first")).await;
    server.read_when(TOPIC, 0, 1).await;
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(0));
    // Brokers of 4.9 do not know the wish of newer clients to decide by themselves.
    let strict = QueryConsumerOffset {
        consumer_group: GROUP.into(),
        topic: TOPIC.into(),
        queue_id: 0,
        set_zero_if_not_found: Some(false),
    };
    let mut reply = server.call(request::QUERY_CONSUMER_OFFSET, &strict, &[]).await.unwrap();
    assert_eq!(reply.header::<OffsetResponse>().unwrap().offset, 0);
}

#[tokio::test]
async fn groups_are_deleted_and_cloned_with_or_without_their_progress() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    ten_messages(&server).await;
    let admin = server.client.admin();
    let address = server.address();
    for group in ["kept", "removed"] {
        let config = SubscriptionGroupConfig::new(group);
        admin.update_group(address, &config).await.unwrap();
        server.commit(group, TOPIC, 0, 6).await;
    }
    admin.delete_group(address, "kept", false).await.unwrap();
    admin.delete_group(address, "removed", true).await.unwrap();
    assert_eq!(server.progress("kept", TOPIC, 0).await, Some(6));
    assert_eq!(server.progress("removed", TOPIC, 0).await, Some(0));
    let groups = admin.groups(address).await.unwrap();
    assert!(!groups.subscription_group_table.contains_key("kept"));

    admin.clone_group_offset(address, "kept", "copy", Some(TOPIC)).await.unwrap();
    assert_eq!(server.progress("copy", TOPIC, 0).await, Some(6));
    server.commit("copy", TOPIC, 0, 8).await;
    assert_eq!(server.progress("kept", TOPIC, 0).await, Some(6));
}

#[tokio::test]
async fn progress_under_odd_names_is_refused_or_kept() {
    let mut server = Server::start(&[("flushConsumerOffsetInterval", "100")]);
    server.topic(TOPIC, 1).await;
    let long = "n".repeat(1 << 20);
    let admin = server.client.admin();
    let names = ["", " ", "a@b", "@", "a\0b", "a\"b", "{", "名", "../x", &long];
    let mut kept = Vec::new();
    for name in names {
        for (group, topic) in [(name, TOPIC), (GROUP, name)] {
            let done = admin.update_consumer_offset(server.address(), group, topic, 0, 5).await;
            match done {
                Ok(()) => kept.push((group, topic)),
                refused => assert!(!refusal(refused).1.is_empty()),
            }
        }
    }
    for (queue, offset) in [(-1, 5), (i32::MAX, 5), (0, -5), (0, i64::MIN)] {
        let done = admin.update_consumer_offset(server.address(), GROUP, TOPIC, queue, offset);
        assert!(!refusal(done.await).1.is_empty(), "queue {queue}, offset {offset}");
    }
    assert!(kept.iter().all(|(group, topic)| group.len() + topic.len() < 1_000), "bounded");
    server.commit("good", TOPIC, 0, 7).await;
    server.stop().await;
    server.restart();
    assert_eq!(server.progress("good", TOPIC, 0).await, Some(7));
    for (group, topic) in kept {
        assert_eq!(server.progress(group, topic, 0).await, Some(5), "{group:?} {topic:?}");
    }
}
