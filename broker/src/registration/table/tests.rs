use std::collections::BTreeMap;

use broker_protocol::body::{DataVersion, RegisterBroker as Body};

use super::*;

fn identity() -> Identity {
    Identity {
        cluster_name: "c".into(),
        broker_name: "b".into(),
        broker_id: 0,
        broker_address: "10.0.0.1:10911".into(),
        ha_address: "10.0.0.2:10912".into(),
    }
}

fn served(counter: i64, topics: &[(&str, i32)]) -> Served {
    let config = |(name, queues): &(&str, i32)| {
        (Arc::from(*name), Arc::new(TopicConfig::new(*name, *queues)))
    };
    let configs = TopicConfigs {
        data_version: DataVersion { counter, ..DataVersion::default() },
        topic_config_table: topics.iter().map(config).collect(),
    };
    Served { broker_permission: 6, configs }
}

fn sent(request: &Request<'_>) -> BTreeMap<String, i32> {
    let body = Body::decode(&request.body, request.header.compressed).unwrap();
    let table = body.topic_config_serialize_wrapper.topic_config_table;
    table.into_iter().map(|(name, config)| (name.to_string(), config.read_queue_nums)).collect()
}

fn names(request: &Request<'_>) -> Vec<String> {
    sent(request).into_keys().collect()
}

#[test]
fn a_name_server_that_knows_nothing_gets_everything() {
    let identity = identity();
    let now = served(1, &[("t", 4), ("u", 8)]);
    let request = request(&identity, &now, None).unwrap().unwrap();
    assert_eq!(names(&request), ["t", "u"]);
    assert_eq!(request.header.body_crc32, record::crc(&request.body) as i32);
    assert_eq!(&*request.header.broker_addr, "10.0.0.1:10911");
    assert_eq!(&*request.header.ha_server_addr, "10.0.0.2:10912");
    assert!(!request.header.compressed);
}

#[test]
fn later_only_what_is_new_or_different_is_sent() {
    let identity = identity();
    let before = served(1, &[("t", 4), ("u", 8)]);
    assert!(request(&identity, &before, Some(&before)).unwrap().is_none());
    let after = served(2, &[("t", 4), ("u", 9), ("v", 1)]);
    let sent_now = request(&identity, &after, Some(&before)).unwrap().unwrap();
    assert_eq!(sent(&sent_now), BTreeMap::from([("u".into(), 9), ("v".into(), 1)]));
    let body = Body::decode(&sent_now.body, false).unwrap();
    assert_eq!(body.topic_config_serialize_wrapper.data_version.counter, 2);
}

#[test]
fn a_deleted_topic_makes_the_whole_table_go_out() {
    let identity = identity();
    let before = served(1, &[("t", 4), ("u", 8), ("v", 1)]);
    let after = served(2, &[("t", 4), ("v", 1)]);
    assert_eq!(names(&request(&identity, &after, Some(&before)).unwrap().unwrap()), ["t", "v"]);
}

#[test]
fn a_table_too_big_for_a_frame_is_compressed() {
    let identity = identity();
    let topics: Vec<(String, i32)> = (0..20_000).map(|n| (format!("{n:0>127}"), 8)).collect();
    let topics: Vec<(&str, i32)> = topics.iter().map(|(name, q)| (&**name, *q)).collect();
    let now = served(1, &topics);
    let request = request(&identity, &now, None).unwrap().unwrap();
    assert!(request.header.compressed);
    assert!(request.body.len() < FRAME_MAX / 2, "{} bytes", request.body.len());
    assert_eq!(sent(&request).len(), 20_000);
}
