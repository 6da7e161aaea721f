//! Moving a group's progress (222) and asking clients (223, 307, 309): the broker passes questions
//! on to consumers and hands their answers back. Whoever asks waits; no thread does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker_protocol::body::{ConsumerStatus, MessageQueue, QueueOffsets, QueueStatus};
use broker_protocol::code::{request as code, response};
use broker_protocol::header::Header;
use broker_protocol::json;
use broker_protocol::message_id::parse_offset_id;
use broker_protocol::request::group::{
    ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus, ResetOffset, TopicAndGroup,
};
use broker_protocol::version::Language;
use broker_store::{Queue, Store};
use bytes::Bytes;

use super::Refusal;
use super::refusal::json_answer;
use crate::clients::{Clients, Member};
use crate::net::{Answer, CallError, OwnedFrame};
use crate::offsets::ConsumerOffsets;
use crate::topics::Topics;

/// How long a client may take to tell its offsets.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take to tell of itself or to consume a message.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// What a reset needs of the broker.
#[derive(Debug, Clone, Copy)]
pub struct Reset<'b> {
    /// Who is online.
    pub clients: &'b Clients,
    /// Progress as committed.
    pub offsets: &'b ConsumerOffsets,
    /// Which topics exist.
    pub topics: &'b Topics,
    /// The queues.
    pub store: &'b Store,
    /// brokerName, as queues are named by.
    pub broker_name: &'b Arc<str>,
}

impl Reset<'_> {
    /// 222: works out where each queue's progress goes and tells the group's members (220), who
    /// carry it out. A group that is offline is refused with CONSUMER_NOT_ONLINE, on which tools
    /// set the progress by themselves. Reads old records, so it runs on the pool.
    pub fn serve(&self, request: &mut OwnedFrame) -> Result<Answer, Refusal> {
        let frame = request.frame();
        let header: ResetOffset<'_> = frame.ext.decode()?;
        let topic = self.topics.find(&header.topic).ok_or_else(|| {
            let remark = "[reset-offset] reset offset failed, no topic in this broker. topic=";
            Refusal::error(format!("{remark}{}", header.topic))
        })?;
        let mut table = QueueOffsets::default();
        for queue_id in 0..topic.settings().queue_count() {
            if header.queue_id.is_some_and(|only| only >= 0 && only != queue_id) {
                continue;
            }
            let queue =
                MessageQueue::new(Arc::clone(topic.name()), Arc::clone(self.broker_name), queue_id);
            table.offset_table.insert(queue, self.target(&header, queue_id));
        }
        let group = self.clients.consumer_group(&header.group);
        let members = group.map_or_else(Vec::new, |group| group.members());
        if members.is_empty() {
            let remark = format!(
                "Consumer not online, so can not reset offset, Group: {} Topic: {} Timestamp: {}",
                header.group, header.topic, header.timestamp
            );
            return Err(Refusal::new(response::CONSUMER_NOT_ONLINE, remark));
        }
        let order = ResetOffset { queue_id: None, offset: None, ..header };
        for member in members {
            // Clients in C++ read the queues as a list.
            let body = if member.language == Language::Cpp {
                json::to_vec(&table.to_list())?
            } else {
                json::to_vec(&table)?
            };
            let told = member.peer.request_oneway(code::RESET_CONSUMER_CLIENT_OFFSET, &order, body);
            if told.is_err() {
                tracing::warn!(client = &*member.client_id, "the client left before its reset");
            }
        }
        tracing::info!(
            group = &*order.group,
            topic = &*order.topic,
            timestamp = order.timestamp,
            force = order.is_force,
            "members told to reset their progress"
        );
        json_answer(&table)
    }

    /// The new progress on one queue: the time's offset; but without force no message is skipped
    /// that the group has not read.
    fn target(&self, header: &ResetOffset<'_>, queue_id: i32) -> i64 {
        let queue = self.store.find_queue(&header.topic, queue_id);
        let wanted = match (&queue, header.offset) {
            (Some(queue), Some(offset)) if offset >= 0 => {
                offset.clamp(queue.min_offset(), queue.max_offset())
            }
            (Some(queue), _) => self.offset_at(queue, header.timestamp),
            (None, _) => 0,
        };
        match self.offsets.query(&header.group, &header.topic, queue_id) {
            Some(present) if !header.is_force && present < wanted => present,
            _ => wanted,
        }
    }

    fn offset_at(&self, queue: &Queue, timestamp: i64) -> i64 {
        let (min, max) = (queue.min_offset(), queue.max_offset());
        match timestamp {
            // "Now" means after the last message, not at it.
            -1 => max,
            _ => self.store.offset_by_time(queue, timestamp).clamp(min, max.max(min)),
        }
    }
}

