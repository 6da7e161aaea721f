//! Heartbeats (34, 35), members (38, 203, 204), locks (41, 42), progress as operators see and move
//! it (208, 222, 223, 300, 303, 307, 308, 309, 314, 317).

use broker_protocol::code::request as code;

use crate::pair::{Ask, Pair};
use crate::send::message;

/// A heartbeat of one consumer and one producer.
pub(crate) fn heartbeat(
    client: &str,
    group: &str,
    broadcast: bool,
    topics: &[(&str, &str, i64)],
) -> Ask {
    let subscriptions: Vec<String> = topics
        .iter()
        .map(|(topic, filter, version)| {
            let tags: Vec<&str> =
                filter.split("||").map(str::trim).filter(|tag| !matches!(*tag, "" | "*")).collect();
            let codes: Vec<i32> = tags.iter().map(|tag| broker_protocol::tags::java_string_hash(tag)).collect();
            format!(
                r#"{{"classFilterMode":false,"codeSet":{codes:?},"expressionType":"TAG","subString":"{filter}","subVersion":{version},"tagsSet":{tags:?},"topic":"{topic}"}}"#
            )
        })
        .collect();
    let model = if broadcast { "BROADCASTING" } else { "CLUSTERING" };
    Ask::new(code::HEART_BEAT).body(format!(
        r#"{{"clientID":"{client}","consumerDataSet":[{{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"{group}","messageModel":"{model}","subscriptionDataSet":[{}],"unitMode":false}}],"producerDataSet":[{{"groupName":"P{group}"}}]}}"#,
        subscriptions.join(",")
    ))
}

pub(crate) async fn compare(pair: &mut Pair) {
    heartbeats(pair).await;
    members(pair).await;
    locks(pair).await;
    progress(pair).await;
    resets(pair).await;
    questions(pair).await;
}

