//! Pulling: long polls, offsets outside the queue, orderly and broadcasting consumers.

use std::time::{Duration, Instant};

use broker_client::{
    Client, ClientError, Consumer, ConsumerOptions, Message, Pull, PullStatus, Pulled,
};
use broker_protocol::body::{MessageModel, MessageQueue, SubscriptionGroupConfig};
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;
use tokio::task::JoinHandle;

use crate::support::{PATIENCE, Server, bodies, client, member, refusal, until};

const TOPIC: &str = "Pulled";
const GROUP: &str = "pulling_group";

/// A pull that may be held, as a task; with when its answer came.
fn held(
    client: &Client,
    address: &str,
    queue_id: i32,
    offset: i64,
    hold: Duration,
    tags: &str,
) -> JoinHandle<(Result<Pulled, ClientError>, Instant)> {
    let consumer = Consumer::new(client, ConsumerOptions::pushed(GROUP));
    let (address, tags) = (address.to_owned(), tags.to_owned());
    tokio::spawn(async move {
        let pull = Pull {
            topic: TOPIC,
            queue_id,
            offset,
            max: 32,
            hold: Some(hold),
            expression: Some(&tags),
            commit: None,
        };
        (consumer.pull(&address, &pull).await, Instant::now())
    })
}

async fn holds(server: &Server, pulls: usize) {
    let what = format!("{pulls} held pulls");
    let all = async || (server.metric("tandem_held_pulls ") == pulls as f64).then_some(());
    until(&what, all).await;
}

#[tokio::test]
async fn a_thousand_held_pulls_end_with_their_message() {
    const QUEUES: i32 = 1_000;
    let server = Server::start(&[("mappedFileSizeConsumeQueue", "400")]);
    server.topic(TOPIC, QUEUES).await;
    let clients: Vec<Client> = (0..10).map(|_| client()).collect();
    let hold = |queue_id: i32| {
        let client = &clients[queue_id as usize % clients.len()];
        held(client, server.address(), queue_id, 0, Duration::from_secs(120), "*")
    };
    let pulls: Vec<_> = (0..QUEUES).map(hold).collect();
    holds(&server, QUEUES as usize).await;

    let mut sent = Vec::new();
    for queue_id in 0..QUEUES {
        server.send(queue_id, &Message::new(TOPIC, queue_id.to_string())).await;
        sent.push(Instant::now());
    }
    let mut slowest = Duration::ZERO;
    for (queue_id, pull) in pulls.into_iter().enumerate() {
        let (pulled, at) = pull.await.unwrap();
        let pulled = pulled.unwrap();
        assert_eq!(pulled.status, PullStatus::Found);
        assert_eq!(bodies(&pulled.messages), [queue_id.to_string()]);
        assert_eq!((pulled.next_offset, pulled.max_offset), (1, 1));
        slowest = slowest.max(at.saturating_duration_since(sent[queue_id]));
    }
    assert!(slowest < Duration::from_secs(1), "a pull waited {slowest:?} behind its message");
    holds(&server, 0).await;
}

#[tokio::test]
async fn a_held_pull_ends_at_its_time() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 2).await;
    server.send_numbered(TOPIC, 0..3).await;
    server.read_when(TOPIC, 0, 3).await;
    let began = Instant::now();
    let hold = Duration::from_millis(1_200);
    let pulls = [
        held(&server.client, server.address(), 0, 3, hold, "*"),
        held(&server.client, server.address(), 1, 0, hold, "*"),
    ];
    for (pull, next) in pulls.into_iter().zip([3, 0]) {
        let (pulled, at) = pull.await.unwrap();
        let pulled = pulled.unwrap();
        assert_eq!((pulled.status, pulled.next_offset), (PullStatus::NoNewMessage, next));
        let took = at - began;
        assert!(took >= hold, "ended after {took:?} already");
        assert!(took < hold + Duration::from_millis(1_500), "ended only after {took:?}");
    }
}

#[tokio::test]
async fn without_long_polling_pulls_are_held_shortly() {
    let server = Server::start(&[("longPollingEnable", "false"), ("shortPollingTimeMills", "300")]);
    server.topic(TOPIC, 1).await;
    let began = Instant::now();
    let (pulled, at) =
        held(&server.client, server.address(), 0, 0, Duration::from_secs(60), "*").await.unwrap();
    assert_eq!(pulled.unwrap().status, PullStatus::NoNewMessage);
    assert!(at - began < Duration::from_secs(5), "{:?}", at - began);
}