/// 223: the offsets of a group as its members see them (221).
pub async fn consumer_status(
    clients: &Clients,
    mut request: OwnedFrame,
) -> Result<Answer, Refusal> {
    let header = {
        let frame = request.frame();
        let header: GetConsumerStatus<'_> = frame.ext.decode()?;
        header.into_owned()
    };
    let group = clients.consumer_group(&header.group);
    let mut members = group.map_or_else(Vec::new, |group| group.members());
    if members.is_empty() {
        let remark = format!("No Any Consumer online in the consumer group: [{}]", header.group);
        return Err(Refusal::error(remark));
    }
    if let Some(only) = header.client_id.as_deref().filter(|id| !id.trim().is_empty()) {
        members.retain(|member| &*member.client_id == only);
    }
    let question = TopicAndGroup { topic: header.topic, group: header.group };
    let mut status = ConsumerStatus::default();
    for member in members {
        let offsets = ask_offsets(&member, &question).await?;
        status.consumer_table.insert(Arc::clone(&member.client_id), offsets);
    }
    json_answer(&status)
}

async fn ask_offsets(
    member: &Member,
    question: &TopicAndGroup<'static>,
) -> Result<BTreeMap<MessageQueue, i64>, Refusal> {
    let asked = member.peer.request(
        code::GET_CONSUMER_STATUS_FROM_CLIENT,
        question,
        Vec::new(),
        STATUS_TIMEOUT,
    );
    let mut answer = asked.await.map_err(|error| unanswered(&member.client_id, error))?;
    let frame = answer.frame();
    if frame.head.code != response::SUCCESS {
        let remark = frame.head.remark.unwrap_or_default();
        return Err(Refusal::error(format!("client {}: {remark}", member.client_id)));
    }
    let status: QueueStatus = json::from_slice(frame.body)?;
    Ok(status.message_queue_table)
}

/// 307: what one consumer says of itself, passed through unread.
pub async fn running_info(clients: &Clients, mut request: OwnedFrame) -> Result<Answer, Refusal> {
    let header = {
        let frame = request.frame();
        let header: GetConsumerRunningInfo<'_> = frame.ext.decode()?;
        header.into_owned()
    };
    let member = member(clients, &header.consumer_group, &header.client_id)?;
    pass_on(&member, code::GET_CONSUMER_RUNNING_INFO, &header, Vec::new()).await
}

/// The stored message that a 309 names. Reads an old record, so it runs on the pool. Whatever host
/// the id names, the message is looked for here.
pub fn message_to_consume(store: &Store, request: &mut OwnedFrame) -> Result<Bytes, Refusal> {
    let frame = request.frame();
    let header: ConsumeMessageDirectly<'_> = frame.ext.decode()?;
    let id = header.msg_id.as_deref().unwrap_or_default();
    let found = parse_offset_id(id).and_then(|(_, offset)| store.message_at(offset));
    found.ok_or_else(|| Refusal::error(format!("can not find message by the id, {id}")))
}

/// 309: lets one consumer consume `message` now.
pub async fn consume_directly(
    clients: &Clients,
    broker_name: &str,
    message: Bytes,
    mut request: OwnedFrame,
) -> Result<Answer, Refusal> {
    let header = {
        let frame = request.frame();
        let header: ConsumeMessageDirectly<'_> = frame.ext.decode()?;
        header.into_owned()
    };
    let client_id = header.client_id.as_deref().unwrap_or_default();
    let member = member(clients, &header.consumer_group, client_id)?;
    let broker_name = Some(broker_name.to_owned().into());
    let header = ConsumeMessageDirectly { broker_name, ..header };
    pass_on(&member, code::CONSUME_MESSAGE_DIRECTLY, &header, message.to_vec()).await
}

fn member(clients: &Clients, group: &str, client_id: &str) -> Result<Member, Refusal> {
    let found = clients.consumer_group(group).and_then(|group| group.member(client_id));
    found.ok_or_else(|| Refusal::error(format!("The Consumer <{group}> <{client_id}> not online")))
}

/// Asks the client and hands its answer on, code, text and body.
async fn pass_on<H: Header>(
    member: &Member,
    code: i32,
    header: &H,
    body: Vec<u8>,
) -> Result<Answer, Refusal> {
    let asked = member.peer.request(code, header, body, CALL_TIMEOUT);
    let mut answer = asked.await.map_err(|error| unanswered(&member.client_id, error))?;
    let frame = answer.frame();
    let mut passed = Answer::ok_body(frame.body.to_vec());
    passed.code = frame.head.code;
    passed.remark = frame.head.remark.map(std::borrow::Cow::into_owned);
    Ok(passed)
}

fn unanswered(client_id: &str, error: CallError) -> Refusal {
    let remark = format!("consumer <{client_id}>: {error}");
    match error {
        CallError::TimedOut => Refusal::new(response::CONSUME_MSG_TIMEOUT, remark),
        CallError::Gone | CallError::Busy => Refusal::error(remark),
    }
}
