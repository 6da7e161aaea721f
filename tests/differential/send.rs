//! Sends (10, 310), batches (320) and messages given back (36), with all that is wrong with them.

use broker_client::Reply;
use broker_protocol::code::request as code;
use broker_protocol::record::write_batch_message;

use crate::pair::{Ask, Pair};

/// A valid 310.
pub(crate) fn message(topic: &str, properties: &str, body: &str) -> Ask {
    Ask::new(code::SEND_MESSAGE_V2)
        .with("a", "DiffProducer")
        .with("b", topic)
        .with("c", "TBW102")
        .with("d", 4)
        .with("e", 0)
        .with("f", 0)
        .with("g", 1_700_000_000_000_i64)
        .with("h", 7)
        .with("i", properties)
        .with("j", 0)
        .with("k", false)
        .with("m", false)
        .body(body)
}

/// A valid 320 of these messages.
pub(crate) fn batch(topic: &str, messages: &[(&str, &str)]) -> Ask {
    let mut body = Vec::new();
    for (properties, text) in messages {
        write_batch_message(&mut body, 0, text.as_bytes(), properties.as_bytes()).unwrap();
    }
    message(topic, "WAIT\x01true", "").code(code::SEND_BATCH_MESSAGE).with("m", true).body(body)
}

/// A read of what a topic holds, without a group's subscription.
pub(crate) fn read(topic: &str, queue_id: i32, offset: i64) -> Ask {
    Ask::new(code::PULL_MESSAGE)
        .with("consumerGroup", "DiffReader")
        .with("topic", topic)
        .with("queueId", queue_id)
        .with("queueOffset", offset)
        .with("maxMsgNums", 32)
        .with("sysFlag", 4)
        .with("commitOffset", 0)
        .with("suspendTimeoutMillis", 0)
        .with("subscription", "*")
        .with("subVersion", 0)
        .with("expressionType", "TAG")
}

pub(crate) async fn compare(pair: &mut Pair) {
    plain(pair).await;
    wrong(pair).await;
    properties(pair).await;
    long_names(pair).await;
    batches(pair).await;
    odd_forms(pair).await;
    delays(pair).await;
    retries(pair).await;
    send_back(pair).await;
}

async fn plain(pair: &mut Pair) {
    let topic = pair.name("Sent");
    pair.ask("send creates a topic", message(&topic, "KEYS\x01k\x02TAGS\x01a\x02", "first")).await;
    pair.ask("send with an empty body", message(&topic, "", "")).await;
    pair.ask("send without properties", message(&topic, "", "x").without("i")).await;
    pair.ask("send with a sys flag", message(&topic, "", "x").with("f", 1)).await;
    pair.ask("send with reconsume times", message(&topic, "", "x").with("j", 3)).await;
    pair.ask(
        "send without optional fields",
        message(&topic, "", "x").without("j").without("k").without("m"),
    )
    .await;
    pair.settle(&topic, 0, 6).await;
    pair.ask("what sends have stored", read(&topic, 0, 0)).await;
    let one = pair.name("OneQueue");
    pair.ask("send creates one queue", message(&one, "", "x").with("d", 1)).await;
    pair.ask("send lets the broker choose", message(&one, "", "x").with("e", -1)).await;
    pair.ask("send lets the broker choose, far below", message(&one, "", "x").with("e", -7)).await;
    let unit = pair.name("Unit");
    pair.ask("send creates a topic of a unit", message(&unit, "", "x").with("k", true)).await;
    let many = pair.name("Many");
    pair.ask(
        "send asks for more queues than the default topic has",
        message(&many, "", "x").with("d", 64),
    )
    .await;
    for topic in [one, unit, many] {
        let stats = Ask::new(code::GET_TOPIC_STATS_INFO).with("topic", &topic);
        pair.settle(&topic, 0, if topic.ends_with("OneQueue") { 3 } else { 1 }).await;
        pair.ask("a created topic's queues", stats).await;
    }
}

