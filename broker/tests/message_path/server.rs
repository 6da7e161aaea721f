//! A broker in this process on a free port, and a client that speaks in frames.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use broker::broker::Broker;
use broker::config::BrokerConfig;
use broker_protocol::code::request;
use broker_protocol::frame::{
    Frame, ReplyHead, RequestHead, Serialize, encode_request, encode_response, frame_size,
};
use broker_protocol::header::{Header, NoHeader};
use broker_protocol::request::pull::PullMessage;
use broker_protocol::request::send::SendMessage;
use broker_protocol::version;
use broker_store::{StoreConfig, env};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Cluster and region of the broker under test.
pub const CLUSTER: &str = "test-cluster";

/// Both configurations of a broker.
pub struct Settings {
    pub broker: BrokerConfig,
    pub store: StoreConfig,
}

/// A broker, its runtime and its files.
pub struct Server {
    broker: Option<Broker>,
    runtime: Runtime,
    folder: TempDir,
    adjust: Box<dyn Fn(&mut Settings)>,
}

impl Server {
    pub fn start() -> Server {
        Server::with(|_| {})
    }

    pub fn with(adjust: impl Fn(&mut Settings) + 'static) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let folder = TempDir::new().unwrap();
        let mut server = Server { broker: None, runtime, folder, adjust: Box::new(adjust) };
        server.open();
        server
    }

    fn open(&mut self) {
        let mut settings = Settings {
            broker: BrokerConfig {
                broker_cluster_name: CLUSTER.to_owned(),
                broker_name: "broker-a".to_owned(),
                broker_ip1: "127.0.0.1".to_owned(),
                bind_address: "127.0.0.1".to_owned(),
                listen_port: 0,
                ..BrokerConfig::default()
            },
            store: StoreConfig {
                store_path_root_dir: self.folder.path().to_owned(),
                mapped_file_size_commit_log: 16 << 20,
                mapped_file_size_consume_queue: 20_000,
                ..StoreConfig::default()
            },
        };
        (self.adjust)(&mut settings);
        let _inside = self.runtime.enter();
        let broker = Broker::start(settings.broker, settings.store, env::os());
        self.broker = Some(broker.unwrap());
    }

    /// Stops the broker and starts it again on its files.
    pub fn restart(&mut self) {
        self.stop();
        self.open();
    }

    pub fn stop(&mut self) {
        if let Some(broker) = self.broker.take() {
            self.runtime.block_on(broker.stop());
        }
    }

    pub fn broker(&self) -> &Broker {
        self.broker.as_ref().unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.broker().address()
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// Bytes of the store's files under `path`.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// One connection.
pub struct Client {
    pub socket: TcpStream,
    next_opaque: i32,
    pub serialize: Serialize,
    /// The language that the client says it is written in.
    pub language: version::Language,
    /// Requests of the broker that came while answers were awaited.
    pushed: VecDeque<Pushed>,
}

/// A request that the broker sent to the client.
#[derive(Debug, Clone)]
pub struct Pushed {
    pub code: i32,
    pub opaque: i32,
    pub oneway: bool,
    pub fields: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// An answer in owned parts.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub opaque: i32,
    pub remark: String,
    pub fields: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn number(&self, field: &str) -> i64 {
        let value = self.fields.get(field);
        value.unwrap_or_else(|| panic!("{field} in {self:?}")).parse().unwrap()
    }

    pub fn text(&self, field: &str) -> &str {
        self.fields.get(field).unwrap_or_else(|| panic!("{field} in {self:?}"))
    }

    /// The records of a pull's body.
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        let mut rest = &self.body[..];
        while !rest.is_empty() {
            let size = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
            records.push(Record::parse(&rest[..size]));
            rest = &rest[size..];
        }
        records
    }
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub topic: String,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub flag: i32,
    pub sys_flag: i32,
    pub born_host: SocketAddr,
    pub store_host: SocketAddr,
    pub reconsume_times: i32,
    pub body: Vec<u8>,
    pub properties: BTreeMap<String, String>,
}

impl Record {
    pub fn parse(bytes: &[u8]) -> Record {
        let view = broker_protocol::record::RecordView::parse(bytes).unwrap();
        assert_eq!(view.body_crc, broker_protocol::record::crc(view.body), "CRC of the body");
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Record {
            topic: view.topic.to_owned(),
            queue_id: view.queue_id,
            queue_offset: view.queue_offset,
            flag: view.flag,
            sys_flag: view.sys_flag,
            born_host: view.born_host,
            store_host: view.store_host,
            reconsume_times: view.reconsume_times,
            body: view.body.to_vec(),
            properties: view.properties.iter().map(|(k, v)| (text(k), text(v))).collect(),
        }
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client {
            socket,
            next_opaque: 0,
            serialize: Serialize::Json,
            language: version::Language::Java,
            pushed: VecDeque::new(),
        }
    }

