//! Finding messages: by key, by time, by place.

use std::fs::File;
use std::time::{Duration, SystemTime};

use broker_client::Message;
use broker_protocol::code::response;

use crate::support::{Server, bodies, next_moment, refusal, until};

const TOPIC: &str = "Found";

/// Bodies of what a query by key finds, in order of storing.
async fn by_key(server: &Server, topic: &str, key: &str, max: i32) -> Vec<String> {
    between(server, topic, key, max, 0, i64::MAX).await
}

async fn between(
    server: &Server,
    topic: &str,
    key: &str,
    max: i32,
    begin: i64,
    end: i64,
) -> Vec<String> {
    let admin = server.client.admin();
    let found = admin.query_messages(server.address(), topic, key, false, max, begin, end).await;
    let mut messages = found.unwrap().messages;
    messages.sort_by_key(|message| message.physical_offset);
    bodies(&messages)
}

/// Waits until everything stored so far is in the index.
async fn indexed(server: &Server, topic: &str) {
    server.send(0, &Message::new(topic, "marker").keys("marker")).await;
    until("the index has caught up", async || {
        (!by_key(server, topic, "marker", 1).await.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn keys_of_equal_hash_are_told_apart() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    for number in 0..3 {
        server.send(0, &Message::new(TOPIC, format!("Aa{number}")).keys("orderAa")).await;
        for _ in 0..15 {
            server.send(0, &Message::new(TOPIC, "BB").keys("orderBB")).await;
        }
    }
    server.send(0, &Message::new(TOPIC, "both").keys("orderBB orderAa")).await;
    indexed(&server, TOPIC).await;
    let expected = ["Aa0", "Aa1", "Aa2", "both"];
    assert_eq!(by_key(&server, TOPIC, "orderAa", 32).await, expected);
    assert_eq!(by_key(&server, TOPIC, "orderAa", 4).await, expected);
    // At most as many as asked for, and all of them right.
    let two = by_key(&server, TOPIC, "orderAa", 2).await;
    assert_eq!(two.len(), 2);
    assert!(two.iter().all(|body| expected.contains(&body.as_str())), "{two:?}");
    let others = by_key(&server, TOPIC, "orderBB", 64).await;
    assert!(others.len() >= 32, "{}", others.len());
    assert!(others.iter().all(|body| body == "BB" || body == "both"), "{others:?}");
    assert!(by_key(&server, TOPIC, "orderCc", 32).await.is_empty());
}

#[tokio::test]
async fn topics_and_whole_keys_count() {
    let server = Server::start(&[]);
    // These topics have one hash, too.
    for topic in ["TopicAa", "TopicBB"] {
        server.topic(topic, 1).await;
        server.send(0, &Message::new(topic, topic).keys("k1 k2 longer")).await;
        indexed(&server, topic).await;
    }
    assert_eq!(by_key(&server, "TopicAa", "k1", 32).await, ["TopicAa"]);
    assert_eq!(by_key(&server, "TopicBB", "longer", 32).await, ["TopicBB"]);
    for part in ["k", "K1", "long", "k1 k2", "1 k", " ", "", "onger"] {
        let found = by_key(&server, "TopicAa", part, 32).await;
        assert!(found.is_empty(), "{part:?} finds {found:?}");
    }
}

#[tokio::test]
async fn unique_ids_find_their_message_and_keys_do_not_pass_for_them() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let receipt = server.send(0, &Message::new(TOPIC, "one")).await;
    let unique = receipt.unique_ids[0].clone();
    server.send(0, &Message::new(TOPIC, "names the other").keys(&unique)).await;
    indexed(&server, TOPIC).await;
    let admin = server.client.admin();
    let found =
        admin.query_messages(server.address(), TOPIC, &unique, true, 1, 0, i64::MAX).await.unwrap();
    assert!(found.messages.iter().any(|message| message.unique_id() == Some(&*unique)));
    assert!(found.index_offset > 0 && found.index_timestamp > 0, "{found:?}");
    let none = admin
        .query_messages(server.address(), TOPIC, "7F000001000000000000000000000000", true, 1, 0, 1)
        .await
        .unwrap();
    assert!(none.messages.is_empty());
}

#[tokio::test]
async fn a_key_is_found_within_its_time_only() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    for number in 0..3 {
        server.send(0, &Message::new(TOPIC, number.to_string()).keys("k")).await;
        until("another second", async || {
            tokio::time::sleep(Duration::from_millis(1_100)).await;
            Some(())
        })
        .await;
    }
    indexed(&server, TOPIC).await;
    let all = server.read_all(TOPIC, 0).await;
    let times: Vec<i64> = all.iter().map(|message| message.store_timestamp).collect();
    assert_eq!(between(&server, TOPIC, "k", 32, 0, i64::MAX).await, ["0", "1", "2"]);
    assert_eq!(between(&server, TOPIC, "k", 32, times[1], times[1]).await, ["1"]);
    assert_eq!(between(&server, TOPIC, "k", 32, times[1], times[2]).await, ["1", "2"]);
    assert_eq!(between(&server, TOPIC, "k", 32, 0, times[0]).await, ["0"]);
    assert!(between(&server, TOPIC, "k", 32, times[2] + 5_000, i64::MAX).await.is_empty());
    assert!(between(&server, TOPIC, "k", 32, times[2], times[0]).await.is_empty());
}

#[tokio::test]
async fn many_keys_roll_the_index_over_and_stay_found() {
    let mut server = Server::start(&[("maxHashSlotNum", "10"), ("maxIndexNum", "40")]);
    server.topic(TOPIC, 1).await;
    for number in 0..150 {
        let message = Message::new(TOPIC, number.to_string()).keys(format!("key{number} all"));
        server.send(0, &message).await;
    }
    indexed(&server, TOPIC).await;
    for restart in [false, true] {
        if restart {
            server.kill().await;
            server.restart();
            indexed(&server, TOPIC).await;
        }
        for number in [0, 1, 77, 148, 149] {
            let found = by_key(&server, TOPIC, &format!("key{number}"), 32).await;
            assert_eq!(found, [number.to_string()], "restarted: {restart}");
        }
        assert_eq!(by_key(&server, TOPIC, "all", 32).await.len(), 32);
    }
}

#[tokio::test]
async fn a_time_finds_the_first_message_stored_then_or_later() {
    // Five messages to a file.
    let mut server = Server::start(&[("mappedFileSizeConsumeQueue", "100")]);
    server.topic(TOPIC, 2).await;
    for number in 0..12 {
        server.send(0, &Message::new(TOPIC, number.to_string())).await;
        next_moment().await;
    }
    let messages = server.read_when(TOPIC, 0, 12).await;
    let times: Vec<i64> = messages.iter().map(|message| message.store_timestamp).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    for restarted in [false, true] {
        if restarted {
            server.stop().await;
            // When files were changed says nothing about what is in them.
            let folder = server.broker.store_folder().join("consumequeue").join(TOPIC).join("0");
            let mut files: Vec<_> =
                std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            assert!(files.len() >= 3, "{files:?}");
            for (number, file) in files.iter().enumerate() {
                let hours = Duration::from_secs(3_600 * (number as u64 + 1));
                let time =
                    if number == 0 { SystemTime::now() + hours } else { SystemTime::now() - hours };
                File::options().write(true).open(file).unwrap().set_modified(time).unwrap();
            }
            server.restart();
        }
        let admin = server.client.admin();
        let at = async |time| admin.search_offset(server.address(), TOPIC, 0, time).await.unwrap();
        for (offset, time) in times.iter().enumerate() {
            assert_eq!(at(*time).await, offset as i64, "at the time of message {offset}");
            assert_eq!(at(*time - 1).await, offset as i64, "before message {offset}");
            assert_eq!(at(*time + 1).await, offset as i64 + 1, "behind message {offset}");
        }
        assert_eq!(at(0).await, 0);
        assert_eq!(at(times[0] - 100_000).await, 0);
        assert_eq!(at(times[11] + 100_000).await, 12);
        assert_eq!(at(i64::MAX).await, 12);
        let address = server.address();
        assert_eq!(admin.earliest_store_time(address, TOPIC, 0).await.unwrap(), times[0]);
        assert_eq!(admin.earliest_store_time(address, TOPIC, 1).await.unwrap(), -1);
        assert_eq!(admin.search_offset(address, TOPIC, 1, times[3]).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_message_is_viewed_by_its_id() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let receipt = server.send(0, &Message::new(TOPIC, "seen").keys("k")).await;
    let admin = server.client.admin();
    let seen = admin.view_message_by_id(&receipt.offset_ids[0]).await.unwrap();
    assert_eq!((&seen.body[..], seen.keys()), (&b"seen"[..], Some("k")));
    assert_eq!(seen.unique_id(), Some(&*receipt.unique_ids[0]));
    let (code, remark) = refusal(admin.view_message(server.address(), 987_654_321).await);
    assert_eq!(code, response::SYSTEM_ERROR);
    assert!(remark.contains("987654321"), "{remark}");
}

#[tokio::test]
async fn odd_queries_are_answered_within_bounds() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    for number in 0..100 {
        server.send(0, &Message::new(TOPIC, number.to_string()).keys("many")).await;
    }
    indexed(&server, TOPIC).await;
    for max in [0, -1, i32::MIN, 1, i32::MAX] {
        let found = by_key(&server, TOPIC, "many", max).await;
        assert!(found.len() <= usize::try_from(max).unwrap_or(0).max(1), "{max}: {}", found.len());
    }
    let long = "k".repeat(100_000);
    for key in [long.as_str(), "\0", "many#", "#many", "名字"] {
        assert!(by_key(&server, TOPIC, key, 32).await.is_empty());
    }
    assert!(by_key(&server, "NoSuchTopic", "many", 32).await.is_empty());
    assert!(by_key(&server, "../config", "many", 32).await.is_empty());
    assert!(between(&server, TOPIC, "many", 32, i64::MIN, -1).await.is_empty());
    assert_eq!(between(&server, TOPIC, "many", 32, i64::MIN, i64::MAX).await.len(), 32);
    let admin = server.client.admin();
    for time in [i64::MIN, -1, 0] {
        let found = admin.search_offset(server.address(), TOPIC, 0, time).await.unwrap();
        assert_eq!(found, 0, "{time}");
    }
}
