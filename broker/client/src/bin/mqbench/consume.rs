//! One pulling connection: keeps one pull in flight for each of its queues, as consumers do.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use broker_protocol::code::{request, response};
use broker_protocol::frame::{Frame, RequestHead, Serialize, encode_request};
use broker_protocol::header::NoHeader;
use broker_protocol::record::RecordView;
use broker_protocol::request::pull::{self, PullMessage, PullMessageResponse};
use broker_protocol::version::{self, Language};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::frames::{due_nanos_of, unix_nanos};
use crate::input::Input;
use crate::measure::{Recorder, Tally};
use crate::produce::{Budget, connect};

/// Opaque of heartbeats; pulls use the index of their queue.
const HEARTBEAT_OPAQUE: i32 = i32::MAX;
/// As often as Java's client.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(30);
/// Pause before a queue is asked again after an error.
const AFTER_ERROR: Duration = Duration::from_millis(500);
/// Beyond the time that the broker may hold a pull.
const PULL_GRACE: Duration = Duration::from_secs(15);
/// Pause before a lost connection is made again.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);

/// One queue that a connection pulls from.
#[derive(Clone, Debug)]
pub(crate) struct PulledQueue {
    pub(crate) topic: String,
    pub(crate) queue_id: i32,
    /// Next offset to pull.
    pub(crate) offset: i64,
}

/// What one pulling connection needs.
pub(crate) struct PullLane {
    pub(crate) address: String,
    pub(crate) queues: Vec<PulledQueue>,
    pub(crate) group: String,
    /// Body of the heartbeats, which tell the broker the group's subscriptions.
    pub(crate) heartbeat: Vec<u8>,
    /// Version of the subscriptions in the heartbeat.
    pub(crate) subscription_version: i64,
    pub(crate) messages_max: i32,
    pub(crate) hold: Duration,
    pub(crate) rewind: bool,
    pub(crate) serialize: Serialize,
    pub(crate) budget: Budget,
    pub(crate) recorder: Recorder,
}

/// What to do with a queue after its pull was answered.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Pull,
    PullLater,
}

/// The queues of a live connection: those to ask now, those to ask later, those that were asked.
struct Schedule {
    /// Whether the broker answered a heartbeat: it refuses pulls of a group it has not heard of.
    registered: bool,
    due: VecDeque<usize>,
    later: VecDeque<(Instant, usize)>,
    asked: Vec<Option<Instant>>,
}

