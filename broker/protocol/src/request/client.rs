//! Clients that come and go. (Heartbeat 34, locks 41 and 42 and the check 46 have bodies, not
//! fields.)

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// 35: a client leaves one of its groups.
    pub struct UnregisterClient<'a> {
        /// Id of the client.
        pub client_id: Cow<'a, str> => "clientID",
        /// Group it no longer produces for.
        pub producer_group: Option<Cow<'a, str>> => "producerGroup",
        /// Group it no longer consumes in.
        pub consumer_group: Option<Cow<'a, str>> => "consumerGroup",
    }

    /// 38: client ids of a consumer group.
    pub struct GetConsumerListByGroup<'a> {
        /// Group asked about.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
    }

    /// 40, broker to client: the members of a group have changed.
    pub struct NotifyConsumerIdsChanged<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> => "consumerGroup",
    }

    /// Answer to 34 for clients of 5.x.
    pub struct HeartBeatResponse {
        /// Does the broker know heartbeats without subscriptions?
        pub support_heart_beat_v2: Option<bool> => "IS_SUPPORT_HEART_BEAT_V2",
        /// Has the subscription changed?
        pub sub_change: Option<bool> => "IS_SUB_CHANGE",
    }
}
