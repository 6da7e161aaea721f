//! How fast and how much: samples of the message path's counters, taken each second for the whole
//! broker and every ten seconds for topics and their readers. Runtime info (28), stats queries
//! (315) and consume stats (208) are answered from here. The counters themselves are in
//! [`crate::stats`].

mod history;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ahash::RandomState;
use broker_protocol::body::{BrokerStatsData, BrokerStatsItem};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use parking_lot::Mutex;

use crate::stats::Stats;
use crate::topics::Topics;

use history::History;

/// Broker samples kept: ten minutes of seconds, and the one before.
const SAMPLES_MAX: usize = 601;

/// How often topics and readers are sampled, in milliseconds.
const ITEM_INTERVAL_MS: i64 = 10_000;

/// The whole broker's counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages stored.
    pub puts: u64,
    /// Messages handed out.
    pub gets: u64,
    /// Pulls that found something.
    pub pulls_found: u64,
    /// Pulls that found nothing.
    pub pulls_missed: u64,
}

impl Totals {
    fn of(stats: &Stats) -> Totals {
        Totals {
            puts: stats.puts.get(),
            gets: stats.gets.get(),
            pulls_found: stats.pulls_found.get(),
            pulls_missed: stats.pulls_missed.get(),
        }
    }
}

/// Totals at the last two midnights, local time; 0 for those before the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mornings {
    /// At the midnight before the last one.
    pub yesterday: Totals,
    /// At the last midnight.
    pub today: Totals,
}

/// The samples. [`Rates::tick`] takes them.
#[derive(Debug, Default)]
pub struct Rates {
    broker: Mutex<Broker>,
    topics: Mutex<HashMap<Arc<str>, TopicHistory, RandomState>>,
}

#[derive(Debug, Default)]
struct Broker {
    samples: VecDeque<(i64, Totals)>,
    puts: History,
    gets: History,
    mornings: Mornings,
    day: Option<Date>,
    items_sampled_at: i64,
}

#[derive(Debug, Default)]
struct TopicHistory {
    puts: History,
    put_bytes: History,
    readers: HashMap<Arc<str>, ReaderHistory, RandomState>,
}

#[derive(Debug, Default)]
struct ReaderHistory {
    gets: History,
    get_bytes: History,
    send_backs: History,
}

impl Rates {
    /// No samples yet.
    #[must_use]
    pub fn new() -> Rates {
        Rates::default()
    }

    /// Takes the samples that are due; called each second. `now` is in milliseconds.
    pub fn tick(&self, stats: &Stats, topics: &Topics, now: i64) {
        let totals = Totals::of(stats);
        let today = Timestamp::from_millisecond(now)
            .map(|time| TimeZone::system().to_datetime(time).date())
            .ok();
        if self.broker.lock().sample(now, today, totals) {
            self.sample_topics(topics, now);
        }
    }

    fn sample_topics(&self, topics: &Topics, now: i64) {
        let present = topics.all();
        let mut histories = self.topics.lock();
        histories.retain(|name, _| topics.find(name).is_some());
        for topic in present {
            let counters = &topic.counters;
            let readers = counters.readers();
            if counters.puts.get() == 0 && readers.is_empty() {
                continue;
            }
            let history = histories.entry(Arc::clone(topic.name())).or_default();
            history.puts.sample(now, counters.puts.get());
            history.put_bytes.sample(now, counters.put_bytes.get());
            history.readers.retain(|group, _| readers.iter().any(|(reader, _)| reader == group));
            for (group, reader) in readers {
                let history = history.readers.entry(group).or_default();
                history.gets.sample(now, reader.gets.get());
                history.get_bytes.sample(now, reader.get_bytes.get());
                history.send_backs.sample(now, reader.send_backs.get());
            }
        }
    }

    /// Messages a second that the group read of the topic in the last minute.
    #[must_use]
    pub fn group_get_tps(&self, topic: &str, group: &str) -> f64 {
        let histories = self.topics.lock();
        let reader = histories.get(topic).and_then(|history| history.readers.get(group));
        reader.map_or(0.0, |reader| reader.gets.minute().per_second())
    }

