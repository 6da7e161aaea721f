//! Many topics, many registrations.

use std::time::{Duration, Instant};

use broker_protocol::body::TopicRouteData;
use broker_protocol::code::{request, response};
use tempfile::TempDir;

use super::{Server, body_of, header, header_of, register, route};

fn topics(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("a-topic-with-a-name-of-usual-length-{n}")).collect()
}

fn borrowed(topics: &[String]) -> Vec<&str> {
    topics.iter().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn seventy_thousand_topics_are_routed_and_given_up() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let (broker, other) = (server.connect().await, server.connect().await);
    let topics = topics(70_000);
    let body = body_of(&borrowed(&topics), 1).encode_compressed().unwrap();
    let packed = header::RegisterBroker { compressed: true, ..header_of(&body) };
    let taken = broker.call(request::REGISTER_BROKER, &packed, &body).await.unwrap();
    assert_eq!(taken.code, response::SUCCESS);
    for topic in [&topics[0], &topics[69_999]] {
        let route: TopicRouteData = route(&other, topic).await.json().unwrap();
        assert_eq!(route.queue_datas.len(), 1);
    }
    // The next full table is small: the rest is gone.
    register(&broker, &[&topics[7]], 2).await;
    assert_eq!(route(&other, &topics[7]).await.code, response::SUCCESS);
    assert_eq!(route(&other, &topics[8]).await.code, response::TOPIC_NOT_EXIST);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_are_answered_while_a_large_table_is_registered_again_and_again() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(folder.path());
    let (broker, client) = (server.connect().await, server.connect().await);
    let mut topics = topics(20_000);
    register(&broker, &borrowed(&topics), 1).await;
    // Groups join: each makes a retry topic, and the broker sends its whole table again.
    let mut bodies = Vec::new();
    for counter in 2..12 {
        topics.push(format!("%RETRY%group-{counter}"));
        bodies.push(body_of(&borrowed(&topics), counter).encode().unwrap());
    }
    let registering = tokio::spawn(async move {
        for body in bodies {
            let header = header_of(&body);
            let taken = broker.call(request::REGISTER_BROKER, &header, &body).await.unwrap();
            assert_eq!(taken.code, response::SUCCESS);
        }
        broker
    });
    let mut asked = 0;
    let mut slowest = Duration::ZERO;
    while !registering.is_finished() {
        let start = Instant::now();
        let answer = route(&client, &topics[asked % 20_000]).await;
        slowest = slowest.max(start.elapsed());
        assert_eq!(answer.code, response::SUCCESS);
        asked += 1;
    }
    let _broker = registering.await.unwrap();
    assert_eq!(route(&client, "%RETRY%group-11").await.code, response::SUCCESS);
    assert!(asked > 10, "routes waited for the registrations: {asked} answers");
    // The bound is that of the registrations themselves in an unoptimised build on a busy machine;
    // the release build is measured with the whole broker.
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}
