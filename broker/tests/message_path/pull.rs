//! Pulls: what is found, what is not and with which code, and what waits.

use std::io::Write;
use std::time::{Duration, Instant};

use broker_protocol::body::TopicConfig;
use broker_protocol::code::{request, response};
use broker_protocol::request::pull::{COMMIT_OFFSET, PullMessage, SUBSCRIPTION, SUSPEND};

use crate::server::{Answer, Client, Server, pull, wait_until};

/// Waits until everything sent can be read.
fn settle(server: &Server) {
    let store = &server.broker().rooms().store;
    wait_until("the queues catch up", || store.dispatched() == store.max_offset());
}

fn ask(client: &mut Client, header: &PullMessage<'_>) -> Answer {
    client.call(request::PULL_MESSAGE, header, b"")
}

/// A pull that waits for `millis` when there is nothing.
fn held(topic: &str, queue_id: i32, offset: i64, millis: i64) -> PullMessage<'_> {
    PullMessage {
        sys_flag: SUBSCRIPTION | SUSPEND,
        suspend_timeout_millis: millis,
        ..pull(topic, queue_id, offset)
    }
}

fn held_count(server: &Server) -> usize {
    server.broker().rooms().pull.held.count()
}

#[test]
fn messages_come_as_they_were_stored_with_where_to_go_on() {
    let server = Server::start();
    let mut client = server.connect();
    for number in 0..10 {
        client.store("orders", 0, format!("m{number}").as_bytes(), "KEYS\u{1}k");
    }
    settle(&server);
    let answer = ask(&mut client, &pull("orders", 0, 3));
    assert_eq!((answer.code, &*answer.remark), (0, "FOUND"), "{answer:?}");
    let offsets = ["nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId"];
    assert_eq!(offsets.map(|name| answer.number(name)), [10, 0, 10, 0]);
    let records = answer.records();
    let bodies: Vec<_> = records.iter().map(|r| String::from_utf8_lossy(&r.body)).collect();
    assert_eq!(bodies, ["m3", "m4", "m5", "m6", "m7", "m8", "m9"]);
    assert_eq!(records[0].queue_offset, 3);
    assert_eq!(records[0].properties["KEYS"], "k");
}

#[test]
fn the_pull_code_of_newer_clients_is_served_alike() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    settle(&server);
    let answer = client.call(request::LITE_PULL_MESSAGE, &pull("orders", 0, 0), b"");
    assert_eq!((answer.code, answer.records().len()), (0, 1), "{answer:?}");
}

#[test]
fn a_pull_brings_no_more_than_asked_and_at_least_one() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..100 {
        client.store("orders", 0, b"x", "");
    }
    client.store("large", 0, &vec![1; 1 << 20], "");
    client.store("large", 0, b"x", "");
    settle(&server);
    for (asked, brought) in [(1, 1), (10, 10), (32, 32), (100, 32), (0, 1), (-5, 1)] {
        let header = PullMessage { max_msg_nums: asked, ..pull("orders", 0, 0) };
        let answer = ask(&mut client, &header);
        assert_eq!(answer.records().len(), brought, "{asked}");
        assert_eq!(answer.number("nextBeginOffset"), i64::try_from(brought).unwrap());
    }
    let answer = ask(&mut client, &pull("large", 0, 0));
    assert_eq!(answer.records().len(), 1, "one message larger than a batch comes alone");
}

#[test]
fn offsets_outside_the_queue_are_answered_by_the_table() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in 0..5 {
        client.store("orders", 0, b"x", "");
    }
    settle(&server);
    let cases = [
        // At the end; beyond it; before the begin.
        ("orders", 0, 5, response::PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 5),
        ("orders", 0, 6, response::PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 5),
        ("orders", 0, -1, response::PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ];
    for (topic, queue, offset, code, remark, next) in cases {
        let answer = ask(&mut client, &pull(topic, queue, offset));
        assert_eq!((answer.code, &*answer.remark), (code, remark), "{offset}: {answer:?}");
        assert_eq!(answer.number("nextBeginOffset"), next, "{offset}: {answer:?}");
    }
    // A queue that never had a message.
    for (offset, code) in [(0, response::PULL_NOT_FOUND), (7, response::PULL_OFFSET_MOVED)] {
        let answer = ask(&mut client, &pull("orders", 1, offset));
        assert_eq!(answer.code, code, "{offset}: {answer:?}");
        assert_eq!(answer.number("nextBeginOffset"), 0);
    }
}

