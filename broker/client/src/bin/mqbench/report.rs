//! What mqbench prints: a line of progress each second, and the result as text or JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::measure::Tally;
use crate::process::ProcessFigures;

/// Everything that a run found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The options that shape the load.
    pub(crate) settings: serde_json::Value,
    /// The measured windows, in order.
    pub(crate) windows: Vec<WindowReport>,
    /// The median of the windows, figure by figure.
    pub(crate) median: Summary,
    /// Failures of the whole run, warm-up included.
    pub(crate) errors: BTreeMap<String, u64>,
}

/// One measured window.
#[derive(Debug, Serialize)]
pub(crate) struct WindowReport {
    /// The figures.
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// Failures in this window.
    pub(crate) errors: BTreeMap<String, u64>,
}

/// The figures of a window, or their medians.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Summary {
    /// Length in seconds.
    pub(crate) seconds: f64,
    /// Acknowledged messages.
    pub(crate) produced: f64,
    /// Acknowledged messages a second.
    pub(crate) produced_per_second: f64,
    /// Pulled messages.
    pub(crate) consumed: f64,
    /// Pulled messages a second.
    pub(crate) consumed_per_second: f64,
    /// Body bytes a second, both ways, in MiB.
    pub(crate) mib_per_second: f64,
    /// Due time to acknowledgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) send_latency: Option<Latency>,
    /// Due time of the send to arrival at a consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end_to_end: Option<Latency>,
    /// Processor time of the broker, in seconds per million messages (sent plus pulled).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) broker_cpu_seconds_per_million: Option<f64>,
    /// Processors that the broker kept busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) broker_cores: Option<f64>,
    /// Highest resident memory of the broker so far, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) broker_peak_mib: Option<f64>,
    /// Anonymous resident memory of the broker at the window's end, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) broker_anonymous_mib: Option<f64>,
    /// Processor time of mqbench itself, in seconds per million messages.
    pub(crate) own_cpu_seconds_per_million: f64,
}

/// Points of a latency distribution, in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// The figures at both ends of a window: of the broker's processes, and of mqbench.
#[derive(Clone, Debug)]
pub(crate) struct Looks {
    pub(crate) broker: Vec<ProcessFigures>,
    pub(crate) own: ProcessFigures,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        if histogram.is_empty() {
            return None;
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
        Some(Self {
            mean: histogram.mean() / 1e6,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max() as f64 / 1e6,
        })
    }
}

impl WindowReport {
    /// The figures of a window of `seconds` that counted `tally` between two looks at processes.
    pub(crate) fn new(seconds: f64, tally: &Tally, before: &Looks, after: &Looks) -> Self {
        let messages = tally.messages();
        let per_million = |cpu: f64| cpu * 1e6 / messages.max(1) as f64;
        let broker_cpu: f64 = after
            .broker
            .iter()
            .zip(&before.broker)
            .map(|(after, before)| after.cpu_seconds - before.cpu_seconds)
            .sum();
        let watched = !after.broker.is_empty();
        let mib = |kib: fn(&ProcessFigures) -> u64| {
            watched.then(|| after.broker.iter().map(kib).sum::<u64>() as f64 / 1024.0)
        };
        let summary = Summary {
            seconds,
            produced: tally.produced as f64,
            produced_per_second: tally.produced as f64 / seconds,
            consumed: tally.consumed as f64,
            consumed_per_second: tally.consumed as f64 / seconds,
            mib_per_second: tally.bytes as f64 / seconds / (1024.0 * 1024.0),
            send_latency: Latency::of(&tally.send_latency),
            end_to_end: Latency::of(&tally.end_to_end),
            broker_cpu_seconds_per_million: (watched && messages > 0)
                .then(|| per_million(broker_cpu)),
            broker_cores: watched.then(|| broker_cpu / seconds),
            broker_peak_mib: mib(|figures| figures.peak_kib),
            broker_anonymous_mib: mib(|figures| figures.anonymous_kib),
            own_cpu_seconds_per_million: per_million(
                after.own.cpu_seconds - before.own.cpu_seconds,
            ),
        };
        Self { summary, errors: tally.errors.clone() }
    }
}