async fn heartbeats(pair: &mut Pair) {
    let beat = |body: String| Ask::new(code::HEART_BEAT).body(body);
    let consumer = |fields: &str| format!(r#"{{"clientID":"c","consumerDataSet":[{{{fields}}}]}}"#);
    let group = pair.name("Beat");
    for (step, ask) in [
        ("no body", Ask::new(code::HEART_BEAT)),
        ("no JSON", beat("hello".into())),
        ("null", beat("null".into())),
        ("an empty object", beat("{}".into())),
        ("a client alone", beat(r#"{"clientID":"c"}"#.into())),
        ("null sets", beat(r#"{"clientID":"c","consumerDataSet":null,"producerDataSet":null}"#.into())),
        ("a group alone", beat(consumer(&format!(r#""groupName":"{group}1""#)))),
        ("null subscriptions", beat(consumer(&format!(r#""groupName":"{group}2","subscriptionDataSet":null"#)))),
        ("an unknown consume type", beat(consumer(&format!(r#""groupName":"{group}3","consumeType":"CONSUME_ELSE","messageModel":"OTHER","subscriptionDataSet":[]"#)))),
        ("a type hint", beat(format!(r#"{{"@type":"java.lang.Object","clientID":"c","consumerDataSet":[{{"groupName":"{group}4","subscriptionDataSet":[]}}]}}"#))),
        ("a field twice", beat(format!(r#"{{"clientID":"x","clientID":"c","consumerDataSet":[{{"groupName":"no","groupName":"{group}5","subscriptionDataSet":[]}}]}}"#))),
        ("names without quotes", beat(format!(r#"{{clientID:'c',consumerDataSet:[{{groupName:'{group}6',subscriptionDataSet:[]}}]}}"#))),
        ("extra fields of 5.x", beat(format!(r#"{{"clientID":"c","heartbeatFingerprint":0,"withoutSub":false,"consumerDataSet":[{{"groupName":"{group}7","subscriptionDataSet":[],"x":{{"y":[1,2]}}}}]}}"#))),
        ("a subscription of nulls", beat(consumer(&format!(r#""groupName":"{group}8","subscriptionDataSet":[{{"topic":"T","subString":null,"tagsSet":null,"codeSet":null}}]"#)))),
        ("producers", beat(r#"{"clientID":"c","producerDataSet":[{"groupName":"DiffBeatProducer"},{"groupName":null}]}"#.into())),
    ] {
        pair.ask(&format!("heartbeat: {step}"), ask).await;
    }
    for number in 1..=8 {
        let list = Ask::new(code::GET_CONSUMER_LIST_BY_GROUP)
            .with("consumerGroup", format!("{group}{number}"));
        pair.ask(&format!("members after heartbeat {number}"), list).await;
        let connections = Ask::new(code::GET_CONSUMER_CONNECTION_LIST)
            .with("consumerGroup", format!("{group}{number}"));
        pair.ask(&format!("connections after heartbeat {number}"), connections).await;
    }
    pair.notices("notices of heartbeats", 1).await;
}

async fn members(pair: &mut Pair) {
    let (topic, group) = (pair.name("Members"), pair.name("Membership"));
    pair.prepare(message(&topic, "", "x")).await;
    let list = Ask::new(code::GET_CONSUMER_LIST_BY_GROUP).with("consumerGroup", &group);
    pair.ask("members of an unknown group", list.clone()).await;
    pair.ask("members of no group", list.clone().without("consumerGroup")).await;
    let connections = Ask::new(code::GET_CONSUMER_CONNECTION_LIST).with("consumerGroup", &group);
    pair.ask("connections of an unknown group", connections.clone()).await;
    pair.ask("connections of no group", connections.clone().without("consumerGroup")).await;
    let producers =
        Ask::new(code::GET_PRODUCER_CONNECTION_LIST).with("producerGroup", format!("P{group}"));
    pair.ask("producers of an unknown group", producers.clone()).await;
    pair.ask("heartbeat", heartbeat("client-1", &group, false, &[(&topic, "a || b", 5)])).await;
    pair.notices("notices of a new member", 1).await;
    pair.ask("members", list.clone()).await;
    pair.ask("connections", connections.clone()).await;
    pair.ask("producers", producers.clone()).await;
    pair.ask("the same heartbeat", heartbeat("client-1", &group, false, &[(&topic, "a || b", 5)]))
        .await;
    pair.ask(
        "a heartbeat with another topic",
        heartbeat("client-1", &group, false, &[(&topic, "a || b", 5), ("Other", "*", 5)]),
    )
    .await;
    pair.notices("notices of another topic", 1).await;
    pair.ask("connections with another topic", connections.clone()).await;
    let retry = Ask::new(code::GET_TOPIC_STATS_INFO).with("topic", format!("%RETRY%{group}"));
    pair.ask("the retry topic of a group", retry).await;
    pair.ask(
        "who reads the topic",
        Ask::new(code::QUERY_TOPIC_CONSUME_BY_WHO).with("topic", &topic),
    )
    .await;
    pair.ask(
        "who reads an unknown topic",
        Ask::new(code::QUERY_TOPIC_CONSUME_BY_WHO).with("topic", pair.name("NoSuch")),
    )
    .await;
    pair.ask("who reads no topic", Ask::new(code::QUERY_TOPIC_CONSUME_BY_WHO)).await;
    let leave = Ask::new(code::UNREGISTER_CLIENT).with("clientID", "client-1");
    pair.ask("leave nothing", leave.clone()).await;
    pair.ask("leave an unknown group", leave.clone().with("consumerGroup", "nobody")).await;
    pair.ask("leave as a producer", leave.clone().with("producerGroup", format!("P{group}"))).await;
    pair.ask("producers after leaving", producers).await;
    pair.ask("leave as a consumer", leave.clone().with("consumerGroup", &group)).await;
    pair.ask("members after leaving", list).await;
    pair.ask("connections after leaving", connections).await;
    pair.ask("leave without an id", leave.without("clientID").with("consumerGroup", &group)).await;
    let check = |body: &str| Ask::new(code::CHECK_CLIENT_CONFIG).body(body);
    pair.ask("check a subscription", check(r#"{"clientId":"c","group":"g","subscriptionData":{"expressionType":"TAG","subString":"*","topic":"T"}}"#)).await;
    pair.ask("check a SQL subscription", check(r#"{"clientId":"c","group":"g","subscriptionData":{"expressionType":"SQL92","subString":"a > 1","topic":"T"}}"#)).await;
    pair.ask("check no subscription", check(r#"{"clientId":"c","group":"g"}"#)).await;
    pair.ask("check nothing", Ask::new(code::CHECK_CLIENT_CONFIG)).await;
}

async fn locks(pair: &mut Pair) {
    let group = pair.name("Locker");
    let lock = |code: i32, client: &str, queues: &[i32]| {
        let queues: Vec<String> = queues
            .iter()
            .map(|queue| format!(r#"{{"brokerName":"diff","queueId":{queue},"topic":"T"}}"#))
            .collect();
        Ask::new(code).body(format!(
            r#"{{"clientId":"{client}","consumerGroup":"{group}","mqSet":[{}]}}"#,
            queues.join(",")
        ))
    };
    let (take, give) = (code::LOCK_BATCH_MQ, code::UNLOCK_BATCH_MQ);
    pair.ask("lock two queues", lock(take, "c1", &[0, 1])).await;
    pair.ask("lock them again", lock(take, "c1", &[0, 1])).await;
    pair.ask("lock as another", lock(take, "c2", &[1, 2])).await;
    pair.ask("unlock as another", lock(give, "c2", &[0])).await;
    pair.ask("lock what is still locked", lock(take, "c2", &[0])).await;
    pair.ask("unlock", lock(give, "c1", &[0, 7])).await;
    pair.ask("lock what was unlocked", lock(take, "c2", &[0])).await;
    pair.ask("lock nothing", lock(take, "c1", &[])).await;
    for (step, body) in [
        ("no body", ""),
        ("an empty object", "{}"),
        ("null queues", r#"{"clientId":"c","consumerGroup":"g","mqSet":null}"#),
        ("a queue of nulls", r#"{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":null}]}"#),
        ("no JSON", "["),
    ] {
        pair.ask(&format!("lock: {step}"), Ask::new(take).body(body)).await;
        pair.ask(&format!("unlock: {step}"), Ask::new(give).body(body)).await;
    }
}

async fn progress(pair: &mut Pair) {
    let (topic, group) = (pair.name("Lag"), pair.name("Lagging"));
    for body in ["1", "2", "3"] {
        pair.prepare(message(&topic, "", body)).await;
    }
    pair.settle(&topic, 0, 3).await;
    let stats = Ask::new(code::GET_CONSUME_STATS).with("consumerGroup", &group).with("topic", "");
    pair.ask("stats of an unknown group", stats.clone()).await;
    pair.ask("stats of an unknown group on a topic", stats.clone().with("topic", &topic)).await;
    let commit = Ask::new(code::UPDATE_CONSUMER_OFFSET)
        .with("consumerGroup", &group)
        .with("topic", &topic)
        .with("queueId", 0)
        .with("commitOffset", 2);
    pair.prepare(commit.clone()).await;
    pair.ask("stats", stats.clone()).await;
    pair.ask("stats without a topic", stats.clone().without("topic")).await;
    pair.ask("stats on a topic", stats.clone().with("topic", &topic)).await;
    pair.ask("stats on an unknown topic", stats.clone().with("topic", pair.name("NoSuch"))).await;
    pair.ask("stats of no group", stats.without("consumerGroup")).await;
    let span = Ask::new(code::QUERY_CONSUME_TIME_SPAN).with("topic", &topic).with("group", &group);
    pair.ask("time span", span.clone()).await;
    pair.ask("time span of an unknown group", span.clone().with("group", "nobody")).await;
    pair.ask("time span of an unknown topic", span.clone().with("topic", pair.name("NoSuch")))
        .await;
    pair.ask("time span of no topic", span.without("topic")).await;
    let other = pair.name("Other");
    let correct = Ask::new(code::QUERY_CORRECTION_OFFSET)
        .with("topic", &topic)
        .with("compareGroup", &other)
        .with("filterGroups", "");
    pair.ask("correction of an unknown group", correct.clone()).await;
    pair.prepare(commit.clone().with("consumerGroup", &other).with("commitOffset", 1)).await;
    pair.ask("correction", correct.clone()).await;
    pair.ask("correction by the other", correct.clone().with("compareGroup", &group)).await;
    let filtered = pair.name("Filtered");
    pair.prepare(commit.clone().with("consumerGroup", &filtered).with("commitOffset", 0)).await;
    pair.ask("correction without a group", correct.clone().with("filterGroups", &filtered)).await;
    pair.ask("correction without filters", correct.without("filterGroups")).await;
    let clone = Ask::new(code::CLONE_GROUP_OFFSET)
        .with("srcGroup", &group)
        .with("destGroup", pair.name("Cloned"))
        .with("topic", &topic)
        .with("offline", true);
    pair.ask("clone", clone.clone()).await;
    pair.ask(
        "clone all topics",
        clone.clone().without("topic").with("destGroup", pair.name("Cloned2")),
    )
    .await;
    pair.ask("clone of an unknown group", clone.clone().with("srcGroup", "nobody")).await;
    pair.ask("clone on an unknown topic", clone.clone().with("topic", pair.name("NoSuch"))).await;
    pair.ask(
        "clone online",
        clone.clone().with("offline", false).with("destGroup", pair.name("Cloned3")),
    )
    .await;
    pair.ask("clone to no group", clone.without("destGroup")).await;
    pair.ask(
        "who has read the topic",
        Ask::new(code::QUERY_TOPIC_CONSUME_BY_WHO).with("topic", &topic),
    )
    .await;
}

async fn resets(pair: &mut Pair) {
    let (topic, group) = (pair.name("Reset"), pair.name("Resetting"));
    for body in ["1", "2", "3"] {
        pair.prepare(message(&topic, "", body)).await;
    }
    pair.settle(&topic, 0, 3).await;
    let reset = Ask::new(code::INVOKE_BROKER_TO_RESET_OFFSET)
        .with("topic", &topic)
        .with("group", &group)
        .with("timestamp", -1)
        .with("isForce", true);
    pair.ask("reset of an unknown group", reset.clone()).await;
    pair.ask("reset of an unknown topic", reset.clone().with("topic", pair.name("NoSuch"))).await;
    pair.ask("reset of no group", reset.clone().without("group")).await;
    pair.ask("reset to no time", reset.clone().without("timestamp")).await;
    pair.prepare(heartbeat("client-reset", &group, false, &[(&topic, "*", 1)])).await;
    pair.notices("notices before resets", 1).await;
    let commit = Ask::new(code::UPDATE_CONSUMER_OFFSET)
        .with("consumerGroup", &group)
        .with("topic", &topic)
        .with("queueId", 0)
        .with("commitOffset", 2);
    pair.ask("reset without progress", reset.clone()).await;
    for queue_id in 0..4 {
        let offset = if queue_id == 0 { 2 } else { 0 };
        let commit = commit.clone().with("queueId", queue_id).with("commitOffset", offset);
        pair.prepare(commit).await;
    }
    pair.ask("reset to the end", reset.clone()).await;
    pair.ask("reset to the begin", reset.clone().with("timestamp", 0)).await;
    pair.ask("reset to the end without force", reset.clone().with("isForce", false)).await;
    pair.ask(
        "reset to the begin without force",
        reset.clone().with("timestamp", 0).with("isForce", false),
    )
    .await;
    pair.ask("reset to the far future", reset.clone().with("timestamp", 32_503_680_000_000_i64))
        .await;
    pair.ask("reset without a word of force", reset.clone().without("isForce")).await;
    pair.notices("notices of resets", 6).await;
    let status = Ask::new(code::INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
        .with("topic", &topic)
        .with("group", &group)
        .with("clientAddr", "");
    pair.ask("status", status.clone()).await;
    pair.ask("status of one client", status.clone().with("clientAddr", "client-reset")).await;
    pair.ask("status of an unknown client", status.clone().with("clientAddr", "nobody")).await;
    pair.ask("status of an unknown group", status.clone().with("group", "nobody")).await;
    pair.notices("notices of status", 2).await;
    let stats = Ask::new(code::GET_BROKER_CONSUME_STATS);
    pair.ask("stats of ordered topics", stats.clone().with("isOrder", true)).await;
    pair.ask("stats without a word of order", stats).await;
}

async fn questions(pair: &mut Pair) {
    let (topic, group) = (pair.name("Asked"), pair.name("Asking"));
    let sent = pair.prepare(message(&topic, "UNIQ_KEY\x01U\x02", "direct")).await;
    pair.settle(&topic, 0, 1).await;
    let ids = sent.map(|reply| {
        let fields = reply.unwrap().fields();
        fields.into_iter().find(|(key, _)| key == "msgId").unwrap().1
    });
    let info = Ask::new(code::GET_CONSUMER_RUNNING_INFO)
        .with("consumerGroup", &group)
        .with("clientId", "client-asked")
        .with("jstackEnable", false);
    pair.ask("running info of an unknown group", info.clone()).await;
    pair.prepare(heartbeat("client-asked", &group, false, &[(&topic, "*", 1)])).await;
    pair.notices("notices before questions", 1).await;
    pair.ask("running info", info.clone()).await;
    pair.ask("running info of an unknown client", info.clone().with("clientId", "nobody")).await;
    pair.ask("running info of no client", info.clone().without("clientId")).await;
    let direct = Ask::new(code::CONSUME_MESSAGE_DIRECTLY)
        .with("consumerGroup", &group)
        .with("clientId", "client-asked")
        .each("msgId", ids)
        .with("brokerName", "diff");
    pair.ask("consume directly", direct.clone()).await;
    pair.ask("consume directly at an unknown client", direct.clone().with("clientId", "nobody"))
        .await;
    pair.ask("consume nothing directly", direct.clone().without("msgId")).await;
    pair.ask("consume directly what is no id", direct.clone().with("msgId", "zz")).await;
    pair.ask("consume directly without a broker", direct.without("brokerName")).await;
    pair.notices("notices of questions", 2).await;
}
