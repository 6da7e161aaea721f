//! A store goes from our broker to Apache's and back, stopped in order or killed: each finds what
//! the other was answered for, at the same offsets, and goes on writing.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use system_tests::cluster::{Broker, BrokerOptions, Maker};
use system_tests::ledger::Ledger;

/// How a broker ends before the other maker's opens its store.
#[derive(Clone, Copy, Debug)]
enum End {
    Stopped,
    Killed,
}

fn options() -> BrokerOptions {
    BrokerOptions::master("moving")
        .with("mappedFileSizeCommitLog", 1 << 20)
        .with("mappedFileSizeConsumeQueue", 20 * 500)
        .with("maxHashSlotNum", 1_000)
        .with("maxIndexNum", 4_000)
}

/// Opens one store by each of `makers` in turn; each is under load for a while and then ends.
async fn pass_on(folder: &Path, makers: &[Maker], end: End) -> Result<()> {
    let mut ledger = Ledger::new("Moving", 4);
    let mut broker: Option<Broker> = None;
    for (at, maker) in makers.iter().enumerate() {
        let mut running = match broker.take() {
            None => {
                let started = Broker::start(*maker, options(), folder, "")?;
                ledger.make_topic(&started.address()).await?;
                started
            }
            Some(mut stopped) => {
                stopped.maker = *maker;
                stopped.restart()?;
                stopped
            }
        };
        let address = running.address();
        let turn = format!("turn {at}: {maker:?} after {end:?}");
        let found = ledger.check(&address).await.with_context(|| turn.clone())?;
        ensure!(found.promised == ledger.promised(), "{turn}: {found:?}");
        let producers = ledger.produce(&address, 6);
        tokio::time::sleep(Duration::from_millis(1_500)).await; // the load itself
        match end {
            End::Killed => {
                running.kill();
                ledger.collect(producers).await?;
            }
            End::Stopped => {
                let stored = ledger.collect(producers).await?;
                ensure!(stored > 0, "{turn}: nothing was stored");
                ledger.check(&address).await.with_context(|| turn.clone())?;
                running.stop()?;
                let abort = running.store_folder().join("abort");
                ensure!(!abort.exists(), "{turn}: the abort file is left after an orderly stop");
            }
        }
        broker = Some(running);
    }
    Ok(())
}

fn assert_passed_on(makers: &[Maker], end: End) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if let Err(error) = runtime.block_on(pass_on(folder.path(), makers, end)) {
        panic!("{error:#}\nfiles kept in {}", folder.keep().display());
    }
}

const TO_APACHE_AND_BACK: [Maker; 3] = [Maker::Tandem, Maker::Apache, Maker::Tandem];
const FROM_APACHE_AND_BACK: [Maker; 3] = [Maker::Apache, Maker::Tandem, Maker::Apache];

#[test]
fn our_store_opens_in_apache_after_an_orderly_stop() {
    assert_passed_on(&TO_APACHE_AND_BACK, End::Stopped);
}

#[test]
fn our_store_opens_in_apache_after_a_kill() {
    assert_passed_on(&TO_APACHE_AND_BACK, End::Killed);
}

#[test]
fn apaches_store_opens_here_after_an_orderly_stop() {
    assert_passed_on(&FROM_APACHE_AND_BACK, End::Stopped);
}

#[test]
fn apaches_store_opens_here_after_a_kill() {
    assert_passed_on(&FROM_APACHE_AND_BACK, End::Killed);
}
