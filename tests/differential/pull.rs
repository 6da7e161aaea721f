//! Pulls (11): every status, every refusal, filters, and being held.

use std::time::Duration;

use broker_protocol::code::request as code;

use crate::groups::heartbeat;
use crate::pair::{Ask, Pair};
use crate::send::{message, read};

pub(crate) async fn compare(pair: &mut Pair) {
    let topic = pair.name("Pulled");
    for (tag, body) in [("a", "1"), ("b", "2"), ("a", "3"), ("Aa", "4"), ("BB", "5")] {
        pair.prepare(message(&topic, &format!("TAGS\x01{tag}\x02"), body)).await;
    }
    pair.settle(&topic, 0, 5).await;
    statuses(pair, &topic).await;
    refusals(pair, &topic).await;
    filters(pair, &topic).await;
    subscriptions(pair, &topic).await;
    shrunk(pair).await;
    held(pair, &topic).await;
}

async fn statuses(pair: &mut Pair, topic: &str) {
    let steps: &[(&str, Ask)] = &[
        ("from the begin", read(topic, 0, 0)),
        ("from the middle", read(topic, 0, 3)),
        ("below the begin", read(topic, 0, -1)),
        ("at the end", read(topic, 0, 5)),
        ("one above the end", read(topic, 0, 6)),
        ("far above the end", read(topic, 0, i64::MAX)),
        ("an empty queue at 0", read(topic, 1, 0)),
        ("an empty queue at 7", read(topic, 1, 7)),
        ("an empty queue below 0", read(topic, 1, -1)),
        ("two messages", read(topic, 0, 0).with("maxMsgNums", 2)),
        ("no message wanted", read(topic, 0, 0).with("maxMsgNums", 0)),
        ("fewer than no message wanted", read(topic, 0, 0).with("maxMsgNums", -5)),
        ("more than any", read(topic, 0, 0).with("maxMsgNums", i32::MAX)),
        ("a version of the subscription", read(topic, 0, 0).with("subVersion", 99)),
        ("no kind of expression", read(topic, 0, 0).without("expressionType")),
        ("no subscription text", read(topic, 0, 0).without("subscription")),
    ];
    for (step, ask) in steps {
        pair.ask(&format!("pull: {step}"), ask.clone()).await;
    }
}

