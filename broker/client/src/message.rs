//! Messages: one to send, and one that a broker stored.

use std::net::SocketAddr;

use broker_protocol::message_id::{MessageId, offset_id};
use broker_protocol::properties::{Properties, name, push};
use broker_protocol::record::{RecordError, RecordView};
use bytes::Bytes;

/// A message to send.
#[derive(Clone, Debug)]
pub struct Message {
    /// Topic, without namespace.
    pub topic: String,
    /// Body, at most what the broker's `maxMessageSize` allows.
    pub body: Bytes,
    /// Tag that subscriptions select by.
    pub tag: Option<String>,
    /// Keys that the broker indexes, separated by spaces.
    pub keys: Option<String>,
    /// The application's own flag; brokers keep it as it is.
    pub flag: i32,
    /// Bits of [`broker_protocol::sys_flag`], 0 for an ordinary message.
    pub sys_flag: i32,
    /// Delay level, 1 to 18 with a broker's defaults; 0 for none.
    pub delay_level: u32,
    /// Whether the broker answers only when the message is as safe as its configuration says.
    pub wait_store: bool,
    /// Further properties. Names and values must not hold the separators 0x01 and 0x02.
    pub properties: Vec<(String, String)>,
}

impl Message {
    /// A message with a body and nothing else.
    pub fn new(topic: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            body: body.into(),
            tag: None,
            keys: None,
            flag: 0,
            sys_flag: 0,
            delay_level: 0,
            wait_store: true,
            properties: Vec::new(),
        }
    }

    /// The same message with a tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// The same message with keys, separated by spaces.
    #[must_use]
    pub fn keys(mut self, keys: impl Into<String>) -> Self {
        self.keys = Some(keys.into());
        self
    }

    /// The same message with a delay level.
    #[must_use]
    pub fn delay_level(mut self, level: u32) -> Self {
        self.delay_level = level;
        self
    }

    /// The same message with one more property.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// The property string as it is sent and stored. The order is the one that Java's client
    /// usually writes; brokers don't depend on it.
    pub(crate) fn property_string(&self, unique_id: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        if let Some(keys) = &self.keys {
            push(&mut out, name::KEYS, keys);
        }
        push(&mut out, name::UNIQUE_KEY, unique_id);
        push(&mut out, name::WAIT_STORE_MSG_OK, if self.wait_store { "true" } else { "false" });
        if self.delay_level > 0 {
            push(&mut out, name::DELAY_TIME_LEVEL, self.delay_level.to_string());
        }
        if let Some(tag) = &self.tag {
            push(&mut out, name::TAGS, tag);
        }
        for (name, value) in &self.properties {
            push(&mut out, name, value);
        }
        out
    }
}

/// A message that a broker stored, as pulls and queries bring it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Topic as the broker knows it, with namespace.
    pub topic: String,
    /// Queue of the topic.
    pub queue_id: i32,
    /// Position in its queue.
    pub queue_offset: i64,
    /// Position in the broker's log.
    pub physical_offset: i64,
    /// Size of the stored record in bytes.
    pub stored_size: usize,
    /// The application's own flag.
    pub flag: i32,
    /// Bits of [`broker_protocol::sys_flag`].
    pub sys_flag: i32,
    /// When the producer made it, in milliseconds of Unix time.
    pub born_timestamp: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// When the broker stored it, in milliseconds of Unix time.
    pub store_timestamp: i64,
    /// The broker's address.
    pub store_host: SocketAddr,
    /// How many times consumers gave it back.
    pub reconsume_times: i32,
    /// For a committed transactional message, the position of its half record.
    pub prepared_transaction_offset: i64,
    /// Whether the body has the checksum that the record carries.
    pub body_is_intact: bool,
    /// Body as the producer sent it.
    pub body: Bytes,
    /// The property string as it is stored.
    pub property_string: Bytes,
}

