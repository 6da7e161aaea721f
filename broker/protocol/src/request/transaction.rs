//! The second half of a transaction, and the broker's questions about it.

use std::borrow::Cow;

use crate::wire_header;

/// Value of [`EndTransaction::commit_or_rollback`]: the producer does not know (yet).
pub const UNKNOWN: i32 = 0;
/// Value of [`EndTransaction::commit_or_rollback`]: deliver the message.
pub const COMMIT: i32 = 8;
/// Value of [`EndTransaction::commit_or_rollback`]: forget the message.
pub const ROLLBACK: i32 = 12;

wire_header! {
    /// 37: commit or roll back a half message. Usually wants no answer.
    pub struct EndTransaction<'a> {
        /// The message's topic; 5.x.
        pub topic: Option<Cow<'a, str>> => "topic",
        /// Group of the producer.
        pub producer_group: Cow<'a, str> => "producerGroup",
        /// Offset of the half message in its queue.
        pub tran_state_table_offset: i64 => "tranStateTableOffset",
        /// Place of the half message in the log, in bytes.
        pub commit_log_offset: i64 => "commitLogOffset",
        /// [`UNKNOWN`], [`COMMIT`] or [`ROLLBACK`].
        pub commit_or_rollback: i32 => "commitOrRollback",
        /// Does this answer a question of the broker?
        pub from_transaction_check: bool => "fromTransactionCheck" or false,
        /// Unique id of the message.
        pub msg_id: Option<Cow<'a, str>> => "msgId",
        /// Id of the transaction.
        pub transaction_id: Option<Cow<'a, str>> => "transactionId",
    }

    /// 39, broker to producer: how did this transaction go? Wants no answer; the producer sends a
    /// 37 when it knows.
    pub struct CheckTransactionState<'a> {
        /// Place of the half message in the log, in bytes.
        pub commit_log_offset: i64 => "commitLogOffset",
        /// Unique id of the message.
        pub msg_id: Option<Cow<'a, str>> => "msgId",
        /// Offset of the half message in its queue.
        pub tran_state_table_offset: i64 => "tranStateTableOffset",
        /// Offset message id of the half message.
        pub offset_msg_id: Option<Cow<'a, str>> => "offsetMsgId",
        /// Id of the transaction.
        pub transaction_id: Option<Cow<'a, str>> => "transactionId",
        /// Topic of the half message; 5.x.
        pub topic: Option<Cow<'a, str>> => "topic",
        /// Name of the asking broker; 5.x.
        pub broker_name: Option<Cow<'a, str>> => "bname",
    }

    /// 323: check a given-up half message once more.
    pub struct ResumeCheckHalfMessage<'a> {
        /// Topic of the message; 5.x.
        pub topic: Option<Cow<'a, str>> => "topic",
        /// Offset message id of the half message.
        pub msg_id: Cow<'a, str> => "msgId",
    }
}
