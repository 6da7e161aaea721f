//! Pulls (11, and 361 of newer clients): the checks in RocketMQ's order, one read, the answer by RocketMQ's table of
//! statuses. What finds nothing is held in [`crate::long_poll`] and read again when its queue
//! moves; what lies on disk only is read on the pool.

mod checks;
mod held;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use broker_protocol::code::response;
use broker_protocol::frame::Frame;
use broker_protocol::header::EmptyHeader;
use broker_protocol::request::pull::{self, PullMessage, PullMessageResponse};
use broker_protocol::tags::TagFilter;
use broker_store::{ColdReads, Queue, Read, ReadOutcome, ReadStatus, Store};

use crate::clients::{Clients, Subscription};
use crate::config::Live;
use crate::groups::{Group, Groups};
use crate::long_poll::HeldPulls;
use crate::net::{Later, Peer, Reply};
use crate::offsets::ConsumerOffsets;
use crate::pool::Pool;
use crate::stats::Stats;
use crate::topics::{Topic, Topics};

pub use held::{HeldPull, drive};

/// Longest time a pull is held, whatever the client asks.
const HOLD_TIME_MAX: Duration = Duration::from_secs(600);

/// What pulls need of the broker.
#[derive(Debug)]
pub struct PullPath {
    /// Settings, read anew for each request.
    pub config: Arc<Live>,
    /// Where messages are.
    pub store: Store,
    /// The topics.
    pub topics: Arc<Topics>,
    /// The groups' settings.
    pub groups: Arc<Groups>,
    /// Who is online and reads what.
    pub clients: Arc<Clients>,
    /// Where progress that comes with a pull goes.
    pub offsets: Arc<ConsumerOffsets>,
    /// The pulls that wait.
    pub held: HeldPulls<HeldPull>,
    /// Counters.
    pub stats: Arc<Stats>,
    /// Threads that make groups.
    pub pool: Pool,
    /// Threads that read what is not in memory.
    pub cold_reads: Pool,
    /// Set when the broker stops: held pulls are answered, no further ones are held.
    pub stopping: AtomicBool,
}

/// A pull that passed the checks.
#[derive(Debug)]
struct Pull {
    group: Arc<Group>,
    topic: Arc<Topic>,
    queue: Arc<Queue>,
    /// First offset wanted.
    offset: i64,
    max_messages: i32,
    filter: Filter,
    /// How long it may be held.
    hold_time: Option<Duration>,
}

/// Which messages the consumer wants.
#[derive(Debug, Clone)]
enum Filter {
    /// As its group's heartbeat said.
    Group(Arc<Subscription>),
    /// As the request said.
    Request(TagFilter),
}

impl Filter {
    fn tags(&self) -> &TagFilter {
        match self {
            Filter::Group(subscription) => &subscription.filter,
            Filter::Request(filter) => filter,
        }
    }
}

/// Why a pull is not served.
#[derive(Debug)]
enum Halt {
    Refused(i32, String),
    /// Its group must be made first, which writes a file.
    NeedsDisk,
}

impl PullPath {
    /// Serves 11 and 361.
    pub fn handle(self: &Arc<Self>, peer: &Arc<Peer>, request: &Frame<'_>, reply: &mut Reply<'_>) {
        match self.prepare(peer, request, false) {
            Ok(pull) => self.serve(pull, reply),
            Err(Halt::Refused(code, remark)) => {
                reply.with_body(code, Some(&remark), &EmptyHeader, &[]);
            }
            Err(Halt::NeedsDisk) => {
                let path = Arc::clone(self);
                let peer = Arc::clone(peer);
                self.pool.serve(request, reply, move |request, later| {
                    match path.prepare(&peer, &request.frame(), true) {
                        Ok(pull) => path.serve_later(pull, later),
                        Err(Halt::Refused(code, remark)) => {
                            later.with_slices(code, Some(&remark), &EmptyHeader, Vec::new());
                        }
                        Err(Halt::NeedsDisk) => {
                            later.error(response::SYSTEM_ERROR, "the group can't be made now");
                        }
                    }
                });
            }
        }
    }

    /// Checks the request and takes note of the progress it carries.
    fn prepare(&self, peer: &Peer, request: &Frame<'_>, may_wait: bool) -> Result<Pull, Halt> {
        let header: PullMessage<'_> = request
            .ext
            .decode()
            .map_err(|error| Halt::Refused(response::SYSTEM_ERROR, error.to_string()))?;
        let config = self.config.broker();
        let pull = self.check(&config, &header, peer, may_wait)?;
        if header.sys_flag & pull::COMMIT_OFFSET != 0 {
            let committed = self.offsets.commit(
                pull.group.name(),
                pull.topic.name(),
                header.queue_id,
                header.commit_offset,
            );
            if let Err(error) = committed {
                tracing::debug!(%error, peer = %peer.address_text, "commit with a pull");
            }
        }
        Ok(pull)
    }

    fn serve(self: &Arc<Self>, pull: Pull, reply: &mut Reply<'_>) {
        let outcome = self.read(&pull, pull.offset, ColdReads::Refuse);
        if outcome.status == ReadStatus::Cold {
            self.read_cold(pull, reply.later());
        } else if let Some(hold_time) = self.hold_time(&pull, &outcome) {
            self.hold(pull, reply.later(), hold_time, outcome);
        } else {
            let answer = self.answer(&pull, &outcome);
            self.count(&pull, &outcome);
            reply.with_slices(answer.code, Some(answer.remark), &answer.header, outcome.slices);
        }
    }

