//! How far groups have read: commits, queries, resets, and what operators are shown.

use std::time::Duration;

use broker_protocol::body::{
    ConsumeStats, ConsumeStatsList, ConsumeTimeSpans, ConsumerOffsetTable, CorrectionOffsets,
    GroupList, MessageQueue, QueueOffsetList, QueueOffsets,
};
use broker_protocol::code::{request, response};
use broker_protocol::header::NoHeader;
use broker_protocol::json;
use broker_protocol::request::admin::GetBrokerConsumeStats;
use broker_protocol::request::group::{
    CloneGroupOffset, GetConsumeStats, QueryCorrectionOffset, ResetOffset, TopicAndGroup,
};
use broker_protocol::request::offset::{
    GetMaxOffset, QueryConsumerOffset, QueueOf, SearchOffsetByTimestamp, UpdateConsumerOffset,
};
use broker_protocol::request::topic::TopicOf;
use broker_protocol::tags::TagFilter;
use broker_protocol::version::Language;
use broker_store::{ColdReads, Read, ReadStatus};
use serde::de::DeserializeOwned;

use crate::membership::join;
use crate::server::{Answer, Client, Server, wait_until};

fn commit(client: &mut Client, topic: &str, queue_id: i32, offset: i64) -> Answer {
    let header = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: topic.into(),
        queue_id,
        commit_offset: offset,
    };
    client.call(request::UPDATE_CONSUMER_OFFSET, &header, &[])
}

fn committed(client: &mut Client, group: &str, topic: &str, queue_id: i32) -> Answer {
    let header = QueryConsumerOffset {
        consumer_group: group.into(),
        topic: topic.into(),
        queue_id,
        set_zero_if_not_found: None,
    };
    client.call(request::QUERY_CONSUMER_OFFSET, &header, &[])
}

fn body<T: DeserializeOwned>(answer: &Answer) -> T {
    assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
    json::from_slice(&answer.body).unwrap()
}

fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("orders", "broker-a", id)
}

/// Ten messages in queue 0 of four, all in their queue.
fn ten_messages(server: &Server, client: &mut Client) {
    for n in 0..10 {
        client.store("orders", 0, format!("message {n}").as_bytes(), "");
    }
    wait_until("all are in the queue", || {
        let queue = server.broker().rooms().store.find_queue("orders", 0);
        queue.is_some_and(|queue| queue.max_offset() == 10)
    });
}

