//! Delayed messages: none lost, none twice after an orderly stop, no level stuck.

use std::path::Path;
use std::time::Duration;

use broker_client::Message;
use broker_protocol::body::DelayOffsetTable;
use broker_protocol::code::response;
use broker_protocol::tags::tags_code;

use crate::support::{SHORT_LEVELS, Server, bodies, counted, now, refusal, until};

const TOPIC: &str = "Later";
const WAITING: &str = "SCHEDULE_TOPIC_XXXX";

fn delay_offset(file: &Path, level: i32) -> Option<i64> {
    let bytes = std::fs::read(file).ok()?;
    let table: DelayOffsetTable = broker_protocol::json::from_slice(&bytes).ok()?;
    table.offset_table.get(&level).copied()
}

async fn send_delayed(server: &Server, numbers: std::ops::Range<usize>, level: u32) {
    for number in numbers {
        let message = Message::new(TOPIC, number.to_string()).delay_level(level);
        server.send(0, &message).await;
    }
}

#[tokio::test]
async fn a_delayed_message_comes_as_it_was_sent() {
    let server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 4).await;
    let sent_at = now();
    let message = Message::new(TOPIC, "x").tag("Tag").keys("a b").property("own", "1");
    let receipt = server.send(3, &message.clone().delay_level(1)).await;
    assert_eq!(receipt.queue_id, 3, "the answer names the queue that was asked for");
    let stored = server.read_when(TOPIC, 3, 1).await.remove(0);
    assert!(stored.store_timestamp >= sent_at + 1_000, "came too early");
    assert_eq!((stored.tag(), stored.keys()), (Some("Tag"), Some("a b")));
    assert_eq!(stored.property("own"), Some("1"));
    assert_eq!(stored.unique_id(), Some(&*receipt.unique_ids[0]));
    // Its queue knows its tag again: filters work.
    assert_eq!(server.pull(TOPIC, 3, 0, "Tag").await.messages.len(), 1);
    assert_eq!(server.pull(TOPIC, 3, 0, "Other").await.messages.len(), 0);
    let unit = std::fs::read(
        server
            .broker
            .store_folder()
            .join("consumequeue")
            .join(TOPIC)
            .join("3")
            .join("0".repeat(20)),
    );
    let code = i64::from_be_bytes(unit.unwrap()[12..20].try_into().unwrap());
    assert_eq!(code, tags_code("Tag"));
}

#[tokio::test]
async fn levels_beyond_the_last_wait_as_long_as_the_last() {
    let server = Server::start(&[("messageDelayLevel", "1s 2s 1s")]);
    server.topic(TOPIC, 1).await;
    send_delayed(&server, 0..1, 77).await;
    assert_eq!(server.read_when(WAITING, 2, 1).await.len(), 1);
    assert_eq!(bodies(&server.read_when(TOPIC, 0, 1).await), ["0"]);
    let nonsense = Message::new(TOPIC, "x").property("DELAY", "soon");
    let (code, remark) = refusal(server.try_send(0, &nonsense).await);
    assert!(matches!(code, response::MESSAGE_ILLEGAL | response::SYSTEM_ERROR), "{code}");
    assert!(!remark.is_empty());
    // No delay at all.
    server.send(0, &Message::new(TOPIC, "now").property("DELAY", "0")).await;
    server.send(0, &Message::new(TOPIC, "too").property("DELAY", "-1")).await;
    assert_eq!(bodies(&server.read_when(TOPIC, 0, 3).await)[1..], ["now", "too"]);
}

/// Stops or kills a broker while it delivers, and waits until it has delivered the rest; how often
/// each message came.
async fn interrupted(
    stop: impl AsyncFnOnce(&mut Server),
) -> std::collections::BTreeMap<String, usize> {
    const HALF: usize = 150;
    let mut server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    send_delayed(&server, 0..HALF, 1).await;
    server.read_when(TOPIC, 0, 1).await;
    send_delayed(&server, HALF..2 * HALF, 1).await;
    let delivered = server.max_offset(TOPIC, 0).await;
    stop(&mut server).await;
    server.restart();
    // A level delivers in order: when the last one is there, all are.
    let last = Message::new(TOPIC, "last").delay_level(1);
    server.send(0, &last).await;
    let all = until("the last message", async || {
        let all = bodies(&server.read_all(TOPIC, 0).await);
        (all.last().map(String::as_str) == Some("last")).then_some(all)
    })
    .await;
    assert!(delivered < 2 * HALF as i64, "all were delivered before the stop");
    let counts = counted(all);
    assert_eq!(counts.len(), 2 * HALF + 1, "some were lost");
    counts
}

#[tokio::test]
async fn an_orderly_stop_during_delivery_repeats_nothing() {
    let counts = interrupted(async |server| {
        server.stop().await;
    })
    .await;
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "delivered more than once: {twice:?}");
}

#[tokio::test]
async fn a_kill_during_delivery_loses_nothing() {
    let counts = interrupted(async |server| server.kill().await).await;
    assert!(counts.values().all(|count| *count <= 2), "{counts:?}");
}

