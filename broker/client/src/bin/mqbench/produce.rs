//! One sending connection: keeps requests in flight and measures their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use broker_protocol::code::response;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Interval, MissedTickBehavior};

use crate::frames::{Identity, OPAQUE_MIN, Template, unix_nanos};
use crate::input::Input;
use crate::measure::Recorder;
use crate::pacing::Pace;

/// Bits of an opaque that name the slot; the rest tells the slot's uses apart.
const SLOT_BITS: u32 = 14;
const SLOT_MASK: i32 = (1 << SLOT_BITS) - 1;
/// Uses of a slot before its opaques repeat.
const USES: i32 = 1 << 14;
/// A broker that answers nothing for so long counts as lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Pause before a lost connection is made again.
const RECONNECT_AFTER: Duration = Duration::from_millis(200);

/// Messages that may still be sent, shared by all connections.
#[derive(Clone)]
pub(crate) struct Budget(Option<Arc<AtomicI64>>);

impl Budget {
    /// A budget of `messages`, or without end.
    pub(crate) fn new(messages: Option<u64>) -> Self {
        Self(messages.map(|n| Arc::new(AtomicI64::new(i64::try_from(n).unwrap_or(i64::MAX)))))
    }

    /// Takes `count` messages; false when nothing is left.
    pub(crate) fn take(&self, count: u64) -> bool {
        let Some(left) = &self.0 else { return true };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        left.fetch_sub(count, Ordering::Relaxed) > 0
    }

    /// Whether nothing is left.
    pub(crate) fn is_spent(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) <= 0)
    }
}

/// What one sending connection needs.
pub(crate) struct Lane {
    pub(crate) address: String,
    /// Used in turn; all go to `address`.
    pub(crate) templates: Vec<Arc<Template>>,
    pub(crate) first_template: usize,
    pub(crate) in_flight_max: u32,
    pub(crate) message_size: u64,
    pub(crate) pace: Pace,
    pub(crate) identity: Identity,
    pub(crate) budget: Budget,
    pub(crate) recorder: Recorder,
}

/// A request that is not answered yet.
#[derive(Clone, Copy)]
struct Slot {
    due: Instant,
    messages: u64,
    opaque: i32,
    busy: bool,
}

/// The requests in flight of one connection, found by opaque.
struct Slots {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

impl Slots {
    fn new(count: u32, now: Instant) -> Self {
        let slots: Vec<Slot> = (0..count as i32)
            .map(|n| Slot { due: now, messages: 0, opaque: OPAQUE_MIN + n, busy: false })
            .collect();
        let free = (0..slots.len()).rev().collect();
        Self { slots, free }
    }

    /// Takes a free slot; its opaque, if there is one.
    fn take(&mut self, due: Instant, messages: u64) -> Option<i32> {
        let slot = self.slots.get_mut(self.free.pop()?)?;
        let number = slot.opaque - OPAQUE_MIN;
        let uses = ((number >> SLOT_BITS) + 1) % USES;
        let opaque = OPAQUE_MIN + (uses << SLOT_BITS) + (number & SLOT_MASK);
        *slot = Slot { due, messages, opaque, busy: true };
        Some(opaque)
    }

