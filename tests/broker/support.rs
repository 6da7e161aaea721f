//! What the tests here share: a broker with small files and a client of it, shortcuts for what tests
//! ask all the time, and waiting on conditions.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker_client::connection::{ServerAnswer, ServerRequest};
use broker_client::{
    Client, ClientError, ClientOptions, ConnectionOptions, Consumer, ConsumerOptions, Destination,
    Message, Producer, Pull, PullStatus, Pulled, Reply, SendReceipt, StoredMessage,
};
use broker_protocol::body::TopicConfig;
use broker_protocol::code::request;
use broker_protocol::header::Header;
use broker_protocol::perm;
use broker_protocol::request::send::{ConsumerSendMsgBack, SendMessage};
use system_tests::cluster::{Broker, BrokerOptions, Maker};
use tempfile::TempDir;

/// How long a test waits for anything. Machines that run builds beside the tests are slow.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A group that exists whatever the settings say.
pub(crate) const ONLOOKER: &str = "CID_RMQ_SYS_ONLOOKER";

/// Pause between two looks at a condition.
const TICK: Duration = Duration::from_millis(15);

/// All 18 delay levels last a second.
pub(crate) const SHORT_LEVELS: (&str, &str) =
    ("messageDelayLevel", "1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s");

/// A broker by itself, no name server, and a client of it.
pub(crate) struct Server {
    /// The broker; stopped when this is dropped.
    pub(crate) broker: Broker,
    /// A client with patience.
    pub(crate) client: Client,
    address: String,
    _folder: TempDir,
}

