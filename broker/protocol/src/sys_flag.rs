//! The bits of a message's `sysFlag` and the questions asked of them. The bits of a pull request's
//! flag are in the pull request, not here.

/// The body is compressed by the producer.
pub const COMPRESSED: i32 = 0x1;
/// The message's topic carries several tags per message.
pub const MULTI_TAGS: i32 = 0x2;
/// The two transaction bits.
pub const TRANSACTION_MASK: i32 = 0xC;
/// A prepared (half) message.
pub const TRANSACTION_PREPARED: i32 = 0x4;
/// A committed transactional message.
pub const TRANSACTION_COMMIT: i32 = 0x8;
/// A rolled back transactional message.
pub const TRANSACTION_ROLLBACK: i32 = 0xC;
/// The born host is written as 16 address bytes and a port.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is written as 16 address bytes and a port.
pub const STORE_HOST_V6: i32 = 0x20;

/// The transaction bits of `flag`: 0, prepared, commit or rollback.
#[must_use]
pub const fn transaction(flag: i32) -> i32 {
    flag & TRANSACTION_MASK
}

/// Whether consumers see the message: ordinary and committed ones, not prepared or rolled back.
#[must_use]
pub const fn is_visible(flag: i32) -> bool {
    matches!(transaction(flag), 0 | TRANSACTION_COMMIT)
}

/// `flag` with its transaction bits replaced by those of `transaction`.
#[must_use]
pub const fn with_transaction(flag: i32, transaction: i32) -> i32 {
    (flag & !TRANSACTION_MASK) | (transaction & TRANSACTION_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ordinary_and_committed_messages_are_visible() {
        assert!(is_visible(COMPRESSED));
        assert!(is_visible(TRANSACTION_COMMIT | COMPRESSED));
        assert!(!is_visible(TRANSACTION_PREPARED));
        assert!(!is_visible(TRANSACTION_ROLLBACK | BORN_HOST_V6));
    }

    #[test]
    fn transaction_bits_are_replaced_alone() {
        let flag = with_transaction(COMPRESSED | TRANSACTION_ROLLBACK, TRANSACTION_COMMIT);
        assert_eq!(flag, COMPRESSED | TRANSACTION_COMMIT);
        assert_eq!(with_transaction(flag, 0), COMPRESSED);
    }
}
