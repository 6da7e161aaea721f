//! The property string of a message: `name 0x01 value 0x02`, repeated.
//!
//! 4.9 clients end the string without a separator, 5.x ones with it; both are read, and the form
//! without is written. When a name comes twice the later value wins.

/// Between a name and its value.
pub const NAME_VALUE_SEPARATOR: u8 = 0x01;
/// Between two properties.
pub const PROPERTY_SEPARATOR: u8 = 0x02;

/// Names that the protocol gives a meaning to.
pub mod name {
    #![expect(
        missing_docs,
        reason = "each is the wire string in capitals; the protocol names them"
    )]
    pub const KEYS: &str = "KEYS";
    pub const TAGS: &str = "TAGS";
    pub const WAIT_STORE_MSG_OK: &str = "WAIT";
    pub const DELAY_TIME_LEVEL: &str = "DELAY";
    pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
    pub const REAL_TOPIC: &str = "REAL_TOPIC";
    pub const REAL_QUEUE_ID: &str = "REAL_QID";
    pub const TRANSACTION_PREPARED: &str = "TRAN_MSG";
    pub const PRODUCER_GROUP: &str = "PGROUP";
    pub const MIN_OFFSET: &str = "MIN_OFFSET";
    pub const MAX_OFFSET: &str = "MAX_OFFSET";
    pub const BUYER_ID: &str = "BUYER_ID";
    pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
    pub const TRANSFER_FLAG: &str = "TRANSFER_FLAG";
    pub const CORRECTION_FLAG: &str = "CORRECTION_FLAG";
    pub const MQ2_FLAG: &str = "MQ2_FLAG";
    pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
    pub const MSG_REGION: &str = "MSG_REGION";
    pub const TRACE_SWITCH: &str = "TRACE_ON";
    pub const UNIQUE_KEY: &str = "UNIQ_KEY";
    pub const EXTEND_UNIQ_INFO: &str = "EXTEND_UNIQ_INFO";
    pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
    pub const CONSUME_START_TIME: &str = "CONSUME_START_TIME";
    pub const INNER_NUM: &str = "INNER_NUM";
    pub const INNER_BASE: &str = "INNER_BASE";
    pub const DUP_INFO: &str = "DUP_INFO";
    pub const CHECK_IMMUNITY_TIME_IN_SECONDS: &str = "CHECK_IMMUNITY_TIME_IN_SECONDS";
    pub const TRANSACTION_PREPARED_QUEUE_OFFSET: &str = "TRAN_PREPARED_QUEUE_OFFSET";
    pub const TRANSACTION_ID: &str = "__transactionId__";
    pub const TRANSACTION_CHECK_TIMES: &str = "TRANSACTION_CHECK_TIMES";
    pub const INSTANCE_ID: &str = "INSTANCE_ID";
    pub const CORRELATION_ID: &str = "CORRELATION_ID";
    pub const REPLY_TO_CLIENT: &str = "REPLY_TO_CLIENT";
    pub const TTL: &str = "TTL";
    pub const ARRIVE_TIME: &str = "ARRIVE_TIME";
    pub const PUSH_REPLY_TIME: &str = "PUSH_REPLY_TIME";
    pub const CLUSTER: &str = "CLUSTER";
    pub const MSG_TYPE: &str = "MSG_TYPE";
    pub const POP_CK: &str = "POP_CK";
    pub const POP_CK_OFFSET: &str = "POP_CK_OFFSET";
    pub const FIRST_POP_TIME: &str = "1ST_POP_TIME";
    pub const SHARDING_KEY: &str = "__SHARDINGKEY";
    pub const FORWARD_QUEUE_ID: &str = "PROPERTY_FORWARD_QUEUE_ID";
    pub const REDIRECT: &str = "REDIRECT";
    pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
    pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
    pub const TRACE_CONTEXT: &str = "TRACE_CONTEXT";
    pub const TIMER_DELAY_SEC: &str = "TIMER_DELAY_SEC";
    pub const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
    pub const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
    pub const TIMER_ENQUEUE_MS: &str = "TIMER_ENQUEUE_MS";
    pub const TIMER_DEQUEUE_MS: &str = "TIMER_DEQUEUE_MS";
    pub const TIMER_ROLL_TIMES: &str = "TIMER_ROLL_TIMES";
    pub const TIMER_OUT_MS: &str = "TIMER_OUT_MS";
    pub const TIMER_DEL_UNIQKEY: &str = "TIMER_DEL_UNIQKEY";
    pub const TIMER_DELAY_LEVEL: &str = "TIMER_DELAY_LEVEL";
    pub const BORN_HOST: &str = "__BORNHOST";
    pub const BORN_TIMESTAMP: &str = "BORN_TIMESTAMP";
    pub const TRANSIENT_TOPIC_SYS_FLAG: &str = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG";
    pub const TRANSIENT_GROUP_SYS_FLAG: &str = "__RMQ.TRANSIENT.GROUP_SYS_FLAG";
    pub const CRC32: &str = "__CRC32#";
    pub const DLQ_ORIGIN_TOPIC: &str = "DLQ_ORIGIN_TOPIC";
    pub const DLQ_ORIGIN_MESSAGE_ID: &str = "DLQ_ORIGIN_MESSAGE_ID";

    /// The message's topic inside a batch of mixed topics; removed before storing.
    pub const TANDEM_TOPIC: &str = "TANDEM_TOPIC";
    /// The message's queue inside a batch of mixed topics; removed before storing.
    pub const TANDEM_QUEUE: &str = "TANDEM_QUEUE";
}

