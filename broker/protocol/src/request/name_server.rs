//! Requests to the name server.

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// 100: store a value.
    pub struct PutKvConfig<'a> {
        /// Namespace of the key.
        pub namespace: Cow<'a, str> => "namespace",
        /// The key.
        pub key: Cow<'a, str> => "key",
        /// The value.
        pub value: Cow<'a, str> => "value",
    }

    /// 101 and 102: read or delete a value.
    pub struct KvKey<'a> {
        /// Namespace of the key.
        pub namespace: Cow<'a, str> => "namespace",
        /// The key.
        pub key: Cow<'a, str> => "key",
    }

    /// Answer to 101.
    pub struct GetKvConfigResponse<'a> {
        /// The value.
        pub value: Option<Cow<'a, str>> => "value",
    }

    /// 219: all values of a namespace.
    pub struct GetKvList<'a> {
        /// The namespace.
        pub namespace: Cow<'a, str> => "namespace",
    }

    /// 103: a broker registers. The body holds its topics.
    pub struct RegisterBroker<'a> {
        /// Name of the broker group.
        pub broker_name: Cow<'a, str> => "brokerName",
        /// `ip:port` for clients.
        pub broker_addr: Cow<'a, str> => "brokerAddr",
        /// Name of the cluster.
        pub cluster_name: Cow<'a, str> => "clusterName",
        /// `ip:port` for slaves.
        pub ha_server_addr: Cow<'a, str> => "haServerAddr",
        /// 0 for the master.
        pub broker_id: i64 => "brokerId",
        /// Is the body compressed?
        pub compressed: bool => "compressed" or false,
        /// Checksum of the body without its top bit; 0: not checked.
        pub body_crc32: i32 => "bodyCrc32" or 0,
        /// May a slave act as master? 5.x.
        pub enable_acting_master: Option<bool> => "enableActingMaster",
        /// After how long without a heartbeat the broker is gone, ms; 5.x.
        pub heartbeat_timeout_millis: Option<i64> => "heartbeatTimeoutMillis",
        /// Zone of the broker; 5.x.
        pub zone_name: Option<Cow<'a, str>> => "__ZONE_NAME",
    }

    /// Answer to 103, with fields for slaves only.
    pub struct RegisterBrokerResponse<'a> {
        /// `ip:port` of the master for slaves.
        pub ha_server_addr: Option<Cow<'a, str>> => "haServerAddr",
        /// `ip:port` of the master for clients.
        pub master_addr: Option<Cow<'a, str>> => "masterAddr",
    }

    /// 104: a broker leaves.
    pub struct UnregisterBroker<'a> {
        /// Name of the broker group.
        pub broker_name: Cow<'a, str> => "brokerName",
        /// `ip:port` for clients.
        pub broker_addr: Cow<'a, str> => "brokerAddr",
        /// Name of the cluster.
        pub cluster_name: Cow<'a, str> => "clusterName",
        /// 0 for the master.
        pub broker_id: i64 => "brokerId",
    }

    /// 105: where is a topic?
    pub struct GetRouteInfo<'a> {
        /// The topic.
        pub topic: Cow<'a, str> => "topic",
        /// Answer in strict JSON? Since 4.9.4.
        pub accept_standard_json_only: Option<bool> => "acceptStandardJsonOnly",
    }

    /// 205 and 327: take or give back write permission of all topics of a broker.
    pub struct BrokerNameOf<'a> {
        /// Name of the broker group.
        pub broker_name: Cow<'a, str> => "brokerName",
    }

    /// Answer to 205.
    pub struct WipeWritePermResponse {
        /// How many topics have changed.
        pub wipe_topic_count: i32 => "wipeTopicCount",
    }

    /// Answer to 327.
    pub struct AddWritePermResponse {
        /// How many topics have changed.
        pub add_topic_count: i32 => "addTopicCount",
    }

    /// 224: topics of one cluster.
    pub struct GetTopicsByCluster<'a> {
        /// Name of the cluster.
        pub cluster: Cow<'a, str> => "cluster",
    }

    /// 322: is the name server's copy of a broker current? The body holds the broker's version.
    pub struct QueryDataVersion<'a> {
        /// Name of the broker group.
        pub broker_name: Cow<'a, str> => "brokerName",
        /// `ip:port` for clients.
        pub broker_addr: Cow<'a, str> => "brokerAddr",
        /// Name of the cluster.
        pub cluster_name: Cow<'a, str> => "clusterName",
        /// 0 for the master.
        pub broker_id: i64 => "brokerId",
    }

    /// Answer to 322; the body holds the name server's version.
    pub struct QueryDataVersionResponse {
        /// Must the broker register again?
        pub changed: bool => "changed",
    }
}