async fn wrong(pair: &mut Pair) {
    let topic = pair.name("Sent");
    let fresh = pair.name("Never");
    let wrong: &[(&str, Ask)] = &[
        ("queue beyond", message(&topic, "", "x").with("e", 4)),
        ("queue far beyond", message(&topic, "", "x").with("e", i32::MAX)),
        ("queue beyond of a new topic", message(&pair.name("Beyond"), "", "x").with("e", 9)),
        ("unknown default topic", message(&fresh, "", "x").with("c", "NoSuchDefault")),
        ("default topic that lends nothing", message(&fresh, "", "x").with("c", &topic)),
        ("empty default topic", message(&fresh, "", "x").with("c", "")),
        ("no queues wanted", message(&pair.name("Zero"), "", "x").with("d", 0)),
        ("fewer than no queues wanted", message(&pair.name("Minus"), "", "x").with("d", -3)),
        ("empty topic", message("", "", "x")),
        ("blank topic", message("  ", "", "x")),
        ("topic with a slash", message("../../x", "", "x")),
        ("topic with a dot", message("a.b", "", "x")),
        ("topic that is not ASCII", message("日本", "", "x")),
        ("topic of 127", message(&name_of(pair, 127), "", "x")),
        ("topic of 128", message(&name_of(pair, 128), "", "x")),
        ("topic of 255", message(&name_of(pair, 255), "", "x")),
        ("topic of 300", message(&name_of(pair, 300), "", "x")),
        ("topic of percent and bar", message(&format!("{}%|-_", pair.name("Odd")), "", "x")),
        ("schedule topic", message("SCHEDULE_TOPIC_XXXX", "", "x")),
        ("half topic", message("RMQ_SYS_TRANS_HALF_TOPIC", "", "x")),
        ("trace topic", message("RMQ_SYS_TRACE_TOPIC", "", "x")),
        ("offset moved topic", message("OFFSET_MOVED_EVENT", "", "x")),
        ("self test topic", message("SELF_TEST_TOPIC", "", "x")),
        ("default topic itself", message("TBW102", "", "x")),
        ("body at the limit", message(&topic, "", &"x".repeat(65_536))),
        ("body above the limit", message(&topic, "", &"x".repeat(65_537))),
        ("no topic", message(&topic, "", "x").without("b")),
        ("no queue", message(&topic, "", "x").without("e")),
        ("no group", message(&topic, "", "x").without("a")),
        ("no default topic", message(&topic, "", "x").without("c")),
        ("no sys flag", message(&topic, "", "x").without("f")),
        ("no born time", message(&topic, "", "x").without("g")),
        ("no flag", message(&topic, "", "x").without("h")),
        ("a queue that is no number", message(&topic, "", "x").with("e", "one")),
        ("a queue that is too big a number", message(&topic, "", "x").with("e", "4294967296")),
        ("no field at all", Ask::new(code::SEND_MESSAGE_V2).body("x")),
    ];
    for (step, ask) in wrong {
        pair.ask(&format!("send: {step}"), ask.clone()).await;
    }
}

fn name_of(pair: &Pair, length: usize) -> String {
    format!("{:x<length$}", pair.mark)
}

async fn properties(pair: &mut Pair) {
    let topic = pair.name("Properties");
    let long = |length: usize| format!("a\x01{}", "v".repeat(length - 2));
    let steps: &[(&str, String)] = &[
        ("a last separator", "a\x01b\x02".into()),
        ("no last separator", "a\x01b\x02c\x01d".into()),
        ("junk", "junk".into()),
        ("junk within", "a\x01b\x02junk\x02c\x01d".into()),
        ("an empty value", "a\x01\x02c\x01d".into()),
        ("an empty name", "\x01x\x02c\x01d".into()),
        ("a value of two parts", "a\x01b\x01c\x02d\x01e".into()),
        ("a name twice", "a\x01b\x02a\x01c".into()),
        ("text that is not ASCII", "ключ\x01値😀\x02".into()),
        ("WAIT false", "WAIT\x01false\x02a\x01b".into()),
        ("CLUSTER of another", "CLUSTER\x01other\x02a\x01b".into()),
        ("32,700 bytes", long(32_700)),
        ("32,768 bytes", long(32_768)),
        ("65,535 bytes", long(65_535)),
        ("65,536 bytes", long(65_536)),
        ("70,000 bytes", long(70_000)),
    ];
    let mut stored = 0;
    for (step, properties) in steps {
        let [apache, _] = pair
            .ask(&format!("send with properties: {step}"), message(&topic, properties, "x"))
            .await;
        stored += i64::from(apache.is_some_and(|reply| reply.code == 0));
    }
    pair.settle(&topic, 0, stored).await;
    pair.ask("what sends with properties have stored", read(&topic, 0, 0)).await;
}

async fn long_names(pair: &mut Pair) {
    let topic = pair.name("Sent");
    let long = Ask::new(code::SEND_MESSAGE)
        .with("producerGroup", "DiffProducer")
        .with("topic", &topic)
        .with("defaultTopic", "TBW102")
        .with("defaultTopicQueueNums", 4)
        .with("queueId", 1)
        .with("sysFlag", 0)
        .with("bornTimestamp", 1_700_000_000_000_i64)
        .with("flag", 0)
        .with("properties", "TAGS\x01b\x02")
        .with("reconsumeTimes", 0)
        .with("unitMode", false)
        .body("long names");
    pair.ask("10", long.clone()).await;
    pair.ask("10: queue beyond", long.clone().with("queueId", 99)).await;
    pair.ask("10: no topic", long.without("topic")).await;
    pair.settle(&topic, 1, 1).await;
    pair.ask("what 10 has stored", read(&topic, 1, 0)).await;
}

