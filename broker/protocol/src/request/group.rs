//! Consumer and producer groups: settings, members, progress, resets.

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// 201: all consumer groups of a broker. 4.9 sends no fields; 5.x may ask for a part.
    pub struct GetAllSubscriptionGroup<'a> {
        /// First group wanted, counted from 0.
        pub group_seq: Option<i32> => "groupSeq",
        /// Version that the parts before had, as JSON.
        pub data_version: Option<Cow<'a, str>> => "dataVersion",
        /// At most so many groups.
        pub max_group_num: Option<i32> => "maxGroupNum",
    }

    /// Answer to 201 for 5.x.
    pub struct GetAllSubscriptionGroupResponse {
        /// How many groups there are.
        pub total_group_num: Option<i32> => "totalGroupNum",
    }

    /// 203: who consumes in a group?
    pub struct GetConsumerConnectionList<'a> {
        /// Group asked about.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
    }

    /// 204: who produces in a group?
    pub struct GetProducerConnectionList<'a> {
        /// Group asked about.
        pub producer_group: Cow<'a, str> => "producerGroup",
    }

    /// 207: delete a consumer group.
    pub struct DeleteSubscriptionGroup<'a> {
        /// Group to delete.
        pub group_name: Cow<'a, str> => "groupName",
        /// Forget its progress too? Called `cleanOffset` in 5.x.
        pub remove_offset: bool => "removeOffset" | "cleanOffset" or false,
    }

    /// 208: how far behind is a group?
    pub struct GetConsumeStats<'a> {
        /// Group asked about.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
        /// Only this topic.
        pub topic: Option<Cow<'a, str>> => "topic",
        /// Only these topics, joined by `;`; 5.x.
        pub topic_list: Option<Cow<'a, str>> => "topicList",
    }

    /// 343 and 352: something about one group; 5.x.
    pub struct GroupOf<'a> {
        /// Group asked about.
        pub group: Cow<'a, str> => "group",
    }

    /// 345: what has a group subscribed to? 5.x.
    pub struct QuerySubscriptionByConsumer<'a> {
        /// Group asked about.
        pub group: Cow<'a, str> => "group",
        /// Topic asked about.
        pub topic: Option<Cow<'a, str>> => "topic",
    }

    /// 303 and 221: something about one group in one topic.
    pub struct TopicAndGroup<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Group.
        pub group: Cow<'a, str> => "group",
    }

    /// 353: forbid a group to read a topic, or only ask; 5.x.
    pub struct UpdateGroupForbidden<'a> {
        /// Group.
        pub group: Cow<'a, str> => "group",
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// May it read? Absent: only ask.
        pub readable: Option<bool> => "readable",
    }

    /// 308: smallest progress of several groups.
    pub struct QueryCorrectionOffset<'a> {
        /// Groups to leave out, joined by commas.
        pub filter_groups: Option<Cow<'a, str>> => "filterGroups",
        /// Group whose progress is taken where nothing else is known.
        pub compare_group: Cow<'a, str> => "compareGroup",
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
    }

    /// 307: figures of one consumer, asked through the broker.
    pub struct GetConsumerRunningInfo<'a> {
        /// Group of the consumer.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
        /// Its client id.
        pub client_id: Cow<'a, str> => "clientId",
        /// With the stacks of its threads?
        pub jstack_enable: bool => "jstackEnable" or false,
    }

    /// 309: let one consumer consume one message now, through the broker.
    pub struct ConsumeMessageDirectly<'a> {
        /// Group of the consumer.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
        /// Its client id.
        pub client_id: Option<Cow<'a, str>> => "clientId",
        /// Offset message id.
        pub msg_id: Option<Cow<'a, str>> => "msgId",
        /// Name of the broker; the broker sets it on the way to the client.
        pub broker_name: Option<Cow<'a, str>> => "brokerName",
        /// Topic; 5.x.
        pub topic: Option<Cow<'a, str>> => "topic",
        /// Flags of the topic; 5.x.
        pub topic_sys_flag: Option<i32> => "topicSysFlag",
        /// Flags of the group; 5.x.
        pub group_sys_flag: Option<i32> => "groupSysFlag",
    }

    /// 314: copy a group's progress to another group.
    pub struct CloneGroupOffset<'a> {
        /// Group to copy from.
        pub src_group: Cow<'a, str> => "srcGroup",
        /// Group to copy to.
        pub dest_group: Cow<'a, str> => "destGroup",
        /// Only this topic.
        pub topic: Option<Cow<'a, str>> => "topic",
        /// Copy even while consumers are connected?
        pub offline: bool => "offline" or false,
    }

    /// 222, and 220 from broker to client: move a group's offsets to a time.
    pub struct ResetOffset<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Group.
        pub group: Cow<'a, str> => "group",
        /// Ms since 1970; -1 for the end of the queues.
        pub timestamp: i64 => "timestamp",
        /// Also move forward past what is not consumed?
        pub is_force: bool => "isForce" or false,
        /// Only this queue; -1 or absent for all; 5.x.
        pub queue_id: Option<i32> => "queueId",
        /// To this offset instead of a time; 5.x.
        pub offset: Option<i64> => "offset",
    }

    /// 223: offsets of a group as its clients see them.
    pub struct GetConsumerStatus<'a> {
        /// Topic.
        pub topic: Cow<'a, str> => "topic",
        /// Group.
        pub group: Cow<'a, str> => "group",
        /// Only this client id; named so on the wire.
        pub client_id: Option<Cow<'a, str>> => "clientAddr",
    }
}
