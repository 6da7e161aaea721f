//! Bodies of Apache RocketMQ 4.9.3 are read and written again without loss; those of 5.3.3 are
//! read.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::*;
use crate::{json, limits::REGISTRATION_UNFOLDED_MAX};

fn bodies(lines: &'static str) -> HashMap<&'static str, &'static str> {
    lines.lines().filter_map(|line| line.split_once(' ')).collect()
}

fn old(name: &str) -> &'static str {
    bodies(include_str!("../../testdata/bodies-4.9.3.txt"))[name]
}

fn new(name: &str) -> &'static str {
    bodies(include_str!("../../testdata/bodies-5.3.3.txt"))[name]
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    json::from_slice(text.as_bytes()).unwrap()
}

fn text<T: Serialize>(value: &T) -> String {
    String::from_utf8(json::to_vec(value).unwrap()).unwrap()
}

/// Nothing is lost and no form differs: the same values, in as many characters. Only the order of
/// map entries may be another, since Java's is that of hashes.
fn round_trip<T: DeserializeOwned + Serialize>(body: &str) -> T {
    let value: T = read(body);
    let written = text(&value);
    assert_eq!(read::<Value>(&written), read::<Value>(body));
    assert_eq!(written.len(), body.len(), "{written}");
    value
}

#[test]
fn bodies_of_4_9_are_written_as_they_came() {
    round_trip::<RegisterBroker>(old("REGISTER_BROKER"));
    let topics: TopicConfigs = round_trip(old("GET_ALL_TOPIC_CONFIG.response"));
    assert_eq!(topics.topic_config_table["BenchmarkTest"].write_queue_nums, 1024);
    round_trip::<SubscriptionGroups>(old("GET_ALL_SUBSCRIPTIONGROUP_CONFIG.response"));
    let group: SubscriptionGroupConfig = round_trip(old("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP"));
    assert!(!group.consume_broadcast_enable && group.consume_enable);
    let cluster: ClusterInfo = round_trip(old("GET_BROKER_CLUSTER_INFO.response"));
    assert_eq!(&*cluster.broker_addr_table["peer-a"].broker_addrs[&1], "127.0.0.1:13921");
    round_trip::<TopicRouteData>(old("GET_ROUTEINFO_BY_TOPIC.response"));
    let heartbeat: HeartbeatData = round_trip(old("HEART_BEAT"));
    assert_eq!(
        heartbeat.consumer_data_set[0].subscription_data_set[0].code_set,
        [2_598_919, 2_598_920]
    );
    round_trip::<ConsumerIdList>(old("GET_CONSUMER_LIST_BY_GROUP.response"));
    round_trip::<LockBatch>(old("LOCK_BATCH_MQ"));
    round_trip::<LockedQueues>(old("LOCK_BATCH_MQ.response"));
    let topic: TopicStatsTable = round_trip(old("GET_TOPIC_STATS_INFO.response"));
    assert_eq!(topic.offset_table[&MessageQueue::new("Frames", "peer-a", 3)].max_offset, 9);
    let stats: ConsumeStats = round_trip(old("GET_CONSUME_STATS.response"));
    assert_eq!(stats.total_diff(), 2);
    round_trip::<ConsumerOffsetTable>(old("GET_ALL_CONSUMER_OFFSET.response"));
}

#[test]
fn bodies_of_5_are_read() {
    let register: RegisterBroker = read(new("REGISTER_BROKER"));
    let topics = &register.topic_config_serialize_wrapper.topic_config_table;
    assert_eq!(topics["BenchmarkTest"].read_queue_nums, 1024);
    assert_eq!(
        read::<TopicConfigs>(new("GET_ALL_TOPIC_CONFIG.response")).topic_config_table.len(),
        18
    );
    let groups: SubscriptionGroups = read(new("GET_ALL_SUBSCRIPTIONGROUP_CONFIG.response"));
    assert!(groups.subscription_group_table.contains_key("CID_ONSAPI_OWNER"));
    let group: SubscriptionGroupConfig = read(new("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP"));
    assert_eq!(&*group.group_name, "frames_new");
    let cluster: ClusterInfo = read(new("GET_BROKER_CLUSTER_INFO.response"));
    assert_eq!(&*cluster.cluster_addr_table["PeerCluster"][0], "peer-a");
    let route: TopicRouteData = read(new("GET_ROUTEINFO_BY_TOPIC.response"));
    assert_eq!(&*route.broker_datas[0].broker_addrs[&1], "127.0.0.1:13921");
    assert!(!read::<HeartbeatData>(new("HEART_BEAT")).client_id.is_empty());
    assert_eq!(read::<LockBatch>(new("LOCK_BATCH_MQ")).mq_set.len(), 1);
    assert_eq!(read::<TopicStatsTable>(new("GET_TOPIC_STATS_INFO.response")).offset_table.len(), 4);
    let stats: ConsumeStats = read(new("GET_CONSUME_STATS.response"));
    assert!(stats.consume_tps > 0.0);
    let offsets: ConsumerOffsetTable = read(new("GET_ALL_CONSUMER_OFFSET.response"));
    assert!(offsets.offset_table.contains_key("Frames@frames_orderly"));
    assert!(
        read::<DelayOffsetTable>(new("GET_ALL_DELAY_OFFSET.response"))
            .offset_table
            .contains_key(&3)
    );
}

