//! Settings, figures and access rules of a broker.

use std::borrow::Cow;

use crate::wire_header;

wire_header! {
    /// Answer to 26; the body holds the settings.
    pub struct GetBrokerConfigResponse<'a> {
        /// Version of the topics, as JSON.
        pub version: Cow<'a, str> => "version",
    }

    /// 315: one figure by minute, hour and day.
    pub struct ViewBrokerStatsData<'a> {
        /// Kind of figure.
        pub stats_name: Cow<'a, str> => "statsName",
        /// Topic, group or both, as the kind wants.
        pub stats_key: Cow<'a, str> => "statsKey",
    }

    /// 317: how far behind are all groups?
    pub struct GetBrokerConsumeStats {
        /// Only topics consumed in order?
        pub is_order: bool => "isOrder" or false,
    }

    /// 50: make or change an access key.
    pub struct UpdateAclConfig<'a> {
        /// The key.
        pub access_key: Cow<'a, str> => "accessKey",
        /// Its secret.
        pub secret_key: Option<Cow<'a, str>> => "secretKey",
        /// Address that needs no signature.
        pub white_remote_address: Option<Cow<'a, str>> => "whiteRemoteAddress",
        /// May it do everything?
        pub admin: bool => "admin" or false,
        /// Permission for topics not named.
        pub default_topic_perm: Option<Cow<'a, str>> => "defaultTopicPerm",
        /// Permission for groups not named.
        pub default_group_perm: Option<Cow<'a, str>> => "defaultGroupPerm",
        /// `topic=PUB|SUB`, joined by commas.
        pub topic_perms: Option<Cow<'a, str>> => "topicPerms",
        /// `group=SUB`, joined by commas.
        pub group_perms: Option<Cow<'a, str>> => "groupPerms",
    }

    /// 51: delete an access key.
    pub struct DeleteAclConfig<'a> {
        /// The key.
        pub access_key: Cow<'a, str> => "accessKey",
    }

    /// Answer to 52: versions of the access rules.
    pub struct GetAclInfoResponse<'a> {
        /// Version of the first file, as JSON.
        pub version: Option<Cow<'a, str>> => "version",
        /// Versions of all files by path, as JSON.
        pub all_acl_file_version: Option<Cow<'a, str>> => "allAclFileVersion",
        /// Name of the broker.
        pub broker_name: Option<Cow<'a, str>> => "brokerName",
        /// Address of the broker.
        pub broker_addr: Option<Cow<'a, str>> => "brokerAddr",
        /// Name of the cluster.
        pub cluster_name: Option<Cow<'a, str>> => "clusterName",
    }

    /// 53: change the addresses that need no key.
    pub struct UpdateGlobalWhiteAddrs<'a> {
        /// Addresses, joined by commas.
        pub global_white_addrs: Cow<'a, str> => "globalWhiteAddrs",
    }
}