impl Server {
    /// Starts a broker with these settings besides the usual ones.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Server {
        let folder = tempfile::Builder::new().prefix("tandem-broker-").tempdir().unwrap();
        let broker = Broker::start(Maker::Tandem, small(settings), folder.path(), "").unwrap();
        let address = broker.address();
        Server { broker, client: client(), address, _folder: folder }
    }

    /// `host:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A file of the broker's `config` folder.
    pub(crate) fn config_file(&self, name: &str) -> PathBuf {
        self.broker.store_folder().join("config").join(name)
    }

    /// Stops the broker in order.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        let link = self.client.connection(&self.address).await.unwrap();
        let status = self.broker.stop().unwrap();
        // Clients of this test notice it together.
        link.closed().await;
        status
    }

    /// Ends the broker as `kill -9` does.
    pub(crate) async fn kill(&mut self) {
        let link = self.client.connection(&self.address).await.unwrap();
        self.broker.kill();
        link.closed().await;
    }

    /// Starts the broker again.
    pub(crate) fn restart(&mut self) {
        self.broker.restart().unwrap();
    }

    /// All that the broker printed so far.
    pub(crate) fn log(&mut self) -> String {
        self.broker.running().unwrap().log_text()
    }

    /// One request; any answer but success is an error.
    pub(crate) async fn call<H: Header + ?Sized>(
        &self,
        code: i32,
        header: &H,
        body: &[u8],
    ) -> Result<Reply, ClientError> {
        self.client.call(self.address(), code, header, body).await
    }

    /// Makes or changes a topic with as many queues to read as to write.
    pub(crate) async fn topic(&self, name: &str, queues: i32) {
        self.set_topic(name, queues, queues, perm::READ | perm::WRITE).await;
    }

    /// Makes or changes a topic.
    pub(crate) async fn set_topic(&self, name: &str, read: i32, write: i32, perm: i32) {
        let mut topic = TopicConfig::new(name, read);
        topic.write_queue_nums = write;
        topic.perm = perm;
        self.client.admin().update_topic(self.address(), &topic).await.unwrap();
    }

    /// A destination of this broker.
    pub(crate) fn queue(&self, queue_id: i32) -> Destination {
        Destination::new(self.address(), queue_id)
    }

    /// Sends to a queue.
    pub(crate) async fn try_send(
        &self,
        queue_id: i32,
        message: &Message,
    ) -> Result<SendReceipt, ClientError> {
        producer(&self.client).send_to(&self.queue(queue_id), message).await
    }

    /// Sends to a queue what must be stored.
    pub(crate) async fn send(&self, queue_id: i32, message: &Message) -> SendReceipt {
        self.try_send(queue_id, message).await.unwrap()
    }

    /// Sends numbered messages to queue 0.
    pub(crate) async fn send_numbered(&self, topic: &str, numbers: std::ops::Range<usize>) {
        for number in numbers {
            self.send(0, &Message::new(topic, format!("{topic} {number}"))).await;
        }
    }

    /// A single message by hand: every header field is the test's own.
    pub(crate) async fn send_raw(
        &self,
        code: i32,
        header: &SendMessage<'_>,
        body: &[u8],
    ) -> Result<Reply, ClientError> {
        self.call(code, header, body).await
    }

    /// Pulls once with a filter of its own, in a group that has no part in the test.
    pub(crate) async fn pull(&self, topic: &str, queue_id: i32, offset: i64, tags: &str) -> Pulled {
        self.try_pull(topic, queue_id, offset, tags).await.unwrap()
    }

    /// As [`Server::pull`], when it may be refused.
    pub(crate) async fn try_pull(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        tags: &str,
    ) -> Result<Pulled, ClientError> {
        let reader = Consumer::new(&self.client, ConsumerOptions::pushed(ONLOOKER));
        let pull = Pull {
            topic,
            queue_id,
            offset,
            max: 32,
            hold: None,
            expression: Some(tags),
            commit: None,
        };
        reader.pull(self.address(), &pull).await
    }

    /// Everything that a queue holds now.
    pub(crate) async fn read_all(&self, topic: &str, queue_id: i32) -> Vec<StoredMessage> {
        let mut messages = Vec::new();
        let mut offset = self.min_offset(topic, queue_id).await;
        loop {
            let pulled = self.pull(topic, queue_id, offset, "*").await;
            if pulled.status == PullStatus::NoNewMessage {
                return messages;
            }
            assert!(pulled.next_offset > offset, "stuck at {offset}: {pulled:?}");
            offset = pulled.next_offset;
            messages.extend(pulled.messages);
        }
    }

    /// Waits until a queue holds `count` messages, then reads them. A topic that is not there yet
    /// holds none.
    pub(crate) async fn read_when(
        &self,
        topic: &str,
        queue_id: i32,
        count: i64,
    ) -> Vec<StoredMessage> {
        until(&format!("{count} messages in {topic}"), async || {
            (self.max_offset(topic, queue_id).await >= count).then_some(())
        })
        .await;
        self.read_all(topic, queue_id).await
    }

    /// End of a queue.
    pub(crate) async fn max_offset(&self, topic: &str, queue_id: i32) -> i64 {
        self.client.admin().max_offset(self.address(), topic, queue_id).await.unwrap()
    }

    /// Begin of a queue.
    pub(crate) async fn min_offset(&self, topic: &str, queue_id: i32) -> i64 {
        self.client.admin().min_offset(self.address(), topic, queue_id).await.unwrap()
    }

    /// End of the log: it stays where it is when a request stores nothing.
    pub(crate) async fn log_end(&self) -> String {
        let info = self.client.admin().runtime_info(self.address()).await.unwrap();
        info["commitLogMaxOffset"].clone()
    }

    /// Gives a message back by hand.
    pub(crate) async fn send_back(
        &self,
        group: &str,
        physical_offset: i64,
        delay_level: i32,
        max_reconsume_times: Option<i32>,
    ) -> Result<Reply, ClientError> {
        let header = ConsumerSendMsgBack {
            offset: physical_offset,
            group: group.into(),
            delay_level,
            origin_msg_id: None,
            origin_topic: None,
            unit_mode: false,
            max_reconsume_times,
        };
        self.call(request::CONSUMER_SEND_MSG_BACK, &header, &[]).await
    }

    /// The progress of a group in a queue.
    pub(crate) async fn progress(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.client.admin().consumer_offset(self.address(), group, topic, queue_id).await.unwrap()
    }

    /// Sets the progress of a group in a queue.
    pub(crate) async fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let admin = self.client.admin();
        let done = admin.update_consumer_offset(self.address(), group, topic, queue_id, offset);
        done.await.unwrap();
    }

    /// The sample of a metric whose line begins so, summed over all such lines.
    pub(crate) fn metric(&self, start: &str) -> f64 {
        metric(self.broker.ports.http(), start)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(process) = &self.broker.process
        {
            let _nowhere_to_tell = writeln!(std::io::stderr(), "{}", process.log_end());
        }
    }
}

