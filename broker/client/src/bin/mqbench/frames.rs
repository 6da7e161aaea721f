//! Request frames made once and patched for each send: copying a kilobyte and setting a few fields
//! costs the load generator far less than writing a header anew.
//!
//! A template is an ordinary frame, made by the protocol crate with marker values in the fields
//! that change; the markers are found again by search. All of them have a fixed width.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use broker_client::connection::uses_short_names;
use broker_protocol::code::request;
use broker_protocol::frame::{RequestHead, Serialize, encode_request};
use broker_protocol::message_id::UniqueIds;
use broker_protocol::name::AUTO_CREATE_TOPIC;
use broker_protocol::properties::{name, push};
use broker_protocol::record::write_batch_message;
use broker_protocol::request::send::SendMessage;
use broker_protocol::version::{self, Language};

/// Ten digits, as every opaque here: [`OPAQUE_MIN`] and up.
const OPAQUE_MARK: i32 = 1_987_654_321;
/// Lowest opaque that fills the field.
pub(crate) const OPAQUE_MIN: i32 = 1_000_000_000;
/// Thirteen digits, as every time from 2001 to 2286.
const BORN_MARK: i64 = 1_888_777_666_555;
const KEY_MARK: &str = "k77777666665555544";
/// As long as a unique id with an IPv4 address in it.
const UNIQUE_MARK: &str = "ZYXWVUTSRQZYXWVUTSRQZYXWVUTSRQZY";
/// Starts every body that is long enough to hold it and the time after it.
const STAMP_MARK: &[u8; 8] = b"mqbench:";
/// Marker and nanoseconds of Unix time.
const STAMP_LEN: usize = 16;

/// What a template's frames have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shape<'a> {
    pub(crate) topic: &'a str,
    pub(crate) queue_id: i32,
    pub(crate) group: &'a str,
    /// Above 1: a batch request with that many messages.
    pub(crate) batch: u32,
    /// Body bytes of each message.
    pub(crate) size: usize,
    /// Empty for none.
    pub(crate) tag: &'a str,
    pub(crate) keys: bool,
    pub(crate) serialize: Serialize,
}

/// A frame and where its changing fields are.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    serialize: Serialize,
    opaque: usize,
    born: usize,
    messages: Vec<MessageFields>,
}

#[derive(Debug)]
struct MessageFields {
    unique_id: usize,
    key: Option<usize>,
    stamp: Option<usize>,
}

/// What makes the messages of one connection different from each other and from others'.
pub(crate) struct Identity {
    pub(crate) unique_ids: UniqueIds,
    /// Number of the next key.
    pub(crate) next_key: u64,
}

impl Template {
    /// Makes the frame. Fields, their order and the property strings are what Java's 4.9 producer
    /// sends.
    pub(crate) fn new(shape: &Shape<'_>) -> Result<Self> {
        let (code, properties, body) = content(shape)?;
        let text = std::str::from_utf8(&properties).context("properties are text")?;
        let head = RequestHead {
            code,
            opaque: OPAQUE_MARK,
            oneway: false,
            serialize: shape.serialize,
            language: Language::Java,
            version: version::V4_9_3,
            short_names: uses_short_names(code),
        };
        let header = SendMessage {
            producer_group: shape.group.into(),
            topic: shape.topic.into(),
            default_topic: AUTO_CREATE_TOPIC.into(),
            default_topic_queue_nums: 4,
            queue_id: shape.queue_id,
            sys_flag: 0,
            born_timestamp: BORN_MARK,
            flag: 0,
            properties: Some(text.into()),
            reconsume_times: Some(0),
            unit_mode: Some(false),
            max_reconsume_times: None,
            batch: Some(shape.batch > 1),
            broker_name: None,
        };
        let mut bytes = Vec::new();
        encode_request(&mut bytes, &head, &header, body.len());
        bytes.extend_from_slice(&body);
        Self::find_fields(bytes, shape)
    }

