use broker_protocol::body::{ProducerData, SubscriptionData};
use broker_protocol::tags::TagFilter;

use super::*;

const JAVA: Sender = Sender { language: Language::Java, version: 399 };

fn subscription(topic: &str, expression: &str, version: i64) -> SubscriptionData {
    SubscriptionData {
        topic: topic.into(),
        sub_string: expression.into(),
        sub_version: version,
        ..SubscriptionData::default()
    }
}

fn consumer(client: &str, group: &str, subscriptions: &[SubscriptionData]) -> HeartbeatData {
    let data = ConsumerData {
        group_name: group.into(),
        subscription_data_set: subscriptions.to_vec(),
        ..ConsumerData::default()
    };
    HeartbeatData { client_id: client.into(), consumer_data_set: vec![data], ..Default::default() }
}

fn producer(client: &str, group: &str) -> HeartbeatData {
    let data = ProducerData { group_name: group.into() };
    HeartbeatData { client_id: client.into(), producer_data_set: vec![data], ..Default::default() }
}

fn beat(clients: &Clients, peer: &Arc<Peer>, data: &HeartbeatData, now: i64) -> Vec<String> {
    let effects = clients.heartbeat(peer, JAVA, data, now).unwrap();
    names(&effects)
}

fn names(effects: &Effects) -> Vec<String> {
    effects.changed.iter().map(|group| group.name().to_string()).collect()
}

fn ids(clients: &Clients, group: &str) -> Vec<String> {
    let group = clients.consumer_group(group);
    group
        .map_or_else(Vec::new, |group| group.client_ids().iter().map(|id| id.to_string()).collect())
}

const NOBODY: Counts = Counts { connections: 0, producer_groups: 0, consumer_groups: 0 };

#[test]
fn joining_and_leaving_change_a_group_and_staying_does_not() {
    let clients = Clients::new();
    let (one, two) = (Peer::detached(), Peer::detached());
    let topic = [subscription("t", "*", 1)];
    assert_eq!(beat(&clients, &one, &consumer("c1", "g", &topic), 0), ["g"]);
    assert_eq!(beat(&clients, &one, &consumer("c1", "g", &topic), 1), [""; 0]);
    assert_eq!(beat(&clients, &two, &consumer("c2", "g", &topic), 2), ["g"]);
    assert_eq!(ids(&clients, "g"), ["c1", "c2"]);
    assert_eq!(names(&clients.unregister(&two, None, Some("g"))), ["g"]);
    assert_eq!(ids(&clients, "g"), ["c1"]);
    one.close();
    assert_eq!(names(&clients.closed(&one)), [""; 0], "nobody is left to be told");
    assert!(clients.consumer_group("g").is_none());
    assert_eq!(clients.counts(), NOBODY);
}

#[test]
fn the_close_of_a_connection_changes_all_its_groups() {
    let clients = Clients::new();
    let (one, two) = (Peer::detached(), Peer::detached());
    for group in ["g", "h"] {
        beat(&clients, &one, &consumer("c1", group, &[]), 0);
        beat(&clients, &two, &consumer("c2", group, &[]), 0);
    }
    beat(&clients, &one, &producer("c1", "p"), 0);
    one.close();
    let mut changed = names(&clients.closed(&one));
    changed.sort();
    assert_eq!(changed, ["g", "h"]);
    assert!(clients.producers("p").is_empty());
    assert_eq!(clients.counts(), Counts { connections: 1, producer_groups: 0, consumer_groups: 2 });
}

#[test]
fn only_live_connections_are_listed() {
    let clients = Clients::new();
    let (one, two) = (Peer::detached(), Peer::detached());
    beat(&clients, &one, &consumer("c1", "g", &[]), 0);
    beat(&clients, &two, &consumer("c2", "g", &[]), 0);
    beat(&clients, &one, &producer("c1", "p"), 0);
    // The end is noted before anybody is told of it.
    one.close();
    assert_eq!(ids(&clients, "g"), ["c2"]);
    assert!(clients.consumer_group("g").unwrap().member("c1").is_none());
    assert!(clients.producers("p").is_empty());
}

#[test]
fn a_heartbeat_that_comes_after_the_close_registers_nobody() {
    let clients = Clients::new();
    let peer = Peer::detached();
    peer.close();
    clients.closed(&peer);
    beat(&clients, &peer, &consumer("c1", "g", &[]), 0);
    beat(&clients, &peer, &producer("c1", "p"), 0);
    assert_eq!(clients.counts(), NOBODY);
}

#[test]
fn a_client_that_comes_back_is_listed_once() {
    let clients = Clients::new();
    let (old, new) = (Peer::detached(), Peer::detached());
    beat(&clients, &old, &consumer("c1", "g", &[]), 0);
    beat(&clients, &new, &consumer("c1", "g", &[]), 1);
    assert_eq!(ids(&clients, "g"), ["c1"]);
    assert_eq!(clients.consumer_group("g").unwrap().member("c1").unwrap().peer.id, new.id);
    old.close();
    clients.closed(&old);
    assert_eq!(ids(&clients, "g"), ["c1"]);
}