#[tokio::test]
async fn progress_beyond_the_queue_or_before_it_is_corrected() {
    let mut server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    send_delayed(&server, 0..10, 3).await;
    assert_eq!(server.read_when(TOPIC, 0, 10).await.len(), 10);
    server.stop().await;
    let file = server.config_file("delayOffset.json");
    assert_eq!(delay_offset(&file, 3), Some(10), "the progress is saved at the stop");

    std::fs::write(&file, "{\n\t\"offsetTable\":{3:169171,4:7,5:-12}\n}").unwrap();
    server.restart();
    for level in 3..6 {
        send_delayed(&server, 10..11, level).await;
    }
    let all = bodies(&server.read_when(TOPIC, 0, 13).await);
    assert_eq!(all[10..], ["10", "10", "10"]);
    server.stop().await;
    assert_eq!(delay_offset(&file, 3), Some(11), "the file is put right");
    assert_eq!((delay_offset(&file, 4), delay_offset(&file, 5)), (Some(1), Some(1)));
    server.restart();
    send_delayed(&server, 11..12, 3).await;
    assert_eq!(server.read_when(TOPIC, 0, 14).await.len(), 14);
}

#[tokio::test]
async fn a_settings_file_full_of_junk_is_replaced_by_its_backup() {
    let mut server = Server::start(&[SHORT_LEVELS, ("flushConsumerOffsetInterval", "100")]);
    server.topic(TOPIC, 1).await;
    for round in 0..2 {
        send_delayed(&server, round..round + 1, 1).await;
        assert_eq!(server.read_when(TOPIC, 0, round as i64 + 1).await.len(), round + 1);
        server.commit("group", TOPIC, 0, round as i64).await;
        server.topic(&format!("Other{round}"), 1).await;
        let group = broker_protocol::body::SubscriptionGroupConfig::new(format!("g{round}"));
        server.client.admin().update_group(server.address(), &group).await.unwrap();
        // Each stop saves everything, and keeps what was there as the backup.
        server.stop().await;
        server.restart();
    }
    server.stop().await;
    const FILES: [&str; 4] =
        ["delayOffset.json", "consumerOffset.json", "topics.json", "subscriptionGroup.json"];
    let saved = FILES.map(|name| std::fs::read(server.config_file(name)).unwrap());
    for (name, bytes) in FILES.iter().zip(&saved) {
        let file = server.config_file(name);
        let backup = server.config_file(&format!("{name}.bak"));
        assert!(backup.exists(), "{name} has no backup");
        std::fs::write(&backup, bytes).unwrap();
        std::fs::write(&file, vec![0; bytes.len()]).unwrap();
    }
    server.restart();
    let log = server.log();
    for name in FILES {
        let warned = log.lines().any(|line| line.contains("WARN") && line.contains(name));
        assert!(warned, "no warning about {name}");
    }
    assert_eq!(server.progress("group", TOPIC, 0).await, Some(1));
    let topics = server.client.admin().topic_configs(server.address()).await.unwrap();
    assert!(topics.topic_config_table.contains_key("Other1"));
    // Nothing was delivered again.
    send_delayed(&server, 2..3, 1).await;
    assert_eq!(bodies(&server.read_when(TOPIC, 0, 3).await), ["0", "1", "2"]);
}

#[tokio::test]
async fn without_a_readable_settings_file_the_broker_does_not_start_and_says_why() {
    let mut server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    send_delayed(&server, 0..1, 1).await;
    server.read_when(TOPIC, 0, 1).await;
    server.commit("group", TOPIC, 0, 1).await;
    server.stop().await;
    for name in ["delayOffset.json", "consumerOffset.json", "topics.json"] {
        let (file, backup) = (server.config_file(name), server.config_file(&format!("{name}.bak")));
        let saved = (std::fs::read(&file).unwrap(), std::fs::read(&backup).ok());
        std::fs::write(&file, vec![0; 4096]).unwrap();
        std::fs::write(&backup, vec![0; 4096]).unwrap();
        let log_file =
            file.parent().unwrap().parent().unwrap().parent().unwrap().join("broker.out");
        let said = std::fs::read(&log_file).unwrap().len();
        server.broker.spawn().unwrap();
        let process = server.broker.running().unwrap();
        let status = process.wait(Duration::from_secs(60)).unwrap();
        assert!(!status.success(), "{name}");
        let log = process.log_text()[said..].to_owned();
        assert!(log.contains(name), "{name} is not named:\n{log}");
        server.broker.process = None;
        // Nothing was deleted or written over: with the file back, all is as before.
        std::fs::write(&file, &saved.0).unwrap();
        match &saved.1 {
            Some(bytes) => std::fs::write(&backup, bytes).unwrap(),
            None => std::fs::remove_file(&backup).unwrap(),
        }
        server.restart();
        assert_eq!(bodies(&server.read_all(TOPIC, 0).await), ["0"]);
        assert_eq!(server.progress("group", TOPIC, 0).await, Some(1));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_topic_that_is_deleted_meanwhile_does_not_hold_up_its_level() {
    let server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    server.topic("Doomed", 1).await;
    server.send(0, &Message::new("Doomed", "gone").delay_level(2)).await;
    send_delayed(&server, 0..3, 2).await;
    server.client.admin().delete_topic(server.address(), "Doomed").await.unwrap();
    assert_eq!(bodies(&server.read_when(TOPIC, 0, 3).await), ["0", "1", "2"]);
}

#[tokio::test]
async fn what_is_due_while_the_broker_is_down_comes_after_its_start() {
    let mut server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    send_delayed(&server, 0..5, 4).await;
    let sent_at = now();
    server.kill().await;
    until("all is due", async || (now() > sent_at + 1_000).then_some(())).await;
    server.restart();
    assert_eq!(bodies(&server.read_when(TOPIC, 0, 5).await), ["0", "1", "2", "3", "4"]);
}
