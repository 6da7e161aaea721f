//! mqbench counts what it sends and pulls; here that is held against what the broker stored.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use broker_client::Client;
use broker_client::ClientOptions;
use serde_json::Value;
use system_tests::cluster::{Cluster, mqbench_binary};
use system_tests::process::run;

/// Messages of a load: many more than fit in flight, and no multiple of the batch.
const MESSAGES: u64 = 1000;

/// Sends by each kind of request, then pulls everything.
pub(crate) fn exercise(cluster: &mut Cluster) -> Result<()> {
    let kinds: [&[&str]; 3] = [
        &["--topic=LoadOne", "--connections=3", "--in-flight=4"],
        &["--topic=LoadBinary", "--serialization=binary", "--rate=2000"],
        &["--topic=LoadBatch", "--batch=16", "--queues=3"],
    ];
    for arguments in kinds {
        let topic = arguments.first().and_then(|a| a.strip_prefix("--topic=")).unwrap_or_default();
        let sent = mqbench(cluster, "produce", arguments)?;
        let stored = stored(cluster, topic)?;
        ensure!(total(&sent, "produced") == stored, "{stored} stored, but {sent}");
        // A batch is never cut, so the last one may lead beyond.
        ensure!((MESSAGES..MESSAGES + 16).contains(&stored), "{stored}");
        let pulled = mqbench(cluster, "consume", &[&arguments[..1], &["--hold=1"]].concat())?;
        let count = total(&pulled, "consumed");
        // It stops at the answer that reaches the number asked for.
        ensure!((MESSAGES..=stored).contains(&count), "{stored} stored, but {pulled}");
    }
    Ok(())
}

fn mqbench(cluster: &mut Cluster, command: &str, arguments: &[&str]) -> Result<Value> {
    let pid = cluster.brokers[0].running()?.id();
    let mut program = Command::new(mqbench_binary()?);
    program.args([command, "--json", "--quiet", "--warm-up=0", "--window=60"]);
    program.arg(format!("--messages={MESSAGES}")).arg(format!("--pid={pid}"));
    program.arg(format!("--name-server={}", cluster.address())).args(arguments);
    let report: Value = serde_json::from_str(&run("mqbench", &mut program)?)?;
    let window = report["windows"].get(0).context("a window")?;
    ensure!(report["errors"].as_object().is_some_and(serde_json::Map::is_empty), "{report}");
    // The kernel counts in hundredths of a second, which so few messages may not take.
    ensure!(window["broker_cpu_seconds_per_million"].is_f64(), "{report}");
    ensure!(window["broker_anonymous_mib"].as_f64().is_some_and(|mib| mib > 0.0));
    Ok(report)
}

fn total(report: &Value, figure: &str) -> u64 {
    let windows = report["windows"].as_array().map(Vec::as_slice).unwrap_or_default();
    windows.iter().filter_map(|window| window[figure].as_f64()).sum::<f64>() as u64
}

/// Messages in all queues of a topic, once the queues stop growing.
fn stored(cluster: &Cluster, topic: &str) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address = cluster.brokers[0].address();
    runtime.block_on(async {
        let client = Client::new(ClientOptions::default());
        let mut last = 0;
        loop {
            let stats = client.admin().topic_stats(&address, topic).await?;
            let sum: i64 = stats.offset_table.values().map(|queue| queue.max_offset).sum();
            let sum = u64::try_from(sum)?;
            if sum > 0 && sum == last {
                return Ok(sum);
            }
            last = sum;
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    })
}
