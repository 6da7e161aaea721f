//! The name server behind its port: brokers and clients as sockets, the clock in the test's hand.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod load;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::config::NameServerConfig;
use broker::nameserver::NameServer;
use broker::net::{Limits, Listener, Serving};
use broker_client::{Connection, ConnectionOptions, Reply};
use broker_protocol::body::{
    ClusterInfo, DataVersion, KvTable, RegisterBroker, TopicConfig, TopicList, TopicRouteData,
};
use broker_protocol::code::{request, response};
use broker_protocol::frame::{RequestHead, Serialize, encode_request};
use broker_protocol::header::NoHeader;
use broker_protocol::request::{name_server as header, topic};
use broker_protocol::{name, record, version};
use broker_store::env::{self, Clock};
use parking_lot::Mutex;
use tempfile::TempDir;

/// A clock that stands still until it is moved.
#[derive(Debug)]
struct TestClock(Mutex<Instant>);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        0
    }

    fn instant(&self) -> Instant {
        *self.0.lock()
    }
}

/// A name server on a free port.
struct Server {
    role: Arc<NameServer>,
    serving: Serving,
    clock: Arc<TestClock>,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let config = NameServerConfig {
            kv_config_path: folder.join("kvConfig.json").to_string_lossy().into_owned(),
            ..NameServerConfig::default()
        };
        let clock = Arc::new(TestClock(Mutex::new(Instant::now())));
        let role = NameServer::new(config, env::os().files, Arc::clone(&clock) as Arc<dyn Clock>);
        let role = Arc::new(role.unwrap());
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), Limits::default()).unwrap();
        let serving = listener.serve(Arc::clone(&role));
        Server { role, serving, clock }
    }

    fn advance(&self, time: Duration) {
        *self.clock.0.lock() += time;
        self.role.expire();
    }

    async fn connect(&self) -> Connection {
        self.connect_as(version::V4_9_3, Serialize::Json).await
    }

    async fn connect_as(&self, version: i32, serialize: Serialize) -> Connection {
        let answer_within = Duration::from_secs(30);
        let options =
            ConnectionOptions { version, serialize, answer_within, ..ConnectionOptions::default() };
        Connection::connect(&self.serving.address().to_string(), options).await.unwrap()
    }
}

/// What a master of broker `a` says: a full table of these topics.
fn body_of(topics: &[&str], counter: i64) -> RegisterBroker {
    let mut body = RegisterBroker::default();
    let configs = &mut body.topic_config_serialize_wrapper;
    configs.data_version = DataVersion { counter, state_version: 0, timestamp: 1_000 + counter };
    for topic in topics.iter().copied().chain([name::SELF_TEST_TOPIC]) {
        let config = TopicConfig::new(topic, 4);
        configs.topic_config_table.insert(topic.into(), Arc::new(config));
    }
    body
}

fn header_of(body: &[u8]) -> header::RegisterBroker<'static> {
    header::RegisterBroker {
        broker_name: "a".into(),
        broker_addr: "10.0.0.1:10911".into(),
        cluster_name: "c".into(),
        ha_server_addr: "10.0.0.1:10912".into(),
        broker_id: 0,
        compressed: false,
        body_crc32: record::crc(body) as i32,
        enable_acting_master: None,
        heartbeat_timeout_millis: None,
        zone_name: None,
    }
}

fn version_key() -> header::QueryDataVersion<'static> {
    header::QueryDataVersion {
        broker_name: "a".into(),
        broker_addr: "10.0.0.1:10911".into(),
        cluster_name: "c".into(),
        broker_id: 0,
    }
}

async fn register(connection: &Connection, topics: &[&str], counter: i64) -> Reply {
    let body = body_of(topics, counter).encode().unwrap();
    connection.call(request::REGISTER_BROKER, &header_of(&body), &body).await.unwrap()
}

async fn route(connection: &Connection, topic: &str) -> Reply {
    let header = header::GetRouteInfo { topic: topic.into(), accept_standard_json_only: None };
    connection.call(request::GET_ROUTEINFO_BY_TOPIC, &header, &[]).await.unwrap()
}