/// A master with small files and these settings.
pub(crate) fn small(settings: &[(&str, &str)]) -> BrokerOptions {
    let mut options = BrokerOptions::master("broker-a")
        .with("mappedFileSizeCommitLog", 8 << 20)
        .with("mappedFileSizeConsumeQueue", 20 * 2_000)
        .with("maxHashSlotNum", 1_000)
        .with("maxIndexNum", 4_000);
    for (key, value) in settings {
        options = options.with(key, value);
    }
    options
}

/// A client that waits longer for answers than applications would.
pub(crate) fn client() -> Client {
    Client::new(options())
}

/// Options of a client with patience.
pub(crate) fn options() -> ClientOptions {
    let connection = ConnectionOptions { answer_within: PATIENCE, ..ConnectionOptions::default() };
    ClientOptions { connection, ..ClientOptions::default() }
}

/// A client with patience that knows name servers.
pub(crate) fn client_of(name_servers: &str) -> Client {
    let mut all = ClientOptions::name_servers(name_servers);
    all.connection = options().connection;
    Client::new(all)
}

/// A producer whose group does not matter.
pub(crate) fn producer(client: &Client) -> Producer {
    Producer::new(client, "producers")
}

/// The header of a send with nothing special.
pub(crate) fn send_header<'a>(
    topic: &'a str,
    queue_id: i32,
    properties: &'a str,
) -> SendMessage<'a> {
    SendMessage {
        producer_group: "producers".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id,
        sys_flag: 0,
        born_timestamp: now(),
        flag: 0,
        properties: Some(properties.into()),
        reconsume_times: Some(0),
        unit_mode: Some(false),
        max_reconsume_times: None,
        batch: Some(false),
        broker_name: None,
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Looks again and again until there is something.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(TICK).await;
    }
}

/// Lets the clock go on, so that the next message has another time than the last one.
pub(crate) async fn next_moment() {
    let before = now();
    until("the clock goes on", async || (now() > before + 20).then_some(())).await;
}

/// Code and remark of what must have been refused.
#[track_caller]
pub(crate) fn refusal<T: Debug>(outcome: Result<T, ClientError>) -> (i32, String) {
    match outcome {
        Err(ClientError::Refused { code, remark, .. }) => (code, remark),
        other => panic!("not refused: {other:?}"),
    }
}

/// Bodies as text.
pub(crate) fn bodies(messages: &[StoredMessage]) -> Vec<String> {
    messages.iter().map(|m| String::from_utf8_lossy(&m.body).into_owned()).collect()
}

/// The samples of all metrics whose lines begin so, summed; 0 when there is none.
pub(crate) fn metric(http: u16, start: &str) -> f64 {
    let page = system_tests::http_get(http, "/metrics").unwrap();
    let samples = page.lines().filter(|line| line.starts_with(start));
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Counts how often each thing comes.
pub(crate) fn counted<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}

/// What a broker asked a client, in the order it came.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<ServerRequest>>>);

impl Seen {
    /// All requests with this code.
    pub(crate) fn of(&self, code: i32) -> Vec<ServerRequest> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|request| request.code == code).cloned().collect()
    }
}

/// A client that remembers what it is asked, and answers with what `answer` says.
pub(crate) fn listening(
    mut options: ClientOptions,
    answer: impl Fn(&ServerRequest) -> Option<ServerAnswer> + Send + Sync + 'static,
) -> (Client, Seen) {
    let seen = Seen::default();
    let heard = seen.clone();
    options.connection.handler = Some(Arc::new(move |request: ServerRequest| {
        let answer = answer(&request);
        heard.0.lock().unwrap().push(request);
        answer
    }));
    (Client::new(options), seen)
}

/// A member of a group that shares messages.
pub(crate) fn member(client: &Client, group: &str, topic: &str, tags: &str) -> Consumer {
    Consumer::new(client, ConsumerOptions::pushed(group).subscribe(topic, tags))
}
