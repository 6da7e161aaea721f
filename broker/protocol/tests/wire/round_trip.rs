//! What is written reads back the same, for any content and both serializations, and without an
//! allocation on the way in.

use std::borrow::Cow;

use broker_protocol::frame::{
    Frame, ReplyHead, RequestHead, Serialize, encode_request, encode_response,
};
use broker_protocol::header::NoHeader;
use broker_protocol::request::send::{SendMessage, SendMessageResponse};
use broker_protocol::version::Language;
use broker_protocol::wire_header;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

wire_header! {
    /// Every kind of field there is.
    pub struct EveryKind<'a> {
        /// Text.
        pub text: Cow<'a, str> => "text" / "t",
        /// Text that may be missing.
        pub maybe_text: Option<Cow<'a, str>> => "maybeText" / "u",
        /// 32 bits.
        pub int: i32 => "int",
        /// 32 bits that may be missing.
        pub maybe_int: Option<i32> => "maybeInt" / "i",
        /// 64 bits.
        pub long: i64 => "long",
        /// 64 bits that may be missing.
        pub maybe_long: Option<i64> => "maybeLong",
        /// Flag.
        pub flag: bool => "flag",
        /// Flag that may be missing.
        pub maybe_flag: Option<bool> => "maybeFlag" / "f",
        /// Fraction.
        pub float: f64 => "float",
        /// Flag with an older name, true when missing.
        pub clean: bool => "clean" | "remove" or true,
    }
}

/// Texts of the hard kinds: controls, quotes, escapes, all planes of Unicode.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,40}",
        "[\u{0}-\u{1f}\"'\\\\/,:{}\\[\\]]{0,40}",
        "(KEYS\u{1}[a-z]{0,9}\u{2}){0,9}",
        "[\u{80}-\u{10ffff}]{0,20}",
        // Around the length at which the reader marks a token in another way.
        "[a-z\u{1}]{250,258}",
    ]
}

fn serializations() -> impl Strategy<Value = Serialize> {
    prop_oneof![Just(Serialize::Json), Just(Serialize::Binary)]
}

prop_compose! {
    fn every_kind()(
        (text, maybe_text) in (texts(), option::of(texts())),
        (int, maybe_int) in (any::<i32>(), option::of(any::<i32>())),
        (long, maybe_long) in (any::<i64>(), option::of(any::<i64>())),
        (flag, maybe_flag, clean) in (any::<bool>(), option::of(any::<bool>()), any::<bool>()),
        float in -1e300..1e300,
    ) -> EveryKind<'static> {
        EveryKind {
            text: text.into(),
            maybe_text: maybe_text.map(Cow::Owned),
            int, maybe_int, long, maybe_long, flag, maybe_flag, float, clean,
        }
    }
}

/// Parses and decodes; both must not allocate.
fn read<'a, H: broker_protocol::header::FromExt<'a>>(bytes: &'a mut [u8]) -> (Frame<'a>, H) {
    let mut read = None;
    let allocations = allocation_counter::measure(|| {
        let frame = Frame::parse(bytes).unwrap();
        let header = frame.ext.decode().unwrap();
        read = Some((frame, header));
    });
    assert_eq!(allocations.count_total, 0, "reading allocates");
    read.unwrap()
}

