//! Bytes that no client of ours would send: they cost the sender its link, and nobody else
//! anything. And every request gets one answer.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use broker_client::Message;
use broker_protocol::code::{request, response};
use broker_protocol::frame::{Frame, RequestHead, Serialize, encode_request, frame_size};
use broker_protocol::header::NoHeader;
use broker_protocol::version::{Language, V4_9_3};
use fastrand::Rng;
use system_tests::cluster::standalone_with;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{PATIENCE, Server, client, counted, send_header, until};

const TOPIC: &str = "Framed";

/// A link on which a test writes bytes by hand.
struct Link {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// An answer as far as tests look at it.
#[derive(Debug)]
struct Answered {
    opaque: i32,
    code: i32,
    remark: Option<String>,
    serialize: Serialize,
}

impl Link {
    async fn to(port: u16) -> Link {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        Link { stream, buffer: Vec::new() }
    }

    /// Writes; the other side may have closed the link already.
    async fn write(&mut self, bytes: &[u8]) {
        let _closed_meanwhile = self.stream.write_all(bytes).await;
    }

    /// The next answer, or None once the link is closed.
    async fn answer(&mut self) -> Option<Answered> {
        loop {
            if let Some(size) = frame_size(&self.buffer).unwrap()
                && size <= self.buffer.len()
            {
                let mut bytes: Vec<u8> = self.buffer.drain(..size).collect();
                let frame = Frame::parse(&mut bytes).unwrap();
                // The broker asks, too: a member hears that its group has changed.
                if !frame.head.is_response() {
                    continue;
                }
                return Some(Answered {
                    opaque: frame.head.opaque,
                    code: frame.head.code,
                    remark: frame.head.remark.map(|remark| remark.into_owned()),
                    serialize: frame.head.serialize,
                });
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.buffer)).await;
            match read.unwrap() {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

/// A frame with a header by hand; `kind` is 0 for JSON, 1 for binary.
fn frame(kind: u8, header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + header.len() + body.len()) as u32).to_be_bytes().to_vec();
    bytes.extend(((u32::from(kind) << 24) | header.len() as u32).to_be_bytes());
    bytes.extend(header);
    bytes.extend(body);
    bytes
}

fn json_frame(header: &str, body: &[u8]) -> Vec<u8> {
    frame(0, header.as_bytes(), body)
}

/// A binary header whose remark and fields are said to be so long, and hold these bytes.
fn binary_header(remark_length: i32, fields_length: i32, fields: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(28_i16.to_be_bytes());
    header.push(0);
    header.extend(399_i16.to_be_bytes());
    header.extend(77_i32.to_be_bytes());
    header.extend(0_i32.to_be_bytes());
    header.extend(remark_length.to_be_bytes());
    header.extend(fields_length.to_be_bytes());
    header.extend(fields);
    header
}

/// A request with fields by name.
fn request_frame(code: i32, opaque: i32, serialize: Serialize, body: &[u8]) -> Vec<u8> {
    let head = RequestHead {
        code,
        opaque,
        oneway: false,
        serialize,
        language: Language::Java,
        version: V4_9_3,
        short_names: false,
    };
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &head, &NoHeader, body.len());
    bytes.extend(body);
    bytes
}

/// What nobody may answer: after it the link is closed.
fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let entry = |key: i16, value: i32| {
        let mut fields = key.to_be_bytes().to_vec();
        fields.extend(b"topic");
        fields.extend(value.to_be_bytes());
        fields.extend(b"value");
        binary_header(0, fields.len() as i32, &fields)
    };
    let mut long_header = json_frame("{}", b"");
    long_header[4..8].copy_from_slice(&0x0010_0000_u32.to_be_bytes());
    let mut tls = vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3];
    tls.extend([0x5A; 100]);
    vec![
        ("a remark longer than the frame", frame(1, &binary_header(i32::MAX, 0, b""), b"")),
        ("a remark of negative length", frame(1, &binary_header(-1, 0, b""), b"")),
        ("fields of negative length", frame(1, &binary_header(0, -1, b""), b"")),
        ("fields longer than the frame", frame(1, &binary_header(0, i32::MAX, b""), b"")),
        ("a key of negative length", frame(1, &entry(-1, 5), b"")),
        ("a key longer than the fields", frame(1, &entry(i16::MAX, 5), b"")),
        ("a value of negative length", frame(1, &entry(5, -7), b"")),
        ("a value longer than the fields", frame(1, &entry(5, 0x7000_0000), b"")),
        ("a binary header cut short", frame(1, &binary_header(0, 0, b"")[..9], b"")),
        ("a header longer than its frame", long_header),
        ("an unknown serialization", frame(7, b"{}", b"")),
        ("a header that is no JSON", json_frame("}{", b"")),
        ("a header without an end", json_frame(r#"{"code":28"#, b"")),
        ("a frame without room for a header's length", vec![0, 0, 0, 3, 0, 0, 0, 0, 0]),
        ("a frame of no length", vec![0; 12]),
        ("a frame of negative length", vec![0xFF; 64]),
        ("a frame a byte longer than allowed", {
            let mut bytes = (16_u32 * 1024 * 1024 - 3).to_be_bytes().to_vec();
            bytes.extend([0; 8]);
            bytes
        }),
        ("HTTP", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("the start of TLS", tls),
    ]
}

#[tokio::test]
async fn hostile_frames_close_their_link_and_harm_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("mappedFileSizeCommitLog", "8388608")];
    let (process, ports) = standalone_with(folder.path(), &settings).unwrap();
    let all_ports = [ports.listen(), ports.vip(), ports.name_server()];
    let other = client();
    let address = format!("127.0.0.1:{}", ports.listen());
    let to = broker_client::Destination::new(&*address, 0);
    let producer = crate::support::producer(&other);
    producer.send_to(&to, &Message::new(TOPIC, "before")).await.unwrap();
    let bystander = other.connection(&address).await.unwrap();

    let mut memory = 0;
    for round in 0..24 {
        for port in all_ports {
            for (what, bytes) in hostile() {
                let mut link = Link::to(port).await;
                link.write(&bytes).await;
                let answer = link.answer().await;
                assert!(answer.is_none(), "{what} is answered on {port}: {answer:?}");
            }
        }
        if round == 3 {
            memory = process.anonymous_memory().unwrap();
        }
    }
    let grown = process.anonymous_memory().unwrap().saturating_sub(memory);
    assert!(grown < 4 << 20, "memory has grown by {grown} bytes");
    assert!(bystander.is_open(), "another client lost its link");
    producer.send_to(&to, &Message::new(TOPIC, "after")).await.unwrap();
}