#[tokio::test]
async fn held_pulls_of_dead_links_are_freed() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 100).await;
    let first = client();
    let hold = Duration::from_secs(300);
    let dead: Vec<_> =
        (0..100).map(|queue_id| held(&first, server.address(), queue_id, 0, hold, "*")).collect();
    holds(&server, 100).await;
    first.connection(server.address()).await.unwrap().close();
    for pull in dead {
        assert!(pull.await.unwrap().0.is_err());
    }
    holds(&server, 0).await;
    // The same queues over a new link: each message comes to it.
    let again: Vec<_> =
        (0..100).map(|queue_id| held(&first, server.address(), queue_id, 0, hold, "*")).collect();
    holds(&server, 100).await;
    for queue_id in 0..100 {
        server.send(queue_id, &Message::new(TOPIC, "x")).await;
    }
    for pull in again {
        assert_eq!(pull.await.unwrap().0.unwrap().messages.len(), 1);
    }
}

#[tokio::test]
async fn held_pulls_wake_for_their_tags_only() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let pull = held(&server.client, server.address(), 0, 0, PATIENCE, "A");
    let patient = held(&server.client, server.address(), 0, 0, Duration::from_secs(2), "C");
    holds(&server, 2).await;
    for number in 0..3 {
        server.send(0, &Message::new(TOPIC, format!("b{number}")).tag("B")).await;
    }
    server.read_when(TOPIC, 0, 3).await;
    assert!(!pull.is_finished());
    server.send(0, &Message::new(TOPIC, "a").tag("A")).await;
    let pulled = pull.await.unwrap().0.unwrap();
    assert_eq!(bodies(&pulled.messages), ["a"]);
    assert_eq!(pulled.next_offset, 4);
    // Nothing for the other one, but its progress moves past what it does not want.
    let pulled = patient.await.unwrap().0.unwrap();
    assert_eq!((pulled.status, pulled.next_offset), (PullStatus::NoMatchedMessage, 4));
}

#[tokio::test]
async fn one_message_wakes_every_pull_of_its_queue() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 2).await;
    let clients: Vec<Client> = (0..5).map(|_| client()).collect();
    let pulls: Vec<_> =
        clients.iter().map(|one| held(one, server.address(), 0, 0, PATIENCE, "*")).collect();
    let other = held(&clients[0], server.address(), 1, 0, Duration::from_secs(3), "*");
    holds(&server, 6).await;
    server.send(0, &Message::new(TOPIC, "x")).await;
    for pull in pulls {
        assert_eq!(bodies(&pull.await.unwrap().0.unwrap().messages), ["x"]);
    }
    assert_eq!(other.await.unwrap().0.unwrap().status, PullStatus::NoNewMessage);
}

