//! Progress (14, 15), ends and times of queues (29 to 32), and finding messages (12, 33, 321).

use std::time::Duration;

use broker_protocol::code::request as code;
use jiff::Timestamp;

use crate::pair::{Ask, Pair};
use crate::send::{message, place_of};

fn queue(code: i32, topic: &str, queue_id: i32) -> Ask {
    Ask::new(code).with("topic", topic).with("queueId", queue_id)
}

pub(crate) async fn compare(pair: &mut Pair) {
    let topic = pair.name("Offsets");
    for body in ["1", "2", "3"] {
        pair.prepare(message(&topic, "", body)).await;
    }
    pair.settle(&topic, 0, 3).await;
    progress(pair, &topic).await;
    ends(pair, &topic).await;
    times(pair).await;
    finding(pair).await;
    units(pair, &topic).await;
}

async fn progress(pair: &mut Pair, topic: &str) {
    let group = pair.name("Progress");
    let query = queue(code::QUERY_CONSUMER_OFFSET, topic, 0).with("consumerGroup", &group);
    let commit = queue(code::UPDATE_CONSUMER_OFFSET, topic, 0)
        .with("consumerGroup", &group)
        .with("commitOffset", 2);
    pair.ask("progress of an unknown group", query.clone()).await;
    pair.ask("progress on an empty queue", query.clone().with("queueId", 1)).await;
    pair.ask("progress on a queue beyond", query.clone().with("queueId", 77)).await;
    pair.ask("progress on a negative queue", query.clone().with("queueId", -1)).await;
    pair.ask("progress on an unknown topic", query.clone().with("topic", pair.name("NoSuch")))
        .await;
    pair.ask("progress without a group", query.clone().without("consumerGroup")).await;
    pair.ask("progress without a topic", query.clone().without("topic")).await;
    pair.ask("progress without a queue", query.clone().without("queueId")).await;
    pair.ask("commit", commit.clone()).await;
    pair.ask("progress", query.clone()).await;
    pair.ask("commit backwards", commit.clone().with("commitOffset", 1)).await;
    pair.ask("progress backwards", query.clone()).await;
    pair.ask("commit above the end", commit.clone().with("commitOffset", 1000)).await;
    pair.ask("progress above the end", query.clone()).await;
    pair.ask("commit on an unknown topic", commit.clone().with("topic", pair.name("NoSuch"))).await;
    pair.ask("commit on a queue beyond", commit.clone().with("queueId", 77)).await;
    pair.ask("progress on a queue beyond, committed", query.clone().with("queueId", 77)).await;
    pair.ask("commit below 0", commit.clone().with("queueId", 2).with("commitOffset", -1)).await;
    pair.ask("progress below 0", query.clone().with("queueId", 2)).await;
    pair.ask("commit on a negative queue", commit.clone().with("queueId", -1)).await;
    pair.ask("progress on a negative queue, committed", query.clone().with("queueId", -1)).await;
    pair.ask("commit without a group", commit.clone().without("consumerGroup")).await;
    pair.ask("commit without an offset", commit.clone().without("commitOffset")).await;
    pair.ask("commit without a queue", commit.clone().without("queueId")).await;
    pair.ask("commit back", commit.with("commitOffset", 2)).await;
}

async fn ends(pair: &mut Pair, topic: &str) {
    let unknown = pair.name("NoSuch");
    for (what, code) in [
        ("end", code::GET_MAX_OFFSET),
        ("begin", code::GET_MIN_OFFSET),
        ("first time", code::GET_EARLIEST_MSG_STORETIME),
    ] {
        for (which, ask) in [
            ("a queue", queue(code, topic, 0)),
            ("an empty queue", queue(code, topic, 1)),
            ("a queue beyond", queue(code, topic, 99)),
            ("a negative queue", queue(code, topic, -1)),
            ("an unknown topic", queue(code, &unknown, 0)),
            ("an illegal topic", queue(code, "a/b", 0)),
            ("no topic", queue(code, topic, 0).without("topic")),
            ("no queue", queue(code, topic, 0).without("queueId")),
        ] {
            pair.ask(&format!("{what} of {which}"), ask).await;
        }
    }
    pair.ask("13", queue(code::QUERY_BROKER_OFFSET, topic, 0)).await;
}

