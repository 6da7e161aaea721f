//! The delay levels, and what a message of one of them looks like while it waits.

use broker_protocol::name::SCHEDULE_TOPIC;
use broker_protocol::properties::{self, name};

/// The delays of a broker, by level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayLevels {
    delays_ms: Box<[i64]>,
}

/// The text of `messageDelayLevel` is not a list of delays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no delay: write a number and one of s, m, h, d, as in `1s 5s 1m`")]
pub struct LevelsError(String);

impl DelayLevels {
    /// Reads `messageDelayLevel`: delays with their unit (s, m, h, d), separated by blanks.
    ///
    /// # Errors
    /// When a word is no delay, or there is none.
    pub fn parse(text: &str) -> Result<DelayLevels, LevelsError> {
        let delays: Option<Box<[i64]>> = text.split_whitespace().map(delay_ms).collect();
        match delays {
            Some(delays_ms) if !delays_ms.is_empty() => Ok(DelayLevels { delays_ms }),
            _ => Err(LevelsError(text.to_owned())),
        }
    }

    /// Each level, from 1, with its delay in milliseconds.
    pub fn iter(&self) -> impl Iterator<Item = (i32, i64)> {
        (1..).zip(self.delays_ms.iter().copied())
    }

    /// The highest level.
    #[must_use]
    pub fn highest(&self) -> i32 {
        i32::try_from(self.delays_ms.len()).unwrap_or(i32::MAX)
    }
}

fn delay_ms(word: &str) -> Option<i64> {
    let unit_at = word.len().checked_sub(1).filter(|at| word.is_char_boundary(*at))?;
    let (number, unit) = word.split_at(unit_at);
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<i64>().ok().filter(|n| *n > 0)?.checked_mul(unit_ms)
}

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
    fn levels_are_numbered_from_one() {
        let levels = DelayLevels::parse("1s 5m  2h 1d").unwrap();
        let all: Vec<(i32, i64)> = levels.iter().collect();
        assert_eq!(all, [(1, 1_000), (2, 300_000), (3, 7_200_000), (4, 86_400_000)]);
        assert_eq!(levels.highest(), 4);
    }

    #[test]
    fn what_is_no_delay_is_refused() {
        for text in ["", " ", "1", "s", "1x", "-1s", "0s", "1s,5s", "1\u{e9}", "9999999999999999d"]
        {
            assert!(DelayLevels::parse(text).is_err(), "{text}");
        }
    }

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
