//! Topics at the broker and, where the same struct serves, at the name server.

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// 17: make or change a topic.
    pub struct CreateTopic<'a> {
        /// Name of the topic.
        pub topic: Cow<'a, str> => "topic",
        /// Topic the caller would inherit from; not used by brokers.
        pub default_topic: Option<Cow<'a, str>> => "defaultTopic",
        /// Queues to read from.
        pub read_queue_nums: i32 => "readQueueNums",
        /// Queues to write to.
        pub write_queue_nums: i32 => "writeQueueNums",
        /// Bits of [`crate::perm`].
        pub perm: i32 => "perm",
        /// "SINGLE_TAG" or "MULTI_TAG".
        pub topic_filter_type: Option<Cow<'a, str>> => "topicFilterType",
        /// Flags: bit 0 unit, bit 1 unit subscription.
        pub topic_sys_flag: Option<i32> => "topicSysFlag",
        /// Is the topic consumed in order?
        pub order: bool => "order" or false,
        /// Attributes to change, `+name=value,-name`; 5.x.
        pub attributes: Option<Cow<'a, str>> => "attributes",
        /// Overwrite what cannot be changed otherwise? 5.x.
        pub force: Option<bool> => "force",
    }

    /// 202, 215, 217 and 300: something about one topic.
    pub struct TopicOf<'a> {
        /// Name of the topic.
        pub topic: Cow<'a, str> => "topic",
    }

    /// 216: delete a topic at the name server.
    pub struct DeleteTopicInNameServer<'a> {
        /// Name of the topic.
        pub topic: Cow<'a, str> => "topic",
        /// Only for brokers of this cluster; 5.x.
        pub cluster_name: Option<Cow<'a, str>> => "clusterName",
    }

    /// 351: one topic's settings; 5.x.
    pub struct GetTopicConfig<'a> {
        /// Name of the topic.
        pub topic: Cow<'a, str> => "topic",
        /// Resolve static topics?
        pub logical: Option<bool> => "lo",
    }

    /// 21: all topics of a broker. 4.9 sends no fields; 5.x may ask for a part.
    pub struct GetAllTopicConfig<'a> {
        /// First topic wanted, counted from 0.
        pub topic_seq: Option<i32> => "topicSeq",
        /// Version that the parts before had, as JSON.
        pub data_version: Option<Cow<'a, str>> => "dataVersion",
        /// At most so many topics.
        pub max_topic_num: Option<i32> => "maxTopicNum",
    }

    /// Answer to 21.
    pub struct GetAllTopicConfigResponse {
        /// How many topics there are; 5.x.
        pub total_topic_num: Option<i32> => "totalTopicNum",
    }
}
