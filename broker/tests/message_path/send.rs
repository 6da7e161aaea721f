//! Sends: what is stored, what is refused, and with which code.

use broker_protocol::code::{request, response};
use broker_protocol::frame::Serialize;
use broker_protocol::message_id::parse_offset_id;
use broker_protocol::request::send::SendMessage;

use crate::server::{Answer, CLUSTER, Client, Record, Server, message};

/// The record that a send's answer names.
fn stored(server: &Server, answer: &Answer) -> Record {
    let (host, offset) = parse_offset_id(answer.text("msgId")).unwrap();
    assert_eq!(host, server.address());
    Record::parse(&server.broker().rooms().store.message_at(offset).unwrap())
}

#[test]
fn a_send_is_stored_as_it_came_with_the_brokers_own_fields() {
    let server = Server::start();
    let mut client = server.connect();
    let header = SendMessage {
        flag: 7,
        properties: Some("KEYS\u{1}k1\u{2}WAIT\u{1}true\u{2}TAGS\u{1}a".into()),
        ..message("orders", 2)
    };
    let answer = client.call(request::SEND_MESSAGE_V2, &header, b"hello");
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    assert_eq!((answer.number("queueId"), answer.number("queueOffset")), (2, 0));
    assert_eq!((answer.text("MSG_REGION"), answer.text("TRACE_ON")), ("DefaultRegion", "true"));
    let record = stored(&server, &answer);
    assert_eq!((&*record.topic, record.queue_id, record.flag), ("orders", 2, 7));
    assert_eq!(record.body, b"hello");
    assert_eq!(record.born_host, client.socket.local_addr().unwrap());
    assert_eq!(record.store_host, server.address());
    let properties: Vec<_> = record.properties.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert_eq!(properties, [("CLUSTER", CLUSTER), ("KEYS", "k1"), ("TAGS", "a")]);
}

#[test]
fn both_header_forms_and_both_name_forms_are_served_alike() {
    let server = Server::start();
    let mut client = server.connect();
    let mut offset = 0;
    for serialize in [Serialize::Json, Serialize::Binary] {
        for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2] {
            client.serialize = serialize;
            let answer = client.call(code, &message("orders", 0), b"x");
            assert_eq!((answer.code, answer.number("queueOffset")), (0, offset), "{answer:?}");
            offset += 1;
        }
    }
}

#[test]
fn a_queue_below_zero_is_chosen_among_the_writable_ones() {
    let server = Server::start();
    let mut client = server.connect();
    let mut seen = [0; 4];
    for _ in 0..100 {
        let answer = client.send("orders", -1, b"x", "");
        seen[usize::try_from(answer.number("queueId")).unwrap()] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn a_queue_beyond_the_topic_is_an_error_that_shows_the_topic() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    let answer = client.send("orders", 4, b"x", "");
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark.contains("queueId[4] is illegal"), "{answer:?}");
    assert!(answer.remark.contains("topicName=orders"), "{answer:?}");
    assert_eq!(answer.text("TRACE_ON"), "true");
}

#[test]
fn names_that_are_no_topics_are_refused_and_leave_nothing_behind() {
    let server = Server::start();
    let mut client = server.connect();
    let long = "x".repeat(128);
    for topic in ["../../../x", "a/b", "..", "a\0b", "", " ", "\u{4e3b}\u{9898}", &long] {
        let answer = client.send(topic, 0, b"x", "");
        assert_eq!(answer.code, response::SYSTEM_ERROR, "{topic:?}: {answer:?}");
        assert!(!answer.remark.is_empty());
    }
    assert!(!server.folder().join("config/topics.json").exists());
    client.store(&"x".repeat(127), 0, b"x", "");
}

#[test]
fn a_topic_that_may_not_be_created_does_not_exist() {
    let server = Server::with(|settings| settings.broker.auto_create_topic_enable = false);
    let mut client = server.connect();
    let answer = client.send("orders", 0, b"x", "");
    assert_eq!(answer.code, response::TOPIC_NOT_EXIST, "{answer:?}");
}

#[test]
fn topics_of_the_system_are_closed_to_producers() {
    let server = Server::start();
    let mut client = server.connect();
    for topic in ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "SELF_TEST_TOPIC"] {
        let answer = client.send(topic, 0, b"x", "");
        assert_eq!(answer.code, response::NO_PERMISSION, "{topic}: {answer:?}");
    }
}