    /// What grew a second over the last 10, 60 and 600 seconds (or as long as the broker runs).
    #[must_use]
    pub fn per_second(&self, figure: impl Fn(&Totals) -> u64) -> [f64; 3] {
        let broker = self.broker.lock();
        [10, 60, 600].map(|seconds| broker.per_second(seconds, &figure))
    }

    /// Totals at the last two midnights.
    #[must_use]
    pub fn mornings(&self) -> Mornings {
        self.broker.lock().mornings
    }

    /// One figure over minute, hour and day, by RocketMQ's names; `None` for a name that is not
    /// kept or a key that nothing was counted for.
    #[must_use]
    pub fn figure(&self, name: &str, key: &str, cluster: &str) -> Option<BrokerStatsData> {
        match name {
            "BROKER_PUT_NUMS" if key == cluster => Some(self.broker.lock().puts.figure(None)),
            "BROKER_GET_NUMS" if key == cluster => Some(self.broker.lock().gets.figure(None)),
            "TOPIC_PUT_NUMS" => self.topics.lock().get(key)?.puts.kept_figure(None),
            "TOPIC_PUT_SIZE" => {
                let histories = self.topics.lock();
                let topic = histories.get(key)?;
                topic.put_bytes.kept_figure(Some(&topic.puts))
            }
            _ => {
                let (topic, group) = key.split_once('@')?;
                let histories = self.topics.lock();
                let reader = histories.get(topic)?.readers.get(group)?;
                match name {
                    "GROUP_GET_NUMS" => reader.gets.kept_figure(None),
                    "GROUP_GET_SIZE" => reader.get_bytes.kept_figure(Some(&reader.gets)),
                    "SNDBCK_PUT_NUMS" => reader.send_backs.kept_figure(None),
                    _ => None,
                }
            }
        }
    }
}

impl Broker {
    /// True when the topics are due too.
    fn sample(&mut self, now: i64, today: Option<Date>, totals: Totals) -> bool {
        if self.samples.len() >= SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, totals));
        if self.day.is_some() && self.day != today {
            self.mornings = Mornings { yesterday: self.mornings.today, today: totals };
        }
        self.day = today.or(self.day);
        let due = (now - self.items_sampled_at).abs() >= ITEM_INTERVAL_MS;
        if due {
            self.items_sampled_at = now;
            self.puts.sample(now, totals.puts);
            self.gets.sample(now, totals.gets);
        }
        due
    }

    fn per_second(&self, seconds: usize, figure: impl Fn(&Totals) -> u64) -> f64 {
        let first = self.samples.len().saturating_sub(seconds + 1);
        let (Some(first), Some(last)) = (self.samples.get(first), self.samples.back()) else {
            return 0.0;
        };
        per_second(figure(&last.1).saturating_sub(figure(&first.1)), last.0 - first.0)
    }
}

fn per_second(growth: u64, milliseconds: i64) -> f64 {
    if milliseconds <= 0 { 0.0 } else { growth as f64 * 1_000.0 / milliseconds as f64 }
}

impl History {
    /// `None` as long as nothing was counted.
    fn kept_figure(&self, counts: Option<&History>) -> Option<BrokerStatsData> {
        self.is_kept().then(|| self.figure(counts))
    }

    /// The figure over each span. `counts` is what its average is taken over; without it a count is
    /// its own.
    fn figure(&self, counts: Option<&History>) -> BrokerStatsData {
        let item = |growth: history::Growth, times: u64| BrokerStatsItem {
            sum: i64::try_from(growth.sum).unwrap_or(i64::MAX),
            tps: growth.per_second(),
            avgpt: if times == 0 { 0.0 } else { growth.sum as f64 / times as f64 },
        };
        let counts = counts.unwrap_or(self);
        BrokerStatsData {
            stats_minute: item(self.minute(), counts.minute().sum),
            stats_hour: item(self.hour(), counts.hour().sum),
            stats_day: item(self.day(), counts.day().sum),
        }
    }
}

#[cfg(test)]
mod tests;