#[tokio::test]
async fn held_pulls_do_not_keep_a_broker_from_stopping() {
    let mut server = Server::start(&[]);
    server.topic(TOPIC, 50).await;
    let pulls: Vec<_> = (0..50)
        .map(|queue| held(&server.client, server.address(), queue, 0, PATIENCE, "*"))
        .collect();
    holds(&server, 50).await;
    let began = Instant::now();
    assert!(server.stop().await.success());
    for pull in pulls {
        // Answered without a message, or cut off with the link: never left waiting.
        if let Ok(pulled) = pull.await.unwrap().0 {
            assert_eq!(pulled.status, PullStatus::NoNewMessage);
        }
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn offsets_outside_the_queue_are_corrected() {
    let server = Server::start(&[("mappedFileSizeCommitLog", "65536")]);
    server.topic(TOPIC, 2).await;
    for (offset, expected) in
        [(0, PullStatus::NoNewMessage), (5, PullStatus::OffsetMoved), (-3, PullStatus::OffsetMoved)]
    {
        let pulled = server.pull(TOPIC, 0, offset, "*").await;
        assert_eq!(
            (pulled.status, pulled.next_offset),
            (expected, 0),
            "an empty queue at {offset}"
        );
    }
    server.send_numbered(TOPIC, 0..10).await;
    server.read_when(TOPIC, 0, 10).await;
    let pulled = server.pull(TOPIC, 0, 10, "*").await;
    assert_eq!((pulled.status, pulled.next_offset), (PullStatus::NoNewMessage, 10));
    let pulled = server.pull(TOPIC, 0, -1, "*").await;
    assert_eq!((pulled.status, pulled.next_offset), (PullStatus::OffsetMoved, 0));
    for offset in [11, 1 << 40] {
        let pulled = server.pull(TOPIC, 0, offset, "*").await;
        // To the end: at the begin it would read everything again.
        assert_eq!((pulled.status, pulled.next_offset), (PullStatus::OffsetMoved, 10));
        assert_eq!((pulled.min_offset, pulled.max_offset), (0, 10));
    }

    // Once old files are gone the queue begins later.
    for _ in 0..200 {
        server.send(0, &Message::new(TOPIC, vec![b'x'; 1_000])).await;
    }
    let admin = server.client.admin();
    admin.update_broker_config(server.address(), &[("fileReservedTime", "0")]).await.unwrap();
    let min = until("old files are deleted", async || {
        server.call(request::DELETE_EXPIRED_COMMITLOG, &NoHeader, &[]).await.unwrap();
        let min = server.min_offset(TOPIC, 0).await;
        (min > 10).then_some(min)
    })
    .await;
    for offset in [0, min - 1, -1] {
        let pulled = server.pull(TOPIC, 0, offset, "*").await;
        assert_eq!(pulled.status, PullStatus::OffsetMoved, "at {offset}");
        assert!(pulled.next_offset >= min, "{pulled:?}");
        let pulled = server.pull(TOPIC, 0, pulled.next_offset, "*").await;
        assert_eq!(pulled.status, PullStatus::Found);
    }
    let admin = server.client.admin();
    let oldest = admin.earliest_store_time(server.address(), TOPIC, 0).await.unwrap();
    for time in [0, oldest] {
        let found = admin.search_offset(server.address(), TOPIC, 0, time).await.unwrap();
        assert!(found >= min, "{found} is before the first message, {min}");
    }
    let receipt = server.send(0, &Message::new(TOPIC, "next")).await;
    assert_eq!(receipt.queue_offset, 210);
}

#[tokio::test]
async fn a_pull_brings_no_more_than_was_asked_for() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    server.send_numbered(TOPIC, 0..50).await;
    server.read_when(TOPIC, 0, 50).await;
    let consumer = Consumer::new(&server.client, ConsumerOptions::pushed(GROUP));
    let pull = |max, offset| Pull {
        topic: TOPIC,
        queue_id: 0,
        offset,
        max,
        hold: None,
        expression: Some("*"),
        commit: None,
    };
    for (max, expected) in [(1, 1), (7, 7), (32, 32), (1_000, 32)] {
        let pulled = consumer.pull(server.address(), &pull(max, 0)).await.unwrap();
        assert_eq!(pulled.messages.len(), expected, "of {max}");
        assert_eq!(pulled.next_offset, expected as i64);
    }
    // One after the other, all come in order.
    let all = server.read_all(TOPIC, 0).await;
    let offsets: Vec<i64> = all.iter().map(|message| message.queue_offset).collect();
    assert_eq!(offsets, (0..50).collect::<Vec<i64>>());
    // A big message comes although it is above what a pull may hold.
    server.send(0, &Message::new(TOPIC, vec![7; 1 << 20])).await;
    server.send(0, &Message::new(TOPIC, "small")).await;
    server.read_when(TOPIC, 0, 52).await;
    let pulled = server.pull(TOPIC, 0, 50, "*").await;
    assert_eq!(pulled.messages[0].body.len(), 1 << 20);
    assert!(pulled.messages[0].body_is_intact);
    assert_eq!(pulled.messages.len(), 1);
}

#[tokio::test]
async fn progress_that_comes_with_a_pull_counts() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    server.send_numbered(TOPIC, 0..5).await;
    server.read_when(TOPIC, 0, 5).await;
    let consumer = member(&server.client, GROUP, TOPIC, "*");
    consumer.heartbeat(server.address()).await.unwrap();
    let pull = Pull {
        topic: TOPIC,
        queue_id: 0,
        offset: 2,
        max: 1,
        hold: None,
        expression: None,
        commit: Some(2),
    };
    consumer.pull(server.address(), &pull).await.unwrap();
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(2));
    // Without the flag the number means nothing.
    consumer.pull(server.address(), &Pull { commit: None, offset: 4, ..pull }).await.unwrap();
    assert_eq!(server.progress(GROUP, TOPIC, 0).await, Some(2));
}

