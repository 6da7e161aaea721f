//! What `/metrics` says: figures collected by the assembly, written in Prometheus' text format.
//!
//! Names and labels are those of RocketMQ 5's own metrics where one exists, `tandem_…` otherwise. Nothing here
//! looks into another room: a scrape gets plain [`Figures`], so it can't touch the message path.

use broker_protocol::name;
use prometheus::{
    Encoder, GaugeVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// Everything one scrape shows.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Cluster the broker belongs to.
    pub cluster: String,
    /// Name of the broker.
    pub broker: String,
    /// Per topic.
    pub topics: Vec<TopicFigures>,
    /// Per consumer group and topic.
    pub groups: Vec<GroupFigures>,
    /// Online producers by language and version: `(language, version, links)`.
    pub producers: Vec<(String, String, i64)>,
    /// Online consumers: `(group, language, version, links)`.
    pub consumers: Vec<(String, String, String, i64)>,
    /// `brokerPermission`: 2 write, 4 read.
    pub permission: i64,
    /// Number of consumer groups known.
    pub group_count: i64,
    /// Bytes that the log holds.
    pub storage_bytes: i64,
    /// Appended bytes that no fsync has confirmed.
    pub flush_behind_bytes: i64,
    /// Appended bytes that no ConsumeQueue knows.
    pub dispatch_behind_bytes: i64,
    /// Age of the oldest message, in milliseconds.
    pub reserve_time_ms: i64,
    /// Filled part of the commit log's disk, 0 to 1.
    pub disk_ratio: f64,
    /// 1 when the store takes sends.
    pub writable: bool,
    /// Pulls that wait for a message.
    pub held_pulls: i64,
    /// Requests that wait for the blocking pool.
    pub pool_queued: i64,
}

/// A topic's figures since the broker started.
#[derive(Debug, Clone, Default)]
pub struct TopicFigures {
    /// Name.
    pub topic: String,
    /// Whether it is one of RocketMQ's own.
    pub system: bool,
    /// Messages stored.
    pub messages_in: u64,
    /// Bytes of records stored.
    pub bytes_in: u64,
}

/// What a group has read of a topic, and what is left.
#[derive(Debug, Clone, Default)]
pub struct GroupFigures {
    /// Consumer group.
    pub group: String,
    /// Topic.
    pub topic: String,
    /// Whether the topic is the group's retry topic.
    pub retry: bool,
    /// Messages answered to pulls.
    pub messages_out: u64,
    /// Bytes of records answered to pulls.
    pub bytes_out: u64,
    /// Messages between the committed offset and the end, over all queues; `None` when the group has
    /// committed nothing, which is not the same as no lag.
    pub lag: Option<i64>,
    /// Age of the oldest of them, in milliseconds.
    pub lag_ms: Option<i64>,
}

/// One scrape's text.
///
/// # Errors
/// When a metric can't be built, which would be a defect of this file; the text says which.
pub fn render(figures: &Figures) -> Result<String, prometheus::Error> {
    let registry = Registry::new();
    let page = Page { registry: &registry, figures };
    page.topics()?;
    page.groups()?;
    page.clients()?;
    page.store()?;
    page.process()?;
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Labels that every RocketMQ metric starts with.
const NODE: [&str; 3] = ["cluster", "node_type", "node_id"];

struct Page<'a> {
    registry: &'a Registry,
    figures: &'a Figures,
}

