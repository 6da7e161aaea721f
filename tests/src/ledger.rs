//! What producers were promised, and the check that a broker kept it.
//!
//! Producers send to every queue of one topic, single messages and batches of many sizes, and
//! never send a message twice. A message whose send was answered `SEND_OK` must be there at the
//! offset that the answer named; one whose answer was lost may be there; none is there twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use broker_client::{
    Client, ClientOptions, Consumer, ConsumerOptions, Destination, Message, Producer, Pull,
    PullStatus, SendReceipt, SendStatus,
};
use broker_protocol::body::TopicConfig;

/// How far queues may be behind the log, for a check.
const DISPATCH: Duration = Duration::from_secs(10);

/// The promises of all rounds so far. A message is known by its number.
#[derive(Debug)]
pub struct Ledger {
    topic: String,
    queues: i32,
    numbers: Arc<AtomicU64>,
    promised: HashMap<u64, (i32, i64)>,
}

/// What a check counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// Messages that were promised and found.
    pub promised: usize,
    /// Messages found without a promise, because the answer was lost.
    pub unanswered: usize,
}

/// Producers at work; they end when their connections break or when asked to.
#[derive(Debug)]
pub struct Producers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<Vec<(u64, i32, i64)>>>,
}

impl Ledger {
    /// No promises yet, for `topic` with this many queues.
    pub fn new(topic: &str, queues: i32) -> Ledger {
        Ledger {
            topic: topic.to_owned(),
            queues,
            numbers: Arc::default(),
            promised: HashMap::new(),
        }
    }

    /// How many messages were promised so far.
    pub fn promised(&self) -> usize {
        self.promised.len()
    }

    /// Makes the topic on the broker at `address`.
    ///
    /// # Errors
    /// When the broker does not answer or refuses.
    pub async fn make_topic(&self, address: &str) -> Result<()> {
        let client = Client::new(ClientOptions::default());
        let config = TopicConfig::new(self.topic.as_str(), self.queues);
        client.admin().update_topic(address, &config).await.context("make the topic")
    }