async fn batches(pair: &mut Pair) {
    let topic = pair.name("Batch");
    let two = [("KEYS\x01k1\x02TAGS\x01a", "one"), ("KEYS\x01k2\x02TAGS\x01b\x02", "two")];
    pair.ask("batch creates a topic", batch(&topic, &two)).await;
    pair.ask("batch of one", batch(&topic, &[("", "alone")])).await;
    pair.ask("batch with a group's own flag", batch(&topic, &two).with("h", 3)).await;
    pair.settle(&topic, 0, 5).await;
    pair.ask("what batches have stored", read(&topic, 0, 0)).await;
    let retry = format!("%RETRY%{}", pair.name("BatchGroup"));
    let steps: &[(&str, Ask)] = &[
        ("queue beyond", batch(&topic, &two).with("e", 50)),
        ("illegal topic", batch("a/b", &two)),
        ("topic of 128", batch(&name_of(pair, 128), &two)),
        ("no message", batch(&topic, &[])),
        ("torn", batch(&topic, &two).body(vec![0, 0, 0, 99, 0])),
        ("with a delay", batch(&topic, &two).with("i", "DELAY\x013\x02WAIT\x01true")),
        ("with a delayed message", batch(&topic, &[("DELAY\x013", "x")])),
        ("to a retry topic", batch(&retry, &two)),
        ("above the limit", batch(&topic, &[("", &"x".repeat(40_000)), ("", &"y".repeat(40_000))])),
        ("one message above the limit", batch(&topic, &[("", &"x".repeat(70_000))])),
    ];
    for (step, ask) in steps {
        pair.ask(&format!("batch: {step}"), ask.clone()).await;
    }
}

/// Values and forms that no client of Apache's writes, but some client may.
async fn odd_forms(pair: &mut Pair) {
    let topic = pair.name("Forms");
    let two = [("KEYS\x01k1", "one"), ("KEYS\x01k2", "two")];
    for (step, ask) in [
        ("a plain message", message(&topic, "", "x")),
        ("310 that says it is a batch", batch(&topic, &two).code(code::SEND_MESSAGE_V2)),
        ("320 that says it is none", message(&topic, "", "x").code(code::SEND_BATCH_MESSAGE)),
        (
            "320 that says nothing",
            message(&topic, "", "x").code(code::SEND_BATCH_MESSAGE).without("m"),
        ),
        ("a flag in capitals", batch(&topic, &two).with("m", "TRUE")),
        ("a flag that is no flag", message(&topic, "", "x").with("m", "yes")),
        ("a number with a plus", message(&topic, "", "x").with("e", "+1")),
        ("a number with a blank", message(&topic, "", "x").with("e", " 1")),
        ("a number with a point", message(&topic, "", "x").with("e", "1.0")),
        ("a number with zeros", message(&topic, "", "x").with("e", "0001")),
        ("an empty number", message(&topic, "", "x").with("e", "")),
        ("reconsume times below 0", message(&topic, "", "x").with("j", -1)),
        ("a born time of 0", message(&topic, "", "x").with("g", 0)),
        ("a born time below 0", message(&topic, "", "x").with("g", -5)),
        ("the greatest flag", message(&topic, "", "x").with("h", i32::MAX)),
        ("the least flag", message(&topic, "", "x").with("h", i32::MIN)),
        ("compression", message(&topic, "", "x").with("f", 1)),
        ("many tags", message(&topic, "TAGS\x01a||b", "x")),
        ("an unknown field", message(&topic, "", "x").with("zz", "1")),
    ] {
        pair.ask(&format!("send: {step}"), ask).await;
    }
}

async fn delays(pair: &mut Pair) {
    let topic = pair.name("Delayed");
    let delayed = |level: &str| {
        message(&topic, &format!("KEYS\x01k\x02DELAY\x01{level}\x02TAGS\x01t"), level)
    };
    for level in ["0", "-1", "1", "2"] {
        pair.ask(&format!("send with delay level {level}"), delayed(level)).await;
    }
    for level in ["18", "99", "soon", ""] {
        let apart = pair.name("DelayedApart");
        let properties = format!("DELAY\x01{level}\x02TAGS\x01t");
        pair.ask(&format!("send with delay level {level:?}"), message(&apart, &properties, level))
            .await;
    }
    pair.settle(&topic, 0, 4).await;
    pair.ask("what delayed sends have stored", read(&topic, 0, 0)).await;
    let far =
        Ask::new(code::GET_MAX_OFFSET).with("topic", "SCHEDULE_TOPIC_XXXX").with("queueId", 17);
    pair.ask("both far levels are the last one", far).await;
    // Apache lets anybody read it.
    pair.ask("the last level's queue", read("SCHEDULE_TOPIC_XXXX", 17, 0)).await;
}