#[tokio::test]
async fn lengths_that_are_only_announced_cost_no_memory() {
    let server = Server::start(&[]);
    let process = server.broker.process.as_ref().unwrap();
    let before = process.anonymous_memory().unwrap();
    let mut links = Vec::new();
    for _ in 0..200 {
        let mut link = Link::to(server.broker.ports.listen()).await;
        let mut start = (15_u32 << 20).to_be_bytes().to_vec();
        start.extend([0, 0, 0, 100, b'{']);
        link.write(&start).await;
        links.push(link);
    }
    let waiting = server.broker.ports.http();
    until("all links are seen", async || {
        (crate::support::metric(waiting, "tandem_connections ") >= 200.0).then_some(())
    })
    .await;
    let grown = process.anonymous_memory().unwrap().saturating_sub(before);
    assert!(grown < 40 << 20, "{grown} bytes for 200 links that sent 9 bytes each");
}

#[tokio::test]
async fn the_longest_frame_is_served() {
    let server = Server::start(&[]);
    let mut link = Link::to(server.broker.ports.listen()).await;
    let header = r#"{"code":28,"language":"JAVA","version":399,"opaque":5,"flag":0}"#;
    let body = vec![0; (16 << 20) - 8 - header.len()];
    link.write(&json_frame(header, &body)).await;
    let answer = link.answer().await.unwrap();
    assert_eq!((answer.opaque, answer.code), (5, response::SUCCESS));
}