    fn serve_later(self: &Arc<Self>, pull: Pull, later: Later) {
        if later.peer().waiting_bytes() > held::UNREAD_BYTES_MAX {
            self.send_away(&pull, pull.offset, later);
            return;
        }
        let outcome = self.read(&pull, pull.offset, ColdReads::Allow);
        match self.hold_time(&pull, &outcome) {
            Some(hold_time) => self.hold(pull, later, hold_time, outcome),
            None => self.answer_later(&pull, outcome, later),
        }
    }

    fn read_cold(self: &Arc<Self>, pull: Pull, later: Later) {
        let path = Arc::clone(self);
        self.cold_reads.run_or_refuse(later, move |later| path.serve_later(pull, later));
    }

    fn read(&self, pull: &Pull, offset: i64, cold: ColdReads) -> ReadOutcome {
        let max_messages = usize::try_from(pull.max_messages).unwrap_or(0).max(1);
        self.store
            .read(&pull.queue, &Read { offset, max_messages, filter: pull.filter.tags(), cold })
    }

    /// How long the pull is held after this outcome; None when it is answered.
    fn hold_time(&self, pull: &Pull, outcome: &ReadOutcome) -> Option<Duration> {
        let nothing_yet = code(outcome.status, pull.offset) == response::PULL_NOT_FOUND;
        if nothing_yet && !self.stopping.load(std::sync::atomic::Ordering::Relaxed) {
            pull.hold_time
        } else {
            None
        }
    }

    fn hold(self: &Arc<Self>, pull: Pull, later: Later, hold_time: Duration, outcome: ReadOutcome) {
        let deadline = Instant::now() + hold_time;
        let seen_end = outcome.max_offset;
        let held = HeldPull::new(pull, later, deadline);
        if let Err(held) = self.held.hold(held, seen_end) {
            // No room: the client comes again by itself.
            self.answer_later(&held.pull, outcome, held.later);
        }
    }

    fn answer_later(&self, pull: &Pull, outcome: ReadOutcome, later: Later) {
        let answer = self.answer(pull, &outcome);
        self.count(pull, &outcome);
        later.with_slices(answer.code, Some(answer.remark), &answer.header, outcome.slices);
    }

    fn answer(&self, pull: &Pull, outcome: &ReadOutcome) -> PullAnswer {
        PullAnswer {
            code: code(outcome.status, pull.offset),
            remark: remark(outcome.status),
            header: PullMessageResponse {
                suggest_which_broker_id: self.suggested_broker(pull, outcome),
                next_begin_offset: outcome.next_offset,
                max_offset: outcome.max_offset,
                min_offset: outcome.min_offset,
                offset_delta: None,
                topic_sys_flag: None,
                group_sys_flag: None,
                forbidden_type: None,
            },
        }
    }

    /// Where the consumer should pull next: a slave, when it reads what is long out of memory.
    fn suggested_broker(&self, pull: &Pull, outcome: &ReadOutcome) -> i64 {
        if !self.config.broker().slave_read_enable {
            return 0;
        }
        let group = pull.group.config();
        if outcome.suggest_slave { group.which_broker_when_consume_slowly } else { group.broker_id }
    }

    fn count(&self, pull: &Pull, outcome: &ReadOutcome) {
        if outcome.messages == 0 {
            self.stats.pulls_missed.add(1);
            return;
        }
        let (messages, bytes) = (u64::from(outcome.messages), outcome.bytes as u64);
        let reader = pull.topic.counters.reader(pull.group.name());
        reader.gets.add(messages);
        reader.get_bytes.add(bytes);
        self.stats.pulls_found.add(1);
        self.stats.gets.add(messages);
        self.stats.get_bytes.add(bytes);
    }
}

struct PullAnswer {
    code: i32,
    remark: &'static str,
    header: PullMessageResponse,
}

/// The response code of a read that began at `offset`.
fn code(status: ReadStatus, offset: i64) -> i32 {
    match status {
        ReadStatus::Found => response::SUCCESS,
        ReadStatus::NoMatchedLogicQueue | ReadStatus::NoMessageInQueue if offset != 0 => {
            response::PULL_OFFSET_MOVED
        }
        ReadStatus::NoMatchedLogicQueue
        | ReadStatus::NoMessageInQueue
        | ReadStatus::OffsetOverflowOne
        | ReadStatus::OffsetFoundNull => response::PULL_NOT_FOUND,
        ReadStatus::NoMatchedMessage | ReadStatus::MessageWasRemoving | ReadStatus::Cold => {
            response::PULL_RETRY_IMMEDIATELY
        }
        ReadStatus::OffsetTooSmall | ReadStatus::OffsetOverflowBadly => response::PULL_OFFSET_MOVED,
    }
}

/// The status as RocketMQ spells it; clients show it.
fn remark(status: ReadStatus) -> &'static str {
    match status {
        ReadStatus::Found => "FOUND",
        ReadStatus::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
        ReadStatus::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        ReadStatus::OffsetTooSmall => "OFFSET_TOO_SMALL",
        ReadStatus::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
        ReadStatus::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
        ReadStatus::OffsetFoundNull => "OFFSET_FOUND_NULL",
        ReadStatus::NoMatchedMessage => "NO_MATCHED_MESSAGE",
        ReadStatus::MessageWasRemoving | ReadStatus::Cold => "MESSAGE_WAS_REMOVING",
    }
}
