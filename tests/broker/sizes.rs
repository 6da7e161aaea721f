//! Sizes: what is too big is refused with the limit in the answer and leaves no trace; what was
//! accepted never fails later for its size.

use broker_client::{Client, ClientError, Message, Reply};
use broker_protocol::code::{request, response};
use broker_protocol::frame::Serialize;
use broker_protocol::request::send::SendMessage;

use crate::support::{
    SHORT_LEVELS, Server, bodies, member, options, producer, refusal, send_header, until,
};

const TOPIC: &str = "Sized";
const GROUP: &str = "sized_group";

/// A property string of exactly this many bytes.
fn properties(length: usize) -> String {
    let text = format!("own\x01{}", "v".repeat(length - 4));
    assert_eq!(text.len(), length);
    text
}

/// A message of a batch by hand, whatever its lengths are: the 16 bits of the last one are cut.
fn batch_part(body: &[u8], properties: &[u8]) -> Vec<u8> {
    let total = 22 + body.len() + properties.len();
    let mut part = Vec::new();
    part.extend((total as i32).to_be_bytes());
    part.extend([0; 12]);
    part.extend((body.len() as i32).to_be_bytes());
    part.extend(body);
    part.extend((properties.len() as u16).to_be_bytes());
    part.extend(properties);
    part
}

fn batch_header<'a>(topic: &'a str, properties: &'a str) -> SendMessage<'a> {
    SendMessage { batch: Some(true), ..send_header(topic, 0, properties) }
}

async fn send_batch(
    server: &Server,
    header: &SendMessage<'_>,
    body: &[u8],
) -> Result<Reply, ClientError> {
    server.send_raw(request::SEND_BATCH_MESSAGE, header, body).await
}

#[track_caller]
fn assert_illegal(outcome: Result<Reply, ClientError>) -> String {
    let (code, remark) = refusal(outcome);
    assert_eq!(code, response::MESSAGE_ILLEGAL, "{remark}");
    assert!(!remark.is_empty());
    remark
}

#[tokio::test]
async fn illegal_batches_store_nothing() {
    let server = Server::start(&[("maxMessageSize", "65536")]);
    server.topic(TOPIC, 1).await;
    member(&server.client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    let retry = format!("%RETRY%{GROUP}");
    let good = batch_part(b"good", b"k\x01v");
    send_batch(&server, &batch_header(TOPIC, "WAIT\x01true"), &good).await.unwrap();
    server.read_when(TOPIC, 0, 1).await;
    let end = server.log_end().await;

    let two = [good.clone(), good.clone()].concat();
    assert_illegal(send_batch(&server, &batch_header(TOPIC, "DELAY\x013"), &two).await);
    let delayed = [good.clone(), batch_part(b"x", b"DELAY\x011")].concat();
    assert_illegal(send_batch(&server, &batch_header(TOPIC, ""), &delayed).await);
    assert_illegal(send_batch(&server, &batch_header(&retry, ""), &two).await);
    assert_illegal(send_batch(&server, &batch_header(TOPIC, ""), b"").await);
    // The whole is too big although each message is small.
    let many: Vec<u8> = (0..70).flat_map(|_| batch_part(&[b'x'; 1_000], b"")).collect();
    let remark = assert_illegal(send_batch(&server, &batch_header(TOPIC, ""), &many).await);
    assert!(remark.contains("65536"), "{remark}");
    let big = [good.clone(), batch_part(&[b'x'; 65_537], b"")].concat();
    assert_illegal(send_batch(&server, &batch_header(TOPIC, ""), &big).await);
    // Lengths that lie, each behind a good message.
    for (at, value) in [(0, -1), (0, 0), (0, 5), (0, 1 << 30), (16, -1), (16, 1 << 20), (16, 0)] {
        let mut part = batch_part(b"xyz", b"a\x01b");
        part[at..at + 4].copy_from_slice(&i32::to_be_bytes(value));
        let body = [good.clone(), part].concat();
        assert_illegal(send_batch(&server, &batch_header(TOPIC, ""), &body).await);
    }
    let mut cut = two.clone();
    cut.pop();
    assert_illegal(send_batch(&server, &batch_header(TOPIC, ""), &cut).await);
    // Batches by the flag alone, whatever the code is.
    let header = batch_header(TOPIC, "DELAY\x013");
    assert_illegal(server.send_raw(request::SEND_MESSAGE, &header, &two).await);

    assert_eq!(server.log_end().await, end);
    send_batch(&server, &batch_header(TOPIC, ""), &two).await.unwrap();
    let stored = server.read_when(TOPIC, 0, 3).await;
    assert_eq!(bodies(&stored), ["good", "good", "good"]);
    assert!(stored.iter().all(|message| message.property("k") == Some("v")));
}

#[tokio::test]
async fn batches_are_stored_whole_and_in_order() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let messages: Vec<Message> = (0..20)
        .map(|number| Message::new(TOPIC, vec![number; usize::from(number) * 100]).keys("k"))
        .collect();
    let receipt = producer(&server.client).send_batch(&server.queue(0), &messages).await.unwrap();
    assert_eq!((receipt.queue_offset, receipt.offset_ids.len()), (0, 20));
    let stored = server.read_when(TOPIC, 0, 20).await;
    for (number, message) in stored.iter().enumerate() {
        assert_eq!(message.body.len(), number * 100);
        assert!(message.body_is_intact);
        assert_eq!(message.offset_id().as_str(), receipt.offset_ids[number]);
        assert_eq!(message.unique_id(), Some(&*receipt.unique_ids[number]));
    }
    let next = server.send(0, &Message::new(TOPIC, "next")).await;
    assert_eq!(next.queue_offset, 20);
}