/// The bytes of a send whose body can be checked: `number` of link `name`.
fn checked_send(random: &mut Rng, name: usize, number: usize) -> (String, Vec<u8>, Vec<u8>) {
    let id = format!("{name}-{number}");
    let body: Vec<u8> = (0..random.usize(0..6_000)).map(|_| random.u8(..)).collect();
    let properties = format!("KEYS\x01{id}");
    let header = send_header(TOPIC, 0, &properties);
    let head = RequestHead {
        code: request::SEND_MESSAGE_V2,
        opaque: number as i32,
        oneway: false,
        serialize: if random.bool() { Serialize::Json } else { Serialize::Binary },
        language: Language::Java,
        version: V4_9_3,
        short_names: true,
    };
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &head, &header, body.len());
    bytes.extend(&body);
    (id, body, bytes)
}

#[tokio::test]
async fn bodies_stay_whole_however_the_bytes_come() {
    const LINKS: usize = 200;
    const SENDS: usize = 10;
    let server = Server::start(&[("mappedFileSizeCommitLog", "33554432")]);
    server.topic(TOPIC, 1).await;
    let port = server.broker.ports.listen();
    let seed = fastrand::u64(..);
    let mut links = Vec::new();
    for name in 0..LINKS {
        links.push(tokio::spawn(async move {
            let mut random = Rng::with_seed(seed ^ name as u64);
            let mut sent = HashMap::new();
            let mut bytes = Vec::new();
            for number in 0..SENDS {
                let (id, body, frame) = checked_send(&mut random, name, number);
                sent.insert(id, body);
                bytes.extend(frame);
            }
            // Every other link breaks off in the middle of a frame that nobody may ever see.
            let whole = name % 2 == 0;
            if !whole {
                let (_, _, frame) = checked_send(&mut random, name, 999);
                bytes.extend(&frame[..random.usize(1..frame.len())]);
            }
            let mut link = Link::to(port).await;
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                let size = random.usize(1..=rest.len().min(3_000));
                link.write(&rest[..size]).await;
                rest = &rest[size..];
                tokio::task::yield_now().await;
            }
            let mut answered = Vec::new();
            while answered.len() < SENDS {
                let answer = link.answer().await.expect("an answer to each whole send");
                assert_eq!(answer.code, response::SUCCESS, "{answer:?}");
                answered.push(answer.opaque);
            }
            answered.sort_unstable();
            assert_eq!(answered, (0..SENDS as i32).collect::<Vec<_>>());
            sent
        }));
    }
    let mut sent = HashMap::new();
    for link in links {
        sent.extend(link.await.unwrap());
    }
    let stored = server.read_when(TOPIC, 0, (LINKS * SENDS) as i64).await;
    assert_eq!(stored.len(), LINKS * SENDS, "seed {seed}");
    for message in stored {
        let id = message.keys().unwrap();
        let body = sent.remove(id).unwrap_or_else(|| panic!("{id} twice or never sent: {seed}"));
        assert!(message.body_is_intact && message.body == body, "{id} has changed, seed {seed}");
    }
}