#[tokio::test]
async fn an_orderly_consumer_goes_on_after_a_lost_link() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 2).await;
    server.send_numbered(TOPIC, 0..10).await;
    server.read_when(TOPIC, 0, 10).await;
    let queue = [MessageQueue::new(TOPIC, "broker-a", 0)];
    let (first, second) = (client(), client());
    let [one, other] = [&first, &second].map(|client| member(client, GROUP, TOPIC, "*"));
    let address = server.address();
    for consumer in [&one, &other] {
        consumer.heartbeat(address).await.unwrap();
    }
    assert_eq!(one.lock(address, &queue).await.unwrap(), queue);
    assert_eq!(other.lock(address, &queue).await.unwrap(), []);
    let pull = |offset, max| Pull {
        topic: TOPIC,
        queue_id: 0,
        offset,
        max,
        hold: None,
        expression: None,
        commit: None,
    };
    let pulled = one.pull(address, &pull(0, 4)).await.unwrap();
    assert_eq!(bodies(&pulled.messages), ["Pulled 0", "Pulled 1", "Pulled 2", "Pulled 3"]);
    one.commit(address, TOPIC, 0, 3).await.unwrap();

    first.connection(address).await.unwrap().close();
    until("the lost member is gone", async || {
        let ids = server.client.admin().consumer_ids(address, GROUP).await.unwrap();
        (ids.consumer_id_list.len() == 1).then_some(())
    })
    .await;
    // Nobody takes the queue over while its owner may be back at any moment.
    assert_eq!(other.lock(address, &queue).await.unwrap(), []);
    one.heartbeat(address).await.unwrap();
    let ids = server.client.admin().consumer_ids(address, GROUP).await.unwrap();
    assert_eq!(ids.consumer_id_list.len(), 2, "{ids:?}");
    assert_eq!(one.lock(address, &queue).await.unwrap(), queue);
    let offset = one.committed(address, TOPIC, 0).await.unwrap().unwrap();
    assert_eq!(offset, 3);
    let pulled = one.pull(address, &pull(offset, 32)).await.unwrap();
    let numbers: Vec<String> = (3..10).map(|number| format!("Pulled {number}")).collect();
    assert_eq!(bodies(&pulled.messages), numbers);
    one.commit(address, TOPIC, 0, 10).await.unwrap();

    one.unlock(address, &queue).await.unwrap();
    assert_eq!(other.lock(address, &queue).await.unwrap(), queue);
    // Only the owner unlocks.
    one.unlock(address, &queue).await.unwrap();
    assert_eq!(one.lock(address, &queue).await.unwrap(), []);
    server.send(0, &Message::new(TOPIC, "next")).await;
    server.read_when(TOPIC, 0, 11).await;
    let offset = other.committed(address, TOPIC, 0).await.unwrap().unwrap();
    let pulled = other.pull(address, &pull(offset, 32)).await.unwrap();
    assert_eq!(bodies(&pulled.messages), ["next"]);
}

#[tokio::test]
async fn locks_of_queues_and_groups_are_apart() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 2).await;
    let queues: [MessageQueue; 2] = [0, 1].map(|id| MessageQueue::new(TOPIC, "broker-a", id));
    let clients = [client(), client()];
    let [one, other] = [0, 1].map(|n| member(&clients[n], GROUP, TOPIC, "*"));
    let elsewhere = member(&clients[1], "another_group", TOPIC, "*");
    let address = server.address();
    assert_eq!(one.lock(address, &queues[..1]).await.unwrap(), queues[..1]);
    assert_eq!(other.lock(address, &queues).await.unwrap(), queues[1..]);
    let mut both = elsewhere.lock(address, &queues).await.unwrap();
    both.sort();
    assert_eq!(both, queues);
}