#[test]
fn each_check_has_its_code() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    let rooms = server.broker().rooms();
    let closed = TopicConfig { perm: 2, ..TopicConfig::new("closed", 1) };
    rooms.topics.create(closed, 0).unwrap();
    let mut check = |header: PullMessage<'_>, code: i32, part: &str| {
        let answer = ask(&mut client, &header);
        assert_eq!(answer.code, code, "{answer:?}");
        assert!(answer.remark.contains(part), "{answer:?}");
    };
    check(pull("nowhere", 0, 0), response::TOPIC_NOT_EXIST, "nowhere");
    check(pull("closed", 0, 0), response::NO_PERMISSION, "closed");
    check(pull("orders", 4, 0), response::SYSTEM_ERROR, "queueId[4] is illegal");
    check(pull("orders", -1, 0), response::SYSTEM_ERROR, "queueId[-1] is illegal");
    let offline = PullMessage { sys_flag: 0, ..pull("orders", 0, 0) };
    check(offline, response::SUBSCRIPTION_NOT_EXIST, "group info not exist");
    let sql = PullMessage {
        expression_type: Some("SQL92".into()),
        subscription: Some("a > 1".into()),
        ..pull("orders", 0, 0)
    };
    check(sql, response::SUBSCRIPTION_PARSE_FAILED, "SQL92");
    let nothing = PullMessage { subscription: Some("||".into()), ..pull("orders", 0, 0) };
    check(nothing, response::SUBSCRIPTION_PARSE_FAILED, "parse");
    let mut group = broker_protocol::body::SubscriptionGroupConfig::new("stopped");
    group.consume_enable = false;
    rooms.groups.update(group, 0).unwrap();
    let stopped = PullMessage { consumer_group: "stopped".into(), ..pull("orders", 0, 0) };
    check(stopped, response::NO_PERMISSION, "stopped");
}

#[test]
fn a_broker_that_may_not_be_read_refuses() {
    let server = Server::with(|settings| settings.broker.broker_permission = 2);
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    let answer = ask(&mut client, &pull("orders", 0, 0));
    assert_eq!(answer.code, response::NO_PERMISSION, "{answer:?}");
}

#[test]
fn an_unknown_group_is_made_or_refused() {
    let server = Server::with(|settings| settings.broker.auto_create_subscription_group = false);
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    let answer = ask(&mut client, &pull("orders", 0, 0));
    assert_eq!(answer.code, response::SUBSCRIPTION_GROUP_NOT_EXIST, "{answer:?}");
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    settle(&server);
    assert_eq!(ask(&mut client, &pull("orders", 0, 0)).code, 0);
    assert!(server.broker().rooms().groups.find("consumers").is_some());
}

#[test]
fn tags_are_filtered_by_their_hash_and_progress_moves_past_the_rest() {
    let server = Server::start();
    let mut client = server.connect();
    for tag in ["a", "b", "BB", "", "a"] {
        let properties = if tag.is_empty() { String::new() } else { format!("TAGS\u{1}{tag}") };
        client.store("orders", 0, tag.as_bytes(), &properties);
    }
    settle(&server);
    let mut filtered = |expression: &'static str, offset| {
        let header =
            PullMessage { subscription: Some(expression.into()), ..pull("orders", 0, offset) };
        ask(&mut client, &header)
    };
    let found = |answer: &Answer| -> Vec<i64> {
        answer.records().iter().map(|record| record.queue_offset).collect()
    };
    assert_eq!(found(&filtered("a", 0)), [0, 4]);
    assert_eq!(found(&filtered("a || b", 0)), [0, 1, 4]);
    // `Aa` has the hash of `BB`: the broker can't tell, the client drops it.
    assert_eq!(found(&filtered("Aa", 0)), [2]);
    let nothing = filtered("none", 0);
    assert_eq!((nothing.code, &*nothing.remark), (20, "NO_MATCHED_MESSAGE"), "{nothing:?}");
    assert_eq!(nothing.number("nextBeginOffset"), 5);
}

