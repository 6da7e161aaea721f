//! Starts a cluster for trying things by hand, until the input ends:
//! `cargo run -p system-tests --example cluster -- apache broker-a broker-b`.

use std::io::{Write, stdin, stdout};

use anyhow::Result;
use system_tests::cluster::{BrokerOptions, Cluster, Maker};

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let maker = match words.next().as_deref() {
        Some("apache") => Maker::Apache,
        _ => Maker::Tandem,
    };
    let brokers = words.map(|name| BrokerOptions::master(&name)).collect();
    let cluster = Cluster::start(maker, brokers)?;
    let mut out = stdout().lock();
    writeln!(out, "NAMESRV_ADDR={}", cluster.address())?;
    for broker in &cluster.brokers {
        writeln!(out, "{} {}", broker.options.name, broker.address())?;
    }
    writeln!(out, "files: {}", cluster.folder().display())?;
    out.flush()?;
    let mut line = String::new();
    while stdin().read_line(&mut line)? > 0 {
        line.clear();
    }
    Ok(())
}
