//! The rules of registration, each on tables alone.

use broker_protocol::body::{TopicConfig, TopicConfigs};
use broker_protocol::name::SELF_TEST_TOPIC;

use super::*;

/// A registration in the making; a full table at version `counter`.
#[derive(Clone)]
struct Says {
    name: &'static str,
    id: i64,
    address: &'static str,
    topics: TopicConfigs,
    connection: u64,
    removes_absent: bool,
}

fn master(topics: &[&str], counter: i64) -> Says {
    let mut says = Says {
        name: "a",
        id: 0,
        address: "10.0.0.1:10911",
        topics: TopicConfigs::default(),
        connection: 1,
        removes_absent: true,
    };
    says.topics.data_version.timestamp = 1_000 + counter;
    says.topics.data_version.counter = counter;
    says = says.with(SELF_TEST_TOPIC, 6);
    topics.iter().fold(says, |says, topic| says.with(topic, 6))
}

impl Says {
    fn with(mut self, topic: &str, perm: i32) -> Says {
        let config = TopicConfig { perm, ..TopicConfig::new(topic, 4) };
        self.topics.topic_config_table.insert(topic.into(), Arc::new(config));
        self
    }

    /// Only the last topics, as a broker sends after a change of one.
    fn increment(mut self) -> Says {
        self.topics.topic_config_table.remove(SELF_TEST_TOPIC);
        self
    }

    fn to(&self, routes: &Routes) -> Result<Registered, RegisterError> {
        self.at(routes, Instant::now())
    }

    fn at(&self, routes: &Routes, now: Instant) -> Result<Registered, RegisterError> {
        let registration = Registration {
            cluster: "c",
            broker_name: self.name,
            broker_id: self.id,
            address: self.address,
            ha_address: "10.0.0.1:10912",
            topics: &self.topics,
            removes_absent: self.removes_absent,
            connection: self.connection,
            expires_after: Duration::from_secs(120),
        };
        routes.register(&registration, now)
    }
}

fn slave() -> Says {
    Says { id: 1, address: "10.0.0.2:10911", connection: 2, ..master(&["t"], 0) }
}

fn has(routes: &Routes, topic: &str) -> bool {
    routes.of_topic(topic).is_some()
}

fn perm_of(routes: &Routes, topic: &str) -> i32 {
    routes.of_topic(topic).unwrap().queue_datas[0].perm
}

fn addresses(routes: &Routes, topic: &str) -> Vec<(i64, String)> {
    let route = routes.of_topic(topic).unwrap();
    route.broker_datas[0].broker_addrs.iter().map(|(id, at)| (*id, at.to_string())).collect()
}

