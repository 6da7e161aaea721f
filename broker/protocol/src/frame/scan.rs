//! Small readers over hostile bytes, eight bytes a step where that pays.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks the zero bytes of a word with their high bit. The lowest mark is always exact; marks above
/// it may be false.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Byte index of the lowest mark.
const fn first_mark(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Big-endian number at `at`, if all of it is there.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// Index of the first byte of which `marks` of its word has a mark and which `is` wanted.
#[inline(always)]
fn find(bytes: &[u8], marks: impl Fn(u64) -> u64, is: impl Fn(u8) -> bool) -> Option<usize> {
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let marks = marks(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return Some(bytes.len() - rest.len() + first_mark(marks));
        }
        rest = after;
    }
    rest.iter().position(|byte| is(*byte)).map(|index| bytes.len() - rest.len() + index)
}

/// Index of the first byte that is `a` or `b`.
#[inline(always)]
pub(super) fn find_either(bytes: &[u8], a: u8, b: u8) -> Option<usize> {
    let (all_a, all_b) = (u64::from(a) * ONES, u64::from(b) * ONES);
    let marks = |word: u64| zero_bytes(word ^ all_a) | zero_bytes(word ^ all_b);
    find(bytes, marks, |byte| byte == a || byte == b)
}

/// Index of the first byte of 255, which no UTF-8 text holds.
pub(super) fn find_255(bytes: &[u8]) -> Option<usize> {
    find(bytes, |word| zero_bytes(!word), |byte| byte == 255)
}

/// Index of the first byte that may not stand in a JSON string as it is: a control character, a
/// quote or a backslash.
#[inline]
pub(super) fn find_escaped(bytes: &[u8]) -> Option<usize> {
    let marks = |word: u64| {
        let controls = word.wrapping_sub(0x20 * ONES) & !word & HIGHS;
        controls
            | zero_bytes(word ^ (u64::from(b'"') * ONES))
            | zero_bytes(word ^ (u64::from(b'\\') * ONES))
    };
    find(bytes, marks, |byte| byte < 0x20 || byte == b'"' || byte == b'\\')
}

/// A whole decimal number with an optional sign, and nothing around it.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, bytes),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Negative all the way, because the most negative number has no positive twin.
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finders_agree_with_a_plain_loop_at_every_place() {
        for length in 0..40_usize {
            for at in 0..length {
                for needle in [b'"', b'\\', 0xFF, 1, 0x1F] {
                    let mut bytes = vec![b'a'; length];
                    bytes[at] = needle;
                    let plain = |wanted: &dyn Fn(u8) -> bool| bytes.iter().position(|b| wanted(*b));
                    assert_eq!(
                        find_either(&bytes, b'"', b'\\'),
                        plain(&|b| b == b'"' || b == b'\\')
                    );
                    assert_eq!(find_255(&bytes), plain(&|b| b == 255));
                    assert_eq!(
                        find_escaped(&bytes),
                        plain(&|b| b < 0x20 || b == b'"' || b == b'\\')
                    );
                }
            }
        }
    }

    #[test]
    fn high_bytes_are_not_taken_for_controls() {
        let text = "größer 消息 \u{7f}\u{80}".repeat(3);
        assert_eq!(find_escaped(text.as_bytes()), None);
    }

    #[test]
    fn integers_are_whole_and_signed() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"+7"), Some(7));
        for bad in ["", "-", "+", "1.5", " 1", "1 ", "9223372036854775808", "0x1", "１"] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad}");
        }
    }
}
