//! Request and response codes by name. What a code means for the broker is the handler's business.

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        $($(#[$doc])* pub const $name: i32 = $code;)*

        /// Name of a code, for logs and figures.
        #[must_use]
        pub fn name(code: i32) -> Option<&'static str> {
            match code {
                $($code => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

/// Codes of requests.
pub mod request {
    codes! {
        /// Send one message, long field names.
        SEND_MESSAGE = 10;
        /// Pull messages of one queue.
        PULL_MESSAGE = 11;
        /// Find messages by key.
        QUERY_MESSAGE = 12;
        /// Named, never served.
        QUERY_BROKER_OFFSET = 13;
        /// Ask for a group's progress in one queue.
        QUERY_CONSUMER_OFFSET = 14;
        /// Report a group's progress in one queue.
        UPDATE_CONSUMER_OFFSET = 15;
        /// Make or change a topic.
        UPDATE_AND_CREATE_TOPIC = 17;
        /// Make or change several topics; 5.x.
        UPDATE_AND_CREATE_TOPIC_LIST = 18;
        /// All topics of a broker.
        GET_ALL_TOPIC_CONFIG = 21;
        /// Named, never served.
        GET_TOPIC_CONFIG_LIST = 22;
        /// Named, never served.
        GET_TOPIC_NAME_LIST = 23;
        /// Change settings of a running broker.
        UPDATE_BROKER_CONFIG = 25;
        /// Settings of a broker.
        GET_BROKER_CONFIG = 26;
        /// Named, never served.
        TRIGGER_DELETE_FILES = 27;
        /// Figures of a broker.
        GET_BROKER_RUNTIME_INFO = 28;
        /// First offset stored at or after a time.
        SEARCH_OFFSET_BY_TIMESTAMP = 29;
        /// End of a queue.
        GET_MAX_OFFSET = 30;
        /// Begin of a queue.
        GET_MIN_OFFSET = 31;
        /// Store time of a queue's first message.
        GET_EARLIEST_MSG_STORETIME = 32;
        /// One message by its place in the log.
        VIEW_MESSAGE_BY_ID = 33;
        /// A client says what it produces and consumes.
        HEART_BEAT = 34;
        /// A client leaves.
        UNREGISTER_CLIENT = 35;
        /// A consumer gives a message back for later.
        CONSUMER_SEND_MSG_BACK = 36;
        /// Commit or roll back a half message.
        END_TRANSACTION = 37;
        /// Client ids of a consumer group.
        GET_CONSUMER_LIST_BY_GROUP = 38;
        /// Broker asks a producer how its transaction went.
        CHECK_TRANSACTION_STATE = 39;
        /// Broker tells consumers that their group has changed.
        NOTIFY_CONSUMER_IDS_CHANGED = 40;
        /// Lock queues for orderly consuming.
        LOCK_BATCH_MQ = 41;
        /// Unlock queues.
        UNLOCK_BATCH_MQ = 42;
        /// Progress of all groups.
        GET_ALL_CONSUMER_OFFSET = 43;
        /// Progress of delayed delivery.
        GET_ALL_DELAY_OFFSET = 45;
        /// Check a subscription before use.
        CHECK_CLIENT_CONFIG = 46;
        /// Named, not used.
        GET_CLIENT_CONFIG = 47;
        /// Make or change an access key.
        UPDATE_AND_CREATE_ACL_CONFIG = 50;
        /// Delete an access key.
        DELETE_ACL_CONFIG = 51;
        /// Versions of the access rules.
        GET_BROKER_CLUSTER_ACL_INFO = 52;
        /// Change the addresses that need no key.
        UPDATE_GLOBAL_WHITE_ADDRS_CONFIG = 53;
        /// The access rules.
        GET_BROKER_CLUSTER_ACL_CONFIG = 54;
        /// Store a value at the name server.
        PUT_KV_CONFIG = 100;
        /// Read a value of the name server.
        GET_KV_CONFIG = 101;
        /// Delete a value of the name server.
        DELETE_KV_CONFIG = 102;
        /// A broker registers at the name server.
        REGISTER_BROKER = 103;
        /// A broker leaves the name server.
        UNREGISTER_BROKER = 104;
        /// Where is a topic?
        GET_ROUTEINFO_BY_TOPIC = 105;
        /// All brokers by cluster.
        GET_BROKER_CLUSTER_INFO = 106;
        /// Make or change a consumer group.
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200;
        /// All consumer groups of a broker.
        GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201;
        /// Offsets of a topic's queues.
        GET_TOPIC_STATS_INFO = 202;
        /// Who consumes in a group?
        GET_CONSUMER_CONNECTION_LIST = 203;
        /// Who produces in a group?
        GET_PRODUCER_CONNECTION_LIST = 204;
        /// Take write permission from all topics of a broker.
        WIPE_WRITE_PERM_OF_BROKER = 205;
        /// All topics the name server knows.
        GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206;
        /// Delete a consumer group.
        DELETE_SUBSCRIPTIONGROUP = 207;
        /// How far behind is a group?
        GET_CONSUME_STATS = 208;
        /// Delete a topic at a broker.
        DELETE_TOPIC_IN_BROKER = 215;
        /// Delete a topic at the name server.
        DELETE_TOPIC_IN_NAMESRV = 216;
        /// Announce a topic at the name server; 5.x.
        REGISTER_TOPIC_IN_NAMESRV = 217;
        /// All values of a namespace.
        GET_KVLIST_BY_NAMESPACE = 219;
        /// Broker tells a client to move its offsets.
        RESET_CONSUMER_CLIENT_OFFSET = 220;
        /// Broker asks a client for its offsets.
        GET_CONSUMER_STATUS_FROM_CLIENT = 221;
        /// Move a group's offsets to a time.
        INVOKE_BROKER_TO_RESET_OFFSET = 222;
        /// Offsets of a group as its clients see them.
        INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223;
        /// Topics of one cluster.
        GET_TOPICS_BY_CLUSTER = 224;
        /// Make or change several consumer groups; 5.x.
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225;
        /// Which groups consume a topic?
        QUERY_TOPIC_CONSUME_BY_WHO = 300;
        /// A filter server registers; served by nobody today.
        REGISTER_FILTER_SERVER = 301;
        /// A class for filter servers; served by nobody today.
        REGISTER_MESSAGE_FILTER_CLASS = 302;
        /// Age of what a group consumes, by queue.
        QUERY_CONSUME_TIME_SPAN = 303;
        /// System topics the name server knows.
        GET_SYSTEM_TOPIC_LIST_FROM_NS = 304;
        /// System topics of a broker.
        GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305;
        /// Delete queue files that are no longer needed.
        CLEAN_EXPIRED_CONSUMEQUEUE = 306;
        /// Figures of one consumer, asked through the broker.
        GET_CONSUMER_RUNNING_INFO = 307;
        /// Smallest progress of several groups.
        QUERY_CORRECTION_OFFSET = 308;
        /// Let one consumer consume one message now.
        CONSUME_MESSAGE_DIRECTLY = 309;
        /// Send one message, one-letter field names.
        SEND_MESSAGE_V2 = 310;
        /// Topics with the unit flag.
        GET_UNIT_TOPIC_LIST = 311;
        /// Topics with the unit subscription flag.
        GET_HAS_UNIT_SUB_TOPIC_LIST = 312;
        /// Topics with the unit subscription flag but not the unit flag.
        GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313;
        /// Copy a group's progress to another group.
        CLONE_GROUP_OFFSET = 314;
        /// One figure by minute, hour and day.
        VIEW_BROKER_STATS_DATA = 315;
        /// Delete queues of topics that are gone.
        CLEAN_UNUSED_TOPIC = 316;
        /// How far behind are all groups?
        GET_BROKER_CONSUME_STATS = 317;
        /// Change settings of the name server.
        UPDATE_NAMESRV_CONFIG = 318;
        /// Settings of the name server.
        GET_NAMESRV_CONFIG = 319;
        /// Send several messages, one-letter field names.
        SEND_BATCH_MESSAGE = 320;
        /// Look into a queue.
        QUERY_CONSUME_QUEUE = 321;
        /// Is the name server's copy of a broker current?
        QUERY_DATA_VERSION = 322;
        /// Check a given-up half message once more.
        RESUME_CHECK_HALF_MESSAGE = 323;
        /// Answer of a consumer to a requesting producer, long field names.
        SEND_REPLY_MESSAGE = 324;
        /// The same with one-letter field names.
        SEND_REPLY_MESSAGE_V2 = 325;
        /// Broker hands such an answer to the producer.
        PUSH_REPLY_MESSAGE_TO_CLIENT = 326;
        /// Give write permission back to all topics of a broker.
        ADD_WRITE_PERM_OF_BROKER = 327;
        /// All producers of a broker; since 4.9.4.
        GET_ALL_PRODUCER_INFO = 328;
        /// Delete expired log files now; since 4.9.4.
        DELETE_EXPIRED_COMMITLOG = 329;
        /// Which topics does a group consume? 5.x.
        QUERY_TOPICS_BY_CONSUMER = 343;
        /// What has a group subscribed to? 5.x.
        QUERY_SUBSCRIPTION_BY_CONSUMER = 345;
        /// One topic's settings; 5.x.
        GET_TOPIC_CONFIG = 351;
        /// One group's settings; 5.x.
        GET_SUBSCRIPTIONGROUP_CONFIG = 352;
        /// Forbid a group to read a topic; 5.x.
        UPDATE_AND_GET_GROUP_FORBIDDEN = 353;
        /// Pull messages, as clients without a group rebalance do.
        LITE_PULL_MESSAGE = 361;
        /// Take a delayed message back; 5.x.
        RECALL_MESSAGE = 370;
        /// Which queues may a client pull? 5.x.
        QUERY_ASSIGNMENT = 400;
        /// Pull or pop? 5.x.
        SET_MESSAGE_REQUEST_MODE = 401;
        /// All pull-or-pop settings; 5.x.
        GET_ALL_MESSAGE_REQUEST_MODE = 402;
        /// Brokers of one group; 5.x.
        GET_BROKER_MEMBER_GROUP = 901;
        /// A broker is alive; 5.x.
        BROKER_HEARTBEAT = 904;
        /// Name server tells which broker has the smallest id; 5.x.
        NOTIFY_MIN_BROKER_ID_CHANGE = 905;
        /// Master and slave exchange addresses; 5.x.
        EXCHANGE_BROKER_HA_INFO = 906;
        /// State of replication; 5.x.
        GET_BROKER_HA_STATUS = 907;
        /// Move the master's flush offset; 5.x.
        RESET_MASTER_FLUSH_OFFSET = 908;
        /// Take messages without holding a queue; 5.x.
        POP_MESSAGE = 200_050;
        /// Confirm a popped message; 5.x.
        ACK_MESSAGE = 200_051;
        /// Look at messages; 5.x.
        PEEK_MESSAGE = 200_052;
        /// Hide a popped message for longer or shorter; 5.x.
        CHANGE_MESSAGE_INVISIBLETIME = 200_053;
        /// Wait for messages; 5.x.
        NOTIFICATION = 200_054;
        /// How many wait? 5.x.
        POLLING_INFO = 200_055;
        /// Confirm several popped messages; 5.x.
        BATCH_ACK_MESSAGE = 200_151;
    }
}

/// Codes of answers. Where 4.9 and 5.x use one number for different things, 4.9 counts.
pub mod response {
    codes! {
        /// Done.
        SUCCESS = 0;
        /// Something failed; the remark says what.
        SYSTEM_ERROR = 1;
        /// Too much to do; try again.
        SYSTEM_BUSY = 2;
        /// Nobody here serves this request.
        REQUEST_CODE_NOT_SUPPORTED = 3;
        /// A transaction failed.
        TRANSACTION_FAILED = 4;
        /// Stored, but not on the disk in time.
        FLUSH_DISK_TIMEOUT = 10;
        /// Stored, but no slave is near enough.
        SLAVE_NOT_AVAILABLE = 11;
        /// Stored, but not at a slave in time.
        FLUSH_SLAVE_TIMEOUT = 12;
        /// The message breaks a rule.
        MESSAGE_ILLEGAL = 13;
        /// Not in service, stopping for example.
        SERVICE_NOT_AVAILABLE = 14;
        /// The peer is too old or too new.
        VERSION_NOT_SUPPORTED = 15;
        /// Not allowed.
        NO_PERMISSION = 16;
        /// No such topic.
        TOPIC_NOT_EXIST = 17;
        /// The topic is already there.
        TOPIC_EXIST_ALREADY = 18;
        /// Nothing new in the queue.
        PULL_NOT_FOUND = 19;
        /// Nothing that passes the filter; ask again at once.
        PULL_RETRY_IMMEDIATELY = 20;
        /// The asked offset is outside the queue.
        PULL_OFFSET_MOVED = 21;
        /// Nothing found.
        QUERY_NOT_FOUND = 22;
        /// The subscription cannot be read.
        SUBSCRIPTION_PARSE_FAILED = 23;
        /// The consumer has no such subscription.
        SUBSCRIPTION_NOT_EXIST = 24;
        /// The broker has an older subscription.
        SUBSCRIPTION_NOT_LATEST = 25;
        /// No such consumer group.
        SUBSCRIPTION_GROUP_NOT_EXIST = 26;
        /// No data for the filter.
        FILTER_DATA_NOT_EXIST = 27;
        /// Old data for the filter.
        FILTER_DATA_NOT_LATEST = 28;
        /// A parameter is wrong; 5.x, 4.9 says [`SYSTEM_ERROR`].
        INVALID_PARAMETER = 29;
        /// The transaction should be committed.
        TRANSACTION_SHOULD_COMMIT = 200;
        /// The transaction should be rolled back.
        TRANSACTION_SHOULD_ROLLBACK = 201;
        /// Nobody knows how the transaction went.
        TRANSACTION_STATE_UNKNOW = 202;
        /// The transaction belongs to another group.
        TRANSACTION_STATE_GROUP_WRONG = 203;
        /// A message lacks its buyer.
        NO_BUYER_ID = 204;
        /// The message belongs to another unit.
        NOT_IN_CURRENT_UNIT = 205;
        /// No consumer of that group or id is connected.
        CONSUMER_NOT_ONLINE = 206;
        /// The consumer did not answer in time.
        CONSUME_MSG_TIMEOUT = 207;
        /// No such message.
        NO_MESSAGE = 208;
        /// An access key could not be changed; 4.9.
        UPDATE_AND_CREATE_ACL_CONFIG_FAILED = 209;
        /// An access key could not be deleted; 4.9.
        DELETE_ACL_CONFIG_FAILED = 210;
        /// The free addresses could not be changed; 4.9.
        UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED = 211;
    }
}