    fn find_fields(bytes: Vec<u8>, shape: &Shape<'_>) -> Result<Self> {
        let one = |mark: &[u8], what: &str| -> Result<usize> {
            let found = find_all(&bytes, mark);
            ensure!(found.len() == 1, "{what} is in the frame {} times, not once", found.len());
            found.first().copied().ok_or_else(|| anyhow!("unreachable: one was found"))
        };
        let opaque = match shape.serialize {
            Serialize::Json => one(OPAQUE_MARK.to_string().as_bytes(), "opaque")?,
            Serialize::Binary => one(&OPAQUE_MARK.to_be_bytes(), "opaque")?,
        };
        let born = one(BORN_MARK.to_string().as_bytes(), "born time")?;
        let unique_ids = find_all(&bytes, UNIQUE_MARK.as_bytes());
        let keys = find_all(&bytes, KEY_MARK.as_bytes());
        let stamps = find_all(&bytes, STAMP_MARK);
        let count = usize::try_from(shape.batch)?;
        ensure!(unique_ids.len() == count, "a unique id for each message");
        ensure!(keys.len() == if shape.keys { count } else { 0 }, "a key for each message");
        let has_stamp = shape.size >= STAMP_LEN;
        ensure!(stamps.len() == if has_stamp { count } else { 0 }, "a time for each message");
        let messages = unique_ids
            .into_iter()
            .enumerate()
            .map(|(n, unique_id)| MessageFields {
                unique_id,
                key: keys.get(n).copied(),
                stamp: stamps.get(n).map(|at| at + STAMP_MARK.len()),
            })
            .collect();
        Ok(Self { bytes, serialize: shape.serialize, opaque, born, messages })
    }

    /// Messages in one frame.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Appends a frame for messages that were due at `due_nanos` of Unix time.
    pub(crate) fn append(
        &self,
        out: &mut Vec<u8>,
        opaque: i32,
        due_nanos: u64,
        identity: &mut Identity,
    ) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let Some(frame) = out.get_mut(start..) else { return };
        match self.serialize {
            Serialize::Json => put_digits(frame, self.opaque, 10, u64::from(opaque.unsigned_abs())),
            Serialize::Binary => put(frame, self.opaque, &opaque.to_be_bytes()),
        }
        let now_millis = due_nanos / 1_000_000;
        put_digits(frame, self.born, 13, now_millis);
        for message in &self.messages {
            let id = identity.unique_ids.next(i64::try_from(now_millis).unwrap_or(i64::MAX));
            put(frame, message.unique_id, id.as_str().as_bytes());
            if let Some(at) = message.key {
                put_digits(frame, at + 1, KEY_MARK.len() - 1, identity.next_key);
                identity.next_key += 1;
            }
            if let Some(at) = message.stamp {
                put(frame, at, &due_nanos.to_be_bytes());
            }
        }
    }
}

/// Code, header properties and body of a frame.
fn content(shape: &Shape<'_>) -> Result<(i32, Vec<u8>, Vec<u8>)> {
    let body = body(shape.size);
    let properties = property_string(shape);
    if shape.batch == 1 {
        return Ok((request::SEND_MESSAGE_V2, properties, body));
    }
    let mut batch = Vec::new();
    for _ in 0..shape.batch {
        write_batch_message(&mut batch, 0, &body, &properties)?;
    }
    let mut of_the_batch = Vec::new();
    push(&mut of_the_batch, name::WAIT_STORE_MSG_OK, "true");
    Ok((request::SEND_BATCH_MESSAGE, of_the_batch, batch))
}

fn property_string(shape: &Shape<'_>) -> Vec<u8> {
    let mut properties = Vec::new();
    if shape.keys {
        push(&mut properties, name::KEYS, KEY_MARK);
    }
    push(&mut properties, name::UNIQUE_KEY, UNIQUE_MARK);
    push(&mut properties, name::WAIT_STORE_MSG_OK, "true");
    if !shape.tag.is_empty() {
        push(&mut properties, name::TAGS, shape.tag);
    }
    properties
}

/// Marker and time, if they fit, then letters that don't compress to nothing.
fn body(size: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut body = Vec::with_capacity(size);
    if size >= STAMP_LEN {
        body.extend_from_slice(STAMP_MARK);
        body.extend_from_slice(&[b'0'; 8]);
    }
    body.extend(std::iter::repeat_with(|| random.u8(b'a'..=b'z')).take(size - body.len()));
    body
}

/// When the send of a message with this body was due, in nanoseconds of Unix time.
pub(crate) fn due_nanos_of(body: &[u8]) -> Option<u64> {
    let (nanos, _) = body.strip_prefix(STAMP_MARK)?.split_first_chunk()?;
    Some(u64::from_be_bytes(*nanos))
}