#[tokio::test]
async fn json_that_hints_at_types_is_only_data() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("mappedFileSizeCommitLog", "8388608")];
    let (process, ports) = standalone_with(folder.path(), &settings).unwrap();
    let mut link = Link::to(ports.listen()).await;
    let hint = r#""@type":"com.sun.rowset.JdbcRowSetImpl","dataSourceName":"rmi://h/x""#;
    // As fastjson writes it: names without quotes, single quotes, a value that is a number.
    let header = format!(
        "{{code:310,language:'JAVA',version:399,opaque:7,flag:0,{hint},\"$ref\":\"$.extFields\",\
         \"more\":[{{{hint}}},null,[1,2.5e3,true]],extFields:{{a:'g',b:'{TOPIC}',c:'TBW102',d:4,\
         e:'0',f:0,g:\"1\",h:'0',i:'KEYS\\u0001hinted',{hint},\"$ref\":\"..\"}}}}"
    );
    link.write(&json_frame(&header, b"hinted")).await;
    let answer = link.answer().await.unwrap();
    assert_eq!((answer.opaque, answer.code), (7, response::SUCCESS), "{answer:?}");

    let heartbeat = format!(
        r#"{{{hint},clientID:"hinted@1",'consumerDataSet':[{{"@type":"java.lang.Class",
        groupName:"hinted_group","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",
        "subscriptionDataSet":[{{topic:"{TOPIC}","subString":"*","$ref":"$",{hint}}}]}}],
        "producerDataSet":Set[],"$ref":"$.x"}}"#
    );
    let header = r#"{"code":34,"language":"JAVA","version":399,"opaque":8,"flag":0}"#;
    link.write(&json_frame(header, heartbeat.replace("Set[]", "[]").as_bytes())).await;
    let answer = link.answer().await.unwrap();
    assert_eq!((answer.opaque, answer.code), (8, response::SUCCESS), "{answer:?}");
    let one = client();
    let address = format!("127.0.0.1:{}", ports.listen());
    let ids = one.admin().consumer_ids(&address, "hinted_group").await.unwrap();
    assert_eq!(ids.consumer_id_list.len(), 1);

    // Long texts and deep nests: an answer or the end of the link, and no memory kept.
    let long = "x".repeat(10 << 20);
    let deep = "[".repeat(100_000);
    let deep_objects = r#"{"a":"#.repeat(100_000);
    let ports = [ports.listen(), ports.name_server()];
    for port in ports {
        for _ in 0..3 {
            for (code, body) in [(34, &long), (34, &deep), (34, &deep_objects), (103, &deep)] {
                let header = format!(r#"{{"code":{code},"opaque":9,"flag":0,"extFields":{{}}}}"#);
                let mut link = Link::to(port).await;
                link.write(&json_frame(&header, body.as_bytes())).await;
                if let Some(answer) = link.answer().await {
                    assert_ne!(answer.code, response::SUCCESS, "{code} with {:.20}", body);
                }
            }
            for extra in [&long, &deep, &deep_objects] {
                for header in [
                    format!(
                        r#"{{"code":105,"opaque":9,"flag":0,"extFields":{{"topic":"{long}"}}}}"#
                    ),
                    format!(r#"{{"code":105,"opaque":9,"flag":0,"more":{extra}"#),
                    format!(r#"{{"code":105,"opaque":9,"flag":0,"@type":"{extra}"}}"#),
                ] {
                    let mut link = Link::to(port).await;
                    link.write(&json_frame(&header, b"")).await;
                    if let Some(answer) = link.answer().await {
                        assert_ne!(answer.code, response::SUCCESS);
                        assert!(answer.remark.is_none_or(|remark| remark.len() < 10_000));
                    }
                }
            }
        }
    }
    until("the memory is given back", async || {
        let memory = process.anonymous_memory().unwrap() >> 20;
        (memory < 120).then_some(())
    })
    .await;
}

/// Every request code that is named, and some that are not.
fn codes() -> Vec<i32> {
    let named = (0..4_000).filter(|code| request::name(*code).is_some());
    // What clients never get answered, by the protocol: they are the broker's to send.
    named.chain([6, 99, 9_999, 32_767]).collect()
}

#[tokio::test]
async fn every_request_gets_exactly_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [("mappedFileSizeCommitLog", "8388608")];
    let (_process, ports) = standalone_with(folder.path(), &settings).unwrap();
    for port in [ports.listen(), ports.vip(), ports.name_server()] {
        for serialize in [Serialize::Json, Serialize::Binary] {
            for body in [&b""[..], b"{", b"\xFF\xFE garbage", b"null", b"[]"] {
                let mut link = Link::to(port).await;
                let mut asked = BTreeMap::new();
                for (opaque, code) in (1_000_i32..).zip(codes()) {
                    asked.insert(opaque, code);
                    link.write(&request_frame(code, opaque, serialize, body)).await;
                }
                let mut answers = Vec::new();
                while answers.len() < asked.len() {
                    let missing = || {
                        let got: Vec<i32> = answers.iter().map(|(opaque, _)| *opaque).collect();
                        let left = asked.iter().filter(|(opaque, _)| !got.contains(opaque));
                        left.map(|(_, code)| *code).collect::<Vec<_>>()
                    };
                    let answer = timeout(Duration::from_secs(20), link.answer()).await;
                    let Ok(Some(answer)) = answer else {
                        panic!("port {port}, body {body:?}: no answer to {:?}", missing());
                    };
                    let code = asked[&answer.opaque];
                    assert_eq!(answer.serialize, serialize, "request {code}");
                    if answer.code != response::SUCCESS {
                        let said = answer.remark.as_deref().unwrap_or_default();
                        assert!(!said.is_empty(), "no reason for refusing {code}: {answer:?}");
                    }
                    answers.push((answer.opaque, answer.code));
                }
                let counts = counted(answers.iter().map(|(opaque, _)| *opaque));
                assert!(counts.values().all(|count| *count == 1));
                for (opaque, code) in answers {
                    if [6, 99, 9_999, 32_767].contains(&asked[&opaque]) {
                        assert_eq!(code, response::REQUEST_CODE_NOT_SUPPORTED);
                    }
                }
                // Nothing more comes: the next answer is the next question's.
                link.write(&request_frame(9_999, 5, serialize, b"")).await;
                assert_eq!(link.answer().await.unwrap().opaque, 5);
            }
        }
    }
}

#[tokio::test]
async fn nobody_answers_a_request_that_wants_none() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut link = Link::to(server.broker.ports.listen()).await;
    for code in [request::SEND_MESSAGE_V2, request::PULL_MESSAGE, request::HEART_BEAT, 28, 9_999] {
        let head = RequestHead {
            code,
            opaque: 1,
            oneway: true,
            serialize: Serialize::Json,
            language: Language::Java,
            version: V4_9_3,
            short_names: true,
        };
        let mut bytes = Vec::new();
        let header = send_header(TOPIC, 0, "");
        encode_request(&mut bytes, &head, &header, 1);
        bytes.push(b'x');
        link.write(&bytes).await;
    }
    link.write(&request_frame(28, 2, Serialize::Json, b"")).await;
    assert_eq!(link.answer().await.unwrap().opaque, 2);
    // The send was done all the same.
    assert_eq!(server.read_when(TOPIC, 0, 1).await.len(), 1);
}

