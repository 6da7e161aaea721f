//! Brokers and name servers of different makers: registration, routes, orderly leave.

use std::path::Path;
use std::time::Duration;

use system_tests::apache::Admin;
use system_tests::cluster::{Broker, BrokerOptions, Maker, NameServer};
use system_tests::process::wait_until;

const WAIT: Duration = Duration::from_secs(60);

/// Asks until an answer is as wanted.
fn shows(admin: &mut Admin, command: &[&str], wanted: impl Fn(&str) -> bool) {
    let mut last = String::new();
    let shown = wait_until("the answer", WAIT, || {
        last = admin.run(command).unwrap();
        wanted(&last)
    });
    assert!(shown.is_ok(), "{command:?} shows\n{last}");
}

/// A broker of `maker` registers with a name server of `other`, with its topics as they change,
/// and is gone at once after an orderly stop.
fn assert_registers(maker: Maker, other: Maker, folder: &Path) {
    let name_server = NameServer::start(other, &folder.join("namesrv")).unwrap();
    let options = BrokerOptions::master("mixed");
    let mut broker =
        Broker::start(maker, options, &folder.join("broker"), &name_server.address()).unwrap();
    let mut admin = Admin::start(&folder.join("admin"), &name_server.address()).unwrap();
    let address = broker.address();
    shows(&mut admin, &["clusterList"], |text| text.contains(&address));
    shows(&mut admin, &["topicRoute", "-t", "TBW102"], |text| text.contains(&address));
    let made = admin.run(&["updateTopic", "-b", &address, "-t", "Mixed", "-r", "3", "-w", "3"]);
    assert!(made.as_ref().is_ok_and(|text| text.contains("success")), "{made:?}");
    shows(&mut admin, &["topicRoute", "-t", "Mixed"], |text| text.contains("\"readQueueNums\":3"));
    admin.run(&["updateTopic", "-b", &address, "-t", "Mixed", "-r", "5", "-w", "3"]).unwrap();
    shows(&mut admin, &["topicRoute", "-t", "Mixed"], |text| text.contains("\"readQueueNums\":5"));
    broker.stop().unwrap();
    shows(&mut admin, &["topicRoute", "-t", "Mixed"], |text| text.contains("CODE: 17"));
    broker.restart().unwrap();
    shows(&mut admin, &["topicRoute", "-t", "Mixed"], |text| text.contains(&address));
}

#[test]
fn apaches_broker_registers_with_our_name_server() {
    let folder = tempfile::tempdir().unwrap();
    assert_registers(Maker::Apache, Maker::Tandem, folder.path());
}

#[test]
fn our_broker_registers_with_apaches_name_server() {
    let folder = tempfile::tempdir().unwrap();
    assert_registers(Maker::Tandem, Maker::Apache, folder.path());
}