/// Nanoseconds of Unix time.
pub(crate) fn unix_nanos() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

fn find_all(bytes: &[u8], mark: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(mark.len()).enumerate();
    windows.filter(|(_, window)| *window == mark).map(|(at, _)| at).collect()
}

/// Overwrites bytes at a place that was found in the template, so it is inside.
fn put(frame: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = frame.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Overwrites `width` digits.
fn put_digits(frame: &mut [u8], at: usize, width: usize, mut value: u64) {
    let Some(place) = frame.get_mut(at..at + width) else { return };
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use broker_protocol::frame::{Frame, frame_size};
    use broker_protocol::properties::Properties;
    use broker_protocol::record::BatchMessages;

    use super::*;

    fn shape(serialize: Serialize, batch: u32) -> Shape<'static> {
        Shape {
            topic: "bench",
            queue_id: 3,
            group: "group",
            batch,
            size: 100,
            tag: "TagA",
            keys: true,
            serialize,
        }
    }

    fn identity() -> Identity {
        let unique_ids = UniqueIds::new("10.0.0.1".parse().unwrap(), 1, 2, 0);
        Identity { unique_ids, next_key: 41 }
    }

    #[test]
    fn patched_frames_say_what_was_patched_in() {
        for serialize in [Serialize::Json, Serialize::Binary] {
            let template = Template::new(&shape(serialize, 1)).unwrap();
            let mut out = b"before".to_vec();
            let due = 1_796_038_682_395_123_456;
            template.append(&mut out, OPAQUE_MIN + 7, due, &mut identity());
            let bytes = &mut out[6..];
            assert_eq!(frame_size(bytes).unwrap(), Some(bytes.len()));
            let frame = Frame::parse(bytes).unwrap();
            assert_eq!((frame.head.code, frame.head.opaque), (310, OPAQUE_MIN + 7));
            let header: SendMessage<'_> = frame.ext.decode().unwrap();
            assert_eq!(header.born_timestamp, 1_796_038_682_395);
            assert_eq!((&*header.topic, header.queue_id), ("bench", 3));
            let properties = Properties::new(header.properties.as_deref().unwrap().as_bytes());
            assert_eq!(properties.get("KEYS"), Some("k00000000000000041"));
            assert_eq!(properties.get("TAGS"), Some("TagA"));
            assert_eq!(properties.get("WAIT"), Some("true"));
            let id = identity().unique_ids.next(1_796_038_682_395);
            assert_eq!(properties.get("UNIQ_KEY"), Some(id.as_str()));
            assert_eq!(frame.body.len(), 100);
            assert_eq!(due_nanos_of(frame.body), Some(due));
        }
    }

    #[test]
    fn each_message_of_a_batch_has_its_own_identity() {
        let template = Template::new(&shape(Serialize::Json, 3)).unwrap();
        let mut out = Vec::new();
        template.append(&mut out, OPAQUE_MIN, 0, &mut identity());
        let frame = Frame::parse(&mut out).unwrap();
        assert_eq!(frame.head.code, 320);
        let messages: Vec<_> = BatchMessages::new(frame.body).map(Result::unwrap).collect();
        let keys: Vec<_> = messages.iter().map(|m| m.properties.get("KEYS").unwrap()).collect();
        assert_eq!(keys, ["k00000000000000041", "k00000000000000042", "k00000000000000043"]);
        assert_ne!(messages[0].properties.get("UNIQ_KEY"), messages[1].properties.get("UNIQ_KEY"));
    }

    #[test]
    fn bodies_too_short_for_a_time_have_none() {
        let template = Template::new(&Shape { size: 5, ..shape(Serialize::Json, 1) }).unwrap();
        let mut out = Vec::new();
        template.append(&mut out, OPAQUE_MIN, 0, &mut identity());
        assert_eq!(due_nanos_of(Frame::parse(&mut out).unwrap().body), None);
    }

    #[test]
    fn a_topic_that_looks_like_a_marker_is_refused() {
        let shape = Shape { topic: "t1987654321", ..shape(Serialize::Json, 1) };
        assert!(Template::new(&shape).is_err());
    }
}