impl StoredMessage {
    /// The value of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        Properties::new(&self.property_string).get(name)
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.property(name::TAGS)
    }

    /// The keys, separated by spaces.
    pub fn keys(&self) -> Option<&str> {
        self.property(name::KEYS)
    }

    /// The id that the producer gave it.
    pub fn unique_id(&self) -> Option<&str> {
        self.property(name::UNIQUE_KEY)
    }

    /// The id that says where the broker stored it.
    pub fn offset_id(&self) -> MessageId {
        // A stored record's position is never negative.
        offset_id(self.store_host, self.physical_offset.unsigned_abs())
    }

    /// Reads the record at the start of `bytes`; body and properties share its memory.
    pub fn parse(bytes: &Bytes) -> Result<Self, RecordError> {
        let view = RecordView::parse(bytes)?;
        Ok(Self {
            topic: view.topic.to_owned(),
            queue_id: view.queue_id,
            queue_offset: view.queue_offset,
            physical_offset: view.physical_offset,
            stored_size: view.bytes.len(),
            flag: view.flag,
            sys_flag: view.sys_flag,
            born_timestamp: view.born_timestamp,
            born_host: view.born_host,
            store_timestamp: view.store_timestamp,
            store_host: view.store_host,
            reconsume_times: view.reconsume_times,
            prepared_transaction_offset: view.prepared_transaction_offset,
            body_is_intact: view.body_is_intact(),
            body: bytes.slice_ref(view.body),
            property_string: bytes.slice_ref(view.properties.raw()),
        })
    }

    /// Reads records that follow each other, the body of a pull or query.
    pub fn parse_all(bytes: &Bytes) -> Result<Vec<Self>, RecordError> {
        let mut rest = bytes.clone();
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let message = Self::parse(&rest)?;
            rest = rest.slice(message.stored_size..);
            messages.push(message);
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use broker_protocol::record::{RecordParts, crc};

    use super::*;

    fn record(body: &[u8], properties: &[u8]) -> Vec<u8> {
        let host = "127.0.0.1:10911".parse().unwrap();
        let parts = RecordParts {
            topic: "Orders",
            queue_id: 3,
            flag: 5,
            queue_offset: 7,
            physical_offset: 1000,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_timestamp: 2,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body_crc: crc(body),
            body,
            properties,
        };
        let mut out = vec![0; parts.encoded_len()];
        parts.encode_into(&mut out).unwrap();
        out
    }

    #[test]
    fn properties_are_what_javas_client_sends() {
        let message = Message::new("Orders", "x").tag("TagA").keys("k1 k2").delay_level(3);
        assert_eq!(
            message.property_string("ID"),
            b"KEYS\x01k1 k2\x02UNIQ_KEY\x01ID\x02WAIT\x01true\x02DELAY\x013\x02TAGS\x01TagA"
        );
        let bare = Message::new("Orders", "x").property("a", "b");
        assert_eq!(bare.property_string("ID"), b"UNIQ_KEY\x01ID\x02WAIT\x01true\x02a\x01b");
    }

    #[test]
    fn records_that_follow_each_other_are_all_read() {
        let mut bytes = record(b"one", b"TAGS\x01a\x02UNIQ_KEY\x01U");
        bytes.extend(record(b"", b""));
        let messages = StoredMessage::parse_all(&Bytes::from(bytes)).unwrap();
        let [first, second] = messages.as_slice() else { panic!("two messages") };
        assert_eq!(
            (&first.body[..], first.tag(), first.unique_id()),
            (&b"one"[..], Some("a"), Some("U"))
        );
        assert_eq!(first.offset_id().as_str(), "7F00000100002A9F00000000000003E8");
        assert!(first.body_is_intact && second.body.is_empty());
    }

    #[test]
    fn a_cut_record_is_an_error() {
        let mut bytes = record(b"one", b"");
        bytes.pop();
        assert!(StoredMessage::parse_all(&Bytes::from(bytes)).is_err());
    }

    #[test]
    fn a_changed_body_is_noticed() {
        let mut bytes = record(b"one", b"");
        let at = bytes.windows(3).position(|w| w == b"one").unwrap();
        bytes[at] ^= 1;
        assert!(!StoredMessage::parse(&Bytes::from(bytes)).unwrap().body_is_intact);
    }
}