proptest! {
    #[test]
    fn requests_come_back(
        header in every_kind(),
        serialize in serializations(),
        (code, opaque, version) in (0..=i32::from(i16::MAX), any::<i32>(), 0..1000),
        (oneway, short_names) in any::<(bool, bool)>(),
        body in vec(any::<u8>(), 0..50),
    ) {
        let request = RequestHead {
            code, opaque, oneway, serialize, language: Language::Go, version, short_names,
        };
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &request, &header, body.len());
        bytes.extend_from_slice(&body);
        let (frame, back) = read::<EveryKind<'_>>(&mut bytes);
        prop_assert_eq!(back, header);
        prop_assert_eq!(frame.body, &body[..]);
        prop_assert_eq!((frame.head.code, frame.head.opaque), (code, opaque));
        prop_assert_eq!(frame.head.version, version);
        prop_assert_eq!(frame.head.language, Language::Go);
        prop_assert_eq!(frame.head.is_oneway(), oneway);
        prop_assert!(!frame.head.is_response());
    }

    #[test]
    fn answers_come_back(
        pairs in vec((texts(), texts()), 0..20),
        remark in option::of(texts()),
        serialize in serializations(),
        code in any::<i16>(),
        opaque in any::<i32>(),
    ) {
        let mut bytes = Vec::new();
        let reply = ReplyHead { opaque, serialize };
        let code = i32::from(code);
        encode_response(&mut bytes, &reply, code, remark.as_deref(), &pairs[..], 0);
        let (frame, NoHeader) = read(&mut bytes);
        prop_assert_eq!((frame.head.code, frame.head.opaque), (code, opaque));
        // The binary layout has no null: an empty remark is none.
        let remark = remark.filter(|remark| !remark.is_empty() || serialize == Serialize::Json);
        prop_assert_eq!(frame.head.remark.as_deref(), remark.as_deref());
        prop_assert!(!matches!(frame.head.remark, Some(Cow::Owned(_))));
        let mut back = Vec::new();
        frame.ext.for_each(|key, value| back.push((key.to_owned(), value.to_owned())));
        prop_assert_eq!(back, pairs);
    }

    /// Clients may write any character as an escape; pairs of surrogates are one character.
    #[test]
    fn escapes_mean_their_characters(pairs in vec((texts(), texts()), 0..9), upper: bool) {
        let escaped = |text: &str| -> String {
            text.encode_utf16()
                .map(|unit| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") })
                .collect()
        };
        let fields: Vec<String> = pairs
            .iter()
            .map(|(key, value)| format!("\"{}\":\"{}\"", escaped(key), escaped(value)))
            .collect();
        let header = format!("{{\"code\":1,\"extFields\":{{{}}}}}", fields.join(" , "));
        let mut bytes = u32::try_from(header.len() + 4).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(&u32::try_from(header.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(header.as_bytes());
        let (frame, NoHeader) = read(&mut bytes);
        let mut back = Vec::new();
        frame.ext.for_each(|key, value| back.push((key.to_owned(), value.to_owned())));
        prop_assert_eq!(back, pairs);
    }

    /// The strict parser agrees that what we write is JSON, and with what it says.
    #[test]
    fn what_is_written_is_strict_json(header in every_kind(), remark in texts()) {
        let mut bytes = Vec::new();
        let reply = ReplyHead { opaque: 1, serialize: Serialize::Json };
        encode_response(&mut bytes, &reply, 7, Some(&remark), &header, 0);
        let json: serde_json::Value = serde_json::from_slice(&bytes[8..]).unwrap();
        prop_assert_eq!(json["remark"].as_str(), Some(&remark[..]));
        prop_assert_eq!(json["extFields"]["text"].as_str(), Some(&header.text[..]));
        prop_assert_eq!(json["extFields"]["maybeText"].as_str(), header.maybe_text.as_deref());
    }
}

#[test]
fn a_header_outlives_its_frame() {
    let mut bytes = Vec::new();
    let header = SendMessageResponse {
        queue_id: 1,
        trace_on: Some("true".into()),
        msg_region: Some("DefaultRegion".into()),
        msg_id: "0A".into(),
        queue_offset: 7,
        transaction_id: None,
        batch_uniq_id: None,
        recall_handle: None,
    };
    let reply = ReplyHead { opaque: 1, serialize: Serialize::Binary };
    encode_response(&mut bytes, &reply, 0, None, &header, 0);
    let owned = {
        let (_, back) = read::<SendMessageResponse<'_>>(&mut bytes);
        back.into_owned()
    };
    drop(bytes);
    assert_eq!(owned, header);
}

#[test]
fn long_one_letter_and_older_names_are_read_alike() {
    let pairs = [
        ("t", "text"),
        ("int", "1"),
        ("i", "2"),
        ("long", "3"),
        ("flag", "TRUE"),
        ("float", "1.5"),
        ("remove", "false"),
        ("maybeFlag", "yes"),
        ("unknown", "x"),
        ("int", "9"),
    ];
    for serialize in [Serialize::Json, Serialize::Binary] {
        let mut bytes = Vec::new();
        encode_response(&mut bytes, &ReplyHead { opaque: 0, serialize }, 0, None, &pairs[..], 0);
        let (_, back) = read::<EveryKind<'_>>(&mut bytes);
        let expected = EveryKind {
            text: "text".into(),
            maybe_text: None,
            int: 9,
            maybe_int: Some(2),
            long: 3,
            maybe_long: None,
            flag: true,
            maybe_flag: Some(false),
            float: 1.5,
            clean: false,
        };
        assert_eq!(back, expected);
    }
}

#[test]
fn errors_name_the_field_and_what_is_wrong() {
    let text_of = |pairs: &[(&str, &str)]| {
        let mut bytes = Vec::new();
        let reply = ReplyHead { opaque: 0, serialize: Serialize::Json };
        encode_response(&mut bytes, &reply, 0, None, pairs, 0);
        let frame = Frame::parse(&mut bytes).unwrap();
        frame.ext.decode::<SendMessage<'_>>().unwrap_err().to_string()
    };
    assert_eq!(text_of(&[]), "header field producerGroup is missing");
    assert_eq!(text_of(&[("a", "g"), ("b", "T")]), "header field queueId is missing");
    assert_eq!(
        text_of(&[("queueId", "2147483648")]),
        "header field queueId must be a whole number from -2147483648 to 2147483647"
    );
    assert_eq!(
        text_of(&[("g", "soon")]),
        "header field bornTimestamp must be a whole number of at most 64 bits"
    );
}