    /// Frees the slot of an answered request: when it was due and its messages.
    fn answer(&mut self, opaque: i32) -> Option<(Instant, u64)> {
        let index = usize::try_from((opaque - OPAQUE_MIN) & SLOT_MASK).ok()?;
        let slot = self.slots.get_mut(index).filter(|slot| slot.busy && slot.opaque == opaque)?;
        slot.busy = false;
        self.free.push(index);
        Some((slot.due, slot.messages))
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Gives up on everything in flight: how many requests that were.
    fn give_up(&mut self) -> usize {
        let lost = self.in_flight();
        self.free = (0..self.slots.len()).rev().collect();
        for slot in &mut self.slots {
            slot.busy = false;
        }
        lost
    }
}

impl Lane {
    /// Sends until the budget is spent and everything is answered. A lost connection is made again;
    /// only a first one that can't be made is an error.
    pub(crate) async fn run(mut self) -> Result<()> {
        let mut socket = Some(connect(&self.address).await?);
        let mut slots = Slots::new(self.in_flight_max, Instant::now());
        let mut input = Input::new();
        loop {
            let outcome = match socket.take() {
                Some(socket) => self.drive(socket, &mut slots, &mut input).await,
                None => match connect(&self.address).await {
                    Ok(new) => {
                        socket = Some(new);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            let Err(error) = outcome else { return Ok(()) };
            let lost = slots.give_up();
            input.clear();
            self.recorder.with(|tally| {
                for _ in 0..lost.max(1) {
                    tally.failed(&format!("{error:#}"));
                }
            });
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    async fn drive(
        &mut self,
        mut socket: TcpStream,
        slots: &mut Slots,
        input: &mut Input,
    ) -> Result<()> {
        let (mut reader, mut writer) = socket.split();
        let mut out = Vec::new();
        let mut written = 0;
        let mut watch = silence_watch();
        let mut heard = Instant::now();
        loop {
            if written == out.len() {
                out.clear();
                written = 0;
                self.fill(slots, &mut out);
            }
            if slots.in_flight() == 0 && self.budget.is_spent() {
                return Ok(());
            }
            let pending = out.get(written..).unwrap_or_default();
            tokio::select! {
                biased;
                count = writer.write(pending), if !pending.is_empty() => {
                    written += count.context("write")?;
                }
                outcome = input.read(&mut reader) => {
                    outcome?;
                    heard = Instant::now();
                    self.take_answers(slots, input, heard)?;
                }
                outcome = self.pace.tick() => outcome.context("wait for the timer")?,
                _ = watch.tick() => {
                    if slots.in_flight() > 0 && heard.elapsed() > SILENCE_MAX {
                        bail!("no answer for {} s", SILENCE_MAX.as_secs());
                    }
                    if slots.in_flight() == 0 {
                        heard = Instant::now();
                    }
                }
            }
        }
    }

    /// Appends a frame for each request that is due and has a free slot.
    fn fill(&mut self, slots: &mut Slots, out: &mut Vec<u8>) {
        let now = Instant::now();
        while !slots.free.is_empty()
            && let Some(due) = self.pace.next_due(now)
            && let Some(template) =
                self.templates.get(self.first_template % self.templates.len().max(1))
            && self.budget.take(template.messages())
            && let Some(opaque) = slots.take(due, template.messages())
        {
            let late = now.saturating_duration_since(due);
            let late = u64::try_from(late.as_nanos()).unwrap_or_default();
            template.append(out, opaque, unix_nanos().saturating_sub(late), &mut self.identity);
            self.first_template += 1;
            self.pace.sent();
        }
    }

    fn take_answers(&self, slots: &mut Slots, input: &mut Input, now: Instant) -> Result<()> {
        self.recorder.with(|tally| {
            while let Some(frame) = input.next_frame()? {
                if !frame.head.is_response() {
                    continue;
                }
                let Some((due, messages)) = slots.answer(frame.head.opaque) else {
                    tally.failed("an answer to no request");
                    continue;
                };
                if frame.head.code == response::SUCCESS {
                    let latency = now.saturating_duration_since(due);
                    tally.acknowledged(messages, messages * self.message_size, latency);
                } else {
                    let remark = frame.head.remark.as_deref().unwrap_or_default();
                    tally.failed(&format!("send refused, code {}: {remark}", frame.head.code));
                }
            }
            Ok(())
        })
    }
}

/// Connects without Nagle's delay.
pub(crate) async fn connect(address: &str) -> Result<TcpStream> {
    let socket =
        TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
    socket.set_nodelay(true).context("set TCP_NODELAY")?;
    Ok(socket)
}

/// Ticks at which a connection looks whether the broker fell silent.
fn silence_watch() -> Interval {
    let mut watch = tokio::time::interval(Duration::from_secs(1));
    watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
    watch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_find_their_request_and_no_other() {
        let now = Instant::now();
        let mut slots = Slots::new(2, now);
        let first = slots.take(now, 1).unwrap();
        let second = slots.take(now, 16).unwrap();
        assert_eq!(slots.take(now, 1), None, "both slots are taken");
        assert_eq!(slots.answer(second).map(|(_, messages)| messages), Some(16));
        assert_eq!(slots.answer(second), None, "answered once");
        let third = slots.take(now, 1).unwrap();
        assert_ne!(third, second, "a late answer to the second must not pass for the third's");
        assert!(slots.answer(first).is_some() && slots.answer(third).is_some());
        assert_eq!(slots.in_flight(), 0);
    }

    #[test]
    fn opaques_keep_ten_digits() {
        let now = Instant::now();
        let mut slots = Slots::new(1 << SLOT_BITS, now);
        for _ in 0..3 * USES {
            let opaque = slots.take(now, 1).unwrap();
            assert!((OPAQUE_MIN..=i32::MAX).contains(&opaque));
            slots.answer(opaque).unwrap();
        }
    }

    #[test]
    fn lost_requests_free_their_slots() {
        let now = Instant::now();
        let mut slots = Slots::new(3, now);
        let lost = slots.take(now, 1).unwrap();
        slots.take(now, 1).unwrap();
        assert_eq!(slots.give_up(), 2);
        assert_eq!(slots.answer(lost), None);
        assert_eq!((0..4).filter(|_| slots.take(now, 1).is_some()).count(), 3);
    }

    #[test]
    fn a_budget_ends() {
        let budget = Budget::new(Some(20));
        assert!(budget.take(16) && budget.take(16) && !budget.take(16));
        assert!(budget.is_spent());
        assert!(Budget::new(None).take(u64::MAX) && !Budget::new(None).is_spent());
    }
}
