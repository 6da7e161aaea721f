//! Batches: ordinary ones as RocketMQ stores them, and our mixed ones.

use broker_protocol::code::{request, response};
use broker_protocol::frame::FieldWriter;
use broker_protocol::header::Header;
use broker_protocol::message_id::parse_offset_id;
use broker_protocol::record::write_batch_message;
use broker_protocol::request::send::SendMessage;

use crate::server::{Answer, CLUSTER, Client, Record, Server, message};

/// A send's header with `tandemMixed=true`.
struct Mixed<'a>(SendMessage<'a>);

impl Header for Mixed<'_> {
    fn write(&self, out: &mut FieldWriter<'_>) {
        self.0.write(out);
        out.pair("tandemMixed", "true");
    }
}

fn batch(topic: &str) -> SendMessage<'_> {
    SendMessage { batch: Some(true), properties: Some("WAIT\u{1}true".into()), ..message(topic, 1) }
}

fn body(messages: &[(&[u8], &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (body, properties) in messages {
        write_batch_message(&mut out, 5, body, properties.as_bytes()).unwrap();
    }
    out
}

fn send(client: &mut Client, topic: &str, messages: &[(&[u8], &str)]) -> Answer {
    client.call(request::SEND_BATCH_MESSAGE, &batch(topic), &body(messages))
}

/// The bytes of the records that the answer names.
fn raw(server: &Server, answer: &Answer) -> Vec<Vec<u8>> {
    let store = &server.broker().rooms().store;
    let ids = answer.text("msgId").split(',');
    ids.map(|id| store.message_at(parse_offset_id(id).unwrap().1).unwrap().to_vec()).collect()
}

fn records(server: &Server, answer: &Answer) -> Vec<Record> {
    raw(server, answer).iter().map(|bytes| Record::parse(bytes)).collect()
}

#[test]
fn each_message_becomes_a_record_with_the_batchs_properties_behind_its_own() {
    let server = Server::start();
    let mut client = server.connect();
    let messages: [(&[u8], &str); 3] =
        [(b"one", "KEYS\u{1}k1\u{2}WAIT\u{1}true"), (b"two", "TAGS\u{1}a\u{2}"), (b"three", "")];
    let answer = send(&mut client, "orders", &messages);
    assert_eq!((answer.code, answer.number("queueOffset")), (0, 0), "{answer:?}");
    assert_eq!(answer.number("queueId"), 1);
    let stored = raw(&server, &answer);
    let tail = format!("WAIT\u{1}true\u{2}CLUSTER\u{1}{CLUSTER}");
    let expected = [
        format!("KEYS\u{1}k1\u{2}WAIT\u{1}true\u{2}{tail}"),
        format!("TAGS\u{1}a\u{2}{tail}"),
        tail.clone(),
    ];
    for (index, (bytes, expected)) in stored.iter().zip(&expected).enumerate() {
        assert!(bytes.ends_with(expected.as_bytes()), "{index}");
        let record = Record::parse(bytes);
        assert_eq!(record.body, messages[index].0);
        assert_eq!((&*record.topic, record.queue_id, record.flag), ("orders", 1, 5));
        assert_eq!(record.queue_offset, i64::try_from(index).unwrap());
    }
    assert_eq!(client.store("orders", 1, b"next", ""), 3);
}

#[test]
fn what_a_batch_may_not_hold_is_refused_whole() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 1, b"x", "");
    let delayed = send(&mut client, "orders", &[(b"a", ""), (b"b", "DELAY\u{1}2")]);
    let outer = SendMessage { properties: Some("DELAY\u{1}2".into()), ..batch("orders") };
    let outer = client.call(request::SEND_BATCH_MESSAGE, &outer, &body(&[(b"a", "")]));
    let retry = send(&mut client, "%RETRY%g", &[(b"a", "")]);
    let large = vec![7; 3 << 20];
    let large = send(&mut client, "orders", &[(&large, ""), (&large, "")]);
    let empty = send(&mut client, "orders", &[]);
    let mut cut = body(&[(b"whole", "")]);
    cut.truncate(cut.len() - 1);
    let cut = client.call(request::SEND_BATCH_MESSAGE, &batch("orders"), &cut);
    for answer in [&delayed, &outer, &retry, &large, &empty, &cut] {
        assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "{answer:?}");
    }
    assert!(large.remark.contains("4194304"), "{large:?}");
    let transaction = send(&mut client, "orders", &[(b"a", "TRAN_MSG\u{1}true")]);
    assert_eq!(transaction.code, response::NO_PERMISSION);
    assert_eq!(client.store("orders", 1, b"x", ""), 1, "nothing was stored of any of them");
}

