//! What operators do at a broker: topics (17, 21, 202, 215, 305, 306, 316, 329), groups (200, 201,
//! 207), settings (25, 26), figures (28, 315), whole tables (43, 45, 328), and unknown codes.

use broker_protocol::code::request as code;

use crate::groups::heartbeat;
use crate::pair::{Ask, Pair};
use crate::send::{message, read};

/// A valid 17.
pub(crate) fn topic(topic: &str) -> Ask {
    Ask::new(code::UPDATE_AND_CREATE_TOPIC)
        .with("topic", topic)
        .with("defaultTopic", "TBW102")
        .with("readQueueNums", 2)
        .with("writeQueueNums", 2)
        .with("perm", 6)
        .with("topicFilterType", "SINGLE_TAG")
        .with("topicSysFlag", 0)
        .with("order", false)
}

pub(crate) async fn compare(pair: &mut Pair) {
    topics(pair).await;
    deleting(pair).await;
    groups(pair).await;
    figures(pair).await;
    unknown(pair).await;
}

async fn topics(pair: &mut Pair) {
    let name = pair.name("Made");
    for (step, ask) in [
        ("make a topic", topic(&name)),
        ("grow a topic", topic(&name).with("readQueueNums", 4).with("writeQueueNums", 4)),
        ("shrink a topic", topic(&name).with("writeQueueNums", 1)),
        ("a multi tag topic", topic(&pair.name("MultiTag")).with("topicFilterType", "MULTI_TAG")),
        ("an ordered topic", topic(&pair.name("Ordered")).with("order", true)),
        ("a topic of a unit", topic(&pair.name("UnitMade")).with("topicSysFlag", 1)),
        ("an unknown filter type", topic(&pair.name("OddFilter")).with("topicFilterType", "NONE")),
        (
            "no queues",
            topic(&pair.name("NoQueues")).with("readQueueNums", 0).with("writeQueueNums", 0),
        ),
        ("a topic with a slash", topic("a/b")),
        ("a topic with dots", topic("../../x")),
        ("an empty topic", topic("")),
        ("a blank topic", topic(" ")),
        ("a topic of 127", topic(&format!("{:y<127}", pair.mark))),
        ("a topic of 128", topic(&format!("{:y<128}", pair.mark))),
        ("a topic that is not ASCII", topic("日本")),
        ("a system topic", topic("TBW102")),
        ("the schedule topic", topic("SCHEDULE_TOPIC_XXXX")),
        ("the cluster's topic", topic("DefaultCluster")),
        ("the broker's topic", topic("diff")),
        ("a retry topic", topic(&format!("%RETRY%{}", pair.name("ByHand")))),
        ("no topic", topic(&name).without("topic")),
        ("no default topic", topic(&pair.name("NoDefault")).without("defaultTopic")),
        ("no read queues", topic(&pair.name("NoRead")).without("readQueueNums")),
        ("no perm", topic(&pair.name("NoPerm")).without("perm")),
        ("no filter type", topic(&pair.name("NoFilter")).without("topicFilterType")),
        ("no sys flag", topic(&pair.name("NoSysFlag")).without("topicSysFlag")),
        ("no order", topic(&pair.name("NoOrder")).without("order")),
    ] {
        pair.ask(&format!("topic: {step}"), ask).await;
    }
    let multi = pair.name("MultiTag");
    pair.prepare(message(&multi, "TAGS\x01a", "x")).await;
    pair.settle(&multi, 0, 1).await;
    pair.ask("a message of a multi tag topic", read(&multi, 0, 0)).await;
    let stats = |name: &str| Ask::new(code::GET_TOPIC_STATS_INFO).with("topic", name);
    pair.ask("queues of a made topic", stats(&name)).await;
    pair.ask("queues of an unknown topic", stats(&pair.name("NoSuch"))).await;
    pair.ask("queues of no topic", Ask::new(code::GET_TOPIC_STATS_INFO)).await;
    pair.ask("send to a shrunk queue", message(&name, "", "x").with("e", 1)).await;
    pair.ask("send to no queue", message(&pair.name("NoQueues"), "", "x")).await;
    pair.ask("all topics", Ask::new(code::GET_ALL_TOPIC_CONFIG)).await;
    pair.ask("system topics", Ask::new(code::GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).await;
    pair.ask("22", Ask::new(code::GET_TOPIC_CONFIG_LIST)).await;
    pair.ask("23", Ask::new(code::GET_TOPIC_NAME_LIST)).await;
    for code in [code::CLEAN_EXPIRED_CONSUMEQUEUE, code::CLEAN_UNUSED_TOPIC] {
        pair.ask(&format!("clean by {code}"), Ask::new(code)).await;
    }
}

async fn deleting(pair: &mut Pair) {
    let (name, group) = (pair.name("Deleted"), pair.name("DeletedReader"));
    for body in ["1", "2"] {
        pair.prepare(message(&name, "", body)).await;
    }
    pair.settle(&name, 0, 2).await;
    let commit = Ask::new(code::UPDATE_CONSUMER_OFFSET)
        .with("consumerGroup", &group)
        .with("topic", &name)
        .with("queueId", 0)
        .with("commitOffset", 2);
    pair.prepare(commit).await;
    let delete = |topic: &str| Ask::new(code::DELETE_TOPIC_IN_BROKER).with("topic", topic);
    pair.ask("delete a topic", delete(&name)).await;
    pair.ask("delete it again", delete(&name)).await;
    pair.ask("delete an unknown topic", delete(&pair.name("NoSuch"))).await;
    pair.ask("delete a system topic", delete("TBW102")).await;
    pair.ask("delete an empty topic", delete("")).await;
    pair.ask("delete no topic", delete("").without("topic")).await;
    pair.ask("pull a deleted topic", read(&name, 0, 0)).await;
    pair.ask(
        "queues of a deleted topic",
        Ask::new(code::GET_TOPIC_STATS_INFO).with("topic", &name),
    )
    .await;
}

async fn groups(pair: &mut Pair) {
    let name = pair.name("MadeGroup");
    let update = |body: &str| Ask::new(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(body);
    for (step, body) in [
        ("a group alone", format!(r#"{{"groupName":"{name}1"}}"#)),
        (
            "all of a group",
            format!(
                r#"{{"brokerId":2,"consumeBroadcastEnable":false,"consumeEnable":false,"consumeFromMinEnable":false,"groupName":"{name}2","notifyConsumerIdsChangedEnable":false,"retryMaxTimes":3,"retryQueueNums":2,"whichBrokerWhenConsumeSlowly":3}}"#
            ),
        ),
        (
            "a group of nulls",
            format!(r#"{{"groupName":"{name}3","retryMaxTimes":null,"consumeEnable":null}}"#),
        ),
        (
            "a field twice",
            format!(r#"{{"groupName":"{name}4","retryMaxTimes":1,"retryMaxTimes":2}}"#),
        ),
        (
            "texts for numbers",
            format!(r#"{{"groupName":"{name}5","retryMaxTimes":"4","consumeEnable":"false"}}"#),
        ),
        (
            "fields of 5.x",
            format!(
                r#"{{"groupName":"{name}6","attributes":{{}},"groupRetryPolicy":{{"type":"CUSTOMIZED"}},"groupSysFlag":0}}"#
            ),
        ),
        ("a group with odd letters", r#"{"groupName":"a b"}"#.into()),
        ("an empty name", r#"{"groupName":""}"#.into()),
        ("no name", "{}".into()),
        (
            "a text that is no number",
            format!(r#"{{"groupName":"{name}7","retryMaxTimes":"many"}}"#),
        ),
        ("a number for a flag", format!(r#"{{"groupName":"{name}8","consumeEnable":1}}"#)),
        ("an array for a name", r#"{"groupName":["x"]}"#.into()),
        ("an array", "[]".into()),
        ("what follows the JSON", format!(r#"{{"groupName":"{name}9"}} x"#)),
        ("no JSON", "[".into()),
        ("no body", String::new()),
    ] {
        pair.ask(&format!("group: {step}"), update(&body)).await;
    }
    let delete = |group: &str| Ask::new(code::DELETE_SUBSCRIPTIONGROUP).with("groupName", group);
    pair.ask("all groups", Ask::new(code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).await;
    pair.ask("delete a group", delete(&format!("{name}1"))).await;
    pair.ask(
        "delete it again with its progress",
        delete(&format!("{name}1")).with("removeOffset", true),
    )
    .await;
    pair.ask("delete an unknown group", delete("nobody")).await;
    pair.ask("delete no group", delete("").without("groupName")).await;
    let online = pair.name("DeletedOnline");
    let subscribed = pair.name("Pulled");
    pair.prepare(heartbeat("client-deleted", &online, false, &[(&subscribed, "*", 1)])).await;
    pair.ask("delete a group that is online", delete(&online)).await;
    let list = Ask::new(code::GET_CONSUMER_LIST_BY_GROUP).with("consumerGroup", &online);
    pair.ask("members of a deleted group", list).await;
    let pull = read(&subscribed, 0, 0)
        .with("consumerGroup", &online)
        .with("sysFlag", 0)
        .with("subVersion", 1);
    pair.ask("pull of a deleted group", pull).await;
    pair.notices("notices of a deleted group", 1).await;
}

/// What a new broker has.
pub(crate) async fn fresh(pair: &mut Pair) {
    for (what, code) in [
        ("topics", code::GET_ALL_TOPIC_CONFIG),
        ("groups", code::GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        ("progress", code::GET_ALL_CONSUMER_OFFSET),
        ("delays", code::GET_ALL_DELAY_OFFSET),
        ("figures", code::GET_BROKER_RUNTIME_INFO),
    ] {
        pair.ask(&format!("{what} of a new broker"), Ask::new(code)).await;
    }
    let stats = Ask::new(code::GET_BROKER_CONSUME_STATS).with("isOrder", false);
    pair.ask("stats of a new broker", stats).await;
}

pub(crate) async fn settings(pair: &mut Pair) {
    let update = |body: &str| Ask::new(code::UPDATE_BROKER_CONFIG).body(body);
    pair.ask("settings", Ask::new(code::GET_BROKER_CONFIG)).await;
    pair.ask("change an unknown setting", update("noSuchSetting=1\n")).await;
    pair.ask("change nothing", update("")).await;
    groupless(pair).await;
    pair.ask("change without creating topics", update("autoCreateTopicEnable=false\n")).await;
    pair.ask("send without creating topics", message(&pair.name("NotMade"), "", "x")).await;
    let by_cluster = message(&pair.name("ByCluster"), "", "x").with("c", "DefaultCluster");
    pair.ask("send with the cluster for a default", by_cluster).await;
    let retry = message(&format!("%RETRY%{}", pair.name("Made2Retry")), "", "x");
    pair.ask("send to a retry topic without creating topics", retry).await;
    let subscribed = pair.name("Pulled");
    pair.prepare(update("brokerPermission=2\n")).await;
    pair.ask("pull where nothing may be read", read(&subscribed, 0, 0)).await;
    pair.prepare(update("brokerPermission=4\n")).await;
    pair.ask("send where nothing may be written", message(&subscribed, "", "x")).await;
    pair.prepare(update("brokerPermission=6\n")).await;
}

/// A broker that makes no groups by itself.
async fn groupless(pair: &mut Pair) {
    let update = |body: &str| Ask::new(code::UPDATE_BROKER_CONFIG).body(body);
    pair.prepare(update("autoCreateSubscriptionGroup=false\n")).await;
    let unknown = pair.name("UnknownGroup");
    let subscribed = pair.name("Pulled");
    pair.ask("pull of an unknown group", read(&subscribed, 0, 0).with("consumerGroup", &unknown))
        .await;
    let retry = message(&format!("%RETRY%{unknown}"), "", "x");
    pair.ask("send to the retry topic of an unknown group", retry).await;
    let beat = heartbeat("client-unknown", &unknown, false, &[(&subscribed, "*", 1)]);
    pair.ask("heartbeat of an unknown group", beat).await;
    let list = Ask::new(code::GET_CONSUMER_LIST_BY_GROUP).with("consumerGroup", &unknown);
    pair.ask("members of a group without settings", list).await;
    let stats = Ask::new(code::GET_TOPIC_STATS_INFO).with("topic", format!("%RETRY%{unknown}"));
    pair.ask("retry topic of a group without settings", stats).await;
    pair.prepare(update("autoCreateSubscriptionGroup=true\n")).await;
}

async fn figures(pair: &mut Pair) {
    pair.ask("figures", Ask::new(code::GET_BROKER_RUNTIME_INFO)).await;
    let stats = |name: &str, key: &str| {
        Ask::new(code::VIEW_BROKER_STATS_DATA).with("statsName", name).with("statsKey", key)
    };
    pair.ask("stats of nothing", stats("TOPIC_PUT_NUMS", "nobody")).await;
    pair.ask("stats of an unknown kind", stats("NO_SUCH", "x")).await;
    pair.ask("stats without a key", stats("TOPIC_PUT_NUMS", "x").without("statsKey")).await;
    pair.ask("stats without a name", stats("x", "x").without("statsName")).await;
    pair.ask("all progress", Ask::new(code::GET_ALL_CONSUMER_OFFSET)).await;
    pair.ask("all delays", Ask::new(code::GET_ALL_DELAY_OFFSET)).await;
    pair.ask(
        "stats of all groups",
        Ask::new(code::GET_BROKER_CONSUME_STATS).with("isOrder", false),
    )
    .await;
}

async fn unknown(pair: &mut Pair) {
    for code in [0, -1, 9, 16, 18, 27, 99, 105, 225, 343, 345, 351, 400, 904, 9999, 32_767] {
        pair.ask(&format!("code {code} at a broker"), Ask::new(code)).await;
    }
}