#[tokio::test]
async fn what_was_accepted_is_delivered_although_it_grows() {
    let server = Server::start(&[SHORT_LEVELS, ("maxMessageSize", "65536")]);
    server.topic(TOPIC, 1).await;
    member(&server.client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    // Just below the limit, at it, and at it with properties that are almost full.
    let sizes = [(64_756, 440), (65_536, 440), (65_536, 32_000)];
    for (body, property_bytes) in sizes {
        let text = format!("DELAY\x013\x02{}", properties(property_bytes));
        let header = send_header(TOPIC, 0, &text);
        server.send_raw(request::SEND_MESSAGE_V2, &header, &vec![b'x'; body]).await.unwrap();
    }
    server.send(0, &Message::new(TOPIC, "small").delay_level(3)).await;
    let stored = server.read_when(TOPIC, 0, 4).await;
    let lengths: Vec<usize> = stored.iter().map(|message| message.body.len()).collect();
    assert_eq!(lengths, [64_756, 65_536, 65_536, 5]);

    // The same when their consumption fails, again and again.
    let retry = format!("%RETRY%{GROUP}");
    let mut round: Vec<i64> = stored.iter().map(|message| message.physical_offset).collect();
    for attempt in 1..=3 {
        for offset in &round {
            server.send_back(GROUP, *offset, 1, Some(16)).await.unwrap();
        }
        let retried = server.read_when(&retry, 0, 4 * attempt).await;
        let last = &retried[retried.len() - 4..];
        let lengths: Vec<usize> = last.iter().map(|message| message.body.len()).collect();
        assert_eq!(lengths, [64_756, 65_536, 65_536, 5]);
        assert!(last.iter().all(|message| i64::from(message.reconsume_times) == attempt));
        round = last.iter().map(|message| message.physical_offset).collect();
    }
    for offset in round {
        server.send_back(GROUP, offset, -1, Some(16)).await.unwrap();
    }
    assert_eq!(server.read_when(&format!("%DLQ%{GROUP}"), 0, 4).await.len(), 4);
}

#[tokio::test]
async fn a_smaller_limit_does_not_stop_what_was_accepted_before() {
    let server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    for body in [vec![b'x'; 100_000], b"small".to_vec()] {
        server.send(0, &Message::new(TOPIC, body).delay_level(2)).await;
    }
    let admin = server.client.admin();
    admin.update_broker_config(server.address(), &[("maxMessageSize", "1024")]).await.unwrap();
    let stored = server.read_when(TOPIC, 0, 2).await;
    assert_eq!(stored[0].body.len(), 100_000);
    assert_eq!(bodies(&stored[1..]), ["small"]);
}

#[tokio::test]
async fn properties_that_leave_no_room_do_not_block_a_level_or_a_group() {
    let server = Server::start(&[SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    member(&server.client, GROUP, TOPIC, "*").heartbeat(server.address()).await.unwrap();
    // Whether the broker's own additions still fit is its affair: refused at once or delivered.
    let mut accepted = 0;
    for length in (32_600..=32_750).step_by(10) {
        let text = format!("DELAY\x012\x02{}", properties(length));
        let header = send_header(TOPIC, 0, &text);
        match server.send_raw(request::SEND_MESSAGE_V2, &header, b"full").await {
            Ok(_) => accepted += 1,
            refused => drop(assert_illegal(refused)),
        }
    }
    server.send(0, &Message::new(TOPIC, "next").delay_level(2)).await;
    let delivered = server.read_when(TOPIC, 0, accepted + 1).await;
    assert_eq!(delivered.last().unwrap().body, "next");

    let text = properties(32_767);
    server
        .send_raw(request::SEND_MESSAGE_V2, &send_header(TOPIC, 0, &text), b"brim")
        .await
        .unwrap();
    let brim = server.read_when(TOPIC, 0, accepted + 2).await.pop().unwrap();
    let given_back = server.send_back(GROUP, brim.physical_offset, 0, Some(16)).await;
    let retry = format!("%RETRY%{GROUP}");
    let mut expected = 1;
    match given_back {
        Ok(_) => expected += 1,
        refused => drop(refusal(refused)),
    }
    let next = delivered.last().unwrap().physical_offset;
    server.send_back(GROUP, next, 0, Some(16)).await.unwrap();
    let retried = server.read_when(&retry, 0, expected).await;
    assert_eq!(retried.last().unwrap().body, "next");
}

#[tokio::test]
async fn properties_end_at_what_their_length_can_say() {
    let mut server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let full = properties(32_767);
    for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2] {
        server.send_raw(code, &send_header(TOPIC, 0, &full), b"x").await.unwrap();
    }
    let part = batch_part(b"x", full.as_bytes());
    let two = [part.clone(), batch_part(b"y", b"own\x01v")].concat();
    send_batch(&server, &batch_header(TOPIC, ""), &two).await.unwrap();
    server.read_when(TOPIC, 0, 4).await;
    let end = server.log_end().await;
    for length in [32_768, 65_535, 65_536, 70_000] {
        let text = properties(length);
        for code in [request::SEND_MESSAGE, request::SEND_MESSAGE_V2] {
            let outcome = server.send_raw(code, &send_header(TOPIC, 0, &text), b"x").await;
            let remark = assert_illegal(outcome);
            assert!(remark.contains("32767") || remark.contains("32k"), "{remark}");
        }
        let bad = [batch_part(b"good", b""), batch_part(b"x", text.as_bytes())].concat();
        assert_illegal(send_batch(&server, &batch_header(TOPIC, ""), &bad).await);
    }
    assert_eq!(server.log_end().await, end);
    server.send(0, &Message::new(TOPIC, "next")).await;
    let check = async |server: &Server| {
        let stored = server.read_when(TOPIC, 0, 5).await;
        for message in &stored[..3] {
            assert_eq!(message.property("own").map(str::len), Some(32_763));
            assert!(message.property_string.len() <= 32_767);
        }
        assert_eq!(bodies(&stored[3..]), ["y", "next"]);
    };
    check(&server).await;
    server.kill().await;
    server.restart();
    check(&server).await;
}

#[tokio::test]
async fn the_limit_is_on_the_body_and_can_be_changed_at_run_time() {
    const LIMIT: usize = 4 << 20;
    let server = Server::start(&[("mappedFileSizeCommitLog", "50331648")]);
    server.topic(TOPIC, 1).await;
    let address = server.address().to_owned();
    let link = server.client.connection(&address).await.unwrap();
    let admin = server.client.admin();
    let some = properties(30_000);
    let header = send_header(TOPIC, 0, &some);
    let send = async |length: usize| {
        server.send_raw(request::SEND_MESSAGE_V2, &header, &vec![b'b'; length]).await
    };
    send(LIMIT).await.unwrap();
    let remark = assert_illegal(send(LIMIT + 1).await);
    assert!(remark.contains(&LIMIT.to_string()), "the limit is not named: {remark}");
    let info = admin.broker_config(&address).await.unwrap();
    assert_eq!(info["maxMessageSize"], LIMIT.to_string());

    let double = (2 * LIMIT).to_string();
    admin.update_broker_config(&address, &[("maxMessageSize", &double)]).await.unwrap();
    send(LIMIT + 1).await.unwrap();
    send(2 * LIMIT).await.unwrap();
    let remark = assert_illegal(send(2 * LIMIT + 1).await);
    assert!(remark.contains(&double), "{remark}");
    admin.update_broker_config(&address, &[("maxMessageSize", "1024")]).await.unwrap();
    send(1_024).await.unwrap();
    let remark = assert_illegal(send(1_025).await);
    assert!(remark.contains("1024"), "{remark}");
    for nonsense in ["", "many", "-5"] {
        let changed = admin.update_broker_config(&address, &[("maxMessageSize", nonsense)]).await;
        assert!(!refusal(changed).1.is_empty(), "{nonsense:?}");
    }
    send(1_024).await.unwrap();
    assert!(link.is_open(), "the link is kept");

    until("all are dispatched", async || (server.max_offset(TOPIC, 0).await == 5).then_some(()))
        .await;
    let mut lengths = Vec::new();
    for offset in 0..5 {
        let message = server.pull(TOPIC, 0, offset, "*").await.messages.remove(0);
        assert!(message.body_is_intact);
        lengths.push(message.body.len());
    }
    assert_eq!(lengths, [LIMIT, LIMIT + 1, 2 * LIMIT, 1_024, 1_024]);
}

#[tokio::test]
async fn empty_bodies_and_properties_are_stored_as_they_are() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut header = send_header(TOPIC, 0, "");
    server.send_raw(request::SEND_MESSAGE_V2, &header, b"").await.unwrap();
    header.properties = None;
    server.send_raw(request::SEND_MESSAGE_V2, &header, b"x").await.unwrap();
    let stored = server.read_when(TOPIC, 0, 2).await;
    assert_eq!(bodies(&stored), ["", "x"]);
}

#[tokio::test]
async fn what_fits_into_no_file_is_refused_and_nothing_is_held_up() {
    // The limit on bodies is far above what one file of the log holds.
    let server = Server::start(&[("mappedFileSizeCommitLog", "262144"), SHORT_LEVELS]);
    server.topic(TOPIC, 1).await;
    server.send(0, &Message::new(TOPIC, "before")).await;
    for length in [262_144, 262_140, 1 << 20] {
        for level in [0, 1] {
            let message = Message::new(TOPIC, vec![0; length]).delay_level(level);
            let (code, remark) = refusal(server.try_send(0, &message).await);
            assert_eq!(code, response::MESSAGE_ILLEGAL, "{length}: {remark}");
            assert!(!remark.is_empty());
        }
        let message = Message::new(TOPIC, vec![0; length]);
        let batch = producer(&server.client).send_batch(&server.queue(0), &[message]).await;
        assert_eq!(refusal(batch).0, response::MESSAGE_ILLEGAL, "{length}");
    }
    // What just fits does, file after file.
    for number in 0..6 {
        server.send(0, &Message::new(TOPIC, vec![number; 200_000])).await;
    }
    server.send(0, &Message::new(TOPIC, "after")).await;
    let stored = server.read_when(TOPIC, 0, 8).await;
    assert!(stored.iter().all(|message| message.body_is_intact));
    assert_eq!(stored[7].body, "after");
}

#[tokio::test]
async fn a_batch_of_very_many_messages_is_answered_with_all_their_ids() {
    const MESSAGES: usize = 5_000;
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut first = 0;
    for serialize in [Serialize::Json, Serialize::Binary] {
        let mut options = options();
        options.connection.serialize = serialize;
        let client = Client::new(options);
        let messages: Vec<Message> = (0..MESSAGES).map(|_| Message::new(TOPIC, "x")).collect();
        let receipt = producer(&client).send_batch(&server.queue(0), &messages).await.unwrap();
        assert_eq!(receipt.queue_offset, first);
        assert_eq!(receipt.offset_ids.len(), MESSAGES);
        first += MESSAGES as i64;
    }
    until("all are dispatched", async || {
        (server.max_offset(TOPIC, 0).await == first).then_some(())
    })
    .await;
}
