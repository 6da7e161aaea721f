//! Puts the connections on worker threads, lets them warm up, and measures windows.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use broker_protocol::frame::Serialize;
use broker_protocol::message_id::UniqueIds;
use tokio::task::JoinSet;

use crate::consume::PullLane;
use crate::frames::{Identity, Shape, Template};
use crate::measure::{Recorder, Tally, take_all};
use crate::options::{Common, Consume, Produce, Serialization};
use crate::pacing::Pace;
use crate::process::ProcessFigures;
use crate::produce::{Budget, Lane};
use crate::report::{Looks, Report, Summary, WindowReport, progress_line};
use crate::setup::{Plan, SendTarget};

/// Length of a line of progress.
const TICK: Duration = Duration::from_secs(1);

/// A worker thread that runs its share of the connections.
struct Worker {
    thread: std::thread::JoinHandle<Result<()>>,
    stop: tokio::sync::oneshot::Sender<()>,
}

/// Drives the load of `plan` and reports.
pub(crate) fn run(
    common: &Common,
    produce: Option<&Produce>,
    consume: Option<&Consume>,
    plan: Plan,
) -> Result<Report> {
    let threads = usize::try_from(common.threads)?;
    let mut shares: Vec<Share> = (0..threads).map(|_| Share::default()).collect();
    let recorders: Vec<Recorder> = (0..threads).map(|_| Recorder::new()).collect();
    if let Some(produce) = produce {
        let lanes = lanes(common, produce, &plan.sends)?;
        for (n, lane) in lanes.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(n % threads) {
                share.sends.push(lane);
            }
        }
    }
    if let Some(consume) = consume {
        // Consumers begin at the far end, so that two threads split into senders and pullers.
        let recorder = |n: usize| recorders.get(threads - 1 - n % threads).cloned();
        for (n, lane) in pull_lanes(common, consume, &plan, recorder)?.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(threads - 1 - n % threads) {
                share.pulls.push(lane);
            }
        }
    }
    let workers = shares
        .into_iter()
        .zip(&recorders)
        .map(|(share, recorder)| start(share, recorder.clone()))
        .collect::<Result<Vec<Worker>>>()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_for_interrupt(Arc::clone(&interrupted))?;
    let settings = serde_json::json!({
        "produce": produce,
        "consume": consume,
        "serialization": common.serialization,
        "topic": common.topic,
        "topics": common.topics,
        "queues": common.queues,
        "threads": common.threads,
    });
    let mut sampler = Sampler {
        common,
        recorders: &recorders,
        started: Instant::now(),
        errors: BTreeMap::new(),
        interrupted: &interrupted,
    };
    let windows = sampler.measure(|| workers.iter().all(|worker| worker.thread.is_finished()))?;
    let errors = sampler.errors;
    for worker in workers {
        // The receiver is gone when the worker ended by itself.
        let _ = worker.stop.send(());
        worker.thread.join().map_err(|_panic| anyhow!("a worker thread panicked"))??;
    }
    let median = Summary::median(&windows);
    Ok(Report { settings, windows, median, errors })
}

/// What one worker thread drives.
#[derive(Default)]
struct Share {
    sends: Vec<LanePlan>,
    pulls: Vec<PullLane>,
}

/// A sending connection before its thread gives it timer and recorder.
struct LanePlan {
    address: String,
    templates: Vec<Arc<Template>>,
    produce: Produce,
    rate: Option<f64>,
    number: usize,
    of: usize,
    identity: Identity,
    budget: Budget,
}

