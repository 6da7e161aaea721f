use super::*;
use crate::code;
use crate::header::{EmptyHeader, NoHeader};
use crate::request::offset::{OffsetResponse, QueueOf};
use crate::request::send::SendMessage;

/// A whole JSON frame around `header`.
fn json_frame(header: &str, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(4 + header.len() + body.len()).unwrap();
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend_from_slice(&u32::try_from(header.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(header.as_bytes());
    frame.extend_from_slice(body);
    frame
}

fn header_text(frame: &[u8]) -> String {
    let length = u32_at(frame, 4) & 0x00FF_FFFF;
    String::from_utf8(frame[8..8 + length as usize].to_vec()).unwrap()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn fields(frame: &Frame<'_>) -> Vec<(String, String)> {
    let mut all = Vec::new();
    frame.ext.for_each(|key, value| all.push((key.to_owned(), value.to_owned())));
    all
}

#[test]
fn a_send_of_a_java_client_reads_without_a_copy() {
    let mut bytes = json_frame(
        "{\"code\":310,\"extFields\":{\"a\":\"g\",\"b\":\"T\",\"c\":\"TBW102\",\"d\":\"4\",\
         \"e\":\"2\",\"f\":\"0\",\"g\":\"1796038682395\",\"h\":\"0\",\
         \"i\":\"KEYS\\u0001k\\u0002WAIT\\u0001true\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\"},\
         \"flag\":0,\"language\":\"JAVA\",\"opaque\":7,\"serializeTypeCurrentRPC\":\"JSON\",\
         \"version\":399}",
        b"hello",
    );
    let frame = Frame::parse(&mut bytes).unwrap();
    assert_eq!(frame.head.code, code::request::SEND_MESSAGE_V2);
    assert_eq!(frame.head.language, Language::Java);
    assert_eq!((frame.head.version, frame.head.opaque, frame.head.flag), (399, 7, 0));
    assert_eq!(frame.body, b"hello");
    // Twice, for reading must not use the fields up.
    for _ in 0..2 {
        let send: SendMessage<'_> = frame.ext.decode().unwrap();
        assert_eq!(send.producer_group, "g");
        assert_eq!(send.born_timestamp, 1_796_038_682_395);
        let properties = send.properties.unwrap();
        assert!(matches!(properties, Cow::Borrowed("KEYS\u{1}k\u{2}WAIT\u{1}true")));
        assert_eq!(send.max_reconsume_times, None);
        assert_eq!(send.batch, Some(false));
    }
}

#[test]
fn answers_stand_as_java_writes_them() {
    let reply = ReplyHead { opaque: 5, serialize: Serialize::Json };
    let mut out = b"before".to_vec();
    encode_response(&mut out, &reply, 0, None, &OffsetResponse { offset: -1 }, 3);
    let frame = &out[6..];
    assert_eq!(u32_at(frame, 0) as usize, frame.len() - 4 + 3);
    assert_eq!(
        header_text(frame),
        "{\"code\":0,\"extFields\":{\"offset\":\"-1\"},\"flag\":1,\"language\":\"JAVA\",\
         \"opaque\":5,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}"
    );
    out.clear();
    encode_response(&mut out, &reply, 1, Some("a\"b\u{1}\n"), &EmptyHeader, 0);
    assert_eq!(
        header_text(&out),
        "{\"code\":1,\"extFields\":{},\"flag\":1,\"language\":\"JAVA\",\"opaque\":5,\
         \"remark\":\"a\\\"b\\u0001\\n\",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}"
    );
    out.clear();
    encode_response(&mut out, &reply, 0, None, &NoHeader, 0);
    assert_eq!(
        header_text(&out),
        "{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"opaque\":5,\
         \"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}"
    );
}

#[test]
fn headers_are_read_as_leniently_as_clients_write_them() {
    let mut bytes = json_frame(
        " {'extFields' : {topic:'a\\'b' , \"queueId\":3,\"nothing\":null,\"deep\":{\"x\":[1,\"}\"]},\
         flag:true,\"u\":\"\\uD83D\\uDE00\\uD83D\\x41\"}, unknown:[{\"a\":{}}],language:\"ZIG\",,\
         remark:null,opaque:\"12\",\"code\":31} ",
        b"",
    );
    let frame = Frame::parse(&mut bytes).unwrap();
    assert_eq!((frame.head.code, frame.head.opaque), (31, 12));
    assert_eq!(frame.head.language, Language::Other);
    assert_eq!(frame.head.remark, None);
    let queue: QueueOf<'_> = frame.ext.decode().unwrap();
    assert_eq!(queue, QueueOf { topic: "a'b".into(), queue_id: 3 });
    let expected = [("topic", "a'b"), ("queueId", "3"), ("flag", "true"), ("u", "😀\u{FFFD}A")];
    assert_eq!(fields(&frame), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
}

#[test]
fn tokens_of_any_length_stand_side_by_side_in_any_form() {
    for length in [0, 1, 252, 253, 254, 255, 256, 70_000] {
        let long = "x".repeat(length);
        let escaped = r"\u0001".repeat(length);
        let header = format!(
            "{{extFields:{{a:1,'{long}b':2,\"c\":\"{long}\",d:true,\"{long}e\":\"{long}\",\
             \"f\" : '{escaped}' ,\"g\":null,\"h\":[\"{long}\"],\"i\":\"\"}}}}"
        );
        let mut bytes = json_frame(&header, b"");
        let frame = Frame::parse(&mut bytes).unwrap();
        let expected = [
            ("a".to_owned(), "1".to_owned()),
            (format!("{long}b"), "2".to_owned()),
            ("c".to_owned(), long.clone()),
            ("d".to_owned(), "true".to_owned()),
            (format!("{long}e"), long.clone()),
            ("f".to_owned(), "\u{1}".repeat(length)),
            ("i".to_owned(), String::new()),
        ];
        assert!(fields(&frame) == expected, "length {length}");
    }
}

#[test]
fn a_bare_word_has_a_bounded_length() {
    let header = |digits: usize| format!("{{extFields:{{a:{}}}}}", "1".repeat(digits));
    let mut bytes = json_frame(&header(253), b"");
    assert_eq!(fields(&Frame::parse(&mut bytes).unwrap())[0].1.len(), 253);
    let mut bytes = json_frame(&header(254), b"");
    assert!(matches!(Frame::parse(&mut bytes), Err(FrameError::Json { .. })));
}

#[test]
fn escapes_of_all_kinds_are_known() {
    let remark = |escaped: &str| {
        let mut bytes = json_frame(&format!("{{\"remark\":\"{escaped}\"}}"), b"");
        Frame::parse(&mut bytes).unwrap().head.remark.map(Cow::into_owned).unwrap()
    };
    assert_eq!(remark(r#"\b\f\n\r\t\v\"\'\\\/"#), "\u{8}\u{c}\n\r\t\u{b}\"'\\/");
    assert_eq!(remark(r"\0\7\x41\xe9\u0041\u20AC"), "\0\u{7}A\u{e9}A\u{20ac}");
    assert_eq!(remark(r"\u0000\u0009\u000a\u007F"), "\0\t\n\u{7f}");
    assert_eq!(remark(r"a\ud83d\uDE00b"), "a\u{1f600}b");
    assert_eq!(remark(r"\ud83d"), "\u{FFFD}");
    assert_eq!(remark(r"\ude00\ud83dx"), "\u{FFFD}\u{FFFD}x");
    assert_eq!(remark(r"\ud83d\u0041"), "\u{FFFD}A");
}

#[test]
fn binary_codes_are_cut_to_16_bits() {
    let request = RequestHead {
        code: code::request::POP_MESSAGE,
        opaque: 1,
        oneway: true,
        serialize: Serialize::Binary,
        language: Language::NodeJs,
        version: 399,
        short_names: false,
    };
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &request, &NoHeader, 0);
    let frame = Frame::parse(&mut bytes).unwrap();
    assert_eq!(frame.head.code, 3442);
    assert_eq!(frame.head.language, Language::NodeJs);
    assert!(frame.head.is_oneway() && !frame.head.is_response());
}