#[test]
fn a_route_names_brokers_and_queues() {
    let routes = Routes::default();
    assert_eq!(routes.of_topic("t"), None);
    master(&["t"], 0).to(&routes).unwrap();
    Says { name: "b", address: "10.0.0.9:1", connection: 9, ..master(&["t", "u"], 0) }
        .to(&routes)
        .unwrap();
    let route = routes.of_topic("t").unwrap();
    let names: Vec<&str> = route.queue_datas.iter().map(|queues| &*queues.broker_name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(route.broker_datas.len(), 2);
    assert_eq!(&*route.broker_datas[0].cluster, "c");
    let queues = &route.queue_datas[0];
    assert_eq!((queues.perm, queues.read_queue_nums, queues.write_queue_nums), (6, 4, 4));
    assert_eq!(routes.of_topic("u").unwrap().queue_datas.len(), 1);
}

#[test]
fn slaves_learn_their_master_and_bring_no_topics() {
    let routes = Routes::default();
    assert_eq!(slave().to(&routes), Ok(Registered::default()));
    assert!(!has(&routes, "t"));
    assert_eq!(master(&["t"], 0).to(&routes), Ok(Registered::default()));
    let told = slave().to(&routes).unwrap();
    assert_eq!(told.master_address.as_deref(), Some("10.0.0.1:10911"));
    assert_eq!(told.master_ha_address.as_deref(), Some("10.0.0.1:10912"));
    assert_eq!(
        addresses(&routes, "t"),
        [(0, "10.0.0.1:10911".to_owned()), (1, "10.0.0.2:10911".to_owned())]
    );
}

#[test]
fn a_process_that_comes_under_another_id_leaves_the_old_one() {
    let routes = Routes::default();
    master(&["t"], 0).to(&routes).unwrap();
    slave().to(&routes).unwrap();
    routes.disconnected(1);
    Says { id: 0, ..slave() }.to(&routes).unwrap();
    assert_eq!(addresses(&routes, "t"), [(0, "10.0.0.2:10911".to_owned())]);
}

#[test]
fn the_route_outlives_the_master_while_a_slave_is_there() {
    let routes = Routes::default();
    master(&["t"], 0).to(&routes).unwrap();
    slave().to(&routes).unwrap();
    routes.disconnected(1);
    assert_eq!(addresses(&routes, "t"), [(1, "10.0.0.2:10911".to_owned())]);
    routes.disconnected(2);
    assert!(!has(&routes, "t"));
    assert!(routes.clusters().broker_addr_table.is_empty());
    assert!(routes.topics().topic_list.is_empty());
}

#[test]
fn only_the_connection_of_the_last_registration_counts() {
    let routes = Routes::default();
    master(&["t"], 0).to(&routes).unwrap();
    Says { connection: 7, ..master(&["t"], 0) }.to(&routes).unwrap();
    routes.disconnected(1);
    assert!(has(&routes, "t"), "the broker has connected anew");
    routes.disconnected(7);
    assert!(!has(&routes, "t"));
}

#[test]
fn an_orderly_leave_takes_out_that_process_alone() {
    let routes = Routes::default();
    master(&["t"], 0).to(&routes).unwrap();
    slave().to(&routes).unwrap();
    let slave = MemberKey { broker_name: "a", address: "10.0.0.2:10911" };
    routes.unregister(slave, 0);
    routes.unregister(MemberKey { broker_name: "b", ..slave }, 1);
    assert_eq!(addresses(&routes, "t").len(), 2);
    routes.unregister(slave, 1);
    assert_eq!(addresses(&routes, "t"), [(0, "10.0.0.1:10911".to_owned())]);
}

#[test]
fn silence_ends_a_registration() {
    let routes = Routes::default();
    let start = Instant::now();
    master(&["t"], 0).at(&routes, start).unwrap();
    slave().at(&routes, start + Duration::from_secs(60)).unwrap();
    let key = MemberKey { broker_name: "a", address: "10.0.0.1:10911" };
    assert!(routes.expire(start + Duration::from_secs(120)).is_empty());
    routes.heard(key, start + Duration::from_secs(100));
    assert_eq!(routes.expire(start + Duration::from_secs(181)), [2]);
    assert!(routes.expire(start + Duration::from_secs(220)).is_empty());
    assert_eq!(routes.expire(start + Duration::from_secs(221)), [1]);
    assert!(!has(&routes, "t"));
}

#[test]
fn an_older_table_of_another_connection_is_refused() {
    let routes = Routes::default();
    master(&["t"], 5).to(&routes).unwrap();
    let older = Says { connection: 9, address: "10.0.0.5:10911", ..master(&["old"], 4) };
    assert!(matches!(older.to(&routes), Err(RegisterError::Stale { .. })));
    // Many changes of a process before count less than a later time.
    let mut busy = Says { connection: 9, ..master(&["old"], 4) };
    busy.topics.data_version.counter = 500;
    assert!(matches!(busy.to(&routes), Err(RegisterError::Stale { .. })));
    assert!(!has(&routes, "old"));
    assert_eq!(addresses(&routes, "t"), [(0, "10.0.0.1:10911".to_owned())]);
    // The same table from another place is the same broker, moved.
    Says { connection: 9, address: "10.0.0.5:10911", ..master(&["t"], 5) }.to(&routes).unwrap();
    assert_eq!(addresses(&routes, "t"), [(0, "10.0.0.5:10911".to_owned())]);
    // Once it is gone, an older one is the best there is.
    routes.disconnected(9);
    older.to(&routes).unwrap();
    assert!(has(&routes, "old"));
}

#[test]
fn an_overtaken_table_of_one_connection_is_refused_but_shows_life() {
    let routes = Routes::default();
    let start = Instant::now();
    master(&["t", "new"], 5).at(&routes, start).unwrap();
    let late = master(&["t"], 4).at(&routes, start + Duration::from_secs(100));
    assert!(matches!(late, Err(RegisterError::Stale { .. })));
    assert!(has(&routes, "new"));
    assert!(routes.expire(start + Duration::from_secs(200)).is_empty());
    // The broker's clock was set back, but it counts on.
    let mut set_back = master(&["t", "newer"], 6);
    set_back.topics.data_version.timestamp = 10;
    set_back.to(&routes).unwrap();
    assert!(has(&routes, "newer") && !has(&routes, "new"));
}

#[test]
fn a_table_without_a_version_is_always_taken() {
    let routes = Routes::default();
    let unversioned = |topics: &[&str]| {
        let mut says = master(topics, 0);
        says.topics.data_version = DataVersion::default();
        says
    };
    unversioned(&["t"]).to(&routes).unwrap();
    unversioned(&["u"]).to(&routes).unwrap();
    assert!(!has(&routes, "t") && has(&routes, "u"));
}

#[test]
fn topics_absent_from_a_newer_full_table_are_gone() {
    let routes = Routes::default();
    master(&["t", "u"], 1).to(&routes).unwrap();
    Says { name: "b", address: "10.0.0.9:1", connection: 9, ..master(&["t", "u"], 1) }
        .to(&routes)
        .unwrap();
    master(&["u"], 2).to(&routes).unwrap();
    let route = routes.of_topic("t").unwrap();
    assert_eq!(route.queue_datas.len(), 1);
    assert_eq!(&*route.queue_datas[0].broker_name, "b");
    assert_eq!(routes.of_topic("u").unwrap().queue_datas.len(), 2);
}

#[test]
fn an_increment_adds_and_changes_but_removes_nothing() {
    let routes = Routes::default();
    master(&["t"], 1).to(&routes).unwrap();
    master(&["u"], 2).increment().to(&routes).unwrap();
    assert!(has(&routes, "t") && has(&routes, "u"));
    master(&[], 3).with("t", 4).increment().to(&routes).unwrap();
    assert_eq!(perm_of(&routes, "t"), 4);
}

#[test]
fn a_full_table_makes_up_for_a_lost_increment() {
    let routes = Routes::default();
    master(&["t"], 1).to(&routes).unwrap();
    // The increment of version 2 got lost, that of version 3 came.
    master(&["v"], 3).increment().to(&routes).unwrap();
    master(&["t", "u", "v"], 3).to(&routes).unwrap();
    assert!(has(&routes, "u"));
}

#[test]
fn permissions_may_change_without_a_new_version() {
    let routes = Routes::default();
    master(&["t"], 1).to(&routes).unwrap();
    // The broker's own permission was taken away: it masks every topic's.
    master(&[], 1).with("t", 4).to(&routes).unwrap();
    assert_eq!(perm_of(&routes, "t"), 4);
    master(&[], 1).with("t", 6).increment().to(&routes).unwrap();
    assert_eq!(perm_of(&routes, "t"), 6);
}

#[test]
fn a_split_table_removes_nothing() {
    let routes = Routes::default();
    Says { removes_absent: false, ..master(&["t"], 1) }.to(&routes).unwrap();
    Says { removes_absent: false, ..master(&["u"], 2) }.to(&routes).unwrap();
    assert!(has(&routes, "t") && has(&routes, "u"));
}

#[test]
fn a_deleted_topic_stays_away_until_a_broker_changes() {
    let routes = Routes::default();
    master(&["t"], 1).to(&routes).unwrap();
    routes.delete_topic("t");
    routes.delete_topic("unknown");
    assert!(!has(&routes, "t"));
    master(&["t"], 1).to(&routes).unwrap();
    assert!(!has(&routes, "t"), "nothing has changed there");
    master(&["t"], 2).to(&routes).unwrap();
    assert!(has(&routes, "t"));
}

#[test]
fn a_wipe_outlasts_registrations_and_ends_with_what_each_topic_had() {
    let routes = Routes::default();
    master(&["t"], 1).with("read-only", 4).with("inherited", 7).to(&routes).unwrap();
    assert_eq!(routes.wipe_write_perm("unknown"), 0);
    assert_eq!(routes.wipe_write_perm("a"), 3, "with the self-test topic, not the read-only one");
    assert_eq!(routes.wipe_write_perm("a"), 0, "it is wiped already");
    assert_eq!(perm_of(&routes, "t"), 4);
    master(&["t", "u"], 2).with("read-only", 4).with("inherited", 7).to(&routes).unwrap();
    // Also over a lost connection.
    routes.disconnected(1);
    master(&["t", "u"], 2).with("read-only", 4).with("inherited", 7).to(&routes).unwrap();
    for (topic, perm) in [("t", 4), ("u", 4), ("read-only", 4), ("inherited", 5)] {
        assert_eq!(perm_of(&routes, topic), perm, "{topic}");
    }
    assert_eq!(routes.add_write_perm("unknown"), 0);
    assert_eq!(routes.add_write_perm("a"), 4);
    assert_eq!(routes.add_write_perm("a"), 0);
    for (topic, perm) in [("t", 6), ("u", 6), ("read-only", 4), ("inherited", 7)] {
        assert_eq!(perm_of(&routes, topic), perm, "{topic}");
    }
}

#[test]
fn a_master_that_left_in_order_comes_back_writable() {
    let routes = Routes::default();
    master(&["t"], 1).to(&routes).unwrap();
    routes.wipe_write_perm("a");
    routes.unregister(MemberKey { broker_name: "a", address: "10.0.0.1:10911" }, 0);
    master(&["t"], 1).to(&routes).unwrap();
    assert_eq!(perm_of(&routes, "t"), 6);
}

#[test]
fn lists_are_sorted_and_told_apart() {
    let routes = Routes::default();
    let mut says = master(&["t", "b"], 1);
    let flagged = |topic: &str, flag| {
        Arc::new(TopicConfig { topic_sys_flag: flag, ..TopicConfig::new(topic, 1) })
    };
    for (topic, flag) in [("unit", 1), ("both", 3), ("sub", 2)] {
        says.topics.topic_config_table.insert(topic.into(), flagged(topic, flag));
    }
    says.to(&routes).unwrap();
    let texts = |list: TopicList| -> Vec<String> {
        list.topic_list.iter().map(ToString::to_string).collect()
    };
    assert_eq!(texts(routes.topics()), ["SELF_TEST_TOPIC", "b", "both", "sub", "t", "unit"]);
    assert_eq!(texts(routes.topics_of_cluster("c")), texts(routes.topics()));
    assert_eq!(texts(routes.topics_of_cluster("d")), Vec::<String>::new());
    assert_eq!(texts(routes.unit_topics()), ["both", "unit"]);
    assert_eq!(texts(routes.unit_sub_topics()), ["both", "sub"]);
    assert_eq!(texts(routes.unit_sub_ununit_topics()), ["sub"]);
    let system = routes.system_topics();
    assert_eq!(system.broker_addr.as_deref(), Some("10.0.0.1:10911"));
    assert_eq!(texts(system), ["a", "c"]);
}

#[test]
fn versions_are_told_by_address() {
    let routes = Routes::default();
    let key = MemberKey { broker_name: "a", address: "10.0.0.1:10911" };
    assert_eq!(routes.version_of(key), None);
    master(&["t"], 3).to(&routes).unwrap();
    assert_eq!(routes.version_of(key).unwrap().counter, 3);
    assert_eq!(routes.version_of(MemberKey { address: "10.0.0.1:1", ..key }), None);
}

#[test]
fn names_that_are_missing_or_too_long_are_refused() {
    let routes = Routes::default();
    for (says, field) in [
        (Says { name: " ", ..master(&[], 1) }, "brokerName"),
        (Says { address: "", ..master(&[], 1) }, "brokerAddr"),
        (Says { id: -1, ..master(&[], 1) }, "brokerId"),
    ] {
        assert_eq!(says.to(&routes), Err(RegisterError::Field(field)));
    }
    let long = "x".repeat(256);
    assert!(matches!(master(&[&long], 1).to(&routes), Err(RegisterError::Topic(_))));
    assert!(matches!(master(&[""], 1).to(&routes), Err(RegisterError::Topic(_))));
    assert!(routes.clusters().broker_addr_table.is_empty());
}

#[test]
fn members_of_one_name_are_bounded() {
    let routes = Routes::default();
    let address = |id: i64| Box::leak(format!("10.0.0.1:{id}").into_boxed_str());
    for id in 0..MEMBERS_MAX as i64 {
        Says { id, address: address(id), ..master(&[], 1) }.to(&routes).unwrap();
    }
    let one_more = Says { id: 64, address: address(64), ..master(&[], 1) };
    assert!(matches!(one_more.to(&routes), Err(RegisterError::Full(_))));
}
