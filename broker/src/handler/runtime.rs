//! The broker's figures in RocketMQ's names (28): what `mqadmin brokerStatus` and `clusterList`
//! show.

use std::collections::BTreeMap;
use std::path::Path;

use broker_protocol::body::KvTable;
use broker_protocol::json::java_double;
use broker_protocol::version;
use broker_store::env::FileSystem;
use broker_store::{PUT_TIME_BOUNDS_MS, StoreStatus};

use super::Refusal;
use super::refusal::json_answer;
use crate::net::Answer;
use crate::pool::Pool;
use crate::rates::{Rates, Totals};
use crate::schedule::LevelStatus;
use crate::stats::Stats;

/// What the figures are taken from.
#[derive(Debug)]
pub struct Runtime<'b> {
    /// The store's figures.
    pub store: StoreStatus,
    /// Where the commit log lies, and how to ask for its disk.
    pub commit_log: (&'b Path, &'b dyn FileSystem),
    /// Samples.
    pub rates: &'b Rates,
    /// Counters.
    pub stats: &'b Stats,
    /// The delay levels.
    pub levels: Vec<LevelStatus>,
    /// Threads for what waits for a disk.
    pub pool: &'b Pool,
    /// Threads for pulls of what is not in memory.
    pub cold_reads: &'b Pool,
    /// startAcceptSendRequestTimeStamp.
    pub accepts_sends_from: i64,
    /// Milliseconds since 1970.
    pub now: i64,
}

type Figures = BTreeMap<String, String>;

impl Runtime<'_> {
    /// 28: all figures.
    pub fn answer(&self) -> Result<Answer, Refusal> {
        json_answer(&KvTable { table: self.figures() })
    }

    fn figures(&self) -> Figures {
        let mut figures = Figures::new();
        self.process(&mut figures);
        self.puts(&mut figures);
        self.throughput(&mut figures);
        self.log(&mut figures);
        self.queues(&mut figures);
        for level in self.levels.iter().filter(|level| level.max > 0) {
            let progress = format!("{},{}", level.next, level.max);
            figures.insert(format!("scheduleMessageOffset_{}", level.level), progress);
        }
        figures
    }

    fn process(&self, figures: &mut Figures) {
        set(figures, "bootTimestamp", self.store.opened_ms);
        set(figures, "runtime", run_time_text(self.now - self.store.opened_ms));
        set(figures, "brokerVersion", version::REPORTED);
        set(figures, "brokerVersionDesc", "V4_9_3");
        set(figures, "startAcceptSendRequestTimeStamp", self.accepts_sends_from);
    }

    fn puts(&self, figures: &mut Figures) {
        let store = &self.store;
        // Java starts this count at one, so that it can divide by it.
        let times = store.put_messages.max(1);
        set(figures, "putMessageTimesTotal", times);
        set(figures, "putMessageSizeTotal", store.put_bytes);
        let average = java_double(store.put_bytes as f64 / times as f64);
        set(figures, "putMessageAverageSize", average);
        set(figures, "putMessageEntireTimeMax", store.put_longest_ms);
        set(figures, "putMessageFailedTimes", self.stats.put_failures.get());
        set(figures, "putMessageDistributeTime", put_times_text(store));
        set(figures, "pageCacheLockTimeMills", store.put_locked_ms);
    }

    fn throughput(&self, figures: &mut Figures) {
        let rate =
            |figure: fn(&Totals) -> u64| self.rates.per_second(figure).map(java_double).join(" ");
        set(figures, "putTps", rate(|t| t.puts));
        set(figures, "getFoundTps", rate(|t| t.pulls_found));
        set(figures, "getMissTps", rate(|t| t.pulls_missed));
        set(figures, "getTotalTps", rate(|t| t.pulls_found + t.pulls_missed));
        // 4.9 tools read the first spelling, those of 5.x the second.
        set(figures, "getTransferedTps", rate(|t| t.gets));
        set(figures, "getTransferredTps", rate(|t| t.gets));
        set(figures, "getMessageEntireTimeMax", 0);
        let mornings = self.rates.mornings();
        set(figures, "msgPutTotalYesterdayMorning", mornings.yesterday.puts);
        set(figures, "msgPutTotalTodayMorning", mornings.today.puts);
        set(figures, "msgPutTotalTodayNow", self.stats.puts.get());
        set(figures, "msgGetTotalYesterdayMorning", mornings.yesterday.gets);
        set(figures, "msgGetTotalTodayMorning", mornings.today.gets);
        set(figures, "msgGetTotalTodayNow", self.stats.gets.get());
    }

    fn log(&self, figures: &mut Figures) {
        let store = &self.store;
        set(figures, "commitLogMinOffset", store.min_offset);
        set(figures, "commitLogMaxOffset", store.max_offset);
        let ratio = java_double(store.commit_log_disk_ratio);
        let (path, files) = self.commit_log;
        set(figures, &format!("commitLogDiskRatio_{}", path.display()), &ratio);
        set(figures, "commitLogDiskRatio", ratio);
        set(figures, "consumeQueueDiskRatio", java_double(store.consume_queue_disk_ratio));
        set(figures, "dispatchMaxBuffer", 0);
        set(figures, "dispatchBehindBytes", store.dispatch_behind());
        set(figures, "earliestMessageTimeStamp", store.earliest_ms);
        set(figures, "remainHowManyDataToCommit", bytes_text(0));
        set(figures, "remainHowManyDataToFlush", bytes_text(store.flush_behind()));
        // There is no pool of buffers, which Java says by its largest number.
        set(figures, "remainTransientStoreBufferNumbs", i32::MAX);
        match files.space(path) {
            Ok(space) => {
                let (total, free) = (bytes_text(space.total), bytes_text(space.available));
                set(figures, "commitLogDirCapacity", format!("Total : {total}, Free : {free}."));
            }
            Err(error) => tracing::warn!(%error, "the commit log's disk can't be asked"),
        }
    }

    /// Queues before thread pools, as Java names them. Sends and pulls have none of their own here:
    /// shown is the pool that takes up those which wait for a disk.
    fn queues(&self, figures: &mut Figures) {
        let shown = [("send", self.pool), ("pull", self.cold_reads), ("query", self.pool)];
        for (name, pool) in shown {
            set(figures, &format!("{name}ThreadPoolQueueSize"), pool.queued());
            set(figures, &format!("{name}ThreadPoolQueueCapacity"), pool.capacity());
            let wait = pool.head_wait().as_millis();
            set(figures, &format!("{name}ThreadPoolQueueHeadWaitTimeMills"), wait);
        }
        set(figures, "EndTransactionQueueSize", 0);
        set(figures, "EndTransactionThreadPoolQueueCapacity", self.pool.capacity());
    }
}