async fn refusals(pair: &mut Pair, topic: &str) {
    let steps: &[(&str, Ask)] = &[
        ("queue beyond", read(topic, 4, 0)),
        ("negative queue", read(topic, -1, 0)),
        ("unknown topic", read(&pair.name("NoSuch"), 0, 0)),
        ("illegal topic", read("a/b", 0, 0)),
        ("empty topic", read("", 0, 0)),
        ("group with odd letters", read(topic, 0, 0).with("consumerGroup", "a b/c")),
        ("empty group", read(topic, 0, 0).with("consumerGroup", "")),
        ("SQL", read(topic, 0, 0).with("expressionType", "SQL92").with("subscription", "a > 1")),
        ("an unknown kind of expression", read(topic, 0, 0).with("expressionType", "XPATH")),
        ("no group", read(topic, 0, 0).without("consumerGroup")),
        ("no topic", read(topic, 0, 0).without("topic")),
        ("no queue", read(topic, 0, 0).without("queueId")),
        ("no offset", read(topic, 0, 0).without("queueOffset")),
        ("no sys flag", read(topic, 0, 0).without("sysFlag")),
        ("no count", read(topic, 0, 0).without("maxMsgNums")),
        ("no version", read(topic, 0, 0).without("subVersion")),
        ("no commit offset", read(topic, 0, 0).without("commitOffset")),
        ("no time to hold", read(topic, 0, 0).without("suspendTimeoutMillis")),
        ("group that is not online", read(topic, 0, 0).with("sysFlag", 0)),
        ("a class filter", read(topic, 0, 0).with("sysFlag", 8)),
    ];
    for (step, ask) in steps {
        pair.ask(&format!("pull: {step}"), ask.clone()).await;
    }
    let closed = pair.name("Closed");
    let config = format!(r#"{{"groupName":"{closed}","consumeEnable":false}}"#);
    pair.prepare(Ask::new(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(config)).await;
    let ask = read(topic, 0, 0).with("consumerGroup", closed);
    pair.ask("pull: group that may not consume", ask).await;
    let unread = pair.name("Unread");
    pair.prepare(crate::admin::topic(&unread).with("perm", 2)).await;
    pair.ask("pull: topic that may not be read", read(&unread, 0, 0)).await;
    pair.prepare(crate::admin::topic(&unread).with("perm", 4)).await;
    pair.ask("send: topic that may not be written", message(&unread, "", "x")).await;
}

async fn filters(pair: &mut Pair, topic: &str) {
    for filter in ["", "*", "a", "b || a", " a ", "a||", "||", "c", "BB", "Aa", "a || *", "A"] {
        let ask = read(topic, 0, 0).with("subscription", filter);
        pair.ask(&format!("pull with filter {filter:?}"), ask).await;
    }
}

/// What a group subscribed to by heartbeat.
async fn subscriptions(pair: &mut Pair, topic: &str) {
    let group = pair.name("Subscribed");
    let beat = |broadcast: bool, filter: &str, version: i64| {
        heartbeat("client-pull", &group, broadcast, &[(topic, filter, version)])
    };
    pair.prepare(beat(false, "a", 100)).await;
    let pull = read(topic, 0, 0)
        .with("consumerGroup", &group)
        .with("sysFlag", 0)
        .with("subVersion", 100)
        .with("subscription", "");
    pair.ask("pull by subscription", pull.clone()).await;
    pair.ask("pull by a newer subscription", pull.clone().with("subVersion", 101)).await;
    pair.ask("pull by an older subscription", pull.clone().with("subVersion", 99)).await;
    pair.ask("pull of a topic not subscribed to", pull.clone().with("topic", pair.name("Sent")))
        .await;
    pair.prepare(beat(false, "b", 90)).await;
    pair.ask("an older heartbeat changes nothing", pull.clone()).await;
    pair.prepare(beat(false, "b", 110)).await;
    pair.ask("a newer heartbeat changes the filter", pull.clone()).await;
    pair.ask("a pull commits", pull.clone().with("sysFlag", 1).with("commitOffset", 2)).await;
    let committed = Ask::new(code::QUERY_CONSUMER_OFFSET)
        .with("consumerGroup", &group)
        .with("topic", topic)
        .with("queueId", 0);
    pair.ask("what a pull has committed", committed).await;
    let config = format!(r#"{{"groupName":"{group}","consumeBroadcastEnable":false}}"#);
    pair.prepare(Ask::new(code::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP).body(config)).await;
    pair.prepare(beat(true, "b", 120)).await;
    pair.ask("pull by broadcast where it is not allowed", pull).await;
    pair.notices("notices of a group that subscribes", 1).await;
}

/// A topic whose queues become fewer while they hold messages.
async fn shrunk(pair: &mut Pair) {
    let topic = pair.name("Shrunk");
    let queues = |read: i32, write: i32| {
        crate::admin::topic(&topic).with("readQueueNums", read).with("writeQueueNums", write)
    };
    pair.prepare(queues(4, 4)).await;
    for queue_id in 0..4 {
        pair.prepare(message(&topic, "", "kept").with("e", queue_id)).await;
    }
    pair.settle(&topic, 3, 1).await;
    pair.prepare(queues(4, 1)).await;
    pair.ask("send to a queue that is only read", message(&topic, "", "x").with("e", 3)).await;
    pair.ask("pull a queue that is only read", read(&topic, 3, 0)).await;
    pair.prepare(queues(1, 1)).await;
    pair.ask("send to a queue that was given up", message(&topic, "", "x").with("e", 3)).await;
    pair.ask("pull a queue that was given up", read(&topic, 3, 0)).await;
    let end = Ask::new(code::GET_MAX_OFFSET).with("topic", &topic).with("queueId", 2);
    pair.ask("end of a queue that was given up", end).await;
    pair.prepare(queues(4, 4)).await;
    pair.ask("pull a queue that came back", read(&topic, 2, 0)).await;
    pair.prepare(queues(1, 4)).await;
    pair.ask("send to a queue that is only written", message(&topic, "", "x").with("e", 2)).await;
    pair.ask("pull a queue that is only written", read(&topic, 2, 0)).await;
}

async fn held(pair: &mut Pair, topic: &str) {
    let hold = read(topic, 0, 5).with("sysFlag", 6).with("suspendTimeoutMillis", 200);
    let patience = Duration::from_secs(12);
    pair.ask("pull held until its time", hold.patience(patience)).await;
}
