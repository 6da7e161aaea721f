//! What topics and groups may be called, which names the system keeps for itself, and the names
//! derived from a group.
//!
//! A topic becomes a folder on disk and a line in tables that other programs read; every path by
//! which a name comes in asks here first.

use thiserror::Error;

use crate::limits::{GROUP_LEN_MAX, TOPIC_LEN_MAX};

const _: () = assert!(RETRY_PREFIX.len() + GROUP_LEN_MAX == TOPIC_LEN_MAX);

/// Starts the name of a group's retry topic.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Starts the name of a group's dead-letter topic.
pub const DLQ_PREFIX: &str = "%DLQ%";
/// Starts the names of the system's own topics.
pub const SYSTEM_TOPIC_PREFIX: &str = "rmq_sys_";
/// Starts the names of the system's own groups.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";

/// The topic whose settings new topics take.
pub const AUTO_CREATE_TOPIC: &str = "TBW102";
/// Holds delayed messages, one queue a level.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// For load generators.
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
/// Holds prepared transactional messages.
pub const TRANS_HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Holds what was decided about prepared messages.
pub const TRANS_OP_HALF_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Where clients send traces by default.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Holds prepared messages that were asked about too often.
pub const TRANS_CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// For self tests of clients.
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
/// Notes of pulls whose offset was corrected.
pub const OFFSET_MOVED_TOPIC: &str = "OFFSET_MOVED_EVENT";

const SYSTEM_TOPICS: [&str; 9] = [
    AUTO_CREATE_TOPIC,
    SCHEDULE_TOPIC,
    BENCHMARK_TOPIC,
    TRANS_HALF_TOPIC,
    TRACE_TOPIC,
    TRANS_OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_TOPIC,
];

const UNSENDABLE_TOPICS: [&str; 6] = [
    SCHEDULE_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_TOPIC,
];

/// Groups that exist on every broker.
pub const BUILT_IN_GROUPS: [&str; 7] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
];

/// Why a name is refused. The text is fit for a response's remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameError {
    /// Empty or only blanks.
    #[error("The specified {0} is blank.")]
    Blank(&'static str),
    /// Longer than allowed.
    #[error("The specified {kind} is longer than {kind} max length {max}.")]
    TooLong {
        /// What is named: `topic` or `group`.
        kind: &'static str,
        /// Characters allowed.
        max: usize,
    },
    /// A character outside the allowed set.
    #[error("The specified {0} contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$")]
    Illegal(&'static str),
}

/// One bit for each ASCII character: set when a name may hold it.
const ALLOWED: [u64; 2] = {
    let mut table = [0_u64; 2];
    let mut c = 0_u8;
    while c < 128 {
        if c.is_ascii_alphanumeric() || matches!(c, b'%' | b'|' | b'_' | b'-') {
            table[(c >> 6) as usize] |= 1 << (c & 63);
        }
        c += 1;
    }
    table
};

fn is_allowed(byte: u8) -> bool {
    ALLOWED.get(usize::from(byte >> 6)).is_some_and(|bits| bits & (1 << (byte & 63)) != 0)
}

fn check(kind: &'static str, name: &str, max: usize) -> Result<(), NameError> {
    if name.trim().is_empty() {
        return Err(NameError::Blank(kind));
    }
    // Length first: the scan of the characters is then bounded.
    if name.len() > max {
        let all_allowed = name.len() < 4 * max && name.bytes().all(is_allowed);
        // A long name of foreign characters may be short enough in characters; say what is wrong.
        return Err(if name.chars().take(max + 1).count() > max || all_allowed {
            NameError::TooLong { kind, max }
        } else {
            NameError::Illegal(kind)
        });
    }
    if name.bytes().all(is_allowed) { Ok(()) } else { Err(NameError::Illegal(kind)) }
}

/// Refuses what can't be a topic. Retry and dead-letter topics are topics like any other.
pub fn check_topic(topic: &str) -> Result<(), NameError> {
    check("topic", topic, TOPIC_LEN_MAX)
}

/// Refuses what can't be a consumer or producer group, a group whose retry topic would be illegal
/// included.
pub fn check_group(group: &str) -> Result<(), NameError> {
    check("group", group, GROUP_LEN_MAX)
}

/// Whether the system keeps this topic for itself. A broker adds its own: cluster, broker name and
/// reply topic.
#[must_use]
pub fn is_system_topic(topic: &str) -> bool {
    SYSTEM_TOPICS.contains(&topic) || topic.starts_with(SYSTEM_TOPIC_PREFIX)
}

/// Whether producers are forbidden to send to this topic.
#[must_use]
pub fn is_unsendable(topic: &str) -> bool {
    UNSENDABLE_TOPICS.contains(&topic)
}

/// Whether the group exists, or is made, whatever the settings say.
#[must_use]
pub fn is_system_group(group: &str) -> bool {
    group.starts_with(SYSTEM_GROUP_PREFIX) || BUILT_IN_GROUPS.contains(&group)
}

/// The topics that exist for the system's sake on every broker.
pub fn system_topics() -> impl Iterator<Item = &'static str> {
    SYSTEM_TOPICS.into_iter()
}

