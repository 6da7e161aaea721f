//! Messages that consumers give back: they come again after a delay, and end among the dead letters.

use std::time::{Duration, Instant};

use broker_client::{Message, StoredMessage};
use broker_protocol::body::SubscriptionGroupConfig;
use broker_protocol::code::{request, response};
use broker_protocol::properties::name as property;

use crate::support::{SHORT_LEVELS, Server, bodies, member, refusal, send_header, until};

const TOPIC: &str = "Failing";
const GROUP: &str = "failing_group";
const RETRY: &str = "%RETRY%failing_group";
const DEAD: &str = "%DLQ%failing_group";
const WAITING: &str = "SCHEDULE_TOPIC_XXXX";

/// A broker with one message in queue 0 of the topic, and the group known to it.
async fn with_message(settings: &[(&str, &str)], message: Message) -> (Server, StoredMessage) {
    let server = Server::start(settings);
    server.topic(TOPIC, 1).await;
    member(&server.client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    server.send(0, &message).await;
    let stored = server.read_when(TOPIC, 0, 1).await.remove(0);
    (server, stored)
}

fn assert_no_delay(message: &StoredMessage) {
    assert_eq!(message.property(property::DELAY_TIME_LEVEL), None);
}

async fn waiting(server: &Server) -> i64 {
    let mut all = 0;
    for level in 0..18 {
        all += server.max_offset(WAITING, level).await;
    }
    all
}

#[tokio::test]
async fn a_message_that_fails_too_often_is_a_dead_letter_at_once() {
    let message = Message::new(TOPIC, "bad").tag("T").keys("k");
    let (server, first) = with_message(&[SHORT_LEVELS], message).await;
    let mut current = first.clone();
    for attempt in 1..=2 {
        // Level 2 on the second attempt: its copy carries a delay when it fails for the last time.
        let level = if attempt == 2 { 2 } else { 0 };
        server.send_back(GROUP, current.physical_offset, level, Some(2)).await.unwrap();
        let retried = server.read_when(RETRY, 0, attempt).await;
        current = retried.last().unwrap().clone();
        assert_eq!(i64::from(current.reconsume_times), attempt);
        assert_eq!(current.property(property::RETRY_TOPIC), Some(TOPIC));
        let origin = current.property(property::ORIGIN_MESSAGE_ID).map(str::to_owned);
        assert_eq!(origin.as_deref(), Some(first.offset_id().as_str()));
        assert_eq!(current.unique_id(), first.unique_id());
    }
    let waited = waiting(&server).await;
    let failed = Instant::now();
    server.send_back(GROUP, current.physical_offset, 0, Some(2)).await.unwrap();
    let dead = server.read_when(DEAD, 0, 1).await.remove(0);
    assert!(failed.elapsed() < Duration::from_secs(2), "{:?}", failed.elapsed());
    assert_eq!(waiting(&server).await, waited, "a dead letter waits for nothing");
    assert_no_delay(&dead);
    assert_eq!(dead.body, first.body);
    assert_eq!((dead.tag(), dead.keys()), (Some("T"), Some("k")));
    assert_eq!(dead.unique_id(), first.unique_id());
    let origin = dead.property(property::ORIGIN_MESSAGE_ID);
    assert_eq!(origin, Some(first.offset_id().as_str()));
    assert_eq!(dead.property(property::RETRY_TOPIC), Some(TOPIC));
    assert_eq!((dead.born_timestamp, dead.born_host), (first.born_timestamp, first.born_host));
    assert_eq!(server.max_offset(RETRY, 0).await, 2);
}

#[tokio::test]
async fn a_consumer_may_give_a_message_up_although_it_was_sent_with_a_delay() {
    let message = Message::new(TOPIC, "late").delay_level(1);
    let (server, first) = with_message(&[SHORT_LEVELS], message).await;
    let waited = waiting(&server).await;
    server.send_back(GROUP, first.physical_offset, -1, Some(16)).await.unwrap();
    let dead = server.read_when(DEAD, 0, 1).await.remove(0);
    assert_no_delay(&dead);
    assert_eq!(dead.unique_id(), first.unique_id());
    assert_eq!(waiting(&server).await, waited);
    assert_eq!(server.max_offset(RETRY, 0).await, 0);
}

#[tokio::test]
async fn each_attempt_waits_one_level_longer() {
    let (server, first) = with_message(&[], Message::new(TOPIC, "slow")).await;
    for (level, expected) in [(0, 3), (1, 1), (5, 5), (18, 18), (99, 18)] {
        let queue = expected - 1;
        let before = server.max_offset(WAITING, queue).await;
        server.send_back(GROUP, first.physical_offset, level, Some(16)).await.unwrap();
        let waiting = server.read_when(WAITING, queue, before + 1).await;
        let last = waiting.last().unwrap();
        assert_eq!(last.property(property::REAL_TOPIC), Some(RETRY), "level {level}");
        assert_eq!(last.reconsume_times, 1);
    }
    // A message that came back four times already waits for level 3 + 4.
    let mut header = send_header(TOPIC, 0, "");
    header.reconsume_times = Some(4);
    server.send_raw(request::SEND_MESSAGE, &header, b"often").await.unwrap();
    let often = server.read_when(TOPIC, 0, 2).await.remove(1);
    assert_eq!(often.reconsume_times, 4);
    server.send_back(GROUP, often.physical_offset, 0, Some(16)).await.unwrap();
    assert_eq!(bodies(&server.read_when(WAITING, 6, 1).await), ["often"]);
}

#[tokio::test]
async fn a_send_to_a_retry_topic_counts_as_an_attempt() {
    let server = Server::start(&[SHORT_LEVELS]);
    let mut group = SubscriptionGroupConfig::new(GROUP);
    group.retry_max_times = 3;
    server.client.admin().update_group(server.address(), &group).await.unwrap();
    let mut dead = 0;
    let mut retried = 0;
    for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2] {
        // (attempts, the client's own limit): the group's limit counts where the client has none.
        for (times, limit, is_dead) in [
            (16, Some(16), true),
            (17, Some(16), true),
            (5, Some(5), true),
            (3, None, true),
            (2, None, false),
            (3, Some(16), false),
        ] {
            let text = format!("DELAY\x012\x02RETRY_TOPIC\x01{TOPIC}\x02ORIGIN_MESSAGE_ID\x01ID");
            let mut header = send_header(RETRY, 0, &text);
            header.reconsume_times = Some(times);
            header.max_reconsume_times = limit;
            let body = format!("{code} {times} {limit:?}");
            server.send_raw(code, &header, body.as_bytes()).await.unwrap();
            let (topic, count) = if is_dead {
                dead += 1;
                (DEAD, dead)
            } else {
                retried += 1;
                (RETRY, retried)
            };
            let stored = server.read_when(topic, 0, count).await;
            let last = stored.last().unwrap();
            assert_eq!(last.body, body.as_bytes());
            assert_eq!(last.reconsume_times, times, "{body}");
            assert_eq!(last.property(property::ORIGIN_MESSAGE_ID), Some("ID"));
            assert_eq!(last.property(property::RETRY_TOPIC), Some(TOPIC));
            if is_dead {
                assert_no_delay(last);
            }
        }
    }
    assert_eq!((server.max_offset(RETRY, 0).await, dead), (retried, 8));
}

