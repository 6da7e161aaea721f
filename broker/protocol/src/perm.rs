//! The permission bits of topics and brokers.

/// Topics created on first send take their settings from a topic with this bit.
pub const INHERIT: i32 = 1;
/// Producers may send.
pub const WRITE: i32 = 2;
/// Consumers may read.
pub const READ: i32 = 4;
/// Set by no tool of the 4.9 line; kept as it comes.
pub const PRIORITY: i32 = 8;

/// Whether producers may send.
#[must_use]
pub const fn is_writable(perm: i32) -> bool {
    perm & WRITE != 0
}

/// Whether consumers may read.
#[must_use]
pub const fn is_readable(perm: i32) -> bool {
    perm & READ != 0
}

/// Whether a topic made on first send may inherit from a topic with `perm`.
#[must_use]
pub const fn is_inherited(perm: i32) -> bool {
    perm & INHERIT != 0
}

/// The form that mqadmin and Java's logs show: `RWX`, with a dash for each missing bit.
#[must_use]
pub const fn text(perm: i32) -> &'static str {
    match (is_readable(perm), is_writable(perm), is_inherited(perm)) {
        (true, true, true) => "RWX",
        (true, true, false) => "RW-",
        (true, false, true) => "R-X",
        (true, false, false) => "R--",
        (false, true, true) => "-WX",
        (false, true, false) => "-W-",
        (false, false, true) => "--X",
        (false, false, false) => "---",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_shows_each_bit_in_its_place() {
        assert_eq!(text(READ | WRITE), "RW-");
        assert_eq!(text(READ | WRITE | INHERIT), "RWX");
        assert_eq!(text(WRITE), "-W-");
        assert_eq!(text(PRIORITY), "---");
    }
}