#[test]
fn progress_that_comes_with_a_pull_is_kept() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    settle(&server);
    let offsets = &server.broker().rooms().offsets;
    ask(&mut client, &PullMessage { commit_offset: 9, ..pull("orders", 0, 0) });
    assert_eq!(offsets.query("consumers", "orders", 0), None, "the flag is not set");
    let sys_flag = SUBSCRIPTION | COMMIT_OFFSET;
    ask(&mut client, &PullMessage { commit_offset: 9, sys_flag, ..pull("orders", 0, 0) });
    assert_eq!(offsets.query("consumers", "orders", 0), Some(9));
}

#[test]
fn a_held_pull_is_answered_by_the_next_message() {
    let server = Server::start();
    let mut producer = server.connect();
    producer.store("orders", 0, b"old", "");
    settle(&server);
    let mut consumer = server.connect();
    for offset in 1..50 {
        let opaque = consumer.ask(request::PULL_MESSAGE, &held("orders", 0, offset, 20_000), b"");
        wait_until("the pull is held", || held_count(&server) == 1);
        let sent = Instant::now();
        producer.store("orders", 0, b"new", "");
        let answer = consumer.receive();
        assert_eq!((answer.opaque, answer.code), (opaque, 0), "{answer:?}");
        assert_eq!(answer.number("nextBeginOffset"), offset + 1);
        assert!(sent.elapsed() < Duration::from_secs(1));
    }
    assert_eq!(held_count(&server), 0);
}

#[test]
fn a_message_sent_while_its_pull_is_put_aside_is_not_missed() {
    let server = Server::start();
    let mut producer = server.connect();
    let mut consumer = server.connect();
    producer.store("orders", 0, b"x", "");
    settle(&server);
    for offset in 1..300 {
        // Both at once; whichever is first, the answer must come.
        consumer.ask(request::PULL_MESSAGE, &held("orders", 0, offset, 20_000), b"");
        producer.store("orders", 0, b"x", "");
        let answer = consumer.receive();
        assert_eq!((answer.code, answer.number("nextBeginOffset")), (0, offset + 1));
    }
}

#[test]
fn a_held_pull_ends_at_its_time_and_not_later() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    settle(&server);
    let start = Instant::now();
    let answer = ask(&mut client, &held("orders", 0, 1, 300));
    let waited = start.elapsed();
    assert_eq!((answer.code, answer.number("nextBeginOffset")), (19, 1), "{answer:?}");
    assert!((300..1300).contains(&waited.as_millis()), "{waited:?}");
    let start = Instant::now();
    assert_eq!(ask(&mut client, &held("orders", 0, 1, 0)).code, 19);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn short_polling_holds_for_the_brokers_time() {
    let server = Server::with(|settings| {
        settings.broker.long_polling_enable = false;
        settings.broker.short_polling_time_mills = 50;
    });
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    settle(&server);
    let start = Instant::now();
    assert_eq!(ask(&mut client, &held("orders", 0, 1, 60_000)).code, 19);
    assert!((50..5000).contains(&start.elapsed().as_millis()));
}

#[test]
fn what_the_filter_drops_does_not_wake_a_held_pull_but_moves_its_progress() {
    let server = Server::start();
    let mut producer = server.connect();
    producer.store("orders", 0, b"x", "TAGS\u{1}a");
    settle(&server);
    let mut consumer = server.connect();
    let header = PullMessage { subscription: Some("a".into()), ..held("orders", 0, 1, 20_000) };
    let short = PullMessage { suspend_timeout_millis: 400, ..header.clone() };
    consumer.ask(request::PULL_MESSAGE, &short, b"");
    wait_until("the pull is held", || held_count(&server) == 1);
    for _ in 0..5 {
        producer.store("orders", 0, b"x", "TAGS\u{1}b");
    }
    let answer = consumer.receive();
    assert_eq!((answer.code, answer.number("nextBeginOffset")), (20, 6), "{answer:?}");
    consumer.ask(request::PULL_MESSAGE, &header, b"");
    producer.store("orders", 0, b"x", "TAGS\u{1}b");
    producer.store("orders", 0, b"x", "TAGS\u{1}a");
    let mut answer = consumer.receive();
    while answer.code == 20 {
        // The pull came after some of the messages: it was told to come again.
        let next = PullMessage { queue_offset: answer.number("nextBeginOffset"), ..header.clone() };
        answer = ask(&mut consumer, &next);
    }
    assert_eq!((answer.code, answer.number("nextBeginOffset")), (0, 8), "{answer:?}");
    assert_eq!(answer.records().len(), 1);
}