    /// Starts `count` producers, each with a connection of its own. They start trying at once,
    /// whether or not the broker serves yet, so that sends meet a starting broker too.
    pub fn produce(&self, address: &str, count: usize) -> Producers {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..count)
            .map(|at| {
                let worker = Worker {
                    producer: Producer::new(&Client::new(ClientOptions::default()), "ledger"),
                    topic: self.topic.clone(),
                    to: Destination::new(address, at as i32 % self.queues),
                    batches: at % 3 == 2,
                    numbers: Arc::clone(&self.numbers),
                    stop: Arc::clone(&stop),
                };
                tokio::spawn(worker.run())
            })
            .collect();
        Producers { stop, tasks }
    }

    /// Adds what the producers were promised, once they ended.
    ///
    /// # Errors
    /// When one of them failed other than by a broken connection.
    pub async fn collect(&mut self, producers: Producers) -> Result<usize> {
        producers.stop.store(true, Ordering::Relaxed);
        let before = self.promised.len();
        for task in producers.tasks {
            for (number, queue, offset) in task.await.context("a producer failed")? {
                self.promised.insert(number, (queue, offset));
            }
        }
        Ok(self.promised.len() - before)
    }

    /// Reads every queue from its first to its last message and compares with the promises.
    ///
    /// # Errors
    /// The first promise that is not kept, told in full.
    pub async fn check(&self, address: &str) -> Result<Found> {
        let client = Client::new(ClientOptions::default());
        let consumer = Consumer::new(&client, ConsumerOptions::pushed("ledger-check"));
        let mut seen = HashSet::new();
        let mut found = Found::default();
        for queue in 0..self.queues {
            let end = self.end_of(&client, address, queue).await?;
            let mut at = client.admin().min_offset(address, &self.topic, queue).await?;
            ensure!(at == 0, "queue {queue} begins at {at}, nothing was deleted");
            while at < end {
                let pulled = consumer.pull(address, &self.pull(queue, at)).await?;
                let status = pulled.status;
                ensure!(status == PullStatus::Found, "queue {queue} at {at} of {end}: {status:?}");
                for message in &pulled.messages {
                    let offset = message.queue_offset;
                    ensure!(offset == at, "queue {queue}: offset {offset} follows {}", at - 1);
                    ensure!(message.body_is_intact, "queue {queue} at {at}: damaged body");
                    let number = number_of(&message.body)?;
                    ensure!(seen.insert(number), "message {number} is there twice");
                    match self.promised.get(&number) {
                        Some(promise) => {
                            let there = (queue, offset);
                            ensure!(*promise == there, "message {number}: {promise:?}, {there:?}");
                            found.promised += 1;
                        }
                        None => found.unanswered += 1,
                    }
                    at += 1;
                }
            }
        }
        let lost = self.promised.iter().filter(|(number, _)| !seen.contains(number));
        let lost: Vec<_> = lost.take(10).collect();
        ensure!(lost.is_empty(), "lost, among others: {lost:?} (number, (queue, offset))");
        Ok(found)
    }

    /// The end of a queue, once it is beyond the last promise: queues are written behind the log.
    async fn end_of(&self, client: &Client, address: &str, queue: i32) -> Result<i64> {
        let promised = self.promised.values().filter(|(of, _)| *of == queue);
        let promised = promised.map(|(_, offset)| offset + 1).max().unwrap_or(0);
        let deadline = Instant::now() + DISPATCH;
        loop {
            let end = client.admin().max_offset(address, &self.topic, queue).await?;
            if end >= promised || Instant::now() > deadline {
                return Ok(end);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn pull(&self, queue_id: i32, offset: i64) -> Pull<'_> {
        Pull {
            topic: &self.topic,
            queue_id,
            offset,
            max: 32,
            hold: None,
            expression: Some("*"),
            commit: None,
        }
    }
}

/// One producer's task.
struct Worker {
    producer: Producer,
    topic: String,
    to: Destination,
    batches: bool,
    numbers: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    /// Sends until it is told to stop or an open connection breaks; the promises it got.
    async fn run(self) -> Vec<(u64, i32, i64)> {
        let mut promised = Vec::new();
        let mut stored_some = false;
        while !self.stop.load(Ordering::Relaxed) {
            let count = if self.batches { fastrand::u64(1..=16) } else { 1 };
            let first = self.numbers.fetch_add(count, Ordering::Relaxed);
            let messages: Vec<Message> =
                (first..first + count).map(|number| self.message(number)).collect();
            let answer = match messages.as_slice() {
                [one] => self.producer.send_to(&self.to, one).await,
                many => self.producer.send_batch(&self.to, many).await,
            };
            match answer {
                Ok(SendReceipt { status: SendStatus::Stored, queue_id, queue_offset, .. }) => {
                    stored_some = true;
                    let numbers = (first..first + count).zip(queue_offset..);
                    promised.extend(numbers.map(|(number, offset)| (number, queue_id, offset)));
                }
                Ok(_) => {}
                // A refusal (it is stopping, or busy) is no promise; nor is a broken connection.
                Err(error) if error.code().is_some() || !stored_some => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(_) => break,
            }
        }
        promised
    }

    fn message(&self, number: u64) -> Message {
        let padding = "x".repeat(fastrand::usize(0..2_000));
        let message = Message::new(self.topic.as_str(), format!("{number}|{padding}"));
        message.tag("ledger").keys(format!("number-{number}"))
    }
}

fn number_of(body: &[u8]) -> Result<u64> {
    let text = String::from_utf8_lossy(body);
    match text.split_once('|').and_then(|(number, _)| number.parse().ok()) {
        Some(number) => Ok(number),
        None => {
            bail!("a body that was never sent: {:?}", text.chars().take(40).collect::<String>())
        }
    }
}