#[tokio::test]
async fn a_broker_that_dies_closes_what_it_has_not_answered() {
    let mut server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let sending = client();
    let producer = crate::support::producer(&sending);
    let to = server.queue(0);
    let flood = tokio::spawn(async move {
        let mut stored = 0_i64;
        loop {
            match producer.send_to(&to, &Message::new(TOPIC, vec![0; 500])).await {
                Ok(_) => stored += 1,
                Err(error) => return (stored, error),
            }
        }
    });
    server.read_when(TOPIC, 0, 50).await;
    server.kill().await;
    let (stored, error) = flood.await.unwrap();
    assert!(
        matches!(
            error,
            broker_client::ClientError::Closed { .. } | broker_client::ClientError::Connect { .. }
        ),
        "{error}"
    );
    server.restart();
    let there = server.read_when(TOPIC, 0, stored).await;
    assert!(there.len() as i64 - stored <= 1, "{} of {stored}", there.len());
}

#[tokio::test]
async fn an_overloaded_broker_says_so_to_each_request() {
    const REQUESTS: i32 = 2_000;
    let server = Server::start(&[("adminQueueCapacity", "1")]);
    let mut link = Link::to(server.broker.ports.listen()).await;
    let mut bytes = Vec::new();
    for opaque in 0..REQUESTS {
        bytes.extend(request_frame(request::GET_ALL_TOPIC_CONFIG, opaque, Serialize::Json, b""));
    }
    link.write(&bytes).await;
    let mut busy = 0;
    let mut answered = Vec::new();
    for _ in 0..REQUESTS {
        let answer = link.answer().await.unwrap();
        answered.push(answer.opaque);
        match answer.code {
            response::SUCCESS => {}
            response::SYSTEM_BUSY => {
                assert!(answer.remark.unwrap().contains("busy"));
                busy += 1;
            }
            other => panic!("code {other}: {:?}", answer.remark),
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..REQUESTS).collect::<Vec<_>>());
    assert!(busy > 0, "a queue of one was never full");
    // Once it is quiet all is well, and messages are not held up at all.
    server.topic(TOPIC, 1).await;
    server.send(0, &Message::new(TOPIC, "x")).await;
}

