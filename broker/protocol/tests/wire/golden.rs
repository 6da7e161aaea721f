//! Every captured frame parses, its typed header keeps every field, and writes the same frame
//! again.

use broker_protocol::frame::{
    Frame, ReplyHead, RequestHead, Serialize, encode_request, encode_response, frame_size,
};
use broker_protocol::header::{EmptyHeader, FromExt, Header, NoHeader, WithExtra};
use broker_protocol::request::{
    client, group, name_server, offset, pull, query, send, topic, transaction,
};

/// Fields that newer clients add to any request and that no table names.
const SKIPPED: [&str; 2] = ["bname", "ReqT"];

#[derive(serde::Deserialize)]
pub(crate) struct Golden {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) code: i32,
    pub(crate) writer: String,
    hex: String,
}

impl Golden {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
        self.hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }
}

pub(crate) fn all() -> Vec<Golden> {
    include_str!("../../testdata/frames.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Reads the fields as `H` and writes the frame again from nothing but what was read.
fn again<'a, H: FromExt<'a> + Header>(frame: &Frame<'a>) -> Vec<u8> {
    let mut pairs = Vec::new();
    frame.ext.for_each(|key, value| pairs.push((key, value)));
    if pairs.is_empty() {
        return match frame.ext.is_absent() {
            true => rewrite(frame, &NoHeader),
            false => rewrite(frame, &EmptyHeader),
        };
    }
    let header: H = frame.ext.decode().unwrap();
    // A field the table names is written by the table; only the others may come along untyped.
    let plain = rewrite(frame, &header);
    let mut plain = plain;
    let typed = Frame::parse(pad(&mut plain, frame.body.len())).unwrap().ext;
    pairs.retain(|(key, _)| SKIPPED.contains(key) && typed.find(key).is_none());
    rewrite(frame, &WithExtra { header: &header, extra: &pairs[..] })
}

/// Gives a head its body back, for lengths must agree when it is parsed.
fn pad(head: &mut Vec<u8>, body: usize) -> &mut [u8] {
    head.resize(head.len() + body, 0);
    head
}

fn rewrite<H: Header>(frame: &Frame<'_>, header: &H) -> Vec<u8> {
    let head = &frame.head;
    let mut out = Vec::new();
    if head.is_response() {
        let reply = ReplyHead { opaque: head.opaque, serialize: head.serialize };
        encode_response(
            &mut out,
            &reply,
            head.code,
            head.remark.as_deref(),
            header,
            frame.body.len(),
        );
    } else {
        let request = RequestHead {
            code: head.code,
            opaque: head.opaque,
            oneway: head.is_oneway(),
            serialize: head.serialize,
            language: head.language,
            version: head.version,
            short_names: matches!(head.code, 310 | 320 | 325),
        };
        encode_request(&mut out, &request, header, frame.body.len());
    }
    out
}

fn typed_again(golden: &Golden, frame: &Frame<'_>) -> Vec<u8> {
    let response = golden.kind == "response";
    match (golden.name.as_str(), response) {
        (
            "SEND_MESSAGE" | "SEND_MESSAGE_V2" | "SEND_BATCH_MESSAGE" | "SEND_REPLY_MESSAGE_V2",
            false,
        ) => again::<send::SendMessage<'_>>(frame),
        (
            "SEND_MESSAGE" | "SEND_MESSAGE_V2" | "SEND_BATCH_MESSAGE" | "SEND_REPLY_MESSAGE_V2",
            true,
        ) => match frame.head.code {
            0 | 10 | 11 | 12 => again::<send::SendMessageResponse<'_>>(frame),
            _ => again::<send::SendMessageRefused<'_>>(frame),
        },
        ("PUSH_REPLY_MESSAGE_TO_CLIENT", false) => again::<send::PushReplyMessage<'_>>(frame),
        ("CONSUMER_SEND_MSG_BACK", false) => again::<send::ConsumerSendMsgBack<'_>>(frame),
        ("PULL_MESSAGE" | "LITE_PULL_MESSAGE", false) => again::<pull::PullMessage<'_>>(frame),
        ("PULL_MESSAGE" | "LITE_PULL_MESSAGE", true) => again::<pull::PullMessageResponse>(frame),
        ("QUERY_MESSAGE", false) => again::<query::QueryMessage<'_>>(frame),
        ("QUERY_MESSAGE", true) => again::<query::QueryMessageResponse>(frame),
        ("VIEW_MESSAGE_BY_ID", false) => again::<query::ViewMessage<'_>>(frame),
        ("QUERY_CONSUMER_OFFSET", false) => again::<offset::QueryConsumerOffset<'_>>(frame),
        ("UPDATE_CONSUMER_OFFSET", false) => again::<offset::UpdateConsumerOffset<'_>>(frame),
        ("SEARCH_OFFSET_BY_TIMESTAMP", false) => {
            again::<offset::SearchOffsetByTimestamp<'_>>(frame)
        }
        ("GET_MAX_OFFSET", false) => again::<offset::GetMaxOffset<'_>>(frame),
        ("GET_MIN_OFFSET" | "GET_EARLIEST_MSG_STORETIME", false) => {
            again::<offset::QueueOf<'_>>(frame)
        }
        (
            "QUERY_CONSUMER_OFFSET"
            | "SEARCH_OFFSET_BY_TIMESTAMP"
            | "GET_MAX_OFFSET"
            | "GET_MIN_OFFSET",
            true,
        ) => again::<offset::OffsetResponse>(frame),
        ("GET_EARLIEST_MSG_STORETIME", true) => again::<offset::TimestampResponse>(frame),
        ("HEART_BEAT", true) => again::<client::HeartBeatResponse>(frame),
        ("UNREGISTER_CLIENT", false) => again::<client::UnregisterClient<'_>>(frame),
        ("GET_CONSUMER_LIST_BY_GROUP", false) => again::<client::GetConsumerListByGroup<'_>>(frame),
        ("NOTIFY_CONSUMER_IDS_CHANGED", false) => {
            again::<client::NotifyConsumerIdsChanged<'_>>(frame)
        }
        ("END_TRANSACTION", false) => again::<transaction::EndTransaction<'_>>(frame),
        ("CHECK_TRANSACTION_STATE", false) => {
            again::<transaction::CheckTransactionState<'_>>(frame)
        }
        ("UPDATE_AND_CREATE_TOPIC", false) => again::<topic::CreateTopic<'_>>(frame),
        ("GET_TOPIC_STATS_INFO" | "DELETE_TOPIC_IN_BROKER", false) => {
            again::<topic::TopicOf<'_>>(frame)
        }
        ("DELETE_TOPIC_IN_NAMESRV", false) => again::<topic::DeleteTopicInNameServer<'_>>(frame),
        ("GET_TOPIC_CONFIG", false) => again::<topic::GetTopicConfig<'_>>(frame),
        ("GET_ALL_TOPIC_CONFIG", false) => again::<topic::GetAllTopicConfig<'_>>(frame),
        ("GET_ALL_TOPIC_CONFIG", true) => again::<topic::GetAllTopicConfigResponse>(frame),
        ("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", false) => {
            again::<group::GetAllSubscriptionGroup<'_>>(frame)
        }
        ("GET_ALL_SUBSCRIPTIONGROUP_CONFIG", true) => {
            again::<group::GetAllSubscriptionGroupResponse>(frame)
        }
        ("GET_CONSUME_STATS", false) => again::<group::GetConsumeStats<'_>>(frame),
        ("REGISTER_BROKER", false) => again::<name_server::RegisterBroker<'_>>(frame),
        ("REGISTER_BROKER", true) => again::<name_server::RegisterBrokerResponse<'_>>(frame),
        ("UNREGISTER_BROKER", false) => again::<name_server::UnregisterBroker<'_>>(frame),
        ("GET_ROUTEINFO_BY_TOPIC", false) => again::<name_server::GetRouteInfo<'_>>(frame),
        ("QUERY_DATA_VERSION", false) => again::<name_server::QueryDataVersion<'_>>(frame),
        ("QUERY_DATA_VERSION", true) => again::<name_server::QueryDataVersionResponse>(frame),
        // What is left has no fields. If it had, they would be lost, and the frame would differ.
        _ => again::<NoHeader>(frame),
    }
}

/// Answers report our version, not the capture's; numbers of versions here have equal widths.
fn with_our_version(golden: &Golden, mut bytes: Vec<u8>) -> Vec<u8> {
    let (theirs, ours) = (b"\"version\":479}".as_slice(), b"\"version\":399}".as_slice());
    if golden.kind == "response"
        && let Some(at) = bytes.windows(theirs.len()).position(|window| window == theirs)
    {
        bytes[at..at + ours.len()].copy_from_slice(ours);
    }
    bytes
}

/// The header as a value in which order does not count, and all that order cannot change.
fn orderless(bytes: &[u8]) -> (Vec<u8>, usize, serde_json::Value) {
    let word = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    let header = &bytes[8..8 + (word & 0x00FF_FFFF) as usize];
    let value = match word >> 24 {
        0 => serde_json::from_slice(header).unwrap(),
        _ => {
            let mut copy = bytes.to_vec();
            let frame = Frame::parse(&mut copy).unwrap();
            let mut pairs = Vec::new();
            frame.ext.for_each(|key, value| pairs.push(format!("{key}={value}")));
            pairs.sort();
            let numbers = &header[..17];
            serde_json::json!({ "numbers": numbers, "remark": frame.head.remark, "fields": pairs })
        }
    };
    (bytes[..8].to_vec(), bytes.len(), value)
}

#[test]
fn captured_frames_survive_typed_reading_and_writing() {
    let (mut same, mut reordered, mut binary) = (0, 0, 0);
    for golden in all() {
        let context = format!("{} {} of {}", golden.name, golden.kind, golden.writer);
        let original = golden.bytes();
        assert_eq!(frame_size(&original), Ok(Some(original.len())), "{context}");
        let mut bytes = original.clone();
        let frame = Frame::parse(&mut bytes).unwrap();
        assert_eq!(frame.head.code, golden.code, "{context}");
        assert_eq!(frame.head.is_response(), golden.kind == "response", "{context}");
        assert_eq!(frame.head.is_oneway(), golden.kind == "oneway", "{context}");
        assert!(matches!(frame.head.version, 399 | 479), "{context}");
        binary += i32::from(frame.head.serialize == Serialize::Binary);

        let mut written = typed_again(&golden, &frame);
        written.extend_from_slice(frame.body);
        let original = with_our_version(&golden, original);
        if written == original {
            same += 1;
            continue;
        }
        reordered += 1;
        assert!(frame.ext.entries().count() > 1, "{context}: not a matter of order");
        assert_eq!(orderless(&written), orderless(&original), "{context}");
    }
    // The hash order of the captures is the order of our tables for many, and none is left out.
    assert!(binary >= 50, "{binary} binary frames");
    assert!(same >= 100, "{same} frames the same, {reordered} reordered");
}