/// A property string, borrowed. It may be any bytes; what can't be read as a property is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a> {
    raw: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Reads `raw` as a property string.
    #[must_use]
    pub const fn new(raw: &'a [u8]) -> Properties<'a> {
        Properties { raw }
    }

    /// The bytes as they came.
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Name and value of each property, in order, duplicates included. As in Java, segments without
    /// a name, without a value, or without a separator between them are skipped.
    #[must_use]
    pub const fn iter(&self) -> Iter<'a> {
        Iter { rest: self.raw }
    }

    /// The value of `name`; the last one when it comes several times. A value that is not UTF-8
    /// counts as absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.iter()
            .filter(|(found, _)| *found == name.as_bytes())
            .last()
            .and_then(|(_, value)| std::str::from_utf8(value).ok())
    }

    /// Whether the sender waits for flush and replication; true unless `WAIT` says `false`.
    #[must_use]
    pub fn waits_for_store(&self) -> bool {
        self.get(name::WAIT_STORE_MSG_OK).is_none_or(|wait| wait.eq_ignore_ascii_case("true"))
    }

    /// The properties as an owned string, all but those whose name `drop` says to leave out.
    #[must_use]
    pub fn without(&self, drop: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.raw.len());
        for (name, value) in self.iter() {
            if !drop(name) {
                push(&mut out, name, value);
            }
        }
        out
    }
}

impl<'a> IntoIterator for Properties<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// See [`Properties::iter`].
#[derive(Debug, Clone)]
pub struct Iter<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let end = find(self.rest, PROPERTY_SEPARATOR).unwrap_or(self.rest.len());
            let (segment, rest) = self.rest.split_at(end);
            self.rest = rest.get(1..).unwrap_or_default();
            let Some(separator) = find(segment, NAME_VALUE_SEPARATOR) else { continue };
            let (name, value) = segment.split_at(separator);
            let value = value.get(1..).unwrap_or_default();
            if !name.is_empty() && !value.is_empty() {
                return Some((name, value));
            }
        }
        None
    }
}

/// Appends one property to a string, with a separator before it where one is needed. The caller
/// keeps separators out of name and value.
pub fn push(out: &mut Vec<u8>, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
    if out.last().is_some_and(|last| *last != PROPERTY_SEPARATOR) {
        out.push(PROPERTY_SEPARATOR);
    }
    out.extend_from_slice(name.as_ref());
    out.push(NAME_VALUE_SEPARATOR);
    out.extend_from_slice(value.as_ref());
}

/// Sets one property of a string: earlier values of `name` are removed, the new one is appended.
pub fn replace(out: &mut Vec<u8>, name: &str, value: &str) {
    let present = Properties::new(out).iter().any(|(found, _)| found == name.as_bytes());
    if present {
        *out = Properties::new(out).without(|found| found == name.as_bytes());
    }
    push(out, name, value);
}

fn find(bytes: &[u8], wanted: u8) -> Option<usize> {
    bytes.iter().position(|byte| *byte == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(raw: &[u8]) -> Vec<(&str, &str)> {
        Properties::new(raw)
            .iter()
            .map(|(name, value)| {
                (std::str::from_utf8(name).unwrap(), std::str::from_utf8(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn both_endings_are_read_alike() {
        let expected = [("KEYS", "a b"), ("TAGS", "t")];
        assert_eq!(pairs(b"KEYS\x01a b\x02TAGS\x01t"), expected);
        assert_eq!(pairs(b"KEYS\x01a b\x02TAGS\x01t\x02"), expected);
    }

    #[test]
    fn broken_segments_are_skipped() {
        assert_eq!(pairs(b""), []);
        assert_eq!(pairs(b"\x02\x02\x01\x02"), []);
        assert_eq!(pairs(b"\x01value\x02name\x01\x02nothing\x02a\x01b"), [("a", "b")]);
        // Only the first separator counts: a value may hold the byte.
        assert_eq!(pairs(b"a\x01b\x01c"), [("a", "b\x01c")]);
    }

    #[test]
    fn the_later_value_wins() {
        let properties = Properties::new(b"WAIT\x01true\x02a\x01b\x02WAIT\x01false");
        assert_eq!(properties.get("WAIT"), Some("false"));
        assert!(!properties.waits_for_store());
        assert!(Properties::new(b"a\x01b").waits_for_store());
        assert_eq!(properties.get("WAI"), None);
    }

    #[test]
    fn a_value_that_is_not_text_is_absent() {
        assert_eq!(Properties::new(b"a\x01\xff\xfe").get("a"), None);
    }

    #[test]
    fn pushing_separates_once() {
        let mut out = Vec::new();
        push(&mut out, "a", "b");
        push(&mut out, "c", "d");
        assert_eq!(out, b"a\x01b\x02c\x01d");
        out.push(PROPERTY_SEPARATOR);
        push(&mut out, "e", "f");
        assert_eq!(out, b"a\x01b\x02c\x01d\x02e\x01f");
    }

    #[test]
    fn replacing_leaves_one_value() {
        let mut out = b"a\x01b\x02c\x01d\x02a\x01e\x02".to_vec();
        replace(&mut out, "a", "z");
        assert_eq!(out, b"c\x01d\x02a\x01z");
        replace(&mut out, "new", "n");
        assert_eq!(out, b"c\x01d\x02a\x01z\x02new\x01n");
    }
}
