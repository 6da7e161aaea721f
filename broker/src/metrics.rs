//! What `/metrics` says: figures collected by the assembly, written in Prometheus' text format.
//!
//! Names and labels are those of RocketMQ 5's own metrics where one exists, `tandem_…` otherwise. Nothing here
//! looks into another room: a scrape gets plain [`Figures`], so it can't touch the message path.

use broker_protocol::name;
use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

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
    /// Open connections.
    pub connections: i64,
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

/// One scrape's text. It is written metric by metric: a page of many groups has megabytes, and
/// what it is made of is not kept all at once.
///
/// # Errors
/// When a metric can't be written, which would be a defect of this file; the text says which.
pub fn render(figures: &Figures) -> Result<String, prometheus::Error> {
    let mut page = Page { figures, encoder: TextEncoder::new(), text: String::new() };
    page.topics()?;
    page.groups()?;
    page.clients()?;
    page.store()?;
    page.process()?;
    Ok(page.text)
}

/// Labels that every RocketMQ metric starts with.
const NODE: [&str; 3] = ["cluster", "node_type", "node_id"];

/// The samples of one metric. Built by hand and not by the library's registry, which would check
/// and look up every label of every sample again.
struct Family<'l> {
    kind: MetricType,
    name: &'static str,
    help: &'static str,
    labels: &'l [&'static str],
    samples: Vec<Metric>,
}

impl<'l> Family<'l> {
    fn counter(name: &'static str, help: &'static str, labels: &'l [&'static str]) -> Family<'l> {
        Family { kind: MetricType::COUNTER, name, help, labels, samples: Vec::new() }
    }

    fn gauge(name: &'static str, help: &'static str, labels: &'l [&'static str]) -> Family<'l> {
        Family { kind: MetricType::GAUGE, name, help, labels, samples: Vec::new() }
    }

    /// Adds a sample; `node` and then `values` are the labels' values in the order of their names.
    fn add(&mut self, node: &[&str], values: &[&str], value: f64) {
        let names = NODE.iter().take(node.len()).chain(self.labels);
        let pair = |(name, value): (&&str, &&str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        let mut sample = Metric::default();
        sample.set_label(names.zip(node.iter().chain(values)).map(pair).collect());
        if self.kind == MetricType::COUNTER {
            let mut counter = Counter::default();
            counter.set_value(value);
            sample.set_counter(counter);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            sample.set_gauge(gauge);
        }
        self.samples.push(sample);
    }
}

struct Page<'a> {
    figures: &'a Figures,
    encoder: TextEncoder,
    text: String,
}

/// Samples are doubles; beyond 2^53 they lose their last digits, as everywhere in Prometheus.
fn number(value: u64) -> f64 {
    value as f64
}

fn signed(value: i64) -> f64 {
    value as f64
}

impl<'a> Page<'a> {
    fn node(&self) -> [&'a str; 3] {
        [self.figures.cluster.as_str(), "broker", self.figures.broker.as_str()]
    }

    /// Writes a metric, unless it has no sample.
    fn write(&mut self, family: Family<'_>) -> prometheus::Result<()> {
        if family.samples.is_empty() {
            return Ok(());
        }
        let mut metrics = MetricFamily::default();
        metrics.set_name(family.name.to_owned());
        metrics.set_help(family.help.to_owned());
        metrics.set_field_type(family.kind);
        metrics.set_metric(family.samples);
        self.encoder.encode_utf8(&[metrics], &mut self.text)
    }

    fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        value: i64,
    ) -> prometheus::Result<()> {
        let mut family = Family::gauge(name, help, &[]);
        family.add(&self.node(), &[], signed(value));
        self.write(family)
    }

    fn topics(&mut self) -> prometheus::Result<()> {
        let (figures, node) = (self.figures, self.node());
        let of_topics = |mut family: Family<'static>, value: fn(&TopicFigures) -> u64| {
            for topic in &figures.topics {
                let values = [&*topic.topic, "normal", text(topic.system)];
                family.add(&node, &values, number(value(topic)));
            }
            family
        };
        const LABELS: [&str; 3] = ["topic", "message_type", "is_system"];
        self.write(of_topics(
            Family::counter("rocketmq_messages_in_total", "Messages stored.", &LABELS),
            |topic| topic.messages_in,
        ))?;
        self.write(of_topics(
            Family::counter("rocketmq_throughput_in_total", "Bytes of records stored.", &LABELS),
            |topic| topic.bytes_in,
        ))?;
        let mut dead = Family::counter(
            "rocketmq_send_to_dlq_messages_total",
            "Messages stored in the dead-letter topic of a group.",
            &["consumer_group"],
        );
        for topic in &figures.topics {
            if let Some(group) = name::group_of_dlq(&topic.topic) {
                dead.add(&node, &[group], number(topic.messages_in));
            }
        }
        self.write(dead)?;
        let count = i64::try_from(figures.topics.len()).unwrap_or(i64::MAX);
        self.gauge("rocketmq_topic_number", "Topics that exist.", count)
    }

    fn groups(&mut self) -> prometheus::Result<()> {
        const LABELS: [&str; 3] = ["consumer_group", "topic", "is_retry"];
        self.of_groups(
            Family::counter("rocketmq_messages_out_total", "Messages answered to pulls.", &LABELS),
            |group| Some(number(group.messages_out)),
        )?;
        self.of_groups(
            Family::counter(
                "rocketmq_throughput_out_total",
                "Bytes of records answered to pulls.",
                &LABELS,
            ),
            |group| Some(number(group.bytes_out)),
        )?;
        self.of_groups(
            Family::gauge(
                "rocketmq_consumer_lag_messages",
                "Messages behind the end of the topic; absent when the group has no committed offset.",
                &LABELS,
            ),
            |group| group.lag.map(signed),
        )?;
        self.of_groups(
            Family::gauge(
                "rocketmq_consumer_lag_latency",
                "Age of the oldest message that the group has not committed, in milliseconds.",
                &LABELS,
            ),
            |group| group.lag_ms.map(signed),
        )?;
        let count = self.figures.group_count;
        self.gauge("rocketmq_consumer_group_number", "Consumer groups that exist.", count)
    }

    /// A sample for each group and topic that has this value.
    fn of_groups(
        &mut self,
        mut family: Family<'_>,
        value: impl Fn(&GroupFigures) -> Option<f64>,
    ) -> prometheus::Result<()> {
        let node = self.node();
        for group in &self.figures.groups {
            if let Some(value) = value(group) {
                family.add(&node, &[&group.group, &group.topic, text(group.retry)], value);
            }
        }
        self.write(family)
    }

    fn clients(&mut self) -> prometheus::Result<()> {
        let node = self.node();
        let mut producers = Family::gauge(
            "rocketmq_producer_connections",
            "Online producer links.",
            &["language", "version"],
        );
        for (language, version, links) in &self.figures.producers {
            producers.add(&node, &[language, version], signed(*links));
        }
        self.write(producers)?;
        let mut consumers = Family::gauge(
            "rocketmq_consumer_connections",
            "Online consumer links.",
            &["consumer_group", "language", "version"],
        );
        for (group, language, version, links) in &self.figures.consumers {
            consumers.add(&node, &[group, language, version], signed(*links));
        }
        self.write(consumers)
    }

    fn store(&mut self) -> prometheus::Result<()> {
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

    fn process(&mut self) -> prometheus::Result<()> {
        let figures = self.figures;
        for (name, help, value) in [
            ("tandem_store_writable", "1 when the store takes sends.", i64::from(figures.writable)),
            ("tandem_connections", "Open connections.", figures.connections),
            ("tandem_held_pulls", "Pulls that wait for a message.", figures.held_pulls),
            (
                "tandem_pool_queued_requests",
                "Requests that wait for the blocking pool.",
                figures.pool_queued,
            ),
        ] {
            let mut gauge = Family::gauge(name, help, &[]);
            gauge.add(&[], &[], signed(value));
            self.write(gauge)?;
        }
        let mut disk =
            Family::gauge("tandem_disk_used_ratio", "Filled part of the disk.", &["path"]);
        disk.add(&[], &["commitlog"], figures.disk_ratio);
        self.write(disk)
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
            line(
                "rocketmq_messages_in_total{cluster=\"c\",node_type=\"broker\",node_id=\"b\",topic=\"t\"",
                "} 3"
            ),
            "{page}"
        );
        assert!(line(
            "rocketmq_consumer_lag_messages{cluster=\"c\",node_type=\"broker\",node_id=\"b\",consumer_group=\"known\"",
            "} 5"
        ));
        assert!(!line(
            "rocketmq_consumer_lag_messages{cluster=\"c\",node_type=\"broker\",node_id=\"b\",consumer_group=\"unknown\"",
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