impl PullLane {
    /// Pulls until the budget is spent. A lost connection is made again; only a first one that
    /// can't be made is an error.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut socket = Some(connect(&self.address).await?);
        loop {
            let outcome = match socket.take() {
                Some(socket) => self.drive(socket).await,
                None => match connect(&self.address).await {
                    Ok(new) => {
                        socket = Some(new);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            let Err(error) = outcome else { return Ok(()) };
            self.recorder.with(|tally| tally.failed(&format!("{error:#}")));
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    async fn drive(&mut self, mut socket: TcpStream) -> Result<()> {
        let (mut reader, mut writer) = socket.split();
        let mut input = Input::new();
        let mut out = Vec::new();
        let mut written = 0;
        let mut schedule = Schedule {
            registered: false,
            due: (0..self.queues.len()).collect(),
            later: VecDeque::new(),
            asked: vec![None; self.queues.len()],
        };
        let mut clock = tokio::time::interval(Duration::from_millis(100));
        let mut heartbeat_due = Instant::now();
        while !self.budget.is_spent() {
            if written == out.len() {
                out.clear();
                written = 0;
                if heartbeat_due <= Instant::now() {
                    heartbeat_due += HEARTBEAT_EVERY;
                    self.append_heartbeat(&mut out);
                }
                while schedule.registered
                    && let Some(index) = schedule.due.pop_front()
                {
                    self.append_pull(&mut out, index);
                    if let Some(asked) = schedule.asked.get_mut(index) {
                        *asked = Some(Instant::now());
                    }
                }
            }
            let pending = out.get(written..).unwrap_or_default();
            tokio::select! {
                biased;
                count = writer.write(pending), if !pending.is_empty() => {
                    written += count.context("write")?;
                }
                outcome = input.read(&mut reader) => {
                    outcome?;
                    self.take_answers(&mut input, &mut schedule)?;
                }
                _ = clock.tick() => schedule.tick(self.hold + PULL_GRACE)?,
            }
        }
        Ok(())
    }

    fn head(&self, code: i32, opaque: i32) -> RequestHead {
        RequestHead {
            code,
            opaque,
            oneway: false,
            serialize: self.serialize,
            language: Language::Java,
            version: version::V4_9_3,
            short_names: false,
        }
    }

    fn append_heartbeat(&self, out: &mut Vec<u8>) {
        let head = self.head(request::HEART_BEAT, HEARTBEAT_OPAQUE);
        encode_request(out, &head, &NoHeader, self.heartbeat.len());
        out.extend_from_slice(&self.heartbeat);
    }

    /// A pull as Java's push consumer sends it: progress rides along, the subscription is known
    /// from the heartbeat.
    fn append_pull(&self, out: &mut Vec<u8>, index: usize) {
        let Some(queue) = self.queues.get(index) else { return };
        let commits = queue.offset > 0 && !self.rewind;
        let header = PullMessage {
            consumer_group: self.group.as_str().into(),
            topic: queue.topic.as_str().into(),
            queue_id: queue.queue_id,
            queue_offset: queue.offset,
            max_msg_nums: self.messages_max,
            sys_flag: pull::SUSPEND | if commits { pull::COMMIT_OFFSET } else { 0 },
            commit_offset: if commits { queue.offset } else { 0 },
            suspend_timeout_millis: i64::try_from(self.hold.as_millis()).unwrap_or(i64::MAX),
            subscription: None,
            sub_version: self.subscription_version,
            expression_type: Some("TAG".into()),
            max_msg_bytes: None,
            request_source: None,
            proxy_forward_client_id: None,
        };
        let opaque = i32::try_from(index).unwrap_or_default();
        encode_request(out, &self.head(request::PULL_MESSAGE, opaque), &header, 0);
    }

    fn take_answers(&mut self, input: &mut Input, schedule: &mut Schedule) -> Result<()> {
        let Self { queues, recorder, budget, rewind, .. } = self;
        let now = unix_nanos();
        recorder.with(|tally| {
            while let Some(frame) = input.next_frame()? {
                // The broker tells us of changes in the group; all queues are ours, whoever joins.
                if !frame.head.is_response() {
                    continue;
                }
                if frame.head.opaque == HEARTBEAT_OPAQUE {
                    schedule.registered = true;
                    if frame.head.code != response::SUCCESS {
                        tally.failed(&format!("heartbeat refused: {:?}", frame.head.remark));
                    }
                    continue;
                }
                let index = usize::try_from(frame.head.opaque).unwrap_or(usize::MAX);
                let asked = schedule.asked.get_mut(index).and_then(Option::take);
                let (Some(queue), Some(_)) = (queues.get_mut(index), asked) else {
                    tally.failed("an answer to no pull");
                    continue;
                };
                let before = tally.consumed;
                match pulled(&frame, queue, *rewind, now, tally) {
                    Next::Pull => schedule.due.push_back(index),
                    Next::PullLater => {
                        schedule.later.push_back((Instant::now() + AFTER_ERROR, index));
                    }
                }
                budget.take(tally.consumed - before);
            }
            Ok(())
        })
    }
}

impl Schedule {
    /// Makes queues due whose pause is over; an error when a pull was never answered.
    fn tick(&mut self, silence_max: Duration) -> Result<()> {
        let now = Instant::now();
        while let Some((_, index)) = self.later.pop_front_if(|(at, _)| *at <= now) {
            self.due.push_back(index);
        }
        if self.asked.iter().flatten().any(|asked| now.duration_since(*asked) > silence_max) {
            bail!("no answer to a pull for {} s", silence_max.as_secs());
        }
        Ok(())
    }
}

/// Counts what a pull brought and moves its queue on.
fn pulled(
    frame: &Frame<'_>,
    queue: &mut PulledQueue,
    rewind: bool,
    now_nanos: u64,
    tally: &mut Tally,
) -> Next {
    let code = frame.head.code;
    let header = match frame.ext.decode::<PullMessageResponse>() {
        Ok(header) => header,
        Err(error) => {
            let remark = frame.head.remark.as_deref().unwrap_or_default();
            tally.failed(&format!("pull refused, code {code}: {remark} ({error})"));
            return Next::PullLater;
        }
    };
    match code {
        // Messages that are read again have no meaningful age.
        response::SUCCESS => count_records(frame.body, (!rewind).then_some(now_nanos), tally),
        response::PULL_NOT_FOUND
        | response::PULL_RETRY_IMMEDIATELY
        | response::PULL_OFFSET_MOVED => {}
        code => {
            let remark = frame.head.remark.as_deref().unwrap_or_default();
            tally.failed(&format!("pull refused, code {code}: {remark}"));
            return Next::PullLater;
        }
    }
    queue.offset = header.next_begin_offset;
    if rewind && queue.offset >= header.max_offset {
        if queue.offset == header.min_offset {
            // An empty queue; without a pause it would be asked in a loop.
            return Next::PullLater;
        }
        queue.offset = header.min_offset;
    }
    Next::Pull
}

fn count_records(mut body: &[u8], now_nanos: Option<u64>, tally: &mut Tally) {
    while !body.is_empty() {
        let record = match RecordView::parse(body) {
            Ok(record) => record,
            Err(error) => {
                tally.failed(&format!("a record that can't be read: {error}"));
                return;
            }
        };
        let age =
            now_nanos.zip(due_nanos_of(record.body)).map(|(now, due)| now.saturating_sub(due));
        tally.received(record.body.len() as u64, age.map(Duration::from_nanos));
        body = body.get(record.bytes.len()..).unwrap_or_default();
    }
}
