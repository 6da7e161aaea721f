//! What a message with a delay level looks like while it waits.

use broker_protocol::name::SCHEDULE_TOPIC;
use broker_protocol::properties::{self, name};
use broker_store::DelayLevels;

/// Turns a message with a delay level above 0 into one that waits: notes topic and queue in its
/// properties, and answers the topic and queue that it waits in. A level above the highest counts
/// as the highest.
///
/// The properties grow; whoever takes the message from a client checks their length afterwards.
pub fn divert(
    levels: &DelayLevels,
    level: i32,
    topic: &str,
    queue_id: i32,
    properties: &mut Vec<u8>,
) -> (&'static str, i32) {
    let served = level.clamp(1, levels.highest());
    if served != level {
        properties::replace(properties, name::DELAY_TIME_LEVEL, &served.to_string());
    }
    properties::replace(properties, name::REAL_TOPIC, topic);
    properties::replace(properties, name::REAL_QUEUE_ID, &queue_id.to_string());
    (SCHEDULE_TOPIC, served - 1)
}

#[cfg(test)]
mod tests {
    use broker_protocol::properties::Properties;

    use super::*;

    #[test]
    fn a_diverted_message_knows_where_it_belongs() {
        let levels = DelayLevels::parse("1s 5s").unwrap();
        let mut properties = b"DELAY\x012\x02REAL_TOPIC\x01stale\x02TAGS\x01a\x02".to_vec();
        let place = divert(&levels, 2, "orders", 3, &mut properties);
        assert_eq!(place, (SCHEDULE_TOPIC, 1));
        assert_eq!(properties, b"DELAY\x012\x02TAGS\x01a\x02REAL_TOPIC\x01orders\x02REAL_QID\x013");
    }

    #[test]
    fn a_level_too_high_counts_as_the_highest() {
        let levels = DelayLevels::parse("1s 5s").unwrap();
        let mut properties = b"DELAY\x0199".to_vec();
        assert_eq!(divert(&levels, 99, "t", 0, &mut properties), (SCHEDULE_TOPIC, 1));
        assert_eq!(Properties::new(&properties).get("DELAY"), Some("2"));
    }
}
