//! What `/metrics` says is what the broker says when asked, and Prometheus can read it.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use broker_client::{Client, ClientOptions, Consumer, ConsumerOptions, Destination, Message};
use broker_client::{Producer, Pull};
use system_tests::cluster::{Broker, BrokerOptions, Maker};
use system_tests::http_get;
use system_tests::process::{run, wait_until};
use tokio::runtime::Builder;

const TOPIC: &str = "Counted";
const GROUP: &str = "counting";

/// Ten messages in queue 0, of which a group has consumed four.
async fn use_it(address: &str) {
    let client = Client::new(ClientOptions::default());
    let topic = broker_protocol::body::TopicConfig::new(TOPIC, 2);
    client.admin().update_topic(address, &topic).await.unwrap();
    let producer = Producer::new(&client, "counted");
    for number in 0..10 {
        let message = Message::new(TOPIC, format!("message {number}"));
        producer.send_to(&Destination::new(address, 0), &message).await.unwrap();
    }
    // Queues follow the log a moment later, and a pull takes what is there.
    crate::support::until("all messages in the queue", async || {
        let end = client.admin().max_offset(address, TOPIC, 0).await.unwrap();
        (end == 10).then_some(())
    })
    .await;
    let options = ConsumerOptions::pushed(GROUP).subscribe(TOPIC, "*");
    let consumer = Consumer::new(&client, options);
    consumer.heartbeat(address).await.unwrap();
    let pull = Pull {
        topic: TOPIC,
        queue_id: 0,
        offset: 0,
        max: 4,
        hold: Some(Duration::from_secs(10)),
        expression: None,
        commit: None,
    };
    let pulled = consumer.pull(address, &pull).await.unwrap();
    assert_eq!(pulled.messages.len(), 4);
    consumer.commit(address, TOPIC, 0, 4).await.unwrap();
}

/// The value of the one sample of this name whose labels hold all of `labels`.
fn sample(page: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut values = page.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let mine = series.strip_prefix(name)?.starts_with('{');
        (mine && labels.iter().all(|label| series.contains(label))).then(|| value.parse().ok())?
    });
    let value = values.next()?;
    assert!(values.next().is_none(), "{name} {labels:?} is there twice:\n{page}");
    Some(value)
}

#[test]
fn the_metrics_page_tells_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerOptions::master("counted");
    let broker = Broker::start(Maker::Tandem, broker, folder.path(), "").unwrap();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(use_it(&broker.address()));
    let topic = format!("topic=\"{TOPIC}\"");
    let group = format!("consumer_group=\"{GROUP}\"");
    let expected: [(&str, Vec<&str>, f64); 3] = [
        ("rocketmq_messages_in_total", vec![&topic], 10.0),
        ("rocketmq_messages_out_total", vec![&topic, &group], 4.0),
        ("rocketmq_consumer_lag_messages", vec![&topic, &group], 6.0),
    ];
    let mut page = String::new();
    let shown = wait_until("the metrics", Duration::from_secs(20), || {
        let answer = http_get(broker.ports.http(), "/metrics").unwrap();
        page = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        expected.iter().all(|(name, labels, value)| sample(&page, name, labels) == Some(*value))
    });
    assert!(shown.is_ok(), "expected {expected:?}\n{page}");
    let file = folder.path().join("page");
    std::fs::write(&file, &page).unwrap();
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::from(File::open(&file).unwrap()));
    let said = run("promtool", &mut promtool).unwrap();
    assert_eq!(said.trim(), "", "promtool has something to say");
}