#[test]
fn the_newest_subscription_serves_the_group() {
    let clients = Clients::new();
    let (one, two) = (Peer::detached(), Peer::detached());
    beat(&clients, &one, &consumer("c1", "g", &[subscription("t", "a", 1)]), 0);
    beat(&clients, &two, &consumer("c2", "g", &[subscription("t", "*", 2)]), 0);
    // The older one comes again with every heartbeat and does not win.
    let changed = beat(&clients, &one, &consumer("c1", "g", &[subscription("t", "a", 1)]), 1);
    assert_eq!(changed, [""; 0], "another expression alone makes nobody share out again");
    let subscription = clients.consumer_group("g").unwrap().subscription("t").unwrap();
    assert_eq!((&*subscription.data.sub_string, subscription.data.sub_version), ("*", 2));
    assert_eq!(subscription.filter, TagFilter::All);
}

#[test]
fn a_new_or_missing_topic_changes_the_group() {
    let clients = Clients::new();
    let peer = Peer::detached();
    let [t, u] = [subscription("t", "*", 1), subscription("u", "*", 1)];
    beat(&clients, &peer, &consumer("c1", "g", std::slice::from_ref(&t)), 0);
    assert_eq!(beat(&clients, &peer, &consumer("c1", "g", &[t.clone(), u.clone()]), 1), ["g"]);
    assert_eq!(beat(&clients, &peer, &consumer("c1", "g", &[t.clone(), u.clone()]), 2), [""; 0]);
    assert_eq!(clients.groups_reading("u"), [Arc::from("g")]);
    assert_eq!(beat(&clients, &peer, &consumer("c1", "g", std::slice::from_ref(&t)), 3), ["g"]);
    assert!(clients.groups_reading("u").is_empty());
}

#[test]
fn filters_are_made_from_the_text() {
    let codes = |data: SubscriptionData| Subscription::new(data).filter;
    // A wrong hash from a client does not count where there is a text.
    let wrong = SubscriptionData { code_set: vec![1], ..subscription("t", "Aa || b", 1) };
    assert_eq!(codes(wrong), TagFilter::from_codes([2112, 98]));
    let textless = SubscriptionData { code_set: vec![5], ..subscription("t", "", 1) };
    assert_eq!(codes(textless), TagFilter::from_codes([5]));
    let sql = SubscriptionData { expression_type: "SQL92".into(), ..subscription("t", "a > 1", 1) };
    assert_eq!(codes(sql), TagFilter::All);
    assert_eq!(codes(subscription("t", "*", 1)), TagFilter::All);
    assert_eq!(codes(subscription("t", "||", 1)), TagFilter::from_codes([]));
}

#[test]
fn who_is_silent_for_two_minutes_is_gone() {
    let clients = Clients::new();
    let (silent, heard) = (Peer::detached(), Peer::detached());
    for peer in [&silent, &heard] {
        beat(&clients, peer, &consumer(&format!("c{}", peer.id), "g", &[]), 0);
        beat(&clients, peer, &producer("p", "p"), 0);
    }
    beat(&clients, &heard, &consumer(&format!("c{}", heard.id), "g", &[]), 1_000);
    beat(&clients, &heard, &producer("p", "p"), 1_000);
    let effects = clients.expire(CLIENT_LIFETIME_MS);
    assert!(effects.silent.is_empty() && effects.changed.is_empty());
    let effects = clients.expire(CLIENT_LIFETIME_MS + 1);
    assert_eq!(names(&effects), ["g"]);
    assert_eq!(effects.silent.iter().map(|peer| peer.id).collect::<Vec<_>>(), [silent.id]);
    assert_eq!(clients.counts(), Counts { connections: 1, producer_groups: 1, consumer_groups: 1 });
    clients.expire(CLIENT_LIFETIME_MS + 1_001);
    assert_eq!(clients.counts(), NOBODY);
}

#[test]
fn many_groups_of_one_connection_leave_with_it() {
    let clients = Clients::new();
    let peer = Peer::detached();
    for n in 0..1_000 {
        beat(&clients, &peer, &producer("c", &format!("random{n}")), 0);
    }
    assert_eq!(clients.counts().producer_groups, 1_000);
    peer.close();
    clients.closed(&peer);
    assert_eq!(clients.counts(), NOBODY);
}

#[test]
fn a_connection_cannot_register_for_any_number_of_groups() {
    let clients = Clients::new();
    let peer = Peer::detached();
    let groups = (0..=GROUPS_PER_CONNECTION_MAX).map(|n| n.to_string().into());
    let data = HeartbeatData {
        producer_data_set: groups.map(|group_name| ProducerData { group_name }).collect(),
        ..HeartbeatData::default()
    };
    assert!(matches!(clients.heartbeat(&peer, JAVA, &data, 0), Err(TooManyGroups)));
    assert_eq!(clients.counts(), NOBODY);
}