#[test]
fn properties_in_a_batch_end_at_the_length_that_a_record_can_say() {
    let server = Server::start();
    let mut client = server.connect();
    let sized = |length: usize| format!("k\u{1}{}", "v".repeat(length - 2));
    let answer = send(&mut client, "orders", &[(b"a", ""), (b"b", &sized(32_767))]);
    assert_eq!(answer.code, 0, "{}", answer.remark);
    assert_eq!(records(&server, &answer)[1].properties["k"].len(), 32_765);
    for length in [32_768_usize, 65_535, 70_000] {
        // As a client that does not check would write it: the length wraps in its 16 bits.
        let properties = sized(length);
        let mut bytes = body(&[(b"a", "")]);
        let total = 22 + 1 + length;
        bytes.extend_from_slice(&u32::try_from(total).unwrap().to_be_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&1_u32.to_be_bytes());
        bytes.push(b'b');
        bytes.extend_from_slice(&u16::try_from(length & 0xFFFF).unwrap().to_be_bytes());
        bytes.extend_from_slice(properties.as_bytes());
        let answer = client.call(request::SEND_BATCH_MESSAGE, &batch("orders"), &bytes);
        assert_eq!(answer.code, response::MESSAGE_ILLEGAL, "{length}: {answer:?}");
    }
    assert_eq!(client.store("orders", 1, b"x", ""), 2);
}

#[test]
fn a_mixed_batch_goes_to_many_topics_and_queues_at_once() {
    let server = Server::start();
    let mut client = server.connect();
    let messages: [(&[u8], &str); 5] = [
        (b"a", "TANDEM_TOPIC\u{1}bills\u{2}TANDEM_QUEUE\u{1}3\u{2}KEYS\u{1}k"),
        (b"b", "KEYS\u{1}k\u{2}TANDEM_QUEUE\u{1}2"),
        (b"c", ""),
        (b"d", "TANDEM_TOPIC\u{1}bills\u{2}TANDEM_QUEUE\u{1}3"),
        (b"e", "TANDEM_TOPIC\u{1}orders"),
    ];
    let header = Mixed(batch("orders"));
    let answer = client.call(request::SEND_BATCH_MESSAGE, &header, &body(&messages));
    assert_eq!((answer.code, answer.number("queueId")), (0, 3), "{answer:?}");
    let records = records(&server, &answer);
    let places: Vec<_> = records.iter().map(|r| (&*r.topic, r.queue_id, r.queue_offset)).collect();
    let expected =
        [("bills", 3, 0), ("orders", 2, 0), ("orders", 1, 0), ("bills", 3, 1), ("orders", 1, 1)];
    assert_eq!(places, expected);
    for record in &records {
        assert!(!record.properties.keys().any(|key| key.starts_with("TANDEM")), "{record:?}");
        assert_eq!(record.properties["CLUSTER"], CLUSTER);
    }
    assert_eq!(records[0].properties["KEYS"], "k");
}

#[test]
fn without_the_field_a_batch_is_not_mixed() {
    let server = Server::start();
    let mut client = server.connect();
    let answer = send(&mut client, "orders", &[(b"a", "TANDEM_TOPIC\u{1}bills")]);
    let records = records(&server, &answer);
    assert_eq!(&*records[0].topic, "orders");
    assert_eq!(records[0].properties["TANDEM_TOPIC"], "bills");
}

#[test]
fn a_mixed_batch_with_one_bad_place_stores_nothing() {
    let server = Server::start();
    let mut client = server.connect();
    client.store("orders", 1, b"x", "");
    for bad in [
        "TANDEM_TOPIC\u{1}../x",
        "TANDEM_TOPIC\u{1}SCHEDULE_TOPIC_XXXX",
        "TANDEM_QUEUE\u{1}99",
        "TANDEM_QUEUE\u{1}one",
    ] {
        let bytes = body(&[(b"good", ""), (b"bad", bad)]);
        let answer = client.call(request::SEND_BATCH_MESSAGE, &Mixed(batch("orders")), &bytes);
        assert_ne!(answer.code, response::SUCCESS, "{bad}");
        assert!(!answer.remark.is_empty());
    }
    assert_eq!(client.store("orders", 1, b"x", ""), 1);
}