#[tokio::test]
async fn every_broadcasting_member_gets_every_message() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    server.send_numbered(TOPIC, 0..20).await;
    server.read_when(TOPIC, 0, 20).await;
    let clients = [client(), client(), client()];
    let broadcasting = |client: &Client| {
        let mut options = ConsumerOptions::pushed(GROUP).subscribe(TOPIC, "*");
        options.message_model = MessageModel::Broadcasting;
        Consumer::new(client, options)
    };
    let pull = Pull {
        topic: TOPIC,
        queue_id: 0,
        offset: 0,
        max: 32,
        hold: None,
        expression: None,
        commit: None,
    };
    let address = server.address();
    let members: Vec<Consumer> = clients.iter().map(broadcasting).collect();
    for member in &members {
        member.heartbeat(address).await.unwrap();
    }
    for member in &members {
        assert_eq!(member.pull(address, &pull).await.unwrap().messages.len(), 20);
    }
    // Members keep their own progress: the group has none.
    let offsets = server.client.admin().all_consumer_offsets(address).await.unwrap();
    assert!(!offsets.offset_table.contains_key(&format!("{TOPIC}@{GROUP}")));

    let mut group = SubscriptionGroupConfig::new(GROUP);
    group.consume_broadcast_enable = false;
    server.client.admin().update_group(address, &group).await.unwrap();
    let (code, _) = refusal(members[0].pull(address, &pull).await);
    assert_eq!(code, response::NO_PERMISSION);
    group.consume_broadcast_enable = true;
    group.consume_enable = false;
    server.client.admin().update_group(address, &group).await.unwrap();
    assert_eq!(refusal(members[0].pull(address, &pull).await).0, response::NO_PERMISSION);
}

#[tokio::test]
async fn pulls_that_can_not_be_served_say_why() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 2).await;
    let consumer = member(&server.client, GROUP, TOPIC, "*");
    let pull = |topic, queue_id| Pull {
        topic,
        queue_id,
        offset: 0,
        max: 32,
        hold: None,
        expression: None,
        commit: None,
    };
    let address = server.address();
    let offline = consumer.pull(address, &pull(TOPIC, 0)).await;
    assert_eq!(refusal(offline).0, response::SUBSCRIPTION_NOT_EXIST);
    consumer.heartbeat(address).await.unwrap();
    consumer.pull(address, &pull(TOPIC, 0)).await.unwrap();
    let missing = consumer.pull(address, &pull("NoSuchTopic", 0)).await;
    assert_eq!(refusal(missing).0, response::TOPIC_NOT_EXIST);
    for queue_id in [2, -1, i32::MAX] {
        let (code, remark) = refusal(consumer.pull(address, &pull(TOPIC, queue_id)).await);
        assert_eq!(code, response::SYSTEM_ERROR);
        assert!(remark.contains(&queue_id.to_string()), "{remark}");
    }
    server.topic("Unsubscribed", 1).await;
    let other = consumer.pull(address, &pull("Unsubscribed", 0)).await;
    assert_eq!(refusal(other).0, response::SUBSCRIPTION_NOT_EXIST);
    // A subscription that the broker has not heard of yet: it must wait for the next heartbeat.
    let mut newer = ConsumerOptions::pushed(GROUP).subscribe(TOPIC, "*");
    newer.version += 100_000;
    let newer = Consumer::new(&server.client, newer).pull(address, &pull(TOPIC, 0)).await;
    assert_eq!(refusal(newer).0, response::SUBSCRIPTION_NOT_LATEST);
    server.set_topic(TOPIC, 2, 2, 2).await;
    let unreadable = consumer.pull(address, &pull(TOPIC, 0)).await;
    assert_eq!(refusal(unreadable).0, response::NO_PERMISSION);
}

