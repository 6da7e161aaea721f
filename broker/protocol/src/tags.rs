//! Tags: Java's string hash, the code that a ConsumeQueue unit keeps, and the filter of a
//! subscription (`a || b`).
//!
//! The broker filters by hash alone, as Java does; a client drops what collides.

use thiserror::Error;

/// Java's `String.hashCode`: over UTF-16 units, wrapping in 32 bits.
#[must_use]
pub fn java_string_hash(text: &str) -> i32 {
    let step = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    if text.is_ascii() {
        // Bytes are units here, and decoding them costs more than hashing them.
        text.bytes().fold(0, |hash, byte| step(hash, u16::from(byte)))
    } else {
        text.encode_utf16().fold(0, step)
    }
}

/// The tags code of a message whose TAGS property is `tags`: 0 without tags, else the hash widened
/// with its sign.
#[must_use]
pub fn tags_code(tags: &str) -> i64 {
    if tags.is_empty() { 0 } else { i64::from(java_string_hash(tags)) }
}

/// A tag expression names no tag, as `||` or a lone blank.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the subscription expression names no tag")]
pub struct NoTag;

/// What a subscription lets through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TagFilter {
    /// Every message.
    #[default]
    All,
    /// Messages whose tags code, cut to 32 bits, is one of these; sorted.
    Codes(Box<[i32]>),
}

impl TagFilter {
    /// Reads a tag expression: `*` or nothing lets all through, else tags separated by `||`.
    pub fn parse(expression: &str) -> Result<TagFilter, NoTag> {
        if expression.is_empty() || expression == "*" {
            return Ok(TagFilter::All);
        }
        let codes = TagFilter::from_codes(tags(expression).map(java_string_hash));
        if matches!(&codes, TagFilter::Codes(codes) if codes.is_empty()) {
            return Err(NoTag);
        }
        Ok(codes)
    }

    /// The filter of a subscription whose hashes the client sent (`codeSet`).
    #[must_use]
    pub fn from_codes(codes: impl IntoIterator<Item = i32>) -> TagFilter {
        let mut codes: Vec<i32> = codes.into_iter().collect();
        codes.sort_unstable();
        codes.dedup();
        TagFilter::Codes(codes.into_boxed_slice())
    }

    /// Whether a message with this tags code goes through.
    #[must_use]
    pub fn matches(&self, tags_code: i64) -> bool {
        match self {
            TagFilter::All => true,
            // Java compares the lower 32 bits.
            TagFilter::Codes(codes) if codes.len() <= 8 => codes.contains(&(tags_code as i32)),
            TagFilter::Codes(codes) => codes.binary_search(&(tags_code as i32)).is_ok(),
        }
    }
}

/// The tags of an expression that is not `*`, trimmed, without the empty ones.
pub fn tags(expression: &str) -> impl Iterator<Item = &str> {
    expression.split("||").map(str::trim).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(java_string_hash(""), 0);
        assert_eq!(java_string_hash("Aa"), 2112);
        assert_eq!(java_string_hash("BB"), 2112);
        // From a Java 8 shell.
        assert_eq!(java_string_hash("TagA"), 2_598_919);
        assert_eq!(java_string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(java_string_hash("\u{1F680}"), 0xD83D * 31 + 0xDE80);
    }

    proptest! {
        #[test]
        fn hash_equals_the_polynomial(text in "\\PC{0,60}") {
            let units: Vec<u16> = text.encode_utf16().collect();
            let mut expected: i64 = 0;
            for unit in &units {
                expected = (expected * 31 + i64::from(*unit)) & 0xFFFF_FFFF;
            }
            prop_assert_eq!(java_string_hash(&text), expected as u32 as i32);
        }
    }

    #[test]
    fn codes_keep_their_sign() {
        assert_eq!(tags_code(""), 0);
        assert_eq!(tags_code("polygenelubricants"), i64::from(i32::MIN));
    }

    #[test]
    fn expressions_name_tags() {
        assert_eq!(TagFilter::parse(""), Ok(TagFilter::All));
        assert_eq!(TagFilter::parse("*"), Ok(TagFilter::All));
        assert_eq!(TagFilter::parse("||"), Err(NoTag));
        assert_eq!(TagFilter::parse(" "), Err(NoTag));
        let filter = TagFilter::parse(" a|| b||||a ").unwrap();
        assert_eq!(filter, TagFilter::from_codes([97, 98]));
        assert!(filter.matches(97) && filter.matches(98));
        assert!(!filter.matches(0) && !filter.matches(99));
    }

    #[test]
    fn many_codes_match_like_few() {
        let filter = TagFilter::from_codes((0..100).map(|n| n * 7 - 300));
        assert!(filter.matches(-300) && filter.matches(393));
        assert!(!filter.matches(-299));
    }

    #[test]
    fn colliding_tags_go_through() {
        assert!(TagFilter::parse("Aa").unwrap().matches(tags_code("BB")));
    }
}
