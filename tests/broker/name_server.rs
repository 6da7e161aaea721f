//! Brokers and name servers together: routes follow what brokers hold, survive restarts, and stay
//! quick with very many topics.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use broker_client::{Client, ClientError, Destination, Message};
use broker_protocol::body::{TopicConfig, TopicConfigs, TopicRouteData};
use broker_protocol::code::{request, response};
use broker_protocol::frame::{Frame, ReplyHead, encode_response, frame_size};
use broker_protocol::header::EmptyHeader;
use system_tests::cluster::{Broker, BrokerOptions, Cluster, Maker, NameServer};

use crate::support::{client_of, member, producer, refusal, small, until};

/// Registered again at least so often, the shortest that is allowed.
const PERIOD: (&str, &str) = ("registerNameServerPeriod", "10000");

fn named(name: &str, settings: &[(&str, &str)]) -> BrokerOptions {
    BrokerOptions { name: name.to_owned(), ..small(settings) }
}

fn brokers_of(route: Option<&TopicRouteData>) -> Vec<String> {
    let queues = route.map(|route| route.queue_datas.as_slice()).unwrap_or_default();
    queues.iter().map(|queue| queue.broker_name.to_string()).collect()
}

async fn make_topic(client: &Client, broker: &Broker, topic: &str, perm: i32) {
    let mut config = TopicConfig::new(topic, 2);
    config.perm = perm;
    client.admin().update_topic(&broker.address(), &config).await.unwrap();
}

/// Waits until the route names exactly these brokers.
async fn routed(client: &Client, topic: &str, expected: &[&str]) {
    until(&format!("{topic} is on {expected:?}"), async || {
        let route = client.admin().topic_route(topic).await.unwrap();
        (brokers_of(route.as_ref()) == expected).then_some(())
    })
    .await;
}

/// The permission in the route of a topic by broker name.
async fn permissions(client: &Client, topic: &str) -> BTreeMap<String, i32> {
    let route = client.admin().topic_route(topic).await.unwrap().unwrap_or_default();
    route.queue_datas.iter().map(|queue| (queue.broker_name.to_string(), queue.perm)).collect()
}