#[tokio::test]
async fn after_a_kill_no_consumer_is_sent_back() {
    const BATCHES: i64 = 200;
    let mut server = Server::start(&[("mappedFileSizeCommitLog", "33554432")]);
    server.topic(TOPIC, 4).await;
    for round in 1..=2 {
        let batch: Vec<Message> = (0..100).map(|_| Message::new(TOPIC, vec![0; 50])).collect();
        let producer = crate::support::producer(&server.client);
        for number in 0..BATCHES as i32 {
            producer.send_batch(&server.queue(number % 4), &batch).await.unwrap();
        }
        let end = round * BATCHES * 100 / 4;
        for queue in 0..4 {
            until("all are dispatched", async || {
                (server.max_offset(TOPIC, queue).await == end).then_some(())
            })
            .await;
        }
        server.kill().await;
        server.restart();
        for queue in 0..4 {
            let pulled = server.pull(TOPIC, queue, end - 1, "*").await;
            assert_eq!(pulled.status, PullStatus::Found, "{pulled:?}");
            let pulled = server.pull(TOPIC, queue, end, "*").await;
            assert_eq!((pulled.status, pulled.next_offset), (PullStatus::NoNewMessage, end));
        }
    }
}

#[tokio::test]
async fn a_message_that_comes_just_when_its_pull_is_held_is_not_missed() {
    const ROUNDS: i64 = 400;
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let (puller, sender) = (client(), client());
    let producer = crate::support::producer(&sender);
    let mut slowest = Duration::ZERO;
    for offset in 0..ROUNDS {
        let pull = held(&puller, server.address(), 0, offset, PATIENCE, "*");
        for _ in 0..fastrand::u32(0..4) {
            tokio::task::yield_now().await;
        }
        producer.send_to(&server.queue(0), &Message::new(TOPIC, "x")).await.unwrap();
        let sent = Instant::now();
        let (pulled, at) = pull.await.unwrap();
        assert_eq!(pulled.unwrap().messages[0].queue_offset, offset);
        slowest = slowest.max(at.saturating_duration_since(sent));
    }
    assert!(slowest < Duration::from_secs(1), "a pull waited {slowest:?} behind its message");
}

#[tokio::test]
async fn pulls_of_a_topic_that_goes_away_end_and_begin_anew() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    server.send_numbered(TOPIC, 0..3).await;
    server.read_when(TOPIC, 0, 3).await;
    let pull = held(&server.client, server.address(), 0, 3, Duration::from_secs(2), "*");
    holds(&server, 1).await;
    server.client.admin().delete_topic(server.address(), TOPIC).await.unwrap();
    // Answered somehow, and not too late.
    let (ended, _) = pull.await.unwrap();
    if let Err(error) = ended {
        assert!(error.code().is_some(), "{error}");
    }
    holds(&server, 0).await;
    let (code, _) = refusal(server.try_pull(TOPIC, 0, 3, "*").await);
    assert_eq!(code, response::TOPIC_NOT_EXIST);
    server.topic(TOPIC, 1).await;
    let pull = held(&server.client, server.address(), 0, 0, PATIENCE, "*");
    holds(&server, 1).await;
    server.send(0, &Message::new(TOPIC, "anew")).await;
    let pulled = pull.await.unwrap().0.unwrap();
    assert_eq!(bodies(&pulled.messages), ["anew"]);
    assert_eq!(pulled.next_offset, 1);
}

#[tokio::test]
async fn times_to_be_held_out_of_range_are_borne() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut pull = vec![
        ("consumerGroup", GROUP),
        ("topic", TOPIC),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "6"),
        ("commitOffset", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    for time in ["0", "-1", "-9223372036854775808"] {
        pull.push(("suspendTimeoutMillis", time));
        let began = Instant::now();
        let link = server.client.connection(server.address()).await.unwrap();
        let reply = link.call(request::PULL_MESSAGE, &pull[..], &[]).await.unwrap();
        assert_eq!(reply.code, response::PULL_NOT_FOUND, "{time}");
        assert!(began.elapsed() < Duration::from_secs(6), "{time}: {:?}", began.elapsed());
        pull.pop();
    }
    pull.push(("suspendTimeoutMillis", "9223372036854775807"));
    let other = client();
    let link = other.connection(server.address()).await.unwrap();
    let waiting = tokio::spawn(async move {
        link.call_within(request::PULL_MESSAGE, &pull[..], &[], PATIENCE).await
    });
    holds(&server, 1).await;
    server.send(0, &Message::new(TOPIC, "x")).await;
    assert_eq!(waiting.await.unwrap().unwrap().code, response::SUCCESS);
}