#[test]
fn a_broker_that_may_not_be_written_refuses_every_kind_of_send() {
    let server = Server::with(|settings| settings.broker.broker_permission = 4);
    let mut client = server.connect();
    let batch = SendMessage { batch: Some(true), ..message("orders", 0) };
    for header in [message("orders", 0), message("%RETRY%g", 0), batch] {
        let answer = client.call(request::SEND_MESSAGE_V2, &header, b"x");
        assert_eq!(answer.code, response::NO_PERMISSION, "{answer:?}");
    }
}

#[test]
fn transactions_are_refused_whole() {
    let server = Server::start();
    let mut client = server.connect();
    let answer = client.send("orders", 0, b"x", "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}g");
    assert_eq!(answer.code, response::NO_PERMISSION);
    assert!(answer.remark.contains("transactions are not supported"), "{answer:?}");
    assert_eq!(client.store("orders", 0, b"y", ""), 0, "nothing was stored before");
}

#[test]
fn a_delayed_message_waits_in_the_delay_topic() {
    let server = Server::start();
    let mut client = server.connect();
    let answer = client.send("orders", 3, b"later", "DELAY\u{1}3\u{2}WAIT\u{1}true");
    assert_eq!((answer.code, answer.number("queueId")), (0, 3), "{answer:?}");
    let record = stored(&server, &answer);
    assert_eq!((&*record.topic, record.queue_id), ("SCHEDULE_TOPIC_XXXX", 2));
    let property = |name: &str| record.properties.get(name).map(String::as_str);
    assert_eq!((property("REAL_TOPIC"), property("REAL_QID")), (Some("orders"), Some("3")));
    assert_eq!((property("DELAY"), property("WAIT")), (Some("3"), Some("true")));

    let answer = client.send("orders", 3, b"later", "DELAY\u{1}99");
    assert_eq!(stored(&server, &answer).queue_id, 17, "a level too high is the highest");
}

#[test]
fn a_body_at_the_limit_is_stored_and_one_beyond_names_the_limit() {
    let server = Server::start();
    let mut client = server.connect();
    let limit = 4 << 20;
    let keys = format!("KEYS\u{1}{}", "k".repeat(30_000));
    client.store("orders", 0, &vec![1; limit], &keys);
    let answer = client.send("orders", 0, &vec![1; limit + 1], &keys);
    assert_eq!(answer.code, response::MESSAGE_ILLEGAL);
    assert!(answer.remark.contains("4194304"), "{answer:?}");
    let store = &server.broker().rooms().store;
    assert_eq!(store.reconfigure("maxMessageSize", "8388608"), Ok(true));
    assert_eq!(client.store("orders", 0, &vec![1; limit + 1], &keys), 1);
}

#[test]
fn properties_end_at_the_length_that_a_record_can_say() {
    let server = Server::start();
    let mut client = server.connect();
    let sized = |length: usize| format!("k\u{1}{}", "v".repeat(length - 2));
    for (length, code) in [(32_767, 0), (32_768, 13), (65_535, 13), (70_000, 13)] {
        let answer = client.send("orders", 0, b"x", &sized(length));
        assert_eq!(answer.code, code, "{length}: {}", answer.remark);
        if code == 0 {
            assert_eq!(stored(&server, &answer).properties["k"].len(), length - 2);
        }
    }
    assert_eq!(client.store("orders", 0, b"x", ""), 1, "nothing of the others was stored");
}

#[test]
fn a_retry_whose_attempts_are_used_up_becomes_a_dead_letter() {
    let server = Server::start();
    let mut client = server.connect();
    let retry = |times, most| SendMessage {
        reconsume_times: Some(times),
        max_reconsume_times: Some(most),
        properties: Some("DELAY\u{1}2\u{2}KEYS\u{1}k".into()),
        ..message("%RETRY%consumers", 0)
    };
    let answer = client.call(request::SEND_MESSAGE_V2, &retry(2, 3), b"x");
    assert_eq!(answer.code, 0, "{answer:?}");
    let waiting = stored(&server, &answer);
    assert_eq!((&*waiting.topic, waiting.reconsume_times), ("SCHEDULE_TOPIC_XXXX", 2));
    let answer = client.call(request::SEND_MESSAGE_V2, &retry(3, 3), b"x");
    assert_eq!(answer.code, 0, "{answer:?}");
    let dead = stored(&server, &answer);
    assert_eq!((&*dead.topic, dead.queue_id), ("%DLQ%consumers", 0));
    assert_eq!(dead.properties.get("DELAY"), None);
    assert_eq!(dead.properties["KEYS"], "k");
}