async fn times(pair: &mut Pair) {
    let topic = pair.name("Times");
    let mut between = Vec::new();
    for body in ["1", "2", "3", "4"] {
        pair.prepare(message(&topic, "", body)).await;
        // Apart, so that a time between two messages exists.
        tokio::time::sleep(Duration::from_millis(10)).await;
        between.push(Timestamp::now().as_millisecond());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    pair.settle(&topic, 0, 4).await;
    let search =
        |time: i64| queue(code::SEARCH_OFFSET_BY_TIMESTAMP, &topic, 0).with("timestamp", time);
    for (index, time) in between.iter().enumerate() {
        pair.ask(&format!("offset by time {index}"), search(*time)).await;
    }
    for (which, ask) in [
        ("before all", search(1)),
        ("0", search(0)),
        ("-1", search(-1)),
        ("the far future", search(i64::MAX)),
        ("no time", search(0).without("timestamp")),
        ("a queue beyond", search(between[0]).with("queueId", 99)),
        ("an empty queue", search(between[0]).with("queueId", 1)),
        ("an unknown topic", search(between[0]).with("topic", pair.name("NoSuch"))),
    ] {
        pair.ask(&format!("offset by time: {which}"), ask).await;
    }
}

async fn finding(pair: &mut Pair) {
    let topic = pair.name("Found");
    let mut places = Vec::new();
    for (keys, id) in [("one", "U1"), ("one two", "U2"), ("AaAa", "U3"), ("BBBB", "U4"), ("", "U5")]
    {
        let properties = format!("KEYS\x01{keys}\x02UNIQ_KEY\x01{id}\x02");
        let sent = pair.prepare(message(&topic, &properties, id)).await;
        places.push(sent.map(place_of));
    }
    pair.settle(&topic, 0, 5).await;
    let query = |key: &str, unique: bool| {
        Ask::new(code::QUERY_MESSAGE)
            .with("topic", &topic)
            .with("key", key)
            .with("maxNum", 32)
            .with("beginTimestamp", 0)
            .with("endTimestamp", i64::MAX)
            .with("_UNIQUE_KEY_QUERY", unique)
    };
    for (which, ask) in [
        ("one", query("one", false)),
        ("two", query("two", false)),
        ("at most one", query("one", false).with("maxNum", 1)),
        ("at most none", query("one", false).with("maxNum", 0)),
        ("an unknown key", query("three", false)),
        ("a key whose hash another has", query("AaAa", false)),
        ("a unique id", query("U1", true)),
        ("an unknown unique id", query("U9", true)),
        ("an empty key", query("", false)),
        ("a time before all", query("one", false).with("endTimestamp", 5)),
        ("an unknown topic", query("one", false).with("topic", pair.name("NoSuch"))),
        ("no key", query("one", false).without("key")),
        ("no topic", query("one", false).without("topic")),
        ("no end", query("one", false).without("endTimestamp")),
        ("no flag", query("one", false).without("_UNIQUE_KEY_QUERY")),
    ] {
        pair.ask(&format!("query by key: {which}"), ask).await;
    }
    let view = Ask::new(code::VIEW_MESSAGE_BY_ID);
    pair.ask("view a message", view.clone().each("offset", places[0].clone())).await;
    pair.ask("view no message", view.clone().with("offset", 99_999_999_999_i64)).await;
    pair.ask("view a negative place", view.clone().with("offset", -1)).await;
    pair.ask("view nothing", view.clone()).await;
    pair.ask("view a place that is no number", view.with("offset", "x")).await;
}

async fn units(pair: &mut Pair, topic: &str) {
    let look = queue(code::QUERY_CONSUME_QUEUE, topic, 0)
        .with("index", 0)
        .with("count", 10)
        .with("consumerGroup", "");
    pair.ask("units of a queue", look.clone()).await;
    pair.ask("one unit", look.clone().with("index", 1).with("count", 1)).await;
    pair.ask("no unit", look.clone().with("count", 0)).await;
    pair.ask("units above the end", look.clone().with("index", 50)).await;
    pair.ask("units at the end", look.clone().with("index", 3)).await;
    pair.ask("units below 0", look.clone().with("index", -1)).await;
    pair.ask("units of an unknown group", look.clone().with("consumerGroup", "nobody")).await;
    pair.ask("units of an unknown topic", look.clone().with("topic", pair.name("NoSuch"))).await;
    pair.ask("units of a queue beyond", look.clone().with("queueId", 99)).await;
    pair.ask("units without a group", look.without("consumerGroup")).await;
}