#[tokio::test]
async fn retries_of_an_unknown_group_are_refused() {
    let (server, first) =
        with_message(&[("autoCreateSubscriptionGroup", "false")], Message::new(TOPIC, "x")).await;
    let end = server.log_end().await;
    let outcome = server.send_back("unknown", first.physical_offset, 0, Some(16)).await;
    let (code, remark) = refusal(outcome);
    assert_eq!(code, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert!(remark.contains("unknown"), "{remark}");
    let header = send_header("%RETRY%unknown", 0, "");
    let outcome = server.send_raw(request::SEND_MESSAGE_V2, &header, b"x").await;
    assert_eq!(refusal(outcome).0, response::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert_eq!(server.log_end().await, end);
}

#[tokio::test]
async fn messages_stored_under_another_address_can_be_given_back() {
    let (mut server, first) = with_message(&[SHORT_LEVELS], Message::new(TOPIC, "moved")).await;
    server.stop().await;
    server.broker.options = server.broker.options.clone().with("brokerIP1", "127.0.0.2");
    server.restart();
    member(&server.client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    let new = server.send(0, &Message::new(TOPIC, "new")).await;
    assert!(new.offset_ids[0].starts_with("7F000002"), "{new:?}");
    server.send_back(GROUP, first.physical_offset, 0, Some(16)).await.unwrap();
    let retried = server.read_when(RETRY, 0, 1).await.remove(0);
    assert_eq!(retried.body, first.body);
    let origin = retried.property(property::ORIGIN_MESSAGE_ID);
    assert_eq!(origin, Some(first.offset_id().as_str()));
    // An old id is found at its place, whatever address it names.
    let admin = server.client.admin();
    let viewed = admin.view_message(server.address(), first.physical_offset).await.unwrap();
    assert_eq!(viewed, first);
}

#[tokio::test]
async fn offsets_without_a_message_are_refused_clearly() {
    let (server, first) = with_message(&[SHORT_LEVELS], Message::new(TOPIC, vec![0; 300])).await;
    // Makes the retry topic, so that nothing below needs to.
    server.send_back(GROUP, first.physical_offset, 1, Some(16)).await.unwrap();
    server.read_when(RETRY, 0, 1).await;
    let end = server.log_end().await;
    let inside = first.physical_offset + 5;
    for offset in [inside, end.parse().unwrap(), 1 << 40, i64::MAX, -1, i64::MIN] {
        let (code, remark) = refusal(server.send_back(GROUP, offset, 0, Some(16)).await);
        assert_eq!(code, response::SYSTEM_ERROR, "{offset}");
        assert!(remark.contains(&offset.to_string()), "{offset}: {remark}");
        let admin = server.client.admin();
        let viewed = admin.view_message(server.address(), offset).await;
        assert_eq!(refusal(viewed).0, response::SYSTEM_ERROR, "{offset}");
    }
    assert_eq!(server.log_end().await, end);
}

#[tokio::test]
async fn copies_of_a_copy_keep_the_first_id() {
    let (server, first) = with_message(&[SHORT_LEVELS], Message::new(TOPIC, "x")).await;
    let mut current = first.clone();
    for attempt in 1..=3 {
        server.send_back(GROUP, current.physical_offset, 0, Some(16)).await.unwrap();
        current = server.read_when(RETRY, 0, attempt).await.pop().unwrap();
    }
    assert_eq!(current.reconsume_times, 3);
    let origin = current.property(property::ORIGIN_MESSAGE_ID);
    assert_eq!(origin, Some(first.offset_id().as_str()));
    // It is still found by its key, once for each copy.
    let admin = server.client.admin();
    let unique = first.unique_id().unwrap();
    until("the copies are indexed", async || {
        let found =
            admin.query_messages(server.address(), RETRY, unique, true, 32, 0, i64::MAX).await;
        (found.unwrap().messages.len() == 3).then_some(())
    })
    .await;
}