#[test]
fn a_retry_of_an_unknown_group_is_refused() {
    let server = Server::with(|settings| settings.broker.auto_create_subscription_group = false);
    let mut client = server.connect();
    let answer = client.send("%RETRY%nobody", 0, b"x", "");
    assert_eq!(answer.code, response::SUBSCRIPTION_GROUP_NOT_EXIST, "{answer:?}");
}

#[test]
fn a_header_without_a_needed_field_is_an_error_and_the_link_lives() {
    let server = Server::start();
    let mut client = server.connect();
    let answer = client.call(request::SEND_MESSAGE, &[("topic", "orders")][..], b"x");
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark.contains("is missing"), "{answer:?}");
    client.store("orders", 0, b"x", "");
}

#[test]
fn an_unknown_code_is_named_and_the_link_lives() {
    let server = Server::start();
    let mut client = server.connect();
    let answer = client.call(4711, &broker_protocol::header::NoHeader, b"");
    assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(answer.remark, " request type 4711 not supported");
    client.store("orders", 0, b"x", "");
}

#[test]
fn oneway_sends_are_stored_and_not_answered() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"first", "");
    let (_, mut frame) = client.frame(request::SEND_MESSAGE_V2, &message("orders", 0), b"oneway");
    // The flag of a JSON header, in place.
    let at = frame.windows(8).position(|bytes| bytes == b"\"flag\":0").unwrap();
    frame[at + 7] = b'2';
    std::io::Write::write_all(&mut client.socket, &frame).unwrap();
    assert_eq!(client.store("orders", 0, b"third", ""), 2, "the next answer is the third's");
}

#[test]
fn with_sync_flush_an_answer_means_that_the_disk_has_it() {
    let server = Server::with(|settings| {
        settings.store.flush_disk_type = broker_store::config::FlushDiskType::SyncFlush;
    });
    let mut client = server.connect();
    for _ in 0..20 {
        let answer = client.send("orders", 0, b"x", "");
        assert_eq!(answer.code, 0);
        let (_, offset) = parse_offset_id(answer.text("msgId")).unwrap();
        assert!(server.broker().rooms().store.flushed() > offset);
    }
    // Pipelined sends are answered too, each once.
    let opaques: Vec<i32> = (0..50)
        .map(|_| client.ask(request::SEND_MESSAGE_V2, &message("orders", 0), b"x"))
        .collect();
    let mut answered: Vec<i32> = opaques.iter().map(|_| client.receive().opaque).collect();
    answered.sort_unstable();
    assert_eq!(answered, opaques);
    // Whoever does not want to wait is not made to.
    let answer = client.send("orders", 0, b"x", "WAIT\u{1}false");
    assert_eq!(answer.code, 0);
}

#[test]
fn topics_outlive_a_restart_with_their_messages() {
    let mut server = Server::start();
    let mut client = server.connect();
    for offset in 0..10 {
        assert_eq!(client.store("orders", 1, b"x", ""), offset);
    }
    drop(client);
    server.restart();
    assert_eq!(server.connect().store("orders", 1, b"x", ""), 10);
}

#[test]
fn a_stopping_broker_refuses_with_a_code_that_clients_retry() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 0, b"x", "");
    let send = &server.broker().rooms().send;
    send.stopping.store(true, std::sync::atomic::Ordering::SeqCst);
    let answer = client.send("orders", 0, b"x", "");
    assert_eq!(answer.code, response::SERVICE_NOT_AVAILABLE, "{answer:?}");
}

#[test]
fn the_vip_port_takes_sends_and_no_pulls() {
    let server = Server::with(|settings| {
        // A free port whose neighbour two below is free as well; tried until the system has one.
        settings.broker.listen_port = (0..100)
            .find_map(|_| {
                let probe = std::net::TcpListener::bind("127.0.0.1:0").ok()?;
                let port = probe.local_addr().ok()?.port();
                std::net::TcpListener::bind(("127.0.0.1", port - 2)).ok().map(|_| port)
            })
            .unwrap();
    });
    let mut client = Client::connect(server.broker().vip_address().unwrap());
    client.store("orders", 0, b"x", "");
    let answer = client.call(request::PULL_MESSAGE, &crate::server::pull("orders", 0, 0), b"");
    assert_eq!(answer.code, response::REQUEST_CODE_NOT_SUPPORTED);
}