#[test]
fn progress_is_kept_over_a_restart() {
    let mut server = Server::start();
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    assert_eq!(committed(&mut client, "g", "orders", 0).number("offset"), 0, "nothing read yet");
    assert_eq!(commit(&mut client, "orders", 0, 7).code, response::SUCCESS);
    assert_eq!(committed(&mut client, "g", "orders", 0).number("offset"), 7);
    assert_eq!(commit(&mut client, "orders", 0, 3).code, response::SUCCESS, "also backwards");
    assert_eq!(commit(&mut client, "orders", 0, -1).code, response::SYSTEM_ERROR);
    assert_eq!(commit(&mut client, "orders", -1, 1).code, response::SYSTEM_ERROR);
    assert_eq!(commit(&mut client, "no-such-topic", 0, 1).code, response::TOPIC_NOT_EXIST);
    server.restart();
    let mut client = server.connect();
    assert_eq!(committed(&mut client, "g", "orders", 0).number("offset"), 3);
    let answer = client.call(request::GET_ALL_CONSUMER_OFFSET, &NoHeader, &[]);
    let table: ConsumerOffsetTable = body(&answer);
    assert_eq!(table.offset_table["orders@g"], [(0, 3)].into());
    assert!(answer.body.starts_with(br#"{"offsetTable":{"orders@g":{0:3}}"#), "Java's form");
}

#[test]
fn a_new_group_begins_at_the_first_message_whatever_a_newer_client_wishes() {
    let server = Server::start();
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    let header = QueryConsumerOffset {
        consumer_group: "g".into(),
        topic: "orders".into(),
        queue_id: 0,
        set_zero_if_not_found: Some(false),
    };
    let answer = client.call(request::QUERY_CONSUMER_OFFSET, &header, &[]);
    assert_eq!((answer.code, answer.number("offset")), (response::SUCCESS, 0));
}

#[test]
fn queues_tell_their_ends_and_times() {
    let server = Server::start();
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    let header = GetMaxOffset { topic: "orders".into(), queue_id: 0, committed: None };
    assert_eq!(client.call(request::GET_MAX_OFFSET, &header, &[]).number("offset"), 10);
    let of = |id| QueueOf { topic: "orders".into(), queue_id: id };
    assert_eq!(client.call(request::GET_MIN_OFFSET, &of(0), &[]).number("offset"), 0);
    let earliest = client.call(request::GET_EARLIEST_MSG_STORETIME, &of(0), &[]);
    assert!(earliest.number("timestamp") > 0);
    let empty = client.call(request::GET_EARLIEST_MSG_STORETIME, &of(3), &[]);
    assert_eq!(empty.number("timestamp"), -1);
    let mut search = |timestamp, boundary: Option<&'static str>| {
        let header = SearchOffsetByTimestamp {
            topic: "orders".into(),
            queue_id: 0,
            timestamp,
            boundary_type: boundary.map(Into::into),
        };
        client.call(request::SEARCH_OFFSET_BY_TIMESTAMP, &header, &[]).number("offset")
    };
    assert_eq!((search(0, None), search(i64::MAX, None)), (0, 10));
    assert_eq!((search(0, Some("upper")), search(i64::MAX, Some("UPPER"))), (0, 9));
}

fn reset(timestamp: i64, force: bool) -> ResetOffset<'static> {
    ResetOffset {
        topic: "orders".into(),
        group: "g".into(),
        timestamp,
        is_force: force,
        queue_id: None,
        offset: None,
    }
}

#[test]
fn a_reset_tells_the_members_where_to_go() {
    let server = Server::start();
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    commit(&mut client, "orders", 0, 4);
    let offline = client.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &reset(-1, true), &[]);
    assert_eq!(offline.code, response::CONSUMER_NOT_ONLINE, "{offline:?}");

    join(&mut client, "c1", "g", &["orders"]);
    client.receive_pushed();
    let mut ask = |timestamp, force| {
        let header = reset(timestamp, force);
        let answer = client.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &header, &[]);
        let table: QueueOffsets = body(&answer);
        let pushed = client.receive_pushed();
        assert_eq!((pushed.code, pushed.oneway), (request::RESET_CONSUMER_CLIENT_OFFSET, true));
        assert_eq!(pushed.fields["timestamp"], timestamp.to_string());
        assert_eq!(json::from_slice::<QueueOffsets>(&pushed.body).unwrap(), table);
        assert_eq!(table.offset_table.len(), 4);
        assert_eq!(table.offset_table[&queue(3)], 0, "an empty queue has no lag");
        table.offset_table[&queue(0)]
    };
    assert_eq!(ask(-1, true), 10, "now is after the last message");
    assert_eq!(ask(-1, false), 4, "forward only by force");
    assert_eq!(ask(0, false), 0, "back also without");
    assert_eq!(ask(i64::MAX - 1, true), 10);
}

#[test]
fn clients_in_cpp_are_told_in_their_own_form() {
    let server = Server::start();
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    client.language = Language::Cpp;
    join(&mut client, "c1", "g", &["orders"]);
    client.receive_pushed();
    client.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &reset(-1, true), &[]);
    let pushed = client.receive_pushed();
    let list: QueueOffsetList = json::from_slice(&pushed.body).unwrap();
    let first = list.offset_table.iter().find(|line| line.queue_id == 0).unwrap();
    assert_eq!((first.offset, &*first.topic), (10, "orders"));
}

