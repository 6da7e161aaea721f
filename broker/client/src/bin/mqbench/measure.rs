//! Counting what the connections see: messages, errors and latencies, cut into windows.
//!
//! Each worker thread has its own [`Recorder`], so that recording takes an uncontended lock; the
//! sampler empties them all at each tick and adds the pieces up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// The longest latency that is told apart; longer ones are counted as this.
const LATENCY_MAX_NANOS: u64 = 120_000_000_000;
/// More different errors than this are counted together, so that remarks that hold changing values
/// don't grow the table without end.
const ERROR_KINDS_MAX: usize = 32;

/// What was seen in some stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Messages that the broker acknowledged.
    pub(crate) produced: u64,
    /// Messages that pulls brought.
    pub(crate) consumed: u64,
    /// Body bytes, both ways.
    pub(crate) bytes: u64,
    /// Failures by what went wrong.
    pub(crate) errors: BTreeMap<String, u64>,
    /// From due time to acknowledgement, one entry a request, in nanoseconds.
    pub(crate) send_latency: Histogram<u64>,
    /// From due time of the send to arrival at a consumer, one entry a message, in nanoseconds.
    pub(crate) end_to_end: Histogram<u64>,
}

impl Tally {
    /// An empty tally.
    pub(crate) fn new() -> Self {
        Self {
            produced: 0,
            consumed: 0,
            bytes: 0,
            errors: BTreeMap::new(),
            send_latency: latency_histogram(),
            end_to_end: latency_histogram(),
        }
    }

    /// Counts `messages` acknowledged by one answer that came `latency` after its request was due.
    pub(crate) fn acknowledged(&mut self, messages: u64, bytes: u64, latency: Duration) {
        self.produced += messages;
        self.bytes += bytes;
        self.send_latency.saturating_record(nanos(latency));
    }

    /// Counts one message that a pull brought, `age` after its send was due, if that is known.
    pub(crate) fn received(&mut self, bytes: u64, age: Option<Duration>) {
        self.consumed += 1;
        self.bytes += bytes;
        if let Some(age) = age {
            self.end_to_end.saturating_record(nanos(age));
        }
    }

    /// Counts a failure. Digits in `what` are masked, so that the same failure at another offset
    /// or address is the same kind.
    pub(crate) fn failed(&mut self, what: &str) {
        let mut kind = String::with_capacity(what.len());
        for c in what.chars().take(160) {
            match c {
                '0'..='9' if kind.ends_with('#') => {}
                '0'..='9' => kind.push('#'),
                c => kind.push(c),
            }
        }
        if self.errors.len() >= ERROR_KINDS_MAX && !self.errors.contains_key(&kind) {
            kind = String::from("other errors");
        }
        *self.errors.entry(kind).or_default() += 1;
    }

    /// Adds another tally to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.produced += other.produced;
        self.consumed += other.consumed;
        self.bytes += other.bytes;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        // Both histograms have the same bounds, so adding can't fail.
        let _ = self.send_latency.add(&other.send_latency);
        let _ = self.end_to_end.add(&other.end_to_end);
    }

    /// All messages, sent and received.
    pub(crate) fn messages(&self) -> u64 {
        self.produced + self.consumed
    }

    /// All failures.
    pub(crate) fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Where one worker thread counts. Clones share the tally.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Mutex<Tally>>);

impl Recorder {
    /// A recorder with an empty tally.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Tally::new())))
    }

    /// Records under the lock; `record` must be short.
    pub(crate) fn with<T>(&self, record: impl FnOnce(&mut Tally) -> T) -> T {
        record(&mut self.0.lock())
    }

    /// Takes what was counted since the last call. `spare` is swapped in and must be empty.
    fn take(&self, spare: Tally) -> Tally {
        std::mem::replace(&mut *self.0.lock(), spare)
    }
}

/// Takes and adds up what all recorders counted since the last call.
pub(crate) fn take_all(recorders: &[Recorder]) -> Tally {
    let mut sum = Tally::new();
    for recorder in recorders {
        sum.add(&recorder.take(Tally::new()));
    }
    sum
}

fn latency_histogram() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "bounds and digits are constants inside the crate's")]
    Histogram::new_with_bounds(1_000, LATENCY_MAX_NANOS, 3).expect("valid histogram bounds")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_what_all_threads_counted_once() {
        let recorders = [Recorder::new(), Recorder::new()];
        recorders[0].with(|t| t.acknowledged(16, 160, Duration::from_micros(250)));
        recorders[1].with(|t| t.received(10, Some(Duration::from_millis(2))));
        recorders[1].with(|t| t.received(10, None));
        let sum = take_all(&recorders);
        assert_eq!((sum.produced, sum.consumed, sum.bytes), (16, 2, 180));
        assert_eq!(sum.send_latency.len(), 1);
        assert_eq!(sum.end_to_end.len(), 1);
        let p50 = sum.send_latency.value_at_quantile(0.5);
        assert!((249_000..=251_000).contains(&p50), "{p50}");
        assert_eq!(take_all(&recorders).messages(), 0);
    }

    #[test]
    fn same_failure_with_other_numbers_is_one_kind() {
        let mut tally = Tally::new();
        tally.failed("code 1: no offset 123");
        tally.failed("code 1: no offset 45678");
        assert_eq!(tally.errors.get("code #: no offset #"), Some(&2));
    }

    #[test]
    fn kinds_of_errors_are_bounded() {
        let mut tally = Tally::new();
        for c in 0..200u32 {
            let name = char::from_u32(0x4e00 + c).unwrap().to_string();
            tally.failed(&name);
        }
        assert!(tally.errors.len() <= ERROR_KINDS_MAX + 1);
        assert_eq!(tally.error_count(), 200);
    }

    #[test]
    fn hour_long_latencies_count_as_the_longest() {
        let mut tally = Tally::new();
        tally.acknowledged(1, 0, Duration::from_secs(3600));
        assert!(tally.send_latency.max() >= LATENCY_MAX_NANOS);
    }
}
