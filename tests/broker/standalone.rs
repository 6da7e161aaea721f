//! The README's first command: one process, name server and broker, used and stopped.

use std::time::{Duration, Instant};

use broker_client::{Client, ClientOptions, Message, Producer, SendStatus};
use system_tests::cluster::{Broker, BrokerOptions, Maker, broker_command, standalone};
use system_tests::ledger::Ledger;
use system_tests::ports::Ports;
use system_tests::process::{Process, run};
use tokio::runtime::{Builder, Runtime};

const STOP: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().unwrap()
}

#[test]
fn one_command_serves_and_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, ports) = standalone(folder.path()).unwrap();
    let name_server = format!("127.0.0.1:{}", ports.name_server());
    runtime().block_on(async {
        let client = Client::new(ClientOptions::name_servers(&name_server));
        let producer = Producer::new(&client, "newcomer");
        let receipt = producer.send(&Message::new("Hello", "world")).await.unwrap();
        assert_eq!(receipt.status, SendStatus::Stored);
        // The name server is told right after the answer to the send.
        let deadline = Instant::now() + Duration::from_secs(30);
        while client.fresh_route("Hello").await.is_err() {
            assert!(Instant::now() < deadline, "the new topic gets a route");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let status = process.terminate(STOP).unwrap();
    assert_eq!(status.code(), Some(0), "{}", process.log_end());
    let abort = folder.path().join("data/store/abort");
    assert!(!abort.exists(), "an orderly stop leaves no abort file");
}

#[test]
fn a_taken_port_is_told_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let ports = Ports::take().unwrap();
    let _taken = std::net::TcpListener::bind(("0.0.0.0", ports.listen())).unwrap();
    let mut command = broker_command().unwrap();
    command.arg("standalone").arg("--data").arg(folder.path().join("data"));
    command.arg("--namesrv-port").arg(ports.name_server().to_string());
    command.args(["--set", &format!("listenPort={}", ports.listen())]);
    command.args(["--set", "httpListenPort=0"]);
    let mut process = Process::spawn("second", &command, &folder.path().join("out")).unwrap();
    let status = process.wait(STOP).unwrap();
    let said = process.log_text();
    assert_eq!(status.code(), Some(5), "{said}");
    assert!(said.contains(&ports.listen().to_string()), "{said}");
}

#[test]
fn sends_work_while_every_name_server_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let away = Ports::take().unwrap();
    let name_servers = format!("127.0.0.1:{};127.0.0.1:{}", away.spare()[0], away.spare()[1]);
    let options = BrokerOptions::master("alone");
    let broker = Broker::start(Maker::Tandem, options, folder.path(), &name_servers).unwrap();
    let mut ledger = Ledger::new("Alone", 2);
    let found = runtime().block_on(async {
        ledger.make_topic(&broker.address()).await?;
        let producers = ledger.produce(&broker.address(), 2);
        tokio::time::sleep(Duration::from_millis(500)).await; // the load itself
        ledger.collect(producers).await?;
        ledger.check(&broker.address()).await
    });
    assert!(found.unwrap().promised > 0);
}

#[test]
fn the_command_line_explains_itself() {
    let help = run("broker --help", broker_command().unwrap().arg("--help")).unwrap();
    for word in ["standalone", "serve", "nameserver", "config", "store", "Examples"] {
        assert!(help.contains(word), "no {word} in\n{help}");
    }
    let wrong = broker_command().unwrap().args(["serve", "--set", "listenPrt=1"]).output().unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(3), "{said}");
    assert!(said.contains("listenPort"), "the nearest key is named: {said}");
}