#[tokio::test]
async fn clients_that_do_not_read_cost_little_and_hold_up_nobody() {
    let server = Server::start(&[("mappedFileSizeCommitLog", "33554432")]);
    server.topic(TOPIC, 1).await;
    for _ in 0..32 {
        server.send(0, &Message::new(TOPIC, vec![b'x'; 8_000])).await;
    }
    server.read_when(TOPIC, 0, 32).await;
    let process = server.broker.process.as_ref().unwrap();
    let before = process.anonymous_memory().unwrap();
    // Four gigabytes, if all of it were answered.
    let mut links = Vec::new();
    for _ in 0..20 {
        let mut link = Link::to(server.broker.ports.listen()).await;
        links.push(tokio::spawn(async move {
            let pull = [
                ("consumerGroup", "reader"),
                ("topic", TOPIC),
                ("queueId", "0"),
                ("queueOffset", "0"),
                ("maxMsgNums", "32"),
                ("sysFlag", "4"),
                ("commitOffset", "0"),
                ("suspendTimeoutMillis", "0"),
                ("subscription", "*"),
                ("subVersion", "0"),
            ];
            let head = RequestHead {
                code: request::PULL_MESSAGE,
                opaque: 1,
                oneway: false,
                serialize: Serialize::Json,
                language: Language::Java,
                version: V4_9_3,
                short_names: false,
            };
            let mut bytes = Vec::new();
            for _ in 0..800 {
                encode_request(&mut bytes, &head, &pull[..], 0);
            }
            let _held_up = timeout(Duration::from_secs(3), link.write(&bytes)).await;
            link
        }));
    }
    let began = std::time::Instant::now();
    let mut kept = Vec::new();
    for link in links {
        kept.push(link.await.unwrap());
    }
    for _ in 0..50 {
        server.send(0, &Message::new(TOPIC, "others")).await;
    }
    assert!(began.elapsed() < Duration::from_secs(20), "others wait: {:?}", began.elapsed());
    let grown = process.anonymous_memory().unwrap().saturating_sub(before) >> 20;
    assert!(grown < 100, "{grown} MiB for 20 clients that do not read");
    drop(kept);
    until("their links are gone", async || {
        (server.metric("tandem_connections ") <= 2.0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn answers_that_nobody_asked_for_are_dropped() {
    let server = Server::start(&[]);
    let mut link = Link::to(server.broker.ports.listen()).await;
    for flag in [1, 3] {
        let header = format!(r#"{{"code":0,"language":"JAVA","opaque":77,"flag":{flag}}}"#);
        link.write(&json_frame(&header, b"what?")).await;
    }
    link.write(&request_frame(28, 2, Serialize::Json, b"")).await;
    assert_eq!(link.answer().await.unwrap().opaque, 2);
}

#[tokio::test]
async fn headers_of_any_client_are_read() {
    let server = Server::start(&[]);
    server.topic(TOPIC, 1).await;
    let mut link = Link::to(server.broker.ports.listen()).await;
    let fields = format!(
        r#""a":"g","b":"{TOPIC}","c":"TBW102","d":"4","e":"0","f":"0","g":"1","h":"0","i":"KEYS\u0001k\u0002名\u0001字""#
    );
    let headers = [
        // Languages, versions and flags of the future; numbers as text; names in any order.
        format!(
            r#"{{"extFields":{{{fields}}},"flag":0,"opaque":1,"version":99999,"language":"COBOL","code":310}}"#
        ),
        format!(
            r#"{{"code":"310","language":null,"version":"399","opaque":"2","flag":"0","extFields":{{{fields}}}}}"#
        ),
        format!(
            r#"{{"code":310,"opaque":3,"extFields":{{{fields},"m":"false","n":"broker-a","new":"?"}},"remark":"hello","serializeTypeCurrentRPC":"ROCKETMQ"}}"#
        ),
        format!("\t{{ \"code\" : 310 ,\n\"opaque\" : 4 , \"extFields\" : {{ {fields} }} }} "),
    ];
    for (opaque, header) in (1..).zip(headers) {
        link.write(&json_frame(&header, b"x")).await;
        let answer = link.answer().await.unwrap_or_else(|| panic!("closed by {header}"));
        assert_eq!((answer.opaque, answer.code), (opaque, response::SUCCESS), "{answer:?}");
    }
    let stored = server.read_when(TOPIC, 0, 4).await;
    assert!(stored.iter().all(|message| message.property("名") == Some("字")));
}
