//! Finding messages, and looking into queues.

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// 12: find messages by key.
    pub struct QueryMessage<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// The key.
        pub key: Cow<'a, str> => "key",
        /// At most so many messages.
        pub max_num: i32 => "maxNum",
        /// Stored at or after this time, ms since 1970.
        pub begin_timestamp: i64 => "beginTimestamp",
        /// Stored at or before this time, ms since 1970.
        pub end_timestamp: i64 => "endTimestamp",
        /// Is the key a unique id? Then `max_num` does not count.
        pub unique_key: Option<bool> => "_UNIQUE_KEY_QUERY",
        /// Which index to search; 5.x.
        pub index_type: Option<Cow<'a, str>> => "indexType",
        /// Where an earlier answer left off; 5.x.
        pub last_key: Option<Cow<'a, str>> => "lastKey",
    }

    /// Answer to 12; the body holds the records.
    pub struct QueryMessageResponse {
        /// Place in the log up to which the index is complete, in bytes.
        pub index_last_update_phyoffset: i64 => "indexLastUpdatePhyoffset",
        /// Store time of the newest indexed message, ms since 1970.
        pub index_last_update_timestamp: i64 => "indexLastUpdateTimestamp",
    }

    /// 33: one message by its place in the log.
    pub struct ViewMessage<'a> {
        /// Place in the log, in bytes.
        pub offset: i64 => "offset",
        /// Topic; 5.x.
        pub topic: Option<Cow<'a, str>> => "topic",
    }

    /// 321: look into a queue.
    pub struct QueryConsumeQueue<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Queue.
        pub queue_id: i32 => "queueId",
        /// First unit wanted.
        pub index: i64 => "index",
        /// At most so many units.
        pub count: i32 => "count",
        /// Group whose filter is to be tried on the units.
        pub consumer_group: Option<Cow<'a, str>> => "consumerGroup",
    }
}
