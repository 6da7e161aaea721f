//! Delayed messages: delivered when due, once, also over a restart.

use std::time::{Duration, Instant};

use broker_protocol::name::SCHEDULE_TOPIC;

use crate::server::{Client, Record, Server, pull, wait_until};

fn messages(client: &mut Client, topic: &str, queue_id: i32) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    loop {
        let offset = found.len() as i64;
        let answer = client.call(
            broker_protocol::code::request::PULL_MESSAGE,
            &pull(topic, queue_id, offset),
            &[],
        );
        if answer.code != 0 {
            return found;
        }
        found.extend(answer.records());
    }
}

#[test]
fn a_message_arrives_after_its_delay_with_all_that_was_sent() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 1, b"plain", "");
    let sent = Instant::now();
    let answer = client.send("orders", 1, b"later", "DELAY\u{1}1\u{2}TAGS\u{1}a\u{2}KEYS\u{1}k");
    assert_eq!((answer.code, answer.number("queueId")), (0, 1), "{answer:?}");
    assert_eq!(messages(&mut client, "orders", 1).len(), 1);
    let mut found = Vec::new();
    wait_until("it is delivered", || {
        found = messages(&mut client, "orders", 1);
        found.len() > 1
    });
    assert!(sent.elapsed() >= Duration::from_millis(990), "{:?}", sent.elapsed());
    let later = &found[1];
    assert_eq!((&*later.body, later.queue_offset), (&b"later"[..], 1));
    assert_eq!(later.properties.get("TAGS").map(String::as_str), Some("a"));
    assert_eq!(later.properties.get("KEYS").map(String::as_str), Some("k"));
    assert_eq!(later.born_host, client.socket.local_addr().unwrap());
}

#[test]
fn a_stop_in_the_middle_of_a_delivery_repeats_and_loses_nothing() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"first", "");
    let bodies: Vec<String> = (0..300).map(|n| format!("message {n}")).collect();
    for body in &bodies {
        client.store("orders", 0, body.as_bytes(), "DELAY\u{1}1");
    }
    wait_until("some are delivered", || server.broker().rooms().schedule.delivered() > 0);
    server.restart();
    let mut client = server.connect();
    wait_until("all are delivered", || {
        let status = server.broker().rooms().schedule.status();
        status[0].next == 300
    });
    wait_until("all are in their queue", || messages(&mut client, "orders", 0).len() >= 301);
    let found = messages(&mut client, "orders", 0);
    let found: Vec<_> = found.iter().map(|m| String::from_utf8_lossy(&m.body)).collect();
    assert_eq!(found[1..], bodies[..]);
}

#[test]
fn progress_beyond_the_queue_does_not_stop_a_level() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"first", "");
    client.store("orders", 0, b"before", "DELAY\u{1}1");
    wait_until("it is delivered", || messages(&mut client, "orders", 0).len() == 2);
    server.stop();
    let path = server.folder().join("config/delayOffset.json");
    std::fs::write(&path, r#"{"offsetTable":{1:169171}}"#).unwrap();
    server.restart();
    let mut client = server.connect();
    client.store("orders", 0, b"after", "DELAY\u{1}1");
    wait_until("it is delivered", || messages(&mut client, "orders", 0).len() == 3);
    server.stop();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("1:2"), "{text}");
}

#[test]
fn junk_in_the_progress_file_gives_way_to_its_backup() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"first", "");
    for body in [&b"one"[..], b"two"] {
        client.store("orders", 0, body, "DELAY\u{1}1");
    }
    wait_until("both are delivered", || messages(&mut client, "orders", 0).len() == 3);
    server.stop();
    let path = server.folder().join("config/delayOffset.json");
    std::fs::copy(&path, path.with_extension("json.bak")).unwrap();
    std::fs::write(&path, [0; 100]).unwrap();
    server.restart();
    let mut client = server.connect();
    client.store("orders", 0, b"three", "DELAY\u{1}1");
    wait_until("the new one is delivered", || {
        let found = messages(&mut client, "orders", 0);
        found.last().is_some_and(|last| last.body == b"three")
    });
    assert_eq!(messages(&mut client, "orders", 0).len(), 4, "none came twice");
    assert_eq!(messages(&mut client, SCHEDULE_TOPIC, 0).len(), 3);
}
