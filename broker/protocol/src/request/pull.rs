//! Pulling messages.

use std::borrow::Cow;

use crate::wire_header;

/// Bit of [`PullMessage::sys_flag`]: `commit_offset` counts.
pub const COMMIT_OFFSET: i32 = 1;
/// Bit of [`PullMessage::sys_flag`]: hold the request while there is nothing.
pub const SUSPEND: i32 = 2;
/// Bit of [`PullMessage::sys_flag`]: the subscription of this request counts, not the heartbeat's.
pub const SUBSCRIPTION: i32 = 4;
/// Bit of [`PullMessage::sys_flag`]: the filter is a Java class.
pub const CLASS_FILTER: i32 = 8;
/// Bit of [`PullMessage::sys_flag`]: a pull of a client that assigns queues itself.
pub const LITE_PULL: i32 = 16;

wire_header! {
    /// 11 and 361: pull messages of one queue.
    pub struct PullMessage<'a> {
        /// Group of the consumer.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
        /// Topic to pull from.
        pub topic: Cow<'a, str> => "topic",
        /// Queue to pull from.
        pub queue_id: i32 => "queueId",
        /// First offset wanted.
        pub queue_offset: i64 => "queueOffset",
        /// At most so many messages.
        pub max_msg_nums: i32 => "maxMsgNums",
        /// Bits of this module.
        pub sys_flag: i32 => "sysFlag",
        /// Progress of the group, with [`COMMIT_OFFSET`]; otherwise anything.
        pub commit_offset: i64 => "commitOffset" or 0,
        /// How long to hold the request, ms, with [`SUSPEND`].
        pub suspend_timeout_millis: i64 => "suspendTimeoutMillis" or 0,
        /// Filter expression, with [`SUBSCRIPTION`].
        pub subscription: Option<Cow<'a, str>> => "subscription",
        /// Version of the subscription, ms since 1970.
        pub sub_version: i64 => "subVersion" or 0,
        /// "TAG" (also when absent or empty) or "SQL92".
        pub expression_type: Option<Cow<'a, str>> => "expressionType",
        /// At most so many bytes; 5.x.
        pub max_msg_bytes: Option<i32> => "maxMsgBytes",
        /// Which kind of client asks; 5.x.
        pub request_source: Option<i32> => "requestSource",
        /// For whom a proxy asks; 5.x, spelt so.
        pub proxy_forward_client_id: Option<Cow<'a, str>> => "proxyFrowardClientId",
    }

    /// Answer to 11 and 361. Refusals carry [`EmptyHeader`](crate::header::EmptyHeader) instead.
    pub struct PullMessageResponse {
        /// Id of the broker to pull from next time.
        pub suggest_which_broker_id: i64 => "suggestWhichBrokerId",
        /// Offset to pull next.
        pub next_begin_offset: i64 => "nextBeginOffset",
        /// End of the queue.
        pub max_offset: i64 => "maxOffset",
        /// Begin of the queue.
        pub min_offset: i64 => "minOffset",
        /// Difference to the logical queue of a static topic; 5.x.
        pub offset_delta: Option<i64> => "offsetDelta",
        /// Flags of the topic; 5.x.
        pub topic_sys_flag: Option<i32> => "topicSysFlag",
        /// Flags of the group; 5.x.
        pub group_sys_flag: Option<i32> => "groupSysFlag",
        /// Why reading is forbidden; 5.x.
        pub forbidden_type: Option<i32> => "forbiddenType",
    }
}
