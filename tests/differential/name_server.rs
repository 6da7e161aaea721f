//! The name server: values (100 to 102, 219), brokers (103, 104, 322), routes and lists (105, 106,
//! 206, 224, 304, 311 to 313), permissions (205, 327), settings (318, 319), and unknown codes.

use std::time::Duration;

use broker_protocol::code::request as code;

use crate::pair::{Ask, Pair};

pub(crate) async fn compare(pair: &mut Pair) {
    values(pair).await;
    brokers(pair).await;
    lists(pair).await;
    settings(pair).await;
}

async fn values(pair: &mut Pair) {
    let space = pair.name("Space");
    let put =
        Ask::new(code::PUT_KV_CONFIG).with("namespace", &space).with("key", "k").with("value", "v");
    let find = Ask::new(code::GET_KV_CONFIG).with("namespace", &space).with("key", "k");
    let list = Ask::new(code::GET_KVLIST_BY_NAMESPACE).with("namespace", &space);
    let delete = find.clone().code(code::DELETE_KV_CONFIG);
    for (step, ask) in [
        ("no value", find.clone()),
        ("no values", list.clone()),
        ("delete no value", delete.clone()),
        ("put", put.clone()),
        ("find", find.clone()),
        ("list", list.clone()),
        ("put another", put.clone().with("value", "w")),
        ("find another", find.clone()),
        ("find no key", find.clone().without("key")),
        ("put no key", put.clone().without("key")),
        ("put no namespace", put.clone().without("namespace")),
        ("put no value", put.clone().without("value")),
        ("put an empty value", put.clone().with("key", "e").with("value", "")),
        ("find an empty value", find.clone().with("key", "e")),
        ("delete", delete.clone()),
        ("find after delete", find.clone()),
        ("list after delete", list.clone()),
        ("delete no key", delete.without("key")),
        ("list no namespace", list.without("namespace")),
    ] {
        pair.ask_name_server(&format!("value: {step}"), ask).await;
    }
}

fn body(topic: &str, perm: i32, flag: i32, counter: i32) -> String {
    format!(
        r#"{{"filterServerList":[],"topicConfigSerializeWrapper":{{"dataVersion":{{"counter":{counter},"timestamp":1700000000000}},"topicConfigTable":{{"{topic}":{{"order":false,"perm":{perm},"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"{topic}","topicSysFlag":{flag},"writeQueueNums":5}}}}}}}}"#
    )
}