#[test]
fn a_thousand_held_pulls_are_each_answered_by_their_own_queue() {
    let server = Server::start();
    let topic = TopicConfig::new("wide", 1000);
    server.broker().rooms().topics.create(topic, 0).unwrap();
    let mut consumers: Vec<Client> = (0..4).map(|_| server.connect()).collect();
    for queue in 0..1000 {
        let consumer = &mut consumers[usize::try_from(queue % 4).unwrap()];
        consumer.ask(request::PULL_MESSAGE, &held("wide", queue, 0, 60_000), b"");
    }
    wait_until("all are held", || held_count(&server) == 1000);
    let mut producer = server.connect();
    for queue in 0..1000 {
        producer.store("wide", queue, queue.to_string().as_bytes(), "");
    }
    for consumer in &mut consumers {
        for _ in 0..250 {
            let answer = consumer.receive();
            assert_eq!(answer.code, 0, "{answer:?}");
            let records = answer.records();
            assert_eq!(records[0].body, records[0].queue_id.to_string().as_bytes());
        }
    }
    assert_eq!(held_count(&server), 0);
}

#[test]
fn held_pulls_of_a_gone_connection_are_freed() {
    let server = Server::start();
    let mut producer = server.connect();
    producer.store("orders", 0, b"x", "");
    settle(&server);
    let mut consumer = server.connect();
    for _ in 0..100 {
        consumer.ask(request::PULL_MESSAGE, &held("orders", 0, 1, 60_000), b"");
    }
    let mut stays = server.connect();
    stays.ask(request::PULL_MESSAGE, &held("orders", 0, 1, 60_000), b"");
    wait_until("all are held", || held_count(&server) == 101);
    drop(consumer);
    wait_until("the dead are freed", || held_count(&server) == 1);
    producer.store("orders", 0, b"y", "");
    assert_eq!(stays.receive().records()[0].body, b"y");
}

#[test]
fn pulls_beyond_the_capacity_are_answered_at_once() {
    let server = Server::with(|settings| settings.broker.pull_hold_capacity = 2);
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    settle(&server);
    for _ in 0..2 {
        client.ask(request::PULL_MESSAGE, &held("orders", 0, 1, 60_000), b"");
    }
    wait_until("two are held", || held_count(&server) == 2);
    let opaque = client.ask(request::PULL_MESSAGE, &held("orders", 0, 1, 60_000), b"");
    let answer = client.receive();
    assert_eq!((answer.opaque, answer.code), (opaque, 19), "{answer:?}");
}

#[test]
fn a_stopping_broker_answers_the_pulls_it_holds() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    settle(&server);
    client.ask(request::PULL_MESSAGE, &held("orders", 0, 1, 60_000), b"");
    wait_until("the pull is held", || held_count(&server) == 1);
    server.stop();
    assert_eq!(client.receive().code, 19);
}

#[test]
fn a_consumer_that_does_not_read_is_not_buffered_for() {
    let server = Server::start();
    let mut producer = server.connect();
    for _ in 0..32 {
        producer.store("orders", 0, &vec![1; 8000], "");
    }
    settle(&server);
    let mut consumer = server.connect();
    // The first pull makes the group, which takes another way.
    assert_eq!(ask(&mut consumer, &pull("orders", 0, 0)).code, 0);
    let mut writer = consumer.socket.try_clone().unwrap();
    let frames: Vec<u8> = (0..400)
        .flat_map(|_| consumer.frame(request::PULL_MESSAGE, &pull("orders", 0, 0), b"").1)
        .collect();
    let writing = std::thread::spawn(move || writer.write_all(&frames).unwrap());
    let rooms = server.broker().rooms();
    wait_until("some pulls are served", || rooms.stats.pulls_found.get() > 1);
    // Others are served meanwhile; 100 MB are asked for and not read.
    for _ in 0..500 {
        producer.store("orders", 1, b"x", "");
    }
    let served = rooms.stats.pulls_found.get();
    assert!(served < 200, "{served} pulls were served to a consumer that reads nothing");
    for _ in 0..400 {
        assert_eq!(consumer.receive().records().len(), 32);
    }
    writing.join().unwrap();
}