/// The topic that holds messages which the group gave back.
#[must_use]
pub fn retry_topic(group: &str) -> String {
    format!("{RETRY_PREFIX}{group}")
}

/// The topic that holds messages which the group gave back too often.
#[must_use]
pub fn dlq_topic(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// The group whose retry topic this is.
#[must_use]
pub fn group_of_retry(topic: &str) -> Option<&str> {
    topic.strip_prefix(RETRY_PREFIX)
}

/// The group whose dead-letter topic this is.
#[must_use]
pub fn group_of_dlq(topic: &str) -> Option<&str> {
    topic.strip_prefix(DLQ_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowed_characters_are_exactly_these() {
        for byte in 0..=u8::MAX {
            let c = char::from(byte);
            let expected = c.is_ascii_alphanumeric() || "%|_-".contains(c);
            assert_eq!(is_allowed(byte), expected, "{byte}");
        }
    }

    #[test]
    fn paths_and_blanks_are_no_topics() {
        for topic in ["../../../x", "a/b", "..", "a\0b", "\u{4e3b}\u{9898}", "a b", "a.b"] {
            assert_eq!(check_topic(topic), Err(NameError::Illegal("topic")), "{topic}");
        }
        for topic in ["", " ", "\t\n"] {
            assert_eq!(check_topic(topic), Err(NameError::Blank("topic")));
        }
    }

    #[test]
    fn topics_end_at_127() {
        assert_eq!(check_topic(&"a".repeat(127)), Ok(()));
        let too_long = Err(NameError::TooLong { kind: "topic", max: 127 });
        assert_eq!(check_topic(&"a".repeat(128)), too_long);
        assert_eq!(check_topic(&"a".repeat(100_000)), too_long);
        assert_eq!(check_topic(&"\u{4e3b}".repeat(50)), Err(NameError::Illegal("topic")));
    }

    #[test]
    fn a_group_leaves_room_for_its_retry_topic() {
        let longest = "g".repeat(GROUP_LEN_MAX);
        assert_eq!(check_group(&longest), Ok(()));
        assert_eq!(check_topic(&retry_topic(&longest)), Ok(()));
        assert_eq!(check_topic(&dlq_topic(&longest)), Ok(()));
        assert!(check_group(&"g".repeat(GROUP_LEN_MAX + 1)).is_err());
    }

    #[test]
    fn derived_names_lead_back_to_their_group() {
        assert_eq!(retry_topic("g"), "%RETRY%g");
        assert_eq!(dlq_topic("g"), "%DLQ%g");
        assert_eq!(group_of_retry("%RETRY%g"), Some("g"));
        assert_eq!(group_of_dlq("%DLQ%g"), Some("g"));
        assert_eq!(group_of_retry("%DLQ%g"), None);
    }

    #[test]
    fn unsendable_topics_are_system_topics() {
        assert!(UNSENDABLE_TOPICS.into_iter().all(is_system_topic));
        assert!(is_system_topic("rmq_sys_anything"));
        assert!(!is_system_topic("orders"));
        assert!(!is_unsendable(BENCHMARK_TOPIC));
        assert!(is_system_group("CID_RMQ_SYS_TRANS") && is_system_group("TOOLS_CONSUMER"));
    }
}