fn lanes(common: &Common, produce: &Produce, targets: &[SendTarget]) -> Result<Vec<LanePlan>> {
    let of = usize::try_from(produce.connections)?;
    let budget = Budget::new(common.messages);
    let rate = produce.rate.map(|rate| rate / f64::from(produce.batch) / of as f64);
    let mut templates: BTreeMap<&str, Vec<Arc<Template>>> = BTreeMap::new();
    for target in targets {
        let template = Template::new(&Shape {
            topic: &target.topic,
            queue_id: target.queue_id,
            group: &produce.producer_group,
            batch: produce.batch,
            size: usize::try_from(produce.size)?,
            tag: &produce.tag,
            keys: !produce.no_keys,
            serialize: serialize(common),
        })?;
        templates.entry(&target.address).or_default().push(Arc::new(template));
    }
    let brokers: Vec<(&str, Vec<Arc<Template>>)> = templates.into_iter().collect();
    let host = local_ip_address::local_ip().unwrap_or(IpAddr::from([127, 0, 0, 1]));
    let process = (std::process::id() & 0xFFFF) as u16;
    // Keys of another run must not be the same, and those of another connection neither.
    let first_key = fastrand::u64(..1_000_000_000) * 100_000_000;
    (0..of)
        .map(|number| {
            let (address, templates) = brokers
                .get(number % brokers.len().max(1))
                .ok_or_else(|| anyhow!("no broker takes sends"))?;
            Ok(LanePlan {
                address: (*address).to_owned(),
                templates: templates.clone(),
                produce: produce.clone(),
                rate,
                number,
                of,
                identity: Identity {
                    unique_ids: UniqueIds::new(ipv4(host), process, fastrand::u32(..), 0),
                    next_key: first_key + number as u64 * 10_000_000,
                },
                budget: budget.clone(),
            })
        })
        .collect()
}

/// Unique ids are patched into a place as wide as one with an IPv4 address.
fn ipv4(host: IpAddr) -> IpAddr {
    if host.to_canonical().is_ipv4() { host } else { IpAddr::from([127, 0, 0, 1]) }
}

/// `recorder` gives the recorder of the thread that runs the n-th connection.
fn pull_lanes(
    common: &Common,
    consume: &Consume,
    plan: &Plan,
    recorder: impl Fn(usize) -> Option<Recorder>,
) -> Result<Vec<PullLane>> {
    let connections = usize::try_from(consume.consumer_connections)?;
    let budget = Budget::new(common.messages);
    let mut lanes = Vec::new();
    for (address, queues) in &plan.pulls {
        for number in 0..connections.min(queues.len()) {
            lanes.push(PullLane {
                address: address.clone(),
                queues: queues.iter().skip(number).step_by(connections).cloned().collect(),
                group: consume.consumer_group.clone(),
                heartbeat: plan.heartbeat.clone(),
                subscription_version: plan.subscription_version,
                messages_max: i32::try_from(consume.pull)?,
                hold: Duration::from_secs_f64(consume.hold),
                rewind: consume.rewind,
                serialize: serialize(common),
                budget: budget.clone(),
                recorder: recorder(lanes.len()).ok_or_else(|| anyhow!("no worker thread"))?,
            });
        }
    }
    Ok(lanes)
}

fn serialize(common: &Common) -> Serialize {
    match common.serialization {
        Serialization::Json => Serialize::Json,
        Serialization::Binary => Serialize::Binary,
    }
}

fn start(share: Share, recorder: Recorder) -> Result<Worker> {
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("mqbench-worker".to_owned())
        .spawn(move || work(share, recorder, stopped))
        .context("start a worker thread")?;
    Ok(Worker { thread, stop })
}

/// One worker thread: its connections share a single-threaded runtime.
fn work(
    share: Share,
    recorder: Recorder,
    stopped: tokio::sync::oneshot::Receiver<()>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start a runtime")?;
    runtime.block_on(async move {
        let mut lanes = JoinSet::new();
        for pull in share.pulls {
            lanes.spawn(pull.run());
        }
        for plan in share.sends {
            lanes.spawn(lane(plan, recorder.clone())?.run());
        }
        let all_end = async {
            while let Some(ended) = lanes.join_next().await {
                ended.context("run a connection")??;
            }
            Ok(())
        };
        tokio::select! {
            outcome = all_end => outcome,
            _ = stopped => Ok(()),
        }
    })
}

