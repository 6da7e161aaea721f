use std::path::Path;

use broker_protocol::body::{RegisterBroker as Body, TopicConfig};
use broker_protocol::code::{request, response};
use broker_protocol::frame::{Frame, ReplyHead, Serialize, encode_response, frame_size};
use broker_protocol::header::EmptyHeader;
use broker_protocol::request::name_server::RegisterBroker;
use broker_store::env;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::config::BrokerConfig;
use crate::state_file::StateFile;
use crate::topics::BootTopics;

/// Longer than any step takes; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A name server that the test plays by hand.
struct NameServer {
    listener: TcpListener,
}

/// One request that it received.
#[derive(Debug)]
struct Received {
    code: i32,
    opaque: i32,
    topics: Vec<String>,
    broker: String,
}

impl NameServer {
    async fn open() -> NameServer {
        NameServer { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    async fn accept(&self) -> TcpStream {
        timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap().0
    }
}

async fn receive(socket: &mut TcpStream) -> Received {
    timeout(PATIENCE, receive_now(socket)).await.unwrap()
}

async fn receive_now(socket: &mut TcpStream) -> Received {
    let mut bytes = vec![0; 8];
    socket.read_exact(&mut bytes).await.unwrap();
    let size = frame_size(&bytes).unwrap().unwrap();
    bytes.resize(size, 0);
    socket.read_exact(&mut bytes[8..]).await.unwrap();
    let frame = Frame::parse(&mut bytes).unwrap();
    let mut received = Received {
        code: frame.head.code,
        opaque: frame.head.opaque,
        topics: Vec::new(),
        broker: String::new(),
    };
    if frame.head.code == request::REGISTER_BROKER {
        let header: RegisterBroker<'_> = frame.ext.decode().unwrap();
        received.broker = header.broker_addr.to_string();
        let body = Body::decode(frame.body, header.compressed).unwrap();
        let table = body.topic_config_serialize_wrapper.topic_config_table;
        received.topics = table.into_keys().map(|name| name.to_string()).collect();
    }
    received
}

async fn answer(socket: &mut TcpStream, received: &Received, body: &[u8]) {
    let mut bytes = Vec::new();
    let head = ReplyHead { opaque: received.opaque, serialize: Serialize::Json };
    encode_response(&mut bytes, &head, response::SUCCESS, None, &EmptyHeader, body.len());
    bytes.extend_from_slice(body);
    socket.write_all(&bytes).await.unwrap();
}

async fn take(socket: &mut TcpStream) -> Received {
    let received = receive(socket).await;
    answer(socket, &received, &[]).await;
    received
}

fn topics(folder: &Path) -> Arc<Topics> {
    let boot = BootTopics {
        cluster: "c",
        broker: "b",
        default_queues: 8,
        delay_levels: 18,
        auto_create: true,
        cluster_topic: true,
        broker_topic: true,
        trace_topic: None,
    };
    let file = StateFile::new(env::os().files, folder, "topics.json");
    Arc::new(Topics::load(file, &boot).unwrap())
}

struct World {
    _folder: TempDir,
    topics: Arc<Topics>,
    config: Arc<Live>,
    registration: Registration,
}

fn start(name_servers: &str) -> World {
    let folder = TempDir::new().unwrap();
    let topics = topics(folder.path());
    let config = BrokerConfig { namesrv_addr: name_servers.to_owned(), ..BrokerConfig::default() };
    let config = Arc::new(Live::new(config));
    let identity = Identity {
        cluster_name: "c".into(),
        broker_name: "b".into(),
        broker_id: 0,
        broker_address: "10.0.0.1:10911".into(),
        ha_address: "10.0.0.1:10912".into(),
    };
    let pool = Pool::new("test", 1, 10);
    let clock = env::os().clock;
    let (live, table) = (Arc::clone(&config), Arc::clone(&topics));
    let registration = Registration::new(identity, live, table, pool, clock);
    registration.start();
    World { _folder: folder, topics, config, registration }
}

impl World {
    fn update(&self, topic: &str) {
        self.topics.update(TopicConfig::new(topic, 4), 1).unwrap();
    }

    fn registered(&self) -> usize {
        self.registration.status().iter().filter(|status| status.registered).count()
    }

    async fn await_registered(&self, count: usize) {
        let reached = async {
            while self.registered() != count {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap();
    }
}

#[tokio::test]
async fn every_name_server_hears_of_everything_at_start_and_of_the_end() {
    let (one, two) = (NameServer::open().await, NameServer::open().await);
    let world = start(&format!("{};{}", one.address(), two.address()));
    let mut sockets = [one.accept().await, two.accept().await];
    for socket in &mut sockets {
        let received = take(socket).await;
        assert_eq!(received.code, request::REGISTER_BROKER);
        assert_eq!(received.broker, "10.0.0.1:10911");
        assert!(received.topics.contains(&"TBW102".to_owned()), "{:?}", received.topics);
    }
    world.await_registered(2).await;
    let stop = tokio::spawn(async move { world.registration.stop().await });
    for socket in &mut sockets {
        assert_eq!(take(socket).await.code, request::UNREGISTER_BROKER);
    }
    timeout(PATIENCE, stop).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_topic_is_announced_at_once_and_alone() {
    let server = NameServer::open().await;
    let world = start(&server.address().to_string());
    let mut socket = server.accept().await;
    take(&mut socket).await;
    world.update("fresh");
    // The period is half a minute: what comes within seconds was sent because of the change.
    let received = timeout(Duration::from_secs(5), take(&mut socket)).await.unwrap();
    assert_eq!(received.topics, ["fresh"]);
    world.topics.delete("fresh", 2).unwrap();
    let received = timeout(Duration::from_secs(5), take(&mut socket)).await.unwrap();
    assert!(received.topics.len() > 1 && !received.topics.contains(&"fresh".to_owned()));
}

#[tokio::test]
async fn changes_during_a_registration_go_together_in_the_next() {
    let server = NameServer::open().await;
    let world = start(&server.address().to_string());
    let mut socket = server.accept().await;
    let first = receive(&mut socket).await;
    let fresh: Vec<String> = (0..50).map(|n| format!("fresh{n:0>2}")).collect();
    fresh.iter().for_each(|topic| world.update(topic));
    answer(&mut socket, &first, &[]).await;
    assert_eq!(take(&mut socket).await.topics, fresh);
}

#[tokio::test]
async fn a_name_server_that_comes_back_hears_of_everything() {
    let server = NameServer::open().await;
    let world = start(&server.address().to_string());
    let mut socket = server.accept().await;
    take(&mut socket).await;
    world.await_registered(1).await;
    drop(socket);
    let mut socket = server.accept().await;
    assert!(take(&mut socket).await.topics.len() > 1);
    world.await_registered(1).await;
}

#[tokio::test]
async fn a_name_server_that_is_away_at_start_is_tried_until_it_is_there() {
    let server = NameServer::open().await;
    let address = server.address();
    drop(server);
    let world = start(&address.to_string());
    let away = async {
        while world.registration.status().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, away).await.unwrap();
    assert_eq!(world.registered(), 0);
    // A change waits for nobody.
    world.update("meanwhile");
    let server = NameServer { listener: TcpListener::bind(address).await.unwrap() };
    let mut socket = server.accept().await;
    assert!(take(&mut socket).await.topics.contains(&"meanwhile".to_owned()));
    world.await_registered(1).await;
}

#[tokio::test]
async fn another_permission_is_told_at_once() {
    let server = NameServer::open().await;
    let world = start(&server.address().to_string());
    let mut socket = server.accept().await;
    take(&mut socket).await;
    let readable =
        BrokerConfig { broker_permission: 4, ..BrokerConfig::clone(&world.config.broker()) };
    world.config.replace(readable);
    world.registration.register_now();
    let received = timeout(Duration::from_secs(5), take(&mut socket)).await.unwrap();
    assert!(received.topics.len() > 1);
    let masked = world.registration.shared.served.current(&world.topics, 4);
    assert!(masked.perms().all(|perm| perm & 2 == 0));
}

#[tokio::test]
async fn order_marks_of_the_name_server_are_taken_over() {
    let server = NameServer::open().await;
    let world = start(&server.address().to_string());
    world.update("ordered");
    let mut changes = world.topics.changes();
    changes.mark_unchanged();
    let mut socket = server.accept().await;
    let received = receive(&mut socket).await;
    answer(&mut socket, &received, br#"{"table":{"ordered":"b:4"}}"#).await;
    timeout(PATIENCE, changes.wait_for(|_| world.topics.find("ordered").unwrap().config().order))
        .await
        .unwrap()
        .unwrap();
    let tbw = world.topics.find("TBW102").unwrap();
    assert!(!tbw.config().order);
}