/// Asks until the answer is as wanted; closing a connection is noticed in its own time.
async fn until_route(connection: &Connection, topic: &str, is_wanted: impl Fn(&Reply) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_wanted(&route(connection, topic).await) {
        assert!(Instant::now() < deadline, "the route of {topic} stays as it is");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_topic_has_a_route_in_the_form_that_the_client_reads() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let broker = server.connect().await;
    let answer = register(&broker, &["t"], 1).await;
    assert_eq!(answer.code, response::SUCCESS);
    assert!(answer.body.is_empty());

    let fastjson = route(&server.connect().await, "t").await;
    assert_eq!(
        std::str::from_utf8(&fastjson.body).unwrap(),
        "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"10.0.0.1:10911\"},\"brokerName\":\"a\",\"cluster\":\"c\"}],\
         \"filterServerTable\":{},\"queueDatas\":[{\"brokerName\":\"a\",\"perm\":6,\"readQueueNums\":4,\
         \"topicSysFlag\":0,\"writeQueueNums\":4}]}"
    );
    let newer = server.connect_as(version::V4_9_4, Serialize::Binary).await;
    let standard = route(&newer, "t").await;
    assert!(std::str::from_utf8(&standard.body).unwrap().contains("{\"0\":\"10.0.0.1:10911\"}"));
    let header = header::GetRouteInfo { topic: "t".into(), accept_standard_json_only: Some(true) };
    let asked = broker.call(request::GET_ROUTEINFO_BY_TOPIC, &header, &[]).await.unwrap();
    assert_eq!(asked.body, standard.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_topics_and_codes_are_answered() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let client = server.connect().await;
    let unknown = route(&client, "nowhere").await;
    assert_eq!(unknown.code, response::TOPIC_NOT_EXIST);
    assert_eq!(
        unknown.remark.as_deref(),
        Some(
            "No topic route info in name server for the topic: nowhere\n\
             See http://rocketmq.apache.org/docs/faq/ for further details."
        )
    );
    let unknown = client.call(9_999, &NoHeader, &[]).await.unwrap();
    assert_eq!(unknown.code, response::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(unknown.remark.as_deref(), Some(" request type 9999 not supported"));
    let headless = client.call(request::GET_ROUTEINFO_BY_TOPIC, &NoHeader, &[]).await.unwrap();
    assert_eq!(headless.code, response::SYSTEM_ERROR);
    assert!(headless.remark.unwrap().contains("topic"));
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_registrations_are_refused_and_the_connection_lives() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let broker = server.connect().await;
    let body = body_of(&["t"], 1).encode().unwrap();
    let wrong_crc = header::RegisterBroker { body_crc32: 1, ..header_of(&body) };
    let refused = broker.call(request::REGISTER_BROKER, &wrong_crc, &body).await.unwrap();
    assert_eq!((refused.code, refused.remark.as_deref()), (1, Some("crc32 not match")));
    let not_packed = header::RegisterBroker { compressed: true, body_crc32: 0, ..header_of(&body) };
    let refused = broker.call(request::REGISTER_BROKER, &not_packed, &body).await.unwrap();
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    let refused = broker.call(request::REGISTER_BROKER, &header_of(b"{"), b"{").await.unwrap();
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert_eq!(route(&broker, "t").await.code, response::TOPIC_NOT_EXIST);
    // Nulls, missing and unknown fields are none of these.
    let odd = br#"{"filterServerList":null,"more":[{}],"topicConfigSerializeWrapper":{"dataVersion":null,"topicConfigTable":{"t":{"topicName":"t"},"u":null}}}"#;
    let taken = broker.call(request::REGISTER_BROKER, &header_of(odd), odd).await.unwrap();
    assert_eq!(taken.code, response::SUCCESS);
    assert_eq!(route(&broker, "t").await.code, response::SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packed_registration_is_taken_and_a_slave_learns_its_master() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let (master, slave) = (server.connect().await, server.connect().await);
    let body = body_of(&["t"], 1).encode_compressed().unwrap();
    let packed = header::RegisterBroker { compressed: true, ..header_of(&body) };
    let taken = master.call(request::REGISTER_BROKER, &packed, &body).await.unwrap();
    assert_eq!(taken.code, response::SUCCESS);
    let of_slave = header::RegisterBroker {
        broker_id: 1,
        broker_addr: "10.0.0.2:10911".into(),
        ..packed.clone()
    };
    let mut told = slave.call(request::REGISTER_BROKER, &of_slave, &body).await.unwrap();
    let told: header::RegisterBrokerResponse<'_> = told.header().unwrap();
    assert_eq!(told.master_addr.as_deref(), Some("10.0.0.1:10911"));
    assert_eq!(told.ha_server_addr.as_deref(), Some("10.0.0.1:10912"));
    let cluster: ClusterInfo = master
        .call(request::GET_BROKER_CLUSTER_INFO, &NoHeader, &[])
        .await
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(cluster.broker_addr_table["a"].broker_addrs.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_connection_takes_its_broker_out() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let (broker, client) = (server.connect().await, server.connect().await);
    register(&broker, &["t"], 1).await;
    assert_eq!(route(&client, "t").await.code, response::SUCCESS);
    broker.close();
    until_route(&client, "t", |answer| answer.code == response::TOPIC_NOT_EXIST).await;
    // A broker that closes while its registration waits leaves nothing behind.
    for counter in 0..20 {
        let mut socket = std::net::TcpStream::connect(server.serving.address()).unwrap();
        let body = body_of(&["t"], counter).encode().unwrap();
        let head = RequestHead {
            code: request::REGISTER_BROKER,
            opaque: 1,
            oneway: true,
            serialize: Serialize::Json,
            language: version::Language::Java,
            version: version::V4_9_3,
            short_names: false,
        };
        let mut frame = Vec::new();
        encode_request(&mut frame, &head, &header_of(&body), body.len());
        frame.extend_from_slice(&body);
        socket.write_all(&frame).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.serving.connections() > 1 {
        assert!(Instant::now() < deadline, "connections stay open");
        tokio::task::yield_now().await;
    }
    // This question waits its turn behind all registrations.
    client.call(request::QUERY_DATA_VERSION, &version_key(), b"{}").await.unwrap();
    until_route(&client, "t", |answer| answer.code == response::TOPIC_NOT_EXIST).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_broker_is_out_after_its_time_and_its_connection_closed() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let (broker, client) = (server.connect().await, server.connect().await);
    register(&broker, &["t"], 1).await;
    server.advance(Duration::from_secs(120));
    assert_eq!(route(&client, "t").await.code, response::SUCCESS);
    // A question for the version is a sign of life when nothing has changed.
    let asked = version_key();
    let same = br#"{"counter":1,"timestamp":1001}"#;
    let mut answer = broker.call(request::QUERY_DATA_VERSION, &asked, same).await.unwrap();
    assert!(!answer.header::<header::QueryDataVersionResponse>().unwrap().changed);
    assert_eq!(answer.json::<DataVersion>().unwrap().counter, 1);
    server.advance(Duration::from_secs(119));
    assert_eq!(route(&client, "t").await.code, response::SUCCESS);
    let other = br#"{"counter":2,"timestamp":1001}"#;
    let mut answer = broker.call(request::QUERY_DATA_VERSION, &asked, other).await.unwrap();
    assert!(answer.header::<header::QueryDataVersionResponse>().unwrap().changed);
    server.advance(Duration::from_secs(2));
    assert_eq!(route(&client, "t").await.code, response::TOPIC_NOT_EXIST);
    broker.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_registration_is_refused() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let (broker, old) = (server.connect().await, server.connect().await);
    register(&broker, &["t"], 5).await;
    let refused = register(&old, &["gone"], 4).await;
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert!(refused.remark.unwrap().contains("newer topics"));
    assert_eq!(route(&old, "gone").await.code, response::TOPIC_NOT_EXIST);
    assert_eq!(route(&old, "t").await.code, response::SUCCESS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_deleted_on_one_broker_leaves_the_route_at_its_next_registration() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let (a, b) = (server.connect().await, server.connect().await);
    register(&a, &["t"], 1).await;
    let body = body_of(&["t"], 1).encode().unwrap();
    let of_b = header::RegisterBroker {
        broker_name: "b".into(),
        broker_addr: "10.0.0.9:10911".into(),
        ..header_of(&body)
    };
    b.call(request::REGISTER_BROKER, &of_b, &body).await.unwrap();
    register(&a, &[], 2).await;
    let left: TopicRouteData = route(&a, "t").await.json().unwrap();
    assert_eq!(left.queue_datas.len(), 1);
    assert_eq!(&*left.queue_datas[0].broker_name, "b");
    assert_eq!(left.broker_datas.len(), 1);
    // The name server itself forgets on demand.
    let header = topic::DeleteTopicInNameServer { topic: "t".into(), cluster_name: None };
    a.call(request::DELETE_TOPIC_IN_NAMESRV, &header, &[]).await.unwrap();
    assert_eq!(route(&a, "t").await.code, response::TOPIC_NOT_EXIST);
}

#[tokio::test(flavor = "multi_thread")]
async fn write_permission_is_wiped_and_given_back() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let broker = server.connect().await;
    register(&broker, &["t"], 1).await;
    let name = header::BrokerNameOf { broker_name: "a".into() };
    let mut wiped = broker.call(request::WIPE_WRITE_PERM_OF_BROKER, &name, &[]).await.unwrap();
    assert_eq!(wiped.header::<header::WipeWritePermResponse>().unwrap().wipe_topic_count, 2);
    register(&broker, &["t", "u"], 2).await;
    let perm = async |topic| {
        let route: TopicRouteData = route(&broker, topic).await.json().unwrap();
        route.queue_datas[0].perm
    };
    assert_eq!((perm("t").await, perm("u").await), (4, 4));
    let mut added = broker.call(request::ADD_WRITE_PERM_OF_BROKER, &name, &[]).await.unwrap();
    assert_eq!(added.header::<header::AddWritePermResponse>().unwrap().add_topic_count, 3);
    assert_eq!((perm("t").await, perm("u").await), (6, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn key_values_survive_a_restart_and_order_topics() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let client = server.connect().await;
    let (space, key) = ("ORDER_TOPIC_CONFIG", "t");
    let kv_key = || header::KvKey { namespace: space.into(), key: key.into() };
    let missing = client.call(request::GET_KV_CONFIG, &kv_key(), &[]).await.unwrap();
    assert_eq!(missing.code, response::QUERY_NOT_FOUND);
    let put = header::PutKvConfig { namespace: space.into(), key: key.into(), value: "a:4".into() };
    assert_eq!(client.call(request::PUT_KV_CONFIG, &put, &[]).await.unwrap().code, 0);
    drop((client, server));

    let server = Server::start(folder.path());
    let client = server.connect().await;
    let mut found = client.call(request::GET_KV_CONFIG, &kv_key(), &[]).await.unwrap();
    let found: header::GetKvConfigResponse<'_> = found.header().unwrap();
    assert_eq!(found.value.as_deref(), Some("a:4"));
    // A registering broker is told; a route only says so when that is switched on.
    let told: KvTable = register(&client, &["t"], 1).await.json().unwrap();
    assert_eq!(told.table["t"], "a:4");
    assert_eq!(route(&client, "t").await.json::<TopicRouteData>().unwrap().order_topic_conf, None);
    let update = b"orderMessageEnable=true";
    let done = client.call(request::UPDATE_NAMESRV_CONFIG, &NoHeader, update).await.unwrap();
    assert_eq!(done.code, response::SUCCESS);
    let ordered: TopicRouteData = route(&client, "t").await.json().unwrap();
    assert_eq!(ordered.order_topic_conf.as_deref(), Some("a:4"));
    let deleted = client.call(request::DELETE_KV_CONFIG, &kv_key(), &[]).await.unwrap();
    assert_eq!(deleted.code, response::SUCCESS);
    let list = header::GetKvList { namespace: space.into() };
    let list = client.call(request::GET_KVLIST_BY_NAMESPACE, &list, &[]).await.unwrap();
    assert!(list.json::<KvTable>().unwrap().table.is_empty());
    let none = header::GetKvList { namespace: "none".into() };
    let none = client.call(request::GET_KVLIST_BY_NAMESPACE, &none, &[]).await.unwrap();
    assert_eq!(none.code, response::QUERY_NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_name_files_are_refused_and_no_value_adds_a_key() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let client = server.connect().await;
    let update = async |body: String| {
        client.call(request::UPDATE_NAMESRV_CONFIG, &NoHeader, body.as_bytes()).await.unwrap()
    };
    let show = async || {
        let shown = client.call(request::GET_NAMESRV_CONFIG, &NoHeader, &[]).await.unwrap();
        String::from_utf8(shown.body.to_vec()).unwrap()
    };
    let before = show().await;
    assert!(before.contains("orderMessageEnable=false\n") && before.contains("listenPort=9876\n"));
    let target = folder.path().join("p");
    for key in ["configStorePath", "kvConfigPath", "rocketmqHome", "configBlackList"] {
        let refused = update(format!("orderMessageEnable=true\n{key}={}", target.display())).await;
        assert_eq!(refused.code, response::NO_PERMISSION, "{key}");
    }
    let refused = update("listenPort=1\norderMessageEnable=true".to_owned()).await;
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert_eq!(update("orderMessageEnable=perhaps".to_owned()).await.code, response::SYSTEM_ERROR);
    assert_eq!(update("unknownKey=a\\nlistenPort=1".to_owned()).await.code, response::SUCCESS);
    assert_eq!(show().await, before, "all or nothing, and nothing unknown");
    assert!(!target.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_topics_are_served() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let broker = server.connect().await;
    register(&broker, &["t"], 1).await;
    let cluster = header::GetTopicsByCluster { cluster: "c".into() };
    let of_cluster = broker.call(request::GET_TOPICS_BY_CLUSTER, &cluster, &[]).await.unwrap();
    let texts = |reply: Reply| -> Vec<String> {
        let list: TopicList = reply.json().unwrap();
        list.topic_list.iter().map(ToString::to_string).collect()
    };
    assert_eq!(texts(of_cluster), ["SELF_TEST_TOPIC", "t"]);
    for (code, expected) in [
        (request::GET_ALL_TOPIC_LIST_FROM_NAMESERVER, &["SELF_TEST_TOPIC", "t"][..]),
        (request::GET_SYSTEM_TOPIC_LIST_FROM_NS, &["a", "c"]),
        (request::GET_UNIT_TOPIC_LIST, &[]),
        (request::GET_HAS_UNIT_SUB_TOPIC_LIST, &[]),
        (request::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, &[]),
    ] {
        let answer = broker.call(code, &NoHeader, &[]).await.unwrap();
        assert_eq!(texts(answer), expected, "{code}");
    }
    let leaving = header::UnregisterBroker {
        broker_name: "a".into(),
        broker_addr: "10.0.0.1:10911".into(),
        cluster_name: "c".into(),
        broker_id: 0,
    };
    let left = broker.call(request::UNREGISTER_BROKER, &leaving, &[]).await.unwrap();
    assert_eq!(left.code, response::SUCCESS);
    assert_eq!(route(&broker, "t").await.code, response::TOPIC_NOT_EXIST);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_value_file_of_apache_is_read() {
    let folder = TempDir::new().unwrap();
    let text = "{\n\t\"configTable\":{\n\t\t\"ns\":{\n\t\t\t\"k\":\"v\"\n\t\t}\n\t}\n}";
    std::fs::write(folder.path().join("kvConfig.json"), text).unwrap();
    let server = Server::start(folder.path());
    let client = server.connect().await;
    let key = header::KvKey { namespace: "ns".into(), key: "k".into() };
    let mut found = client.call(request::GET_KV_CONFIG, &key, &[]).await.unwrap();
    let found: header::GetKvConfigResponse<'_> = found.header().unwrap();
    assert_eq!(found.value.as_deref(), Some("v"));
}