async fn send_to(client: &Client, broker: &Broker, topic: &str) -> Result<(), ClientError> {
    let to = Destination::new(broker.address(), 0);
    producer(client).send_to(&to, &Message::new(topic, "x")).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_deleted_on_one_broker_leaves_its_route() {
    let strict = [PERIOD, ("autoCreateTopicEnable", "false")];
    let cluster =
        Cluster::start(Maker::Tandem, vec![named("broker-a", &strict), named("broker-b", &strict)])
            .unwrap();
    let client = client_of(&cluster.address());
    let [a, b] = cluster.brokers.as_slice() else { unreachable!() };
    for broker in [a, b] {
        make_topic(&client, broker, "Shared", 6).await;
        make_topic(&client, broker, "Other", 6).await;
    }
    routed(&client, "Shared", &["broker-a", "broker-b"]).await;
    send_to(&client, a, "Shared").await.unwrap();

    client.admin().delete_topic(&a.address(), "Shared").await.unwrap();
    let deleted = Instant::now();
    routed(&client, "Shared", &["broker-b"]).await;
    assert!(deleted.elapsed() < Duration::from_secs(31));
    let (code, remark) = refusal(send_to(&client, a, "Shared").await);
    assert_eq!(code, response::TOPIC_NOT_EXIST, "{remark}");
    send_to(&client, b, "Shared").await.unwrap();
    // Another change on that broker does not bring it back.
    make_topic(&client, a, "Later", 6).await;
    routed(&client, "Later", &["broker-a"]).await;
    routed(&client, "Other", &["broker-a", "broker-b"]).await;
    routed(&client, "Shared", &["broker-b"]).await;

    client.admin().delete_topic(&b.address(), "Shared").await.unwrap();
    until("no route is left", async || {
        client.admin().topic_route("Shared").await.unwrap().is_none().then_some(())
    })
    .await;
    let topics = client.admin().topics().await.unwrap().topic_list;
    assert!(!topics.iter().any(|topic| &**topic == "Shared"), "{topics:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_server_that_comes_back_knows_all_routes_soon() {
    let folder = tempfile::tempdir().unwrap();
    let mut servers = ["one", "two"]
        .map(|name| NameServer::start(Maker::Tandem, &folder.path().join(name)).unwrap());
    let both = format!("{};{}", servers[0].address(), servers[1].address());
    let broker =
        Broker::start(Maker::Tandem, small(&[PERIOD]), &folder.path().join("b"), &both).unwrap();
    let [first, second] = [0, 1].map(|n| client_of(&servers[n].address()));
    make_topic(&first, &broker, "Kept", 6).await;
    routed(&first, "Kept", &["broker-a"]).await;
    routed(&second, "Kept", &["broker-a"]).await;
    let admin = first.admin();
    admin.put_kv(&servers[0].address(), "NAMESPACE", "key", "value").await.unwrap();

    servers[0].kill();
    routed(&second, "Kept", &["broker-a"]).await;
    // Who knows both goes on as if nothing had happened.
    let knows_both = client_of(&both);
    assert!(knows_both.fresh_route("Kept").await.is_ok());
    send_to(&knows_both, &broker, "Kept").await.unwrap();
    servers[0].restart().unwrap();
    let back = Instant::now();
    until("the route is back", async || {
        assert!(second.admin().topic_route("Kept").await.unwrap().is_some());
        assert!(knows_both.fresh_route("Kept").await.is_ok());
        first.admin().topic_route("Kept").await.unwrap()
    })
    .await;
    assert!(back.elapsed() < Duration::from_secs(12), "{:?}", back.elapsed());
    let all = first.admin().topics().await.unwrap().topic_list.len();
    assert_eq!(all, second.admin().topics().await.unwrap().topic_list.len());
    let value = first.admin().kv("NAMESPACE", "key").await.unwrap();
    assert_eq!(value.as_deref(), Some("value"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sends_work_while_every_name_server_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = NameServer::start(Maker::Tandem, &folder.path().join("n")).unwrap();
    let options = small(&[PERIOD]);
    let home = folder.path().join("b");
    let mut broker = Broker::start(Maker::Tandem, options, &home, &server.address()).unwrap();
    let client = client_of(&server.address());
    make_topic(&client, &broker, "Kept", 6).await;
    routed(&client, "Kept", &["broker-a"]).await;
    server.kill();
    for _ in 0..20 {
        let began = Instant::now();
        send_to(&client, &broker, "Kept").await.unwrap();
        send_to(&client, &broker, "MadeMeanwhile").await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
    // It can even start, and stop, without one.
    broker.stop().unwrap();
    broker.restart().unwrap();
    send_to(&client, &broker, "Kept").await.unwrap();
    server.restart().unwrap();
    routed(&client, "MadeMeanwhile", &["broker-a"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_stop_or_die_leave_the_routes_at_once() {
    let mut cluster =
        Cluster::start(Maker::Tandem, vec![named("broker-a", &[]), named("broker-b", &[])])
            .unwrap();
    let client = client_of(&cluster.address());
    for broker in &cluster.brokers {
        make_topic(&client, broker, "Shared", 6).await;
    }
    routed(&client, "Shared", &["broker-a", "broker-b"]).await;
    assert!(cluster.brokers[0].stop().unwrap().success());
    let route = client.admin().topic_route("Shared").await.unwrap();
    assert_eq!(brokers_of(route.as_ref()), ["broker-b"], "unregistered before it ended");
    cluster.brokers[1].kill();
    until("the dead broker is gone", async || {
        client.admin().topic_route("Shared").await.unwrap().is_none().then_some(())
    })
    .await;
    cluster.brokers[1].restart().unwrap();
    routed(&client, "Shared", &["broker-b"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wiped_write_permission_stays_wiped_until_it_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = NameServer::start(Maker::Tandem, &folder.path().join("n")).unwrap();
    let mut brokers = ["broker-a", "broker-b"].map(|name| {
        let home = folder.path().join(name);
        Broker::start(Maker::Tandem, named(name, &[PERIOD]), &home, &server.address()).unwrap()
    });
    let client = client_of(&server.address());
    for broker in &brokers {
        make_topic(&client, broker, "Written", 6).await;
        make_topic(&client, broker, "ReadOnly", 4).await;
    }
    routed(&client, "Written", &["broker-a", "broker-b"]).await;
    routed(&client, "ReadOnly", &["broker-a", "broker-b"]).await;
    let topics = client.admin().topic_configs(&brokers[0].address()).await.unwrap();
    let writable = topics.topic_config_table.values().filter(|topic| topic.perm & 2 != 0).count();

    let admin = client.admin();
    let wiped = admin.wipe_write_permission(&server.address(), "broker-a").await.unwrap();
    assert_eq!(usize::try_from(wiped).unwrap(), writable, "as many as lost the permission");
    let both =
        |a: i32, b: i32| BTreeMap::from([("broker-a".to_owned(), a), ("broker-b".to_owned(), b)]);
    assert_eq!(permissions(&client, "Written").await, both(4, 6));
    let again = admin.wipe_write_permission(&server.address(), "broker-a").await.unwrap();
    assert_eq!(again, 0, "nothing was left to wipe");
    // Registrations, of a new topic and of a new life, do not undo it.
    make_topic(&client, &brokers[0], "New", 6).await;
    routed(&client, "New", &["broker-a"]).await;
    assert_eq!(permissions(&client, "New").await, BTreeMap::from([("broker-a".to_owned(), 4)]));
    assert_eq!(permissions(&client, "Written").await, both(4, 6));
    let producer = producer(&client);
    client.fresh_route("Written").await.unwrap();
    for _ in 0..8 {
        let receipt = producer.send(&Message::new("Written", "x")).await.unwrap();
        assert_eq!(receipt.address, brokers[1].address());
    }
    brokers[0].kill();
    brokers[0].restart().unwrap();
    routed(&client, "Written", &["broker-a", "broker-b"]).await;
    assert_eq!(permissions(&client, "Written").await, both(4, 6), "after the broker's restart");

    let given = admin.add_write_permission(&server.address(), "broker-a").await.unwrap();
    assert_eq!(usize::try_from(given).unwrap(), writable + 1);
    assert_eq!(permissions(&client, "Written").await, both(6, 6));
    assert_eq!(permissions(&client, "New").await, BTreeMap::from([("broker-a".to_owned(), 6)]));
    assert_eq!(permissions(&client, "ReadOnly").await, both(4, 4), "read-only as before");
    let again = admin.add_write_permission(&server.address(), "broker-a").await.unwrap();
    assert_eq!(again, 0);
    let unknown = admin.wipe_write_permission(&server.address(), "nobody").await.unwrap();
    assert_eq!(unknown, 0);
    let topics = client.admin().topic_configs(&brokers[0].address()).await.unwrap();
    assert_eq!(topics.topic_config_table["Written"].perm, 6, "the broker's own setting is its own");
}

/// Makes the file of a broker that has these topics.
fn write_topics(folder: &Path, names: impl Iterator<Item = String>) {
    let mut topics = TopicConfigs::default();
    for name in names {
        let topic = TopicConfig::new(name, 4);
        topics.topic_config_table.insert(Arc::clone(&topic.topic_name), Arc::new(topic));
    }
    topics.data_version.advance(1);
    let config = folder.join("store").join("config");
    std::fs::create_dir_all(&config).unwrap();
    let bytes = broker_protocol::json::to_vec(&topics).unwrap();
    std::fs::write(config.join("topics.json"), bytes).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seventy_thousand_topics_register() {
    const TOPICS: usize = 70_000;
    let long = "a-name-so-long-that-all-of-them-do-not-fit-into-one-frame-uncompressed-";
    let name = |n: usize| format!("{long}{long}{n}")[20..].to_owned();
    let folder = tempfile::tempdir().unwrap();
    let mut server = NameServer::start(Maker::Tandem, &folder.path().join("n")).unwrap();
    let small_home = folder.path().join("b");
    let other = named("broker-b", &[PERIOD]);
    let other = Broker::start(Maker::Tandem, other, &small_home, &server.address()).unwrap();
    let home = folder.path().join("a");
    write_topics(&home, (0..TOPICS).map(name));
    let many = named("broker-a", &[PERIOD]);
    let mut many = Broker::start(Maker::Tandem, many, &home, &server.address()).unwrap();
    let client = client_of(&server.address());
    make_topic(&client, &other, "Few", 6).await;
    for restarted in [false, true] {
        if restarted {
            server.restart().unwrap();
        }
        for n in [0, 1, TOPICS / 2, TOPICS - 1] {
            routed(&client, &name(n), &["broker-a"]).await;
        }
        routed(&client, "Few", &["broker-b"]).await;
        let topics = client.admin().topics().await.unwrap().topic_list;
        let known = topics.iter().filter(|topic| topic.starts_with(&long[20..])).count();
        assert_eq!(known, TOPICS, "restarted: {restarted}");
        let memory = server.process.anonymous_memory().unwrap() >> 20;
        assert!(memory < 200, "the name server uses {memory} MiB");
    }
    // A change still gets through, and the broker serves.
    make_topic(&client, &many, "OneMore", 6).await;
    routed(&client, "OneMore", &["broker-a"]).await;
    send_to(&client, &many, &name(7)).await.unwrap();
    many.stop().unwrap();
    until("the broker is gone", async || {
        client.admin().topic_route(&name(1)).await.unwrap().is_none().then_some(())
    })
    .await;
    routed(&client, "Few", &["broker-b"]).await;
}

/// Answers everything with success, and writes down when a registration of how many bytes came.
struct CountingServer {
    address: String,
    registrations: Arc<Mutex<Vec<usize>>>,
}

impl CountingServer {
    fn start() -> CountingServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let registrations = Arc::new(Mutex::new(Vec::new()));
        let counted = Arc::clone(&registrations);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || serve(stream, &counted));
            }
        });
        CountingServer { address, registrations }
    }
}

fn serve(mut stream: TcpStream, counted: &Mutex<Vec<usize>>) {
    let mut buffer = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    while let Ok(read @ 1..) = stream.read(&mut chunk) {
        buffer.extend_from_slice(&chunk[..read]);
        while let Ok(Some(size)) = frame_size(&buffer)
            && size <= buffer.len()
        {
            let mut bytes: Vec<u8> = buffer.drain(..size).collect();
            let frame = Frame::parse(&mut bytes).unwrap();
            let (code, oneway) = (frame.head.code, frame.head.is_oneway());
            let head = ReplyHead { opaque: frame.head.opaque, serialize: frame.head.serialize };
            if code == request::REGISTER_BROKER {
                counted.lock().unwrap().push(size);
            }
            let mut answer = Vec::new();
            encode_response(&mut answer, &head, response::SUCCESS, None, &EmptyHeader, 0);
            if !oneway && stream.write_all(&answer).is_err() {
                return;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_new_groups_do_not_send_the_whole_table_each() {
    const GROUPS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let server = NameServer::start(Maker::Tandem, &folder.path().join("n")).unwrap();
    let counting = CountingServer::start();
    let home = folder.path().join("a");
    write_topics(&home, (0..20_000).map(|n| format!("one-of-many-topics-{n}")));
    let servers = format!("{};{}", server.address(), counting.address);
    let mut broker = Broker::start(Maker::Tandem, small(&[]), &home, &servers).unwrap();
    let client = client_of(&server.address());
    routed(&client, "one-of-many-topics-19999", &["broker-a"]).await;
    let before = counting.registrations.lock().unwrap().len();
    let cpu = server.process.cpu_time().unwrap();

    let address = broker.address();
    let joining = (0..GROUPS).map(|number| {
        let address = address.clone();
        tokio::spawn(async move {
            let client = crate::support::client();
            let group = format!("joining{number}");
            let consumer = member(&client, &group, "one-of-many-topics-1", "*");
            consumer.heartbeat(&address).await.unwrap();
        })
    });
    let joining: Vec<_> = joining.collect();
    let mut slowest = Duration::ZERO;
    while !joining.iter().all(tokio::task::JoinHandle::is_finished) {
        let asked = Instant::now();
        client.fresh_route("one-of-many-topics-7").await.unwrap();
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for one in joining {
        one.await.unwrap();
    }
    for number in [0, GROUPS / 2, GROUPS - 1] {
        routed(&client, &format!("%RETRY%joining{number}"), &["broker-a"]).await;
    }
    let registered = counting.registrations.lock().unwrap()[before..].to_vec();
    assert!(!registered.is_empty(), "the new topics were never told");
    let bytes: usize = registered.iter().sum();
    assert!(
        registered.len() <= 2 * GROUPS && bytes < 10 << 20,
        "{} registrations of {bytes} bytes",
        registered.len()
    );
    assert!(slowest < Duration::from_millis(500), "a route took {slowest:?}");
    let used = server.process.cpu_time().unwrap() - cpu;
    assert!(used < Duration::from_secs(20), "the name server used {used:?} of CPU time");
    broker.stop().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions_of_a_broker_show_in_its_routes() {
    let cluster = Cluster::start(Maker::Tandem, vec![named("broker-a", &[])]).unwrap();
    let client = client_of(&cluster.address());
    let broker = &cluster.brokers[0];
    make_topic(&client, broker, "Guarded", 6).await;
    routed(&client, "Guarded", &["broker-a"]).await;
    for value in ["4", "2", "6"] {
        let change = [("brokerPermission", value)];
        client.admin().update_broker_config(&broker.address(), &change).await.unwrap();
        let expected = BTreeMap::from([("broker-a".to_owned(), value.parse().unwrap())]);
        until(&format!("the route shows {value}"), async || {
            (permissions(&client, "Guarded").await == expected).then_some(())
        })
        .await;
    }
}
