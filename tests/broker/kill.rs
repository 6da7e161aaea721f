//! `kill -9` at random moments under load: what was answered `SEND_OK` is there afterwards, once,
//! at the offset that the answer named, and queue offsets have no gap.
//!
//! `ROUNDS` (default 10) says how often, `SEED` repeats a run's choices (not its timing).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use system_tests::cluster::{Broker, BrokerOptions, Maker};
use system_tests::ledger::Ledger;
use system_tests::process::wait_until;
use tokio::runtime::{Builder, Runtime};

const PRODUCERS: usize = 9;

/// When in its life the broker is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// While it starts, this long after its process began.
    Starting(Duration),
    /// While it serves, this long after it was ready.
    Serving(Duration),
    /// Just when the commit log goes on in a new file.
    RollingOver,
}

fn moment(random: &mut Rng) -> Moment {
    match random.u32(0..4) {
        0 => Moment::Starting(Duration::from_micros(random.u64(0..150_000))),
        1 => Moment::RollingOver,
        _ => Moment::Serving(Duration::from_millis(random.u64(0..1_500))),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

fn options(flush: &str) -> BrokerOptions {
    BrokerOptions::master("killed")
        .with("flushDiskType", flush)
        // Small files: many roll-overs, in the commit log, the queues and the index.
        .with("mappedFileSizeCommitLog", 1 << 20)
        .with("mappedFileSizeConsumeQueue", 20 * 500)
        .with("maxHashSlotNum", 1_000)
        .with("maxIndexNum", 4_000)
}

fn commit_log_files(store: &Path) -> usize {
    std::fs::read_dir(store.join("commitlog")).map_or(0, Iterator::count)
}

/// One broker, its promises, and the choices of what happens to it.
struct Run {
    broker: Broker,
    ledger: Ledger,
    random: Rng,
    runtime: Runtime,
}

impl Run {
    fn start(flush: &str, seed: u64, folder: &Path) -> Result<Run> {
        let runtime = Builder::new_multi_thread().enable_all().build()?;
        let broker = Broker::start(Maker::Tandem, options(flush), folder, "")?;
        let ledger = Ledger::new("Killed", 6);
        runtime.block_on(ledger.make_topic(&broker.address()))?;
        Ok(Run { broker, ledger, random: Rng::with_seed(seed), runtime })
    }

    /// Kills the broker at some moment, starts it again and compares with the promises.
    fn round(&mut self) -> Result<String> {
        let moment = moment(&mut self.random);
        let address = self.broker.address();
        if matches!(moment, Moment::Starting(_)) {
            self.broker.kill();
            self.broker.spawn()?;
        }
        let files = commit_log_files(&self.broker.store_folder());
        let producers = self.runtime.block_on(async { self.ledger.produce(&address, PRODUCERS) });
        let reached = match moment {
            Moment::Serving(after) | Moment::Starting(after) => {
                std::thread::sleep(after); // the moment itself, nothing is waited for
                Ok(())
            }
            Moment::RollingOver => wait_until("a new file", Duration::from_secs(60), || {
                commit_log_files(&self.broker.store_folder()) > files
            }),
        };
        self.broker.kill();
        self.runtime.block_on(self.ledger.collect(producers))?;
        reached?;
        self.broker.restart().with_context(|| format!("after {moment:?}"))?;
        let found = self.runtime.block_on(self.ledger.check(&address));
        let found = found.with_context(|| format!("after {moment:?}"))?;
        Ok(format!("killed {moment:?}: {found:?}"))
    }
}

fn rounds(flush: &str) {
    let seed = setting("SEED", fastrand::u64(..));
    let rounds = setting("ROUNDS", 10);
    println!("SEED={seed} ROUNDS={rounds} flush={flush}");
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::start(flush, seed, folder.path()).unwrap();
    for round in 0..rounds {
        match run.round() {
            Ok(text) => println!("round {round} {text}"),
            Err(error) => {
                run.broker.kill();
                let kept = folder.keep();
                panic!("SEED={seed} round {round}: {error:#}\nfiles kept in {}", kept.display());
            }
        }
    }
    assert!(run.ledger.promised() > 100, "hardly any load: {}", run.ledger.promised());
}

#[test]
fn nothing_acknowledged_is_lost_with_asynchronous_flush() {
    rounds("ASYNC_FLUSH");
}

#[test]
fn nothing_acknowledged_is_lost_with_synchronous_flush() {
    rounds("SYNC_FLUSH");
}