#[test]
fn a_reset_of_a_topic_that_is_not_here_is_an_error() {
    let server = Server::start();
    let mut client = server.connect();
    let answer = client.call(request::INVOKE_BROKER_TO_RESET_OFFSET, &reset(-1, true), &[]);
    assert_eq!(answer.code, response::SYSTEM_ERROR);
    assert!(answer.remark.contains("no topic in this broker"), "{answer:?}");
}

#[test]
fn operators_see_progress_against_the_queues() {
    let server = Server::start();
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    join(&mut client, "c1", "g", &["orders"]);
    commit(&mut client, "orders", 0, 4);

    let header = GetConsumeStats { consumer_group: "g".into(), topic: None, topic_list: None };
    let stats: ConsumeStats = body(&client.call(request::GET_CONSUME_STATS, &header, &[]));
    assert_eq!(stats.offset_table.len(), 4);
    let first = &stats.offset_table[&queue(0)];
    assert_eq!((first.broker_offset, first.consumer_offset), (10, 4));
    assert!(first.last_timestamp > 0);
    assert_eq!(stats.total_diff(), 6);

    let header = GetBrokerConsumeStats { is_order: false };
    let list: ConsumeStatsList =
        body(&client.call(request::GET_BROKER_CONSUME_STATS, &header, &[]));
    assert_eq!(list.total_diff, 6);
    let of_group = list.consume_stats_list.iter().find_map(|of| of.get("g")).unwrap();
    assert_eq!(of_group.len(), 1);

    let header = TopicAndGroup { topic: "orders".into(), group: "g".into() };
    let spans: ConsumeTimeSpans =
        body(&client.call(request::QUERY_CONSUME_TIME_SPAN, &header, &[]));
    let first = &spans.consume_time_span_set[0];
    assert!(first.min_time_stamp <= first.consume_time_stamp);
    assert!(first.consume_time_stamp <= first.max_time_stamp);

    let header = TopicOf { topic: "orders".into() };
    let groups: GroupList = body(&client.call(request::QUERY_TOPIC_CONSUME_BY_WHO, &header, &[]));
    assert_eq!(groups.group_list, ["g".into()]);
}

#[test]
fn one_group_takes_over_the_progress_of_another() {
    let server = Server::start();
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    commit(&mut client, "orders", 0, 4);
    let header = CloneGroupOffset {
        src_group: "g".into(),
        dest_group: "h".into(),
        topic: None,
        offline: true,
    };
    assert_eq!(client.call(request::CLONE_GROUP_OFFSET, &header, &[]).code, 0);
    assert_eq!(committed(&mut client, "h", "orders", 0).number("offset"), 4);

    let mut corrections = |left_out: &'static str| -> CorrectionOffsets {
        let header = QueryCorrectionOffset {
            filter_groups: Some(left_out.into()),
            compare_group: "g".into(),
            topic: "orders".into(),
        };
        body(&client.call(request::QUERY_CORRECTION_OFFSET, &header, &[]))
    };
    assert_eq!(corrections("").correction_offsets, [(0, 4)].into());
    assert_eq!(corrections("g,h").correction_offsets, [(0, i64::MAX)].into());
}

#[test]
fn a_new_group_begins_at_the_first_message_of_a_queue_whose_files_are_closed() {
    let mut server = Server::with(|settings| settings.store.clean_resource_interval = 1);
    let mut client = server.connect();
    ten_messages(&server, &mut client);
    // What is there at a start is on the disk, and an idle queue's files are closed then.
    server.restart();
    let mut client = server.connect();
    let store = &server.broker().rooms().store;
    let read =
        Read { offset: 0, max_messages: 1, filter: &TagFilter::All, cold: ColdReads::Refuse };
    wait_until("the files are closed", || {
        // Each look counts as use, so the cleaner gets some of its runs in between.
        std::thread::sleep(Duration::from_millis(100));
        store.read(&store.queue("orders", 0), &read).status == ReadStatus::Cold
    });
    let answer = committed(&mut client, "newcomers", "orders", 0);
    assert_eq!((answer.code, answer.number("offset")), (response::SUCCESS, 0));
}
