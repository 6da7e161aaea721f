use broker_protocol::body::{ProducerData, SubscriptionGroupConfig};
use broker_protocol::frame::{RequestHead, Serialize, encode_request};
use broker_protocol::limits::GROUP_LEN_MAX;
use broker_protocol::version::Language;
use tempfile::TempDir;

use super::*;
use crate::testing::{state_file, topics};

const JAVA: Sender = Sender { language: Language::Java, version: 399 };

struct World {
    _folder: TempDir,
    clients: Clients,
    groups: Groups,
    topics: Arc<Topics>,
    config: BrokerConfig,
}

impl World {
    fn new() -> World {
        let folder = TempDir::new().unwrap();
        World {
            clients: Clients::new(),
            groups: Groups::load(state_file(folder.path(), "subscriptionGroup.json"), 1).unwrap(),
            topics: topics(folder.path()),
            config: BrokerConfig::default(),
            _folder: folder,
        }
    }

    fn membership(&self) -> Membership<'_> {
        let (clients, groups, topics) = (&self.clients, &self.groups, &*self.topics);
        Membership { clients, groups, topics, config: &self.config }
    }

    fn join(&self, peer: &Arc<Peer>, group: &str) {
        let heartbeat = consumer(&peer.id.to_string(), group);
        self.membership().prepare(&heartbeat, 1).unwrap();
        self.membership().register(peer, JAVA, &heartbeat, 1).unwrap();
    }
}

fn consumer(client: &str, group: &str) -> HeartbeatData {
    let data = ConsumerData { group_name: group.into(), ..ConsumerData::default() };
    HeartbeatData { client_id: client.into(), consumer_data_set: vec![data], ..Default::default() }
}

/// The groups that the peer was told of.
fn told(peer: &Peer) -> Vec<String> {
    let read = |mut bytes: Vec<u8>| {
        let frame = Frame::parse(&mut bytes).unwrap();
        assert_eq!(frame.head.code, code::NOTIFY_CONSUMER_IDS_CHANGED);
        assert!(frame.head.is_oneway());
        let header: NotifyConsumerIdsChanged<'_> = frame.ext.decode().unwrap();
        header.consumer_group.to_string()
    };
    peer.take_sent().into_iter().map(read).collect()
}

fn read(heartbeat: &HeartbeatData) -> Result<HeartbeatData, Refusal> {
    let body = json::to_vec(heartbeat).unwrap();
    let head = RequestHead {
        code: code::HEART_BEAT,
        opaque: 1,
        oneway: false,
        serialize: Serialize::Json,
        language: Language::Java,
        version: 399,
        short_names: false,
    };
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &head, &NoHeader, body.len());
    bytes.extend_from_slice(&body);
    Membership::read(&Frame::parse(&mut bytes).unwrap())
}

#[test]
fn every_member_is_told_when_one_joins_or_leaves() {
    let world = World::new();
    let (one, two) = (Peer::detached(), Peer::detached());
    world.join(&one, "g");
    assert_eq!(told(&one), ["g"]);
    world.join(&two, "g");
    assert_eq!((told(&one), told(&two)), (vec!["g".to_owned()], vec!["g".to_owned()]));
    world.join(&two, "g");
    assert!(told(&one).is_empty() && told(&two).is_empty(), "staying is no news");
    two.close();
    world.membership().closed(&two);
    assert_eq!(told(&one), ["g"]);
}

#[test]
fn a_silent_client_is_closed_and_the_others_are_told() {
    let world = World::new();
    let (silent, heard) = (Peer::detached(), Peer::detached());
    world.join(&silent, "g");
    world.join(&heard, "g");
    let late = consumer("x", "g");
    world.membership().register(&heard, JAVA, &late, 100_000).unwrap();
    told(&heard);
    world.membership().expire(121_000);
    assert!(!silent.is_alive() && heard.is_alive());
    assert_eq!(told(&heard), ["g"]);
}

#[test]
fn broker_and_group_can_switch_notices_off() {
    let mut world = World::new();
    let peer = Peer::detached();
    world.join(&peer, "g");
    told(&peer);
    let quiet = SubscriptionGroupConfig {
        notify_consumer_ids_changed_enable: false,
        ..SubscriptionGroupConfig::new("g")
    };
    world.groups.update(quiet, 2).unwrap();
    world.join(&Peer::detached(), "g");
    assert!(told(&peer).is_empty());
    world.groups.update(SubscriptionGroupConfig::new("g"), 3).unwrap();
    world.config.notify_consumer_ids_changed_enable = false;
    world.join(&Peer::detached(), "g");
    assert!(told(&peer).is_empty());
}

#[test]
fn the_first_heartbeat_of_a_group_makes_group_and_retry_topic() {
    let world = World::new();
    let heartbeat = consumer("c", "g");
    assert!(world.membership().needs_disk(&heartbeat));
    let mut changes = world.topics.changes();
    changes.mark_unchanged();
    world.membership().prepare(&heartbeat, 1).unwrap();
    assert!(changes.has_changed().unwrap(), "the name servers hear of it at once");
    let retry = world.topics.find("%RETRY%g").unwrap().config();
    assert_eq!((retry.read_queue_nums, retry.write_queue_nums, retry.perm), (1, 1, 6));
    assert_eq!(retry.topic_sys_flag, 0);
    assert!(world.groups.find("g").is_some());
    assert!(!world.membership().needs_disk(&heartbeat));

    let mut in_unit = consumer("c", "h");
    in_unit.consumer_data_set[0].unit_mode = true;
    world.membership().prepare(&in_unit, 1).unwrap();
    assert_eq!(world.topics.find("%RETRY%h").unwrap().config().topic_sys_flag, UNIT_SUB);
}

#[test]
fn without_automatic_creation_an_unknown_group_is_online_and_nothing_is_made() {
    let mut world = World::new();
    world.config.auto_create_subscription_group = false;
    let heartbeat = consumer("c", "g");
    assert!(!world.membership().needs_disk(&heartbeat));
    let peer = Peer::detached();
    world.membership().register(&peer, JAVA, &heartbeat, 1).unwrap();
    assert!(world.clients.consumer_group("g").is_some());
    assert!(world.groups.find("g").is_none() && world.topics.find("%RETRY%g").is_none());
}

#[test]
fn a_group_that_could_not_retry_is_refused_at_its_first_heartbeat() {
    let longest = "g".repeat(GROUP_LEN_MAX);
    assert!(read(&consumer("c", &longest)).is_ok());
    let refused = read(&consumer("c", &format!("{longest}g"))).unwrap_err();
    assert_eq!(refused.code, response::SYSTEM_ERROR);
    assert!(refused.remark.contains("longer than"), "{}", refused.remark);
    assert!(read(&consumer("c", "a/b")).is_err());
    assert!(read(&consumer(&"c".repeat(2_000), "g")).is_err());
    let producer = ProducerData { group_name: "p".repeat(2_000).into() };
    let producers = HeartbeatData { producer_data_set: vec![producer], ..Default::default() };
    assert!(read(&producers).is_err());
}
