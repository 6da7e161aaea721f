//! The final property string of a message, made in one pass over what the client sent, and what
//! that pass finds out.

use broker_protocol::properties::{self, Properties, name};

use super::Refusal;

/// What the broker itself reads of a message's properties.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::handler) struct PropertyFacts<'a> {
    /// Level of DELAY; 0 for none.
    pub(in crate::handler) delay_level: i32,
    /// TRAN_MSG is true.
    pub(in crate::handler) transaction: bool,
    /// Value of WAIT.
    pub(in crate::handler) wait: Option<&'a [u8]>,
}

impl<'a> PropertyFacts<'a> {
    /// Whether the sender waits for the disk; true unless WAIT says otherwise.
    pub(in crate::handler) fn waits(&self) -> bool {
        self.wait.is_none_or(|wait| wait.eq_ignore_ascii_case(b"true"))
    }

    /// Takes note of one property.
    pub(in crate::handler) fn note(&mut self, key: &[u8], value: &'a [u8]) -> Result<(), Refusal> {
        // Most names are none of these; the first byte tells.
        match key.first() {
            Some(b'W') if key == name::WAIT_STORE_MSG_OK.as_bytes() => self.wait = Some(value),
            Some(b'T') if key == name::TRANSACTION_PREPARED.as_bytes() => {
                self.transaction = value.eq_ignore_ascii_case(b"true");
            }
            Some(b'D') if key == name::DELAY_TIME_LEVEL.as_bytes() => {
                let level = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.delay_level = level
                    .ok_or_else(|| Refusal::illegal("the property DELAY must be a whole number"))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Writes to `out` what is stored of the properties `sent` with a single message: all but WAIT,
/// which nobody reads later, and CLUSTER, which the broker adds. A dead letter loses its delay.
pub(super) fn finish<'a>(
    sent: &'a [u8],
    dead_letter: bool,
    out: &mut Vec<u8>,
) -> Result<PropertyFacts<'a>, Refusal> {
    out.clear();
    let mut facts = PropertyFacts::default();
    for (key, value) in Properties::new(sent).iter() {
        facts.note(key, value)?;
        let dropped = match key.first() {
            Some(b'W') => key == name::WAIT_STORE_MSG_OK.as_bytes(),
            Some(b'C') => key == name::CLUSTER.as_bytes(),
            Some(b'D') => dead_letter && key == name::DELAY_TIME_LEVEL.as_bytes(),
            _ => false,
        };
        if !dropped {
            properties::push(out, key, value);
        }
    }
    if dead_letter {
        facts.delay_level = 0;
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(sent: &str, dead_letter: bool) -> (String, PropertyFacts<'_>) {
        let mut out = b"left over".to_vec();
        let facts = finish(sent.as_bytes(), dead_letter, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), facts)
    }

    #[test]
    fn wait_and_cluster_are_left_out_and_the_rest_stays() {
        let (stored, facts) =
            finished("KEYS\x01k\x02WAIT\x01false\x02TAGS\x01a\x02CLUSTER\x01x\x02", false);
        assert_eq!(stored, "KEYS\x01k\x02TAGS\x01a");
        assert!(!facts.waits());
        assert_eq!((facts.delay_level, facts.transaction), (0, false));
        assert!(finished("KEYS\x01k", false).1.waits());
        assert!(finished("WAIT\x01true", false).1.waits());
    }

    #[test]
    fn delay_and_transaction_are_noticed() {
        let (stored, facts) = finished("DELAY\x013\x02TRAN_MSG\x01true", false);
        assert_eq!(stored, "DELAY\x013\x02TRAN_MSG\x01true");
        assert_eq!((facts.delay_level, facts.transaction), (3, true));
        assert!(!finished("TRAN_MSG\x01no", false).1.transaction);
    }

    #[test]
    fn a_dead_letter_has_no_delay() {
        let (stored, facts) = finished("DELAY\x013\x02TAGS\x01a", true);
        assert_eq!(stored, "TAGS\x01a");
        assert_eq!(facts.delay_level, 0);
    }

    #[test]
    fn a_delay_that_is_no_number_is_illegal() {
        let refused = finish(b"DELAY\x01soon", false, &mut Vec::new());
        assert_eq!(refused.unwrap_err().code, 13);
    }

    #[test]
    fn what_is_no_property_is_dropped() {
        assert_eq!(finished("\x02\x02junk\x02\x01v\x02k\x01\x02a\x01b", false).0, "a\x01b");
        assert_eq!(finished("", false).0, "");
    }
}