fn lane(plan: LanePlan, recorder: Recorder) -> Result<Lane> {
    Ok(Lane {
        address: plan.address,
        // Each connection begins at another queue.
        first_template: plan.number,
        templates: plan.templates,
        in_flight_max: plan.produce.in_flight,
        message_size: u64::from(plan.produce.size),
        pace: Pace::new(plan.rate, plan.number, plan.of)?,
        identity: plan.identity,
        budget: plan.budget,
        recorder,
    })
}

fn watch_for_interrupt(interrupted: Arc<AtomicBool>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("start")?;
    std::thread::Builder::new()
        .name("mqbench-signal".to_owned())
        .spawn(move || {
            if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                interrupted.store(true, Ordering::Relaxed);
            }
        })
        .context("watch for the interrupt signal")?;
    Ok(())
}

/// Cuts time into ticks and windows.
struct Sampler<'a> {
    common: &'a Common,
    recorders: &'a [Recorder],
    started: Instant,
    errors: BTreeMap<String, u64>,
    interrupted: &'a AtomicBool,
}

impl Sampler<'_> {
    /// Warm-up, then the windows; ends early when `done` says so or a person interrupts. A window
    /// that was cut short is reported with its true length.
    fn measure(&mut self, done: impl Fn() -> bool) -> Result<Vec<WindowReport>> {
        self.stretch("warm-up", Duration::from_secs_f64(self.common.warm_up), &done);
        let mut windows = Vec::new();
        let mut before = looks(&self.common.pid)?;
        for number in 1..=self.common.windows {
            let name = format!("window {number}");
            let length = Duration::from_secs_f64(self.common.window);
            let (tally, seconds) = self.stretch(&name, length, &done);
            let after = looks(&self.common.pid)?;
            if tally.messages() == 0 && self.is_over(&done) {
                break;
            }
            windows.push(WindowReport::new(seconds, &tally, &before, &after));
            if let Some(path) = &self.common.distribution {
                write_distribution(path, &tally)?;
            }
            before = after;
        }
        Ok(windows)
    }

    fn is_over(&self, done: &impl Fn() -> bool) -> bool {
        done() || self.interrupted.load(Ordering::Relaxed)
    }

    /// Counts for `length`; what was counted and how many seconds it really took.
    fn stretch(&mut self, phase: &str, length: Duration, done: &impl Fn() -> bool) -> (Tally, f64) {
        let mut sum = Tally::new();
        let begin = Instant::now();
        let mut last = begin;
        while !self.is_over(done) && last - begin < length {
            let wait = TICK.min(length - (last - begin));
            while !self.is_over(done) && last.elapsed() < wait {
                let left = wait.saturating_sub(last.elapsed());
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
            let tally = take_all(self.recorders);
            let now = Instant::now();
            self.show(phase, (now - last).as_secs_f64(), &tally);
            last = now;
            for (kind, count) in &tally.errors {
                *self.errors.entry(kind.clone()).or_default() += count;
            }
            sum.add(&tally);
        }
        (sum, (last - begin).as_secs_f64())
    }

    fn show(&self, phase: &str, seconds: f64, tally: &Tally) {
        if self.common.quiet {
            return;
        }
        let line = progress_line(self.started.elapsed().as_secs_f64(), phase, seconds, tally);
        // Progress that can't be shown is no reason to stop.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

fn looks(pids: &[u32]) -> Result<Looks> {
    let broker = pids.iter().map(|pid| ProcessFigures::read(*pid)).collect::<Result<Vec<_>>>()?;
    Ok(Looks { broker, own: ProcessFigures::read(std::process::id())? })
}

/// Percentiles of the window, one a line: percentile, milliseconds, samples up to there.
fn write_distribution(path: &std::path::Path, tally: &Tally) -> Result<()> {
    let mut text = String::from("percentile milliseconds samples\n");
    let histogram =
        if tally.send_latency.is_empty() { &tally.end_to_end } else { &tally.send_latency };
    for step in histogram.iter_quantiles(5) {
        text.push_str(&format!(
            "{:.5} {:.3} {}\n",
            step.percentile(),
            step.value_iterated_to() as f64 / 1e6,
            histogram.count_between(0, step.value_iterated_to())
        ));
    }
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