#[test]
fn standard_json_has_text_keys() {
    let route: TopicRouteData = read(old("GET_ROUTEINFO_BY_TOPIC.response"));
    let standard = json::to_vec_standard(&route).unwrap();
    let value: Value = serde_json::from_slice(&standard).unwrap();
    assert_eq!(value["brokerDatas"][0]["brokerAddrs"]["0"], "127.0.0.1:13911");
}

#[test]
fn config_files_are_written_as_apache_does() {
    let file = include_str!("../../testdata/delayOffset-4.9.3.json");
    let table: DelayOffsetTable = read(file);
    assert_eq!(String::from_utf8(json::to_vec_pretty(&table).unwrap()).unwrap(), file);

    let file = include_str!("../../testdata/consumerOffset-4.9.3.json");
    let table: ConsumerOffsetTable = read(file);
    assert_eq!(table.offset_table["FixTag@fix_group"][&3], 3);
    let written = String::from_utf8(json::to_vec_pretty(&table).unwrap()).unwrap();
    // The entries stand in another order; the lines are the same.
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(|line| line.replace("},", "}")).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&written), lines(file));
}

#[test]
fn null_missing_and_unknown_fields_leave_the_defaults() {
    let topic: TopicConfig = read(r#"{"topicName":"t","perm":null,"color":[{}]}"#);
    assert_eq!(topic, TopicConfig { topic_name: "t".into(), ..TopicConfig::default() });
    assert_eq!((topic.perm, topic.read_queue_nums), (6, 16));
    let group: SubscriptionGroupConfig = read(r#"{"groupName":"g"}"#);
    assert_eq!(group, SubscriptionGroupConfig::new("g"));
    let register: RegisterBroker = read(
        r#"{"filterServerList":null,"topicConfigSerializeWrapper":{"dataVersion":null,"topicConfigTable":{"t":null}}}"#,
    );
    assert_eq!(register, RegisterBroker::default());
    assert_eq!(read::<HeartbeatData>("{}"), HeartbeatData::default());
    assert_eq!(read::<SubscriptionData>(r#"{"expressionType":null}"#).expression_type, "TAG");
}

#[test]
fn enums_are_read_by_name_and_by_number() {
    let consumer: ConsumerData = read(
        r#"{"consumeType":0,"messageModel":0,"consumeFromWhere":5,"subscriptionDataSet":[{"subVersion":"17"}]}"#,
    );
    assert_eq!(consumer.consume_type, ConsumeType::Actively);
    assert_eq!(consumer.message_model, MessageModel::Broadcasting);
    assert_eq!(consumer.consume_from_where, ConsumeFromWhere::Timestamp);
    assert_eq!(consumer.subscription_data_set[0].sub_version, 17);
    let consumer: ConsumerData =
        read(r#"{"consumeType":"CONSUME_BY_MAIL","messageModel":99,"consumeFromWhere":-1}"#);
    assert_eq!(consumer, ConsumerData::default());
}

#[test]
fn queues_are_keys_as_objects_and_read_from_text() {
    let queue = MessageQueue::new("t", "b", 1);
    let offsets = QueueOffsets { offset_table: BTreeMap::from([(queue.clone(), 5)]) };
    let fastjson = r#"{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:5}}"#;
    assert_eq!(text(&offsets), fastjson);
    assert_eq!(read::<QueueOffsets>(fastjson), offsets);
    let standard = json::to_vec_standard(&offsets).unwrap();
    assert_eq!(json::from_slice::<QueueOffsets>(&standard).unwrap(), offsets);
    assert_eq!(
        text(&offsets.to_list()),
        r#"{"offsetTable":[{"brokerName":"b","offset":5,"queueId":1,"topic":"t"}]}"#
    );
}

#[test]
fn queues_are_ordered_as_java_orders_them() {
    let queues = [("a", "y", 9), ("b", "x", 2), ("b", "x", 10), ("b", "y", 0)]
        .map(|(topic, broker, id)| MessageQueue::new(topic, broker, id));
    assert!(queues.is_sorted());
}

#[test]
fn a_state_version_is_kept_but_not_invented() {
    let version: DataVersion = read(r#"{"counter":1,"stateVersion":2,"timestamp":3}"#);
    assert_eq!(text(&version), r#"{"counter":1,"stateVersion":2,"timestamp":3}"#);
    let mut version: DataVersion = read(r#"{"counter":1,"stateVersion":0,"timestamp":3}"#);
    version.advance(9);
    assert_eq!(text(&version), r#"{"counter":2,"timestamp":9}"#);
}

#[test]
fn doubles_have_a_fraction() {
    let item = BrokerStatsItem { avgpt: 0.0, sum: 3, tps: 1e7 };
    assert_eq!(text(&item), r#"{"avgpt":0.0,"sum":3,"tps":1.0E7}"#);
}

#[test]
fn a_packed_registration_keeps_what_it_can_say() {
    let mut register: RegisterBroker = read(old("REGISTER_BROKER"));
    register.filter_server_list.push("10.0.0.1:1".into());
    let packed = register.encode_compressed().unwrap();
    assert!(packed.len() * 3 < old("REGISTER_BROKER").len());
    assert_eq!(RegisterBroker::decode(&packed, true).unwrap(), register);
    let plain = register.encode().unwrap();
    assert_eq!(RegisterBroker::decode(&plain, false).unwrap(), register);
    assert_eq!(RegisterBroker::decode(b"", true).unwrap(), RegisterBroker::default());
    // 5.x appends attributes as a sixth word, and more parts behind the list.
    let topic = TopicConfig::from_text("t 3 4 6 MULTI_TAG {\"+a\":\"b c\"}").unwrap();
    assert_eq!((topic.read_queue_nums, topic.write_queue_nums), (3, 4));
    assert_eq!(topic.topic_filter_type, TopicFilterType::MultiTag);
}

#[test]
fn broken_packed_registrations_are_refused() {
    use std::io::Write;

    let pack = |bytes: &[u8]| {
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    };
    let refused = |bytes: &[u8]| RegisterBroker::decode(bytes, true).unwrap_err().to_string();
    assert!(refused(b"{}").contains("zlib"));
    assert!(refused(&pack(&[0, 0])).contains("length"));
    assert!(refused(&pack(&[0xFF; 4])).contains("length"));
    assert!(refused(&pack(b"\0\0\0\x02{}\x7f\xff\xff\xff")).contains("length"));
    assert!(refused(&pack(b"\0\0\0\x02{}\0\0\0\x01\0\0\0\x03a b")).contains("broken topic: a b"));
    assert!(refused(&pack(&vec![0; REGISTRATION_UNFOLDED_MAX + 1])).contains("more than"));
    let whole = RegisterBroker::default().encode_compressed().unwrap();
    assert!(RegisterBroker::decode(&whole[..whole.len() / 2], true).is_err());
}

#[test]
fn seventy_thousand_topics_fit_a_frame() {
    let mut register = RegisterBroker::default();
    for n in 0..70_000 {
        let topic = TopicConfig::new(format!("a-topic-with-a-name-of-usual-length-{n}"), 8);
        let table = &mut register.topic_config_serialize_wrapper.topic_config_table;
        table.insert(topic.topic_name.clone(), Arc::new(topic));
    }
    let packed = register.encode_compressed().unwrap();
    assert!(packed.len() < 2 << 20, "{}", packed.len());
    assert_eq!(RegisterBroker::decode(&packed, true).unwrap(), register);
    let plain = register.encode().unwrap();
    assert_eq!(RegisterBroker::decode(&plain, false).unwrap(), register);
}