async fn retries(pair: &mut Pair) {
    let group = pair.name("Retried");
    let retry = format!("%RETRY%{group}");
    let dead = format!("%DLQ%{group}");
    let properties = "TAGS\x01t\x02ORIGIN_MESSAGE_ID\x01X\x02RETRY_TOPIC\x01T";
    pair.ask("send to a retry topic of an unknown group", message(&retry, "", "x")).await;
    pair.ask(
        "retry with no attempt left",
        message(&retry, properties, "x").with("j", 3).with("l", 3),
    )
    .await;
    pair.ask(
        "retry with more than all attempts",
        message(&retry, properties, "x").with("j", 4).with("l", 3),
    )
    .await;
    pair.ask("retry with no attempt left by the group", message(&retry, "", "x").with("j", 16))
        .await;
    pair.ask("retry with attempts left", message(&retry, "", "x").with("j", 2).with("l", 3)).await;
    pair.ask("retry: queue beyond", message(&retry, "", "x").with("e", 3)).await;
    pair.settle(&dead, 0, 3).await;
    pair.ask("what became dead letters", read(&dead, 0, 0)).await;
    pair.settle(&retry, 0, 2).await;
    pair.ask("what stayed a retry", read(&retry, 0, 0)).await;
    pair.ask(
        "send to a retry topic that is too long",
        message(&format!("%RETRY%{}", name_of(pair, 125)), "", "x"),
    )
    .await;
    pair.ask("send to the retry topic of nobody", message("%RETRY%", "", "x")).await;
    pair.ask(
        "send to a dead letter topic",
        message(&format!("%DLQ%{}", pair.name("Nobody")), "", "x"),
    )
    .await;
}

async fn send_back(pair: &mut Pair) {
    let (topic, group) = (pair.name("Given"), pair.name("Giver"));
    let sent = pair
        .ask(
            "a message to give back",
            message(&topic, "KEYS\x01k\x02TAGS\x01a\x02UNIQ_KEY\x01U", "given"),
        )
        .await;
    pair.settle(&topic, 0, 1).await;
    let places = sent.map(place_of);
    let back = Ask::new(code::CONSUMER_SEND_MSG_BACK)
        .each("offset", places)
        .with("group", &group)
        .with("delayLevel", 1)
        .with("originMsgId", "U")
        .with("originTopic", &topic)
        .with("unitMode", false)
        .with("maxReconsumeTimes", 3);
    pair.ask("send back of an unknown group", back.clone()).await;
    let config = format!(
        r#"{{"groupName":"{group}","retryMaxTimes":2,"retryQueueNums":1,"consumeEnable":true}}"#
    );
    pair.prepare(Ask::new(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(config)).await;
    pair.ask("send back", back.clone()).await;
    pair.ask("send back with no attempt left", back.clone().with("maxReconsumeTimes", 0)).await;
    pair.ask("send back to the dead letters", back.clone().with("delayLevel", -1)).await;
    pair.ask("send back by the group's own limit", back.clone().without("maxReconsumeTimes")).await;
    pair.ask("send back of no message", back.clone().with("offset", 999_999_999_999_i64)).await;
    pair.ask("send back of a negative place", back.clone().with("offset", -1)).await;
    pair.ask("send back without an offset", back.clone().without("offset")).await;
    pair.ask("send back without a group", back.clone().without("group")).await;
    pair.ask("send back without a level", back.clone().without("delayLevel")).await;
    pair.ask(
        "send back without an origin",
        back.clone().without("originMsgId").without("originTopic").without("unitMode"),
    )
    .await;
    let (retry, dead) = (format!("%RETRY%{group}"), format!("%DLQ%{group}"));
    pair.settle(&dead, 0, 2).await;
    pair.ask("dead letters of send backs", read(&dead, 0, 0)).await;
    pair.settle(&retry, 0, 4).await;
    pair.ask("retries of send backs", read(&retry, 0, 0)).await;
    let none = pair.name("NoRetry");
    let config = format!(r#"{{"groupName":"{none}","retryQueueNums":0}}"#);
    pair.prepare(Ask::new(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(config)).await;
    pair.ask("send back of a group without retries", back.with("group", &none)).await;
}

/// The place in the log that a send's answer names.
pub(crate) fn place_of(reply: Option<Reply>) -> String {
    let fields = reply.map(|reply| reply.fields()).unwrap_or_default();
    let id = fields.iter().find(|(key, _)| key == "msgId").and_then(|(_, id)| id.get(16..32));
    id.and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or_default().to_string()
}
