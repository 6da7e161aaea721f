//! Offsets: a group's progress, a queue's ends, times.

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// 14: ask for a group's progress in one queue.
    pub struct QueryConsumerOffset<'a> {
        /// Group asked about.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
        /// Topic asked about.
        pub topic: Cow<'a, str> => "topic",
        /// Queue asked about.
        pub queue_id: i32 => "queueId",
        /// May a missing progress be answered with 0? 5.x.
        pub set_zero_if_not_found: Option<bool> => "setZeroIfNotFound",
    }

    /// 15: report a group's progress in one queue.
    pub struct UpdateConsumerOffset<'a> {
        /// Group that has progressed.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Queue.
        pub queue_id: i32 => "queueId",
        /// First offset not yet consumed.
        pub commit_offset: i64 => "commitOffset",
    }

    /// 29: first offset stored at or after a time.
    pub struct SearchOffsetByTimestamp<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Queue.
        pub queue_id: i32 => "queueId",
        /// Ms since 1970.
        pub timestamp: i64 => "timestamp",
        /// "LOWER" (also when absent) or "UPPER", in any case of letters; 5.x.
        pub boundary_type: Option<Cow<'a, str>> => "boundaryType",
    }

    /// 30: end of a queue.
    pub struct GetMaxOffset<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Queue.
        pub queue_id: i32 => "queueId",
        /// Only what is confirmed? 5.x.
        pub committed: Option<bool> => "committed",
    }

    /// 31 and 32: begin of a queue, or store time of its first message.
    pub struct QueueOf<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Queue.
        pub queue_id: i32 => "queueId",
    }

    /// Answer to 14, 29, 30 and 31.
    pub struct OffsetResponse {
        /// The offset asked for.
        pub offset: i64 => "offset",
    }

    /// Answer to 32.
    pub struct TimestampResponse {
        /// Ms since 1970; -1 if the queue is empty.
        pub timestamp: i64 => "timestamp",
    }
}