impl Summary {
    /// The median of each figure; figures that no window has stay absent.
    pub(crate) fn median(windows: &[WindowReport]) -> Self {
        let figure = |get: fn(&Self) -> f64| {
            median(windows.iter().map(|w| get(&w.summary)).collect()).unwrap_or_default()
        };
        let optional = |get: fn(&Self) -> Option<f64>| {
            median(windows.iter().filter_map(|w| get(&w.summary)).collect())
        };
        let latency = |get: fn(&Self) -> Option<&Latency>| {
            let all: Vec<&Latency> = windows.iter().filter_map(|w| get(&w.summary)).collect();
            let point =
                |get: fn(&Latency) -> f64| median(all.iter().map(|latency| get(latency)).collect());
            Some(Latency {
                mean: point(|l| l.mean)?,
                p50: point(|l| l.p50)?,
                p90: point(|l| l.p90)?,
                p99: point(|l| l.p99)?,
                p999: point(|l| l.p999)?,
                max: point(|l| l.max)?,
            })
        };
        Self {
            seconds: figure(|s| s.seconds),
            produced: figure(|s| s.produced),
            produced_per_second: figure(|s| s.produced_per_second),
            consumed: figure(|s| s.consumed),
            consumed_per_second: figure(|s| s.consumed_per_second),
            mib_per_second: figure(|s| s.mib_per_second),
            send_latency: latency(|s| s.send_latency.as_ref()),
            end_to_end: latency(|s| s.end_to_end.as_ref()),
            broker_cpu_seconds_per_million: optional(|s| s.broker_cpu_seconds_per_million),
            broker_cores: optional(|s| s.broker_cores),
            broker_peak_mib: optional(|s| s.broker_peak_mib),
            broker_anonymous_mib: optional(|s| s.broker_anonymous_mib),
            own_cpu_seconds_per_million: figure(|s| s.own_cpu_seconds_per_million),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String can't fail.
        let _ = (|| -> std::fmt::Result {
            if self.produced > 0.0 {
                writeln!(text, "  sent        {:>12.0} msg/s", self.produced_per_second)?;
            }
            if self.consumed > 0.0 {
                writeln!(text, "  pulled      {:>12.0} msg/s", self.consumed_per_second)?;
            }
            writeln!(text, "  bodies      {:>12.1} MiB/s", self.mib_per_second)?;
            for (name, latency) in
                [("latency", &self.send_latency), ("end to end", &self.end_to_end)]
            {
                if let Some(l) = latency {
                    writeln!(
                        text,
                        "  {name:<11} mean {:.3}  p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3} ms",
                        l.mean, l.p50, l.p90, l.p99, l.p999, l.max
                    )?;
                }
            }
            if let Some(cpu) = self.broker_cpu_seconds_per_million {
                writeln!(
                    text,
                    "  broker      {cpu:>12.2} CPU s per million messages ({:.2} cores)",
                    self.broker_cores.unwrap_or_default()
                )?;
            }
            if let (Some(peak), Some(anonymous)) = (self.broker_peak_mib, self.broker_anonymous_mib)
            {
                writeln!(
                    text,
                    "  memory      {anonymous:>12.1} MiB anonymous, peak {peak:.1} MiB"
                )?;
            }
            writeln!(
                text,
                "  mqbench     {:>12.2} CPU s per million messages",
                self.own_cpu_seconds_per_million
            )
        })();
        text
    }
}

impl Report {
    /// The result for people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (n, window) in self.windows.iter().enumerate() {
            let _ = writeln!(text, "window {} ({:.1} s)", n + 1, window.summary.seconds);
            text.push_str(&window.summary.text());
        }
        if self.windows.len() > 1 {
            let _ = writeln!(text, "median of {} windows", self.windows.len());
            text.push_str(&self.median.text());
        }
        if !self.errors.is_empty() {
            text.push_str("errors (of the whole run)\n");
            for (kind, count) in &self.errors {
                let _ = writeln!(text, "  {count:>8}  {kind}");
            }
        }
        text
    }
}

/// One line about one second.
pub(crate) fn progress_line(at: f64, phase: &str, seconds: f64, tally: &Tally) -> String {
    let mut line = format!("{at:7.1} s  {phase:<8}");
    if tally.produced > 0 || tally.consumed == 0 {
        let _ = write!(line, "  sent {:>9.0}/s", tally.produced as f64 / seconds);
    }
    if tally.consumed > 0 {
        let _ = write!(line, "  pulled {:>9.0}/s", tally.consumed as f64 / seconds);
    }
    for (name, histogram) in [("", &tally.send_latency), ("end to end ", &tally.end_to_end)] {
        if let Some(latency) = Latency::of(histogram) {
            let _ = write!(line, "  {name}p50 {:.3} p99 {:.3} ms", latency.p50, latency.p99);
        }
    }
    if tally.error_count() > 0 {
        let _ = write!(line, "  errors {}", tally.error_count());
    }
    line
}

/// The middle value, the mean of both middle ones for an even count; `None` when there is none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => values.get(middle).copied(),
        _ => Some((values.get(middle - 1)? + values.get(middle)?) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn look(cpu_seconds: f64) -> ProcessFigures {
        ProcessFigures { cpu_seconds, peak_kib: 4096, anonymous_kib: 2048 }
    }

    fn window(produced: u64, broker_cpu: f64) -> WindowReport {
        let mut tally = Tally::new();
        tally.acknowledged(produced, produced * 1024, Duration::from_millis(1));
        let before = Looks { broker: vec![look(10.0)], own: look(1.0) };
        let after = Looks { broker: vec![look(10.0 + broker_cpu)], own: look(1.5) };
        WindowReport::new(2.0, &tally, &before, &after)
    }

    #[test]
    fn processor_time_is_per_million_messages() {
        let summary = window(100_000, 3.0).summary;
        assert_eq!(summary.broker_cpu_seconds_per_million, Some(30.0));
        assert_eq!(summary.broker_cores, Some(1.5));
        assert_eq!(summary.own_cpu_seconds_per_million, 5.0);
        assert_eq!(summary.produced_per_second, 50_000.0);
        assert_eq!(summary.broker_anonymous_mib, Some(2.0));
    }

    #[test]
    fn without_a_process_there_are_no_broker_figures() {
        let looks = Looks { broker: Vec::new(), own: look(1.0) };
        let summary = WindowReport::new(1.0, &Tally::new(), &looks, &looks).summary;
        assert_eq!(summary.broker_cpu_seconds_per_million, None);
        assert_eq!(summary.broker_cores, None);
        assert_eq!(summary.broker_peak_mib, None);
    }

    #[test]
    fn median_is_taken_figure_by_figure() {
        let windows = [window(100, 9.0), window(300, 1.0), window(200, 2.0)];
        let median = Summary::median(&windows);
        assert_eq!(median.produced, 200.0);
        assert_eq!(median.broker_cores, Some(1.0));
        assert!(median.end_to_end.is_none());
    }

    #[test]
    fn median_of_an_even_count_is_between_the_middle_ones() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
