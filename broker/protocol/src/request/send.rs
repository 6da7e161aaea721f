//! Sending messages, answering requests of producers, giving messages back.

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// 10 and 324 with long names, 310, 320 and 325 with one-letter names: send a message, a batch
    /// or a reply. Whether the body is a batch is what `batch` says, not the code.
    pub struct SendMessage<'a> {
        /// Group of the producer.
        pub producer_group: Cow<'a, str> => "producerGroup" / "a",
        /// Topic to send to.
        pub topic: Cow<'a, str> => "topic" / "b",
        /// Topic whose settings a topic made on this send inherits.
        pub default_topic: Cow<'a, str> => "defaultTopic" / "c" or Cow::Borrowed(""),
        /// Queues that a topic made on this send gets.
        pub default_topic_queue_nums: i32 => "defaultTopicQueueNums" / "d" or 0,
        /// Queue to send to; below 0 the broker chooses.
        pub queue_id: i32 => "queueId" / "e",
        /// Bits of [`crate::sys_flag`].
        pub sys_flag: i32 => "sysFlag" / "f",
        /// When the producer made the message, ms since 1970.
        pub born_timestamp: i64 => "bornTimestamp" / "g",
        /// The application's own number.
        pub flag: i32 => "flag" / "h",
        /// Properties in wire form, see [`crate::properties`].
        pub properties: Option<Cow<'a, str>> => "properties" / "i",
        /// How often the message was consumed already, on sends to a retry topic.
        pub reconsume_times: Option<i32> => "reconsumeTimes" / "j",
        /// Is the producer bound to a unit?
        pub unit_mode: Option<bool> => "unitMode" / "k",
        /// Attempts before the dead-letter topic, on sends to a retry topic.
        pub max_reconsume_times: Option<i32> => "maxReconsumeTimes" / "l",
        /// Does the body hold several messages?
        pub batch: Option<bool> => "batch" / "m",
        /// Name of the broker meant; 5.x.
        pub broker_name: Option<Cow<'a, str>> => "bname" / "n",
    }

    /// Answer to a send that stored the message (codes 0, 10, 11 and 12).
    pub struct SendMessageResponse<'a> {
        /// Queue it went to.
        pub queue_id: i32 => "queueId",
        /// "true": the client may trace; sent always.
        pub trace_on: Option<Cow<'a, str>> => "TRACE_ON",
        /// Region of the broker; sent always.
        pub msg_region: Option<Cow<'a, str>> => "MSG_REGION",
        /// Offset message id in hex; of a batch all of them, joined by commas.
        pub msg_id: Cow<'a, str> => "msgId",
        /// Offset in the queue; of a batch the first one.
        pub queue_offset: i64 => "queueOffset",
        /// Id of the transaction, or the message's own unique id in 5.x.
        pub transaction_id: Option<Cow<'a, str>> => "transactionId",
        /// Unique id of a batch; 5.x.
        pub batch_uniq_id: Option<Cow<'a, str>> => "batchUniqId",
        /// What a later recall must name; 5.x.
        pub recall_handle: Option<Cow<'a, str>> => "recallHandle",
    }

    /// Answer to a send that stored nothing.
    pub struct SendMessageRefused<'a> {
        /// "true": the client may trace; sent always.
        pub trace_on: Option<Cow<'a, str>> => "TRACE_ON",
        /// Region of the broker; sent always.
        pub msg_region: Option<Cow<'a, str>> => "MSG_REGION",
    }

    /// 326, broker to client: the answer to a producer's request.
    pub struct PushReplyMessage<'a> {
        /// Group of the replying producer.
        pub producer_group: Cow<'a, str> => "producerGroup",
        /// Topic of the reply.
        pub topic: Cow<'a, str> => "topic",
        /// As in the send.
        pub default_topic: Cow<'a, str> => "defaultTopic",
        /// As in the send.
        pub default_topic_queue_nums: i32 => "defaultTopicQueueNums",
        /// As in the send.
        pub queue_id: i32 => "queueId",
        /// As in the send.
        pub sys_flag: i32 => "sysFlag",
        /// As in the send, ms since 1970.
        pub born_timestamp: i64 => "bornTimestamp",
        /// As in the send.
        pub flag: i32 => "flag",
        /// As in the send.
        pub properties: Option<Cow<'a, str>> => "properties",
        /// As in the send.
        pub reconsume_times: Option<i32> => "reconsumeTimes",
        /// As in the send.
        pub unit_mode: Option<bool> => "unitMode",
        /// `ip:port` of the replying client.
        pub born_host: Cow<'a, str> => "bornHost",
        /// `ip:port` of the broker.
        pub store_host: Cow<'a, str> => "storeHost",
        /// When the broker got the reply, ms since 1970.
        pub store_timestamp: i64 => "storeTimestamp",
    }

    /// 36: a consumer gives a message back, to get it again later.
    pub struct ConsumerSendMsgBack<'a> {
        /// Place of the message in the log, in bytes.
        pub offset: i64 => "offset",
        /// Group of the consumer.
        pub group: Cow<'a, str> => "group",
        /// 0: the broker chooses by attempt; above: a level; below: straight to the dead letters.
        pub delay_level: i32 => "delayLevel",
        /// Id under which the consumer knows the message.
        pub origin_msg_id: Option<Cow<'a, str>> => "originMsgId",
        /// Topic the consumer got it from.
        pub origin_topic: Option<Cow<'a, str>> => "originTopic",
        /// Is the consumer bound to a unit?
        pub unit_mode: bool => "unitMode" or false,
        /// Attempts before the dead-letter topic; since 3.4.9.
        pub max_reconsume_times: Option<i32> => "maxReconsumeTimes",
    }

    /// 370: take a delayed message back; 5.x.
    pub struct RecallMessage<'a> {
        /// Group of the producer.
        pub producer_group: Option<Cow<'a, str>> => "producerGroup",
        /// Topic it was sent to.
        pub topic: Cow<'a, str> => "topic",
        /// Handle of the send's answer.
        pub recall_handle: Cow<'a, str> => "recallHandle",
    }

    /// Answer to 370.
    pub struct RecallMessageResponse<'a> {
        /// Unique id of the message.
        pub msg_id: Cow<'a, str> => "msgId",
    }
}