fn set(figures: &mut Figures, name: &str, value: impl ToString) {
    figures.insert(name.to_owned(), value.to_string());
}

fn run_time_text(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    format!(
        "[ {days} days, {} hours, {} minutes, {} seconds ]",
        hours % 24,
        minutes % 60,
        seconds % 60
    )
}

fn put_times_text(store: &StoreStatus) -> String {
    let duration =
        |ms: i64| if ms < 1_000 { format!("{ms}ms") } else { format!("{}s", ms / 1_000) };
    let unit = |ms: i64| if ms < 1_000 { "" } else { "s" };
    let mut texts = Vec::with_capacity(store.put_times.len());
    for (bucket, count) in store.put_times.iter().enumerate() {
        let upper = PUT_TIME_BOUNDS_MS.get(bucket);
        let lower = bucket.checked_sub(1).and_then(|below| PUT_TIME_BOUNDS_MS.get(below));
        let range = match (lower, upper) {
            (None, Some(upper)) => format!("<={}", duration(*upper)),
            (Some(lower), Some(upper)) if *lower < 1_000 && *upper < 1_000 => {
                format!("{lower}~{}", duration(*upper))
            }
            (Some(lower), Some(upper)) if *lower < 1_000 => {
                format!("{}~{}", duration(*lower), duration(*upper))
            }
            (Some(lower), Some(upper)) => {
                format!("{}~{}{}", lower / 1_000, upper / 1_000, unit(*upper))
            }
            (Some(lower), None) => format!("{}~", duration(*lower)),
            (None, None) => continue,
        };
        texts.push(format!("[{range}]:{count}"));
    }
    texts.join(" ")
}

fn bytes_text(bytes: u64) -> String {
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64;
    let mut unit = "";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if amount < 1_024.0 {
            break;
        }
        amount /= 1_024.0;
        unit = next;
    }
    format!("{amount:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_times_are_named_as_in_java() {
        let mut status = StoreStatus::default();
        status.put_times[0] = 3;
        status.put_times[12] = 1;
        let expected = "[<=0ms]:3 [0~10ms]:0 [10~50ms]:0 [50~100ms]:0 [100~200ms]:0 \
            [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1";
        assert_eq!(put_times_text(&status), expected);
    }

    #[test]
    fn times_and_sizes_are_written_as_in_java() {
        assert_eq!(run_time_text(90_061_000), "[ 1 days, 1 hours, 1 minutes, 1 seconds ]");
        assert_eq!(bytes_text(1_023), "1023 B");
        assert_eq!(bytes_text(1_536), "1.5 KiB");
        assert_eq!(bytes_text(5 << 30), "5.0 GiB");
    }
}
