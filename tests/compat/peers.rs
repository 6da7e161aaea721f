//! The suites' own tools are tried on Apache's programs first.

use system_tests::apache::Admin;
use system_tests::cluster::{BrokerOptions, Cluster, Maker};

#[test]
fn a_real_cluster_starts_answers_mqadmin_and_restarts() {
    let mut cluster = Cluster::start(Maker::Apache, vec![BrokerOptions::master("peer-a")]).unwrap();
    let mut admin = Admin::start(&cluster.folder().join("admin"), &cluster.address()).unwrap();
    let list = admin.run(&["clusterList"]).unwrap();
    assert!(list.contains("peer-a"), "{list}");
    assert!(list.contains("V4_9_3"), "{list}");
    assert!(cluster.brokers[0].stop().is_ok());
    cluster.brokers[0].restart().unwrap();
    let list = admin.run(&["clusterList"]).unwrap();
    assert!(list.contains(&cluster.brokers[0].address()), "{list}");
}