async fn brokers(pair: &mut Pair) {
    let (name, cluster, topic) = (pair.name("Broker"), pair.name("Cluster"), pair.name("Routed"));
    let route = |topic: &str| Ask::new(code::GET_ROUTEINFO_BY_TOPIC).with("topic", topic);
    pair.ask_name_server("route of an unknown topic", route(&topic)).await;
    pair.ask_name_server("route of no topic", route("").without("topic")).await;
    pair.ask_name_server("route of an empty topic", route("")).await;
    let register = Ask::new(code::REGISTER_BROKER)
        .with("brokerName", &name)
        .with("brokerAddr", "10.0.0.1:10911")
        .with("clusterName", &cluster)
        .with("haServerAddr", "10.0.0.1:10912")
        .with("brokerId", 0)
        .with("compressed", false)
        .with("bodyCrc32", 0)
        .body(body(&topic, 6, 0, 1));
    pair.ask_name_server("register", register.clone()).await;
    pair.ask_name_server("route", route(&topic)).await;
    pair.ask_name_server("register again", register.clone()).await;
    let slave = register
        .clone()
        .with("brokerId", 1)
        .with("brokerAddr", "10.0.0.2:10911")
        .with("haServerAddr", "10.0.0.2:10912");
    pair.ask_name_server("register a slave", slave.clone()).await;
    pair.ask_name_server("route with a slave", route(&topic)).await;
    pair.ask_name_server(
        "register another topic",
        register.clone().body(body(&pair.name("Routed2"), 6, 3, 2)),
    )
    .await;
    pair.ask_name_server("route of another topic", route(&pair.name("Routed2"))).await;
    pair.ask_name_server("route of the topic that was left out", route(&topic)).await;
    pair.ask_name_server("register a change", register.clone().body(body(&topic, 4, 1, 3))).await;
    pair.ask_name_server("route of the change", route(&topic)).await;
    pair.ask_name_server("register with a wrong checksum", register.clone().with("bodyCrc32", 1))
        .await;
    pair.ask_name_server("register nulls", register.clone().body(r#"{"topicConfigSerializeWrapper":{"dataVersion":{"counter":4,"timestamp":1700000000000},"topicConfigTable":null},"filterServerList":null}"#)).await;
    let other = register
        .clone()
        .with("brokerName", pair.name("Other"))
        .with("brokerAddr", "10.0.0.3:10911");
    for (step, ask) in [
        ("no body", other.clone().body("")),
        ("no JSON", other.clone().body("[")),
        ("no wrapper", other.clone().body("{}")),
        ("no id", other.clone().without("brokerId")),
        ("not a word of compression", other.clone().without("compressed").without("bodyCrc32")),
    ] {
        pair.ask_name_server(&format!("register: {step}"), ask).await;
        let leave = other.clone().code(code::UNREGISTER_BROKER).body("");
        pair.prepare_name_server(leave).await;
    }
    let version = Ask::new(code::QUERY_DATA_VERSION)
        .with("brokerName", &name)
        .with("brokerAddr", "10.0.0.1:10911")
        .with("clusterName", &cluster)
        .with("brokerId", 0);
    let asked = |counter: i32| format!(r#"{{"counter":{counter},"timestamp":1700000000000}}"#);
    pair.ask_name_server("the same version", version.clone().body(asked(4))).await;
    pair.ask_name_server("another version", version.clone().body(asked(9))).await;
    pair.ask_name_server(
        "version of an unknown broker",
        version.clone().with("brokerAddr", "10.9.9.9:1").body(asked(1)),
    )
    .await;
    pair.ask_name_server("no version", version.clone()).await;
    permissions(pair, &name, &topic).await;
    let all = |code: i32| Ask::new(code);
    for (what, code) in
        [("units", 311), ("unit subscriptions", 312), ("subscriptions without unit", 313)]
    {
        pair.ask_name_server(what, all(code)).await;
    }
    pair.ask_name_server(
        "topics of the cluster",
        all(code::GET_TOPICS_BY_CLUSTER).with("cluster", &cluster),
    )
    .await;
    let delete = |topic: &str| all(code::DELETE_TOPIC_IN_NAMESRV).with("topic", topic);
    pair.ask_name_server("delete a topic's route", delete(&topic)).await;
    pair.ask_name_server("deleted route", route(&topic)).await;
    pair.ask_name_server("delete an unknown route", delete("nothing")).await;
    pair.ask_name_server("delete no route", delete("").without("topic")).await;
    let leave = register.code(code::UNREGISTER_BROKER).body("");
    pair.ask_name_server("leave as an unknown broker", leave.clone().with("brokerName", "nobody"))
        .await;
    pair.ask_name_server(
        "leave under another address",
        leave.clone().with("brokerAddr", "10.9.9.9:1"),
    )
    .await;
    pair.ask_name_server("leave without a name", leave.clone().without("brokerName")).await;
    pair.ask_name_server("master leaves", leave.clone()).await;
    pair.ask_name_server("route without the master", route(&pair.name("Routed2"))).await;
    let slave = leave.with("brokerId", 1).with("brokerAddr", "10.0.0.2:10911");
    pair.ask_name_server("slave leaves", slave).await;
    pair.ask_name_server("route without anybody", route(&pair.name("Routed2"))).await;
}

async fn permissions(pair: &mut Pair, name: &str, topic: &str) {
    let route = Ask::new(code::GET_ROUTEINFO_BY_TOPIC);
    let wipe = |name: &str| Ask::new(code::WIPE_WRITE_PERM_OF_BROKER).with("brokerName", name);
    let add = |name: &str| Ask::new(code::ADD_WRITE_PERM_OF_BROKER).with("brokerName", name);
    pair.ask_name_server("wipe an unknown broker", wipe("nobody")).await;
    pair.ask_name_server("wipe no broker", wipe("").without("brokerName")).await;
    pair.ask_name_server("wipe", wipe(name)).await;
    pair.ask_name_server("wiped route", route.clone().with("topic", pair.name("Routed2"))).await;
    pair.ask_name_server("add to an unknown broker", add("nobody")).await;
    pair.ask_name_server("add", add(name)).await;
    pair.ask_name_server(
        "route with write permission",
        route.clone().with("topic", pair.name("Routed2")),
    )
    .await;
    pair.ask_name_server("route that never had write permission", route.with("topic", topic)).await;
}

async fn lists(pair: &mut Pair) {
    pair.ask_name_server("clusters", Ask::new(code::GET_BROKER_CLUSTER_INFO)).await;
    pair.ask_name_server("system topics", Ask::new(code::GET_SYSTEM_TOPIC_LIST_FROM_NS)).await;
    let cluster = Ask::new(code::GET_TOPICS_BY_CLUSTER);
    pair.ask_name_server("topics of an unknown cluster", cluster.clone().with("cluster", "nobody"))
        .await;
    pair.ask_name_server("topics of no cluster", cluster).await;
    let made = pair.name("Made");
    let route = Ask::new(code::GET_ROUTEINFO_BY_TOPIC).with("topic", made);
    pair.ask_name_server("route of a broker's topic", route.clone()).await;
    pair.ask_name_server("route in standard JSON", route.with("acceptStandardJsonOnly", true))
        .await;
}

async fn settings(pair: &mut Pair) {
    let update = |body: &str| Ask::new(code::UPDATE_NAMESRV_CONFIG).body(body);
    pair.ask_name_server("settings of a name server", Ask::new(code::GET_NAMESRV_CONFIG)).await;
    pair.ask_name_server("change a name server's setting", update("orderMessageEnable=true\n"))
        .await;
    let topic = pair.name("Made");
    let order = Ask::new(code::PUT_KV_CONFIG)
        .with("namespace", "ORDER_TOPIC_CONFIG")
        .with("key", &topic)
        .with("value", "diff:2");
    pair.ask_name_server("order a topic", order).await;
    let route = Ask::new(code::GET_ROUTEINFO_BY_TOPIC).with("topic", topic);
    pair.ask_name_server("route of an ordered topic", route).await;
    pair.ask_name_server("change an unknown setting of a name server", update("noSuchSetting=1\n"))
        .await;
    pair.ask_name_server("change nothing at a name server", update("")).await;
    pair.ask_name_server("change a name server's paths", update("kvConfigPath=/tmp/x\n")).await;
    // Apache's name server leaves unknown codes without an answer.
    for code in [10, 9999] {
        let ask = Ask::new(code).patience(Duration::from_millis(700));
        pair.ask_name_server(&format!("code {code} at a name server"), ask).await;
    }
}