    /// The bytes of a request, and its opaque.
    pub fn frame<H: Header + ?Sized>(
        &mut self,
        code: i32,
        header: &H,
        body: &[u8],
    ) -> (i32, Vec<u8>) {
        self.next_opaque += 1;
        let head = RequestHead {
            code,
            opaque: self.next_opaque,
            oneway: false,
            serialize: self.serialize,
            language: self.language,
            version: version::V4_9_3,
            short_names: matches!(code, request::SEND_MESSAGE_V2 | request::SEND_BATCH_MESSAGE),
        };
        let mut frame = Vec::new();
        encode_request(&mut frame, &head, header, body.len());
        frame.extend_from_slice(body);
        (self.next_opaque, frame)
    }

    /// Sends a request; its answer must be received.
    pub fn ask<H: Header + ?Sized>(&mut self, code: i32, header: &H, body: &[u8]) -> i32 {
        let (opaque, frame) = self.frame(code, header, body);
        self.socket.write_all(&frame).unwrap();
        opaque
    }

    /// Sends a request and receives its answer.
    pub fn call<H: Header + ?Sized>(&mut self, code: i32, header: &H, body: &[u8]) -> Answer {
        let opaque = self.ask(code, header, body);
        let answer = self.receive();
        assert_eq!(answer.opaque, opaque);
        answer
    }

    pub fn receive(&mut self) -> Answer {
        self.try_receive().unwrap()
    }

    pub fn try_receive(&mut self) -> std::io::Result<Answer> {
        loop {
            if let Some(answer) = self.receive_any()? {
                return Ok(answer);
            }
        }
    }

    /// The next request of the broker.
    pub fn receive_pushed(&mut self) -> Pushed {
        while self.pushed.is_empty() {
            let answer = self.receive_any().unwrap();
            assert!(answer.is_none(), "nobody asked for {answer:?}");
        }
        self.pushed.pop_front().unwrap()
    }

    /// Receives one frame: an answer, or a request that is kept.
    fn receive_any(&mut self) -> std::io::Result<Option<Answer>> {
        let mut bytes = vec![0; 8];
        self.socket.read_exact(&mut bytes)?;
        let size = frame_size(&bytes).unwrap().unwrap();
        bytes.resize(size, 0);
        self.socket.read_exact(&mut bytes[8..])?;
        let frame = Frame::parse(&mut bytes).unwrap();
        let mut fields = BTreeMap::new();
        frame.ext.for_each(|name, value| drop(fields.insert(name.to_owned(), value.to_owned())));
        let (code, opaque) = (frame.head.code, frame.head.opaque);
        let body = frame.body.to_vec();
        if frame.head.is_response() {
            let remark = frame.head.remark.unwrap_or_default().into_owned();
            return Ok(Some(Answer { code, opaque, remark, fields, body }));
        }
        let oneway = frame.head.is_oneway();
        self.pushed.push_back(Pushed { code, opaque, oneway, fields, body });
        Ok(None)
    }

    /// Answers a request of the broker.
    pub fn answer(&mut self, pushed: &Pushed, code: i32, remark: Option<&str>, body: &[u8]) {
        let head = ReplyHead { opaque: pushed.opaque, serialize: self.serialize };
        let mut frame = Vec::new();
        encode_response(&mut frame, &head, code, remark, &NoHeader, body.len());
        frame.extend_from_slice(body);
        self.socket.write_all(&frame).unwrap();
    }

    /// Sends one message by the short names.
    pub fn send(&mut self, topic: &str, queue_id: i32, body: &[u8], properties: &str) -> Answer {
        let header =
            SendMessage { properties: Some(properties.into()), ..message(topic, queue_id) };
        self.call(request::SEND_MESSAGE_V2, &header, body)
    }

    /// Sends one message, which must be stored; returns its queue offset.
    pub fn store(&mut self, topic: &str, queue_id: i32, body: &[u8], properties: &str) -> i64 {
        let answer = self.send(topic, queue_id, body, properties);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.number("queueOffset")
    }
}

/// A send's header with the values of a plain Java producer.
pub fn message(topic: &str, queue_id: i32) -> SendMessage<'_> {
    SendMessage {
        producer_group: "producers".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id,
        sys_flag: 0,
        born_timestamp: 1_700_000_000_000,
        flag: 0,
        properties: None,
        reconsume_times: Some(0),
        unit_mode: Some(false),
        max_reconsume_times: None,
        batch: Some(false),
        broker_name: None,
    }
}

/// A pull that brings its own subscription and is not held.
pub fn pull(topic: &str, queue_id: i32, offset: i64) -> PullMessage<'_> {
    PullMessage {
        consumer_group: "consumers".into(),
        topic: topic.into(),
        queue_id,
        queue_offset: offset,
        max_msg_nums: 32,
        sys_flag: broker_protocol::request::pull::SUBSCRIPTION,
        commit_offset: 0,
        suspend_timeout_millis: 0,
        subscription: Some("*".into()),
        sub_version: 0,
        expression_type: None,
        max_msg_bytes: None,
        request_source: None,
        proxy_forward_client_id: None,
    }
}

/// Waits for a condition that some other thread makes true.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::yield_now();
    }
}