impl Page<'_> {
    fn labels<'l>(&'l self, more: &[&'l str]) -> Vec<&'l str> {
        let node = [self.figures.cluster.as_str(), "broker", self.figures.broker.as_str()];
        node.into_iter().chain(more.iter().copied()).collect()
    }

    fn counters(&self, name: &str, help: &str, more: &[&str]) -> prometheus::Result<IntCounterVec> {
        let names: Vec<&str> = NODE.iter().chain(more).copied().collect();
        let vec = IntCounterVec::new(Opts::new(name, help), &names)?;
        self.registry.register(Box::new(vec.clone()))?;
        Ok(vec)
    }

    fn gauges(&self, name: &str, help: &str, more: &[&str]) -> prometheus::Result<IntGaugeVec> {
        let names: Vec<&str> = NODE.iter().chain(more).copied().collect();
        let vec = IntGaugeVec::new(Opts::new(name, help), &names)?;
        self.registry.register(Box::new(vec.clone()))?;
        Ok(vec)
    }

    fn gauge(&self, name: &str, help: &str, value: i64) -> prometheus::Result<()> {
        self.gauges(name, help, &[])?.with_label_values(&self.labels(&[])).set(value);
        Ok(())
    }

    fn topics(&self) -> prometheus::Result<()> {
        let of_topic = ["topic", "message_type", "is_system"];
        let messages =
            self.counters("rocketmq_messages_in_total", "Messages stored.", &of_topic)?;
        let bytes =
            self.counters("rocketmq_throughput_in_total", "Bytes of records stored.", &of_topic)?;
        for topic in &self.figures.topics {
            let labels = self.labels(&[&topic.topic, "normal", text(topic.system)]);
            messages.with_label_values(&labels).inc_by(topic.messages_in);
            bytes.with_label_values(&labels).inc_by(topic.bytes_in);
        }
        let dead = self.counters(
            "rocketmq_send_to_dlq_messages_total",
            "Messages stored in the dead-letter topic of a group.",
            &["consumer_group"],
        )?;
        for topic in &self.figures.topics {
            if let Some(group) = name::group_of_dlq(&topic.topic) {
                dead.with_label_values(&self.labels(&[group])).inc_by(topic.messages_in);
            }
        }
        let count = i64::try_from(self.figures.topics.len()).unwrap_or(i64::MAX);
        self.gauge("rocketmq_topic_number", "Topics that exist.", count)
    }

    fn groups(&self) -> prometheus::Result<()> {
        let labels = ["consumer_group", "topic", "is_retry"];
        let messages =
            self.counters("rocketmq_messages_out_total", "Messages answered to pulls.", &labels)?;
        let bytes = self.counters(
            "rocketmq_throughput_out_total",
            "Bytes of records answered to pulls.",
            &labels,
        )?;
        let lag = self.gauges(
            "rocketmq_consumer_lag_messages",
            "Messages behind the end of the topic; absent when the group has no committed offset.",
            &labels,
        )?;
        let latency = self.gauges(
            "rocketmq_consumer_lag_latency",
            "Age of the oldest message that the group has not committed, in milliseconds.",
            &labels,
        )?;
        for group in &self.figures.groups {
            let labels = self.labels(&[&group.group, &group.topic, text(group.retry)]);
            messages.with_label_values(&labels).inc_by(group.messages_out);
            bytes.with_label_values(&labels).inc_by(group.bytes_out);
            if let Some(behind) = group.lag {
                lag.with_label_values(&labels).set(behind);
            }
            if let Some(age) = group.lag_ms {
                latency.with_label_values(&labels).set(age);
            }
        }
        self.gauge(
            "rocketmq_consumer_group_number",
            "Consumer groups that exist.",
            self.figures.group_count,
        )
    }

    fn clients(&self) -> prometheus::Result<()> {
        let producers = self.gauges(
            "rocketmq_producer_connections",
            "Online producer links.",
            &["language", "version"],
        )?;
        for (language, version, links) in &self.figures.producers {
            producers.with_label_values(&self.labels(&[language, version])).set(*links);
        }
        let consumers = self.gauges(
            "rocketmq_consumer_connections",
            "Online consumer links.",
            &["consumer_group", "language", "version"],
        )?;
        for (group, language, version, links) in &self.figures.consumers {
            consumers.with_label_values(&self.labels(&[group, language, version])).set(*links);
        }
        Ok(())
    }

    fn store(&self) -> prometheus::Result<()> {
        let figures = self.figures;
        self.gauge(
            "rocketmq_broker_permission",
            "What clients may do: 2 write, 4 read, 6 both.",
            figures.permission,
        )?;
        self.gauge("rocketmq_storage_size", "Bytes the log holds.", figures.storage_bytes)?;
        self.gauge(
            "rocketmq_storage_flush_behind_bytes",
            "Appended bytes that no fsync has confirmed.",
            figures.flush_behind_bytes,
        )?;
        self.gauge(
            "rocketmq_storage_dispatch_behind_bytes",
            "Appended bytes that no ConsumeQueue knows yet.",
            figures.dispatch_behind_bytes,
        )?;
        self.gauge(
            "rocketmq_storage_message_reserve_time",
            "Age of the oldest stored message, in milliseconds.",
            figures.reserve_time_ms,
        )
    }

    fn process(&self) -> prometheus::Result<()> {
        let figures = self.figures;
        for (name, help, value) in [
            ("tandem_store_writable", "1 when the store takes sends.", i64::from(figures.writable)),
            ("tandem_held_pulls", "Pulls that wait for a message.", figures.held_pulls),
            (
                "tandem_pool_queued_requests",
                "Requests that wait for the blocking pool.",
                figures.pool_queued,
            ),
        ] {
            let gauge = IntGauge::new(name, help)?;
            gauge.set(value);
            self.registry.register(Box::new(gauge))?;
        }
        let help = "Filled part of the disk.";
        let disk = GaugeVec::new(Opts::new("tandem_disk_used_ratio", help), &["path"])?;
        disk.with_label_values(&["commitlog"]).set(figures.disk_ratio);
        self.registry.register(Box::new(disk))
    }
}

fn text(truth: bool) -> &'static str {
    if truth { "true" } else { "false" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_counts_and_leaves_unknown_lag_out() {
        let group = |name: &str, lag| GroupFigures {
            group: name.to_owned(),
            topic: "t".to_owned(),
            messages_out: 7,
            lag,
            ..GroupFigures::default()
        };
        let figures = Figures {
            cluster: "c".to_owned(),
            broker: "b".to_owned(),
            topics: vec![TopicFigures {
                topic: "t".to_owned(),
                messages_in: 3,
                bytes_in: 300,
                system: false,
            }],
            groups: vec![group("known", Some(5)), group("unknown", None)],
            ..Figures::default()
        };
        let page = render(&figures).unwrap();
        let line = |start: &str, end: &str| {
            page.lines().any(|line| line.starts_with(start) && line.ends_with(end))
        };
        assert!(
            line("rocketmq_messages_in_total{cluster=\"c\",is_system=\"false\"", "} 3"),
            "{page}"
        );
        assert!(line(
            "rocketmq_consumer_lag_messages{cluster=\"c\",consumer_group=\"known\"",
            "} 5"
        ));
        assert!(!line(
            "rocketmq_consumer_lag_messages{cluster=\"c\",consumer_group=\"unknown\"",
            ""
        ));
        assert!(line("tandem_store_writable", " 0"));
    }

    #[test]
    fn twenty_thousand_groups_are_written_well_within_a_scrape() {
        let groups = (0..20_000)
            .map(|n| GroupFigures {
                group: format!("group{}", n % 20),
                topic: format!("topic{}", n / 20),
                lag: Some(n),
                ..GroupFigures::default()
            })
            .collect();
        let started = std::time::Instant::now();
        let page = render(&Figures { groups, ..Figures::default() }).unwrap();
        assert!(page.lines().count() >= 60_000);
        assert!(
            started.elapsed().as_secs() < 20,
            "an unoptimised build on a busy machine has slack"
        );
    }
}
