//! Clients that people use, unchanged, each against a cluster of its own: Java, Go, Node, C++.
//!
//! A program prints "ok STEP" or "FAIL STEP: why"; what must be printed is asserted here, an exit
//! code proves nothing. `TANDEM_COMPAT_PEER=apache` runs the same programs against real brokers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use system_tests::apache::Admin;
use system_tests::cluster::{BrokerOptions, Cluster, Maker};
use system_tests::process::{Process, run};
use system_tests::{cache, package_folder};

/// All steps of a client; most of it is waiting for delays and rebalances.
const CLIENT: Duration = Duration::from_secs(400);

/// Whose brokers the foreign programs talk to.
pub(crate) fn peer() -> Maker {
    match std::env::var("TANDEM_COMPAT_PEER").as_deref() {
        Ok("apache") => Maker::Apache,
        _ => Maker::Tandem,
    }
}

/// Two masters, patient: a Java broker refuses what waited 200 ms, which here proves nothing.
pub(crate) fn cluster() -> Cluster {
    let brokers = ["broker-a", "broker-b"]
        .map(|name| BrokerOptions::master(name).with("waitTimeMillsInSendQueue", 20_000));
    Cluster::start(peer(), brokers.into()).unwrap()
}

/// Runs a client's program to its end and asserts that exactly these steps passed.
pub(crate) fn assert_steps(cluster: &Cluster, program: &mut Command, steps: &[&str]) {
    program.env("NAMESRV_ADDR", cluster.address());
    program.env("HOME", cluster.folder()).current_dir(cluster.folder());
    let log = cluster.folder().join("client.out");
    let mut process = Process::spawn("client", program, &log).unwrap();
    let ended = process.wait(CLIENT);
    let text = process.log_text();
    let lines = text.lines().filter_map(|line| line.strip_prefix("ok "));
    let passed: Vec<&str> = lines.collect();
    if ended.is_err() || passed != steps {
        let failures: Vec<&str> = text.lines().filter(|line| line.starts_with("FAIL")).collect();
        panic!(
            "{ended:?}\npassed {passed:?}\nexpected {steps:?}\n{failures:#?}\n{text}\n{}",
            cluster.logs()
        );
    }
}

pub(crate) fn source(name: &str) -> std::path::PathBuf {
    package_folder().join("compat").join(name)
}

fn java_client(version: &str) {
    let folder = source("java");
    let name = format!("java-client-{version}");
    let jars = cache::jars(&name, &folder.join("pom.xml"), &[("client.version", version)]).unwrap();
    let classes = cache::classes(&format!("{name}-steps"), &folder.join("src"), &jars).unwrap();
    let cluster = cluster();
    let mut steps = vec![
        "send",
        "send-async",
        "send-oneway",
        "send-batch",
        "send-compressed",
        "send-too-large",
        "query-by-key",
        "view-by-id",
        "tag-filter",
        "retry",
        "dead-letter",
        "delay",
        "ordered",
        "broadcast",
        "rebalance",
        "resume",
        "pull",
        "lite-pull",
        "request-reply",
    ];
    match peer() {
        // The newer client's lite pull is a request that Apache's 4.9 does not know.
        Maker::Apache => steps.retain(|step| version.starts_with('4') || *step != "lite-pull"),
        Maker::Tandem => steps.retain(|step| !NOT_YET.contains(step)),
    }
    let mut program = Command::new("java");
    program
        .args(["-Xmx512m", "-Drocketmq.client.logUseSlf4j=false", "-cp"])
        .arg(format!("{}:{}/*", classes.display(), jars.display()))
        .arg(format!("-Duser.home={}", cluster.folder().display()))
        .arg("Main")
        .args(&steps);
    assert_steps(&cluster, &mut program, &steps);
}

/// Steps that need what is refused so far.
const NOT_YET: [&str; 1] = ["request-reply"];

#[test]
fn java_4_9_8() {
    java_client("4.9.8");
}

#[test]
fn java_5_5_0() {
    java_client("5.5.0");
}

#[test]
fn go() {
    let folder = source("go");
    let texts =
        ["go.mod", "go.sum", "main.go"].map(|name| std::fs::read(folder.join(name)).unwrap());
    let inputs = texts.each_ref().map(Vec::as_slice);
    let built = cache::entry("go-client", &inputs, |entry| {
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(entry.join("client")).arg(".").current_dir(&folder);
        run("go build", &mut build).map(drop)
    });
    let mut program = Command::new(built.unwrap().join("client"));
    let steps = ["send", "tag-key-property", "delay", "ordered", "retry"];
    assert_steps(&cluster(), &mut program, &steps);
}

#[test]
fn node_ali_ons() {
    let folder = source("node");
    let texts =
        ["package.json", "package-lock.json"].map(|name| std::fs::read(folder.join(name)).unwrap());
    let inputs = texts.each_ref().map(Vec::as_slice);
    let modules = cache::entry("node-client", &inputs, |entry| {
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(folder.join(name), entry.join(name))?;
        }
        let mut install = Command::new("npm");
        install.args(["ci", "--no-audit", "--no-fund"]).current_dir(entry);
        run("npm ci", &mut install).map(drop)
    });
    let cluster = cluster();
    // This client never makes a topic by sending to it.
    let mut admin = Admin::start(&cluster.folder().join("admin"), &cluster.address()).unwrap();
    let made = admin.run(&["updateTopic", "-c", "DefaultCluster", "-t", "NodeSteps"]).unwrap();
    assert!(made.contains("success"), "{made}");
    let mut program = Command::new("node");
    program.arg(folder.join("main.js")).env("NODE_PATH", modules.unwrap().join("node_modules"));
    let steps = ["send", "tag-key-property", "delay", "parallel", "retry", "tag-filter"];
    assert_steps(&cluster, &mut program, &steps);
}

#[test]
fn cpp_through_python() {
    let folder = source("python-cpp");
    let needs = std::fs::read(folder.join("requirements.txt")).unwrap();
    let packages = cache::entry("python-client", &[&needs], |entry| {
        install_python(&folder.join("requirements.txt"), entry)
    });
    let mut program = Command::new("python3");
    program.arg(folder.join("main.py")).env("PYTHONPATH", packages.unwrap());
    let steps =
        ["send", "one-way-big-filter", "key-property", "delay", "ordered", "batch", "retry"];
    assert_steps(&cluster(), &mut program, &steps);
}

fn install_python(requirements: &Path, entry: &Path) -> anyhow::Result<()> {
    let mut install = Command::new("python3");
    install.args(["-m", "pip", "install", "-q", "--no-deps", "--target"]).arg(entry);
    install.arg("-r").arg(requirements);
    run("pip install", &mut install).map(drop)
}
