//! A scrape with many topics and groups is quick, small, and in nobody's way; and it tells what
//! the administrator's requests tell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_client::Message;
use broker_protocol::body::{
    ConsumerOffsetTable, SubscriptionGroupConfig, SubscriptionGroups, TopicConfig, TopicConfigs,
};
use system_tests::cluster::{Broker, Maker};
use system_tests::http_get;

use crate::support::{Server, client, producer, small};

const TOPICS: usize = 1_000;
const GROUPS: usize = 20;

/// How long a scrape may take; without optimisation, beside other tests, it takes longer.
const SCRAPE: Duration = Duration::from_secs(if cfg!(debug_assertions) { 6 } else { 2 });

#[tokio::test]
async fn many_topics_and_groups_are_scraped_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("store").join("config");
    std::fs::create_dir_all(&config).unwrap();
    let mut topics = TopicConfigs::default();
    let mut groups = SubscriptionGroups::default();
    let mut offsets = ConsumerOffsetTable::default();
    for n in 0..GROUPS {
        let group = SubscriptionGroupConfig::new(format!("group{n}"));
        groups.subscription_group_table.insert(Arc::clone(&group.group_name), Arc::new(group));
    }
    for n in 0..TOPICS {
        let topic = TopicConfig::new(format!("topic{n}"), 4);
        topics.topic_config_table.insert(Arc::clone(&topic.topic_name), Arc::new(topic));
        for group in 0..GROUPS {
            let of_queues = BTreeMap::from([(0, 0), (1, 0), (2, 0), (3, 0)]);
            offsets.offset_table.insert(format!("topic{n}@group{group}"), of_queues);
        }
    }
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(config.join(name), bytes).unwrap();
    write("topics.json", broker_protocol::json::to_vec(&topics).unwrap());
    write("subscriptionGroup.json", broker_protocol::json::to_vec(&groups).unwrap());
    write("consumerOffset.json", broker_protocol::json::to_vec(&offsets).unwrap());
    let options = small(&[("mappedFileSizeConsumeQueue", "400")]);
    let broker = Broker::start(Maker::Tandem, options, folder.path(), "").unwrap();
    let client = client();
    let sender = producer(&client);
    let to = |queue_id| broker_client::Destination::new(broker.address(), queue_id);
    for n in 0..TOPICS {
        let message = Message::new(format!("topic{n}"), "x");
        sender.send_to(&to(n as i32 % 4), &message).await.unwrap();
    }

    let sending = {
        let (client, to) = (client.clone(), to(0));
        tokio::spawn(async move {
            let sender = producer(&client);
            let mut slowest = Duration::ZERO;
            for _ in 0..300 {
                let began = Instant::now();
                sender.send_to(&to, &Message::new("topic0", "x")).await.unwrap();
                slowest = slowest.max(began.elapsed());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            slowest
        })
    };
    let http = broker.ports.http();
    let process = broker.process.as_ref().unwrap();
    for _ in 0..8 {
        let scrape = tokio::task::spawn_blocking(move || {
            let began = Instant::now();
            (http_get(http, "/metrics").unwrap(), began.elapsed())
        });
        let (page, took) = scrape.await.unwrap();
        assert!(took < SCRAPE, "a scrape took {took:?}");
        let lags = page.lines().filter(|line| line.starts_with("rocketmq_consumer_lag_messages{"));
        assert_eq!(lags.count(), TOPICS * GROUPS);
        let received = page.lines().filter(|line| line.starts_with("rocketmq_messages_in_total{"));
        assert!(received.count() >= TOPICS);
    }
    let memory = process.anonymous_memory().unwrap() >> 20;
    assert!(memory < 120, "{memory} MiB after some scrapes");
    let slowest = sending.await.unwrap();
    assert!(slowest < Duration::from_millis(500), "a send took {slowest:?} beside the scrapes");
}

#[tokio::test]
async fn a_scrape_tells_what_the_administrators_requests_tell() {
    let server = Server::start(&[]);
    server.topic("Measured", 2).await;
    server.send_numbered("Measured", 0..7).await;
    server.send(1, &Message::new("Measured", "x")).await;
    server.read_when("Measured", 0, 7).await;
    server.read_when("Measured", 1, 1).await;
    server.commit("measuring", "Measured", 0, 3).await;
    server.commit("measuring", "Measured", 1, 1).await;
    let stats = server.client.admin();
    let stats = stats.consume_stats(server.address(), "measuring", Some("Measured")).await.unwrap();
    assert_eq!(stats.total_diff(), 4);
    let page = http_get(server.broker.ports.http(), "/metrics").unwrap();
    let sample = |metric: &str, labels: &[&str]| -> Option<f64> {
        let line = page.lines().find(|line| {
            line.starts_with(&format!("{metric}{{")) && labels.iter().all(|l| line.contains(l))
        })?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let labels = [r#"consumer_group="measuring""#, r#"topic="Measured""#];
    assert_eq!(sample("rocketmq_consumer_lag_messages", &labels), Some(4.0));
    assert_eq!(sample("rocketmq_messages_in_total", &[r#"topic="Measured""#]), Some(8.0));
    // A group that has committed nothing has no lag, which is not a lag of none.
    let unknown = [r#"consumer_group="CID_RMQ_SYS_ONLOOKER""#, r#"topic="Measured""#];
    assert_eq!(sample("rocketmq_consumer_lag_messages", &unknown), None);
    assert!(sample("rocketmq_messages_out_total", &unknown).is_some_and(|count| count >= 8.0));
    for (path, word) in [("/healthz", "200"), ("/readyz", "200"), ("/nothing", "404")] {
        let answer = http_get(server.broker.ports.http(), path).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {word}")), "{path}: {answer:.60}");
    }
}
