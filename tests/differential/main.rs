//! Our broker and name server against Apache's 4.9.3, request by request: both get the same frames
//! in the same order, and code, remark, header fields and body of each answer must be the same.
//! Where they differ on purpose, [`deliberate::DELIBERATE`] says why; an entry that no step needs
//! any more is a failure too.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking, and tell what they do"
)]

mod admin;
mod deliberate;
mod groups;
mod name_server;
mod offsets;
mod pair;
mod plain;
mod pull;
mod send;

use broker_protocol::frame::Serialize;
use system_tests::cluster::{BrokerOptions, Cluster, Maker};

use crate::pair::{Difference, Pair};

/// Whatever the scripts make lives under one of these.
const ROUNDS: [(Serialize, &str); 2] = [(Serialize::Json, "DiffJ"), (Serialize::Binary, "DiffB")];

/// How the last round writes its headers.
const LAST: Serialize = Serialize::Binary;

fn start(maker: Maker) -> Cluster {
    let options = BrokerOptions::master("diff")
        // Short, so that a script can wait for a level.
        .with("messageDelayLevel", "1s 2s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h 3h")
        .with("maxMessageSize", 65_536);
    Cluster::start(maker, vec![options]).unwrap()
}

async fn round(clusters: [&Cluster; 2], serialize: Serialize, mark: &'static str) -> Pair {
    let mut pair = Pair::connect(clusters, serialize, mark).await;
    if serialize != LAST {
        admin::fresh(&mut pair).await;
    }
    send::compare(&mut pair).await;
    pull::compare(&mut pair).await;
    offsets::compare(&mut pair).await;
    groups::compare(&mut pair).await;
    admin::compare(&mut pair).await;
    name_server::compare(&mut pair).await;
    if serialize == LAST {
        // What is changed here stays changed.
        admin::settings(&mut pair).await;
    }
    pair
}

#[test]
fn every_request_is_answered_as_apache_answers_it() {
    let apache = std::thread::spawn(|| start(Maker::Apache));
    let ours = start(Maker::Tandem);
    let apache = apache.join().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut differences: Vec<Difference> = Vec::new();
    let mut steps = 0;
    for (serialize, mark) in ROUNDS {
        let pair = runtime.block_on(round([&apache, &ours], serialize, mark));
        differences.extend(pair.differences);
        steps += pair.steps;
    }
    let report = deliberate::judge(&differences);
    assert!(
        report.is_empty(),
        "{} of {steps} steps:\n\n{}\n\n{}",
        report.len(),
        report.join("\n\n"),
        ours.logs()
    );
}
