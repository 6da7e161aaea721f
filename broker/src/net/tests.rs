//! Raw frames over real sockets against a small role.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream as Socket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use broker_protocol::frame::{
    Frame, RequestHead, Serialize, encode_request, encode_response, frame_size,
};
use broker_protocol::header::NoHeader;
use broker_protocol::version;
use bytes::Bytes;
use parking_lot::Mutex;

use super::*;

/// Answers with the request's body.
const ECHO: i32 = 1;
/// Answers with the request's body in slices of 1000 bytes.
const SLICES: i32 = 2;
/// Answers from another thread.
const LATER: i32 = 3;
/// Drops the duty to answer.
const DROP: i32 = 4;
/// Does nothing at all.
const NOTHING: i32 = 5;
/// Asks the client back, and answers with what it said.
const CALL: i32 = 6;
/// Answers with as many bytes as the body says, from a shared buffer.
const GIVE: i32 = 7;

#[derive(Default)]
struct TestRole {
    handled: AtomicUsize,
    closed: Mutex<Vec<u64>>,
}

impl Role for TestRole {
    fn handle(&self, peer: &Arc<Peer>, request: Frame<'_>, reply: &mut Reply<'_>) {
        self.handled.fetch_add(1, Ordering::SeqCst);
        match request.head.code {
            ECHO => reply.with_body(0, None, &NoHeader, request.body),
            SLICES => {
                let slices = request.body.chunks(1000).map(Bytes::copy_from_slice).collect();
                reply.with_slices(0, None, &NoHeader, slices);
            }
            LATER => {
                let body = Bytes::copy_from_slice(request.body);
                let later = reply.later();
                std::thread::spawn(move || later.with_slices(0, None, &NoHeader, vec![body]));
            }
            DROP => drop(reply.later()),
            CALL => {
                let (peer, later) = (Arc::clone(peer), reply.later());
                tokio::spawn(async move {
                    let timeout = Duration::from_millis(300);
                    match peer.request(77, &NoHeader, b"you?".to_vec(), timeout).await {
                        Ok(mut frame) => later.answer(Answer::ok_body(frame.frame().body.to_vec())),
                        Err(error) => later.error(9, &error.to_string()),
                    }
                });
            }
            GIVE => {
                let size: usize = std::str::from_utf8(request.body).unwrap().parse().unwrap();
                let page = Bytes::from(vec![b'x'; 1 << 16]);
                let pieces = (0..size).step_by(1 << 16);
                let body = pieces.map(|at| page.slice(..(size - at).min(1 << 16))).collect();
                reply.with_slices(0, None, &NoHeader, body);
            }
            _ => {}
        }
    }

    fn closed(&self, peer: &Arc<Peer>) {
        assert!(!peer.is_alive());
        self.closed.lock().push(peer.id);
    }
}

struct Server {
    runtime: tokio::runtime::Runtime,
    serving: Option<Serving>,
    role: Arc<TestRole>,
}

impl Server {
    fn start(limits: Limits) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let role = Arc::new(TestRole::default());
        let serving = runtime.block_on(async {
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), limits).unwrap();
            listener.serve(Arc::clone(&role))
        });
        Server { runtime, serving: Some(serving), role }
    }

    fn connect(&self) -> Socket {
        let socket = Socket::connect(self.serving.as_ref().unwrap().address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.serving.take();
    }
}

fn request(code: i32, opaque: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let head = RequestHead {
        code,
        opaque,
        oneway: false,
        serialize: if opaque % 2 == 0 { Serialize::Json } else { Serialize::Binary },
        language: version::Language::Rust,
        version: version::V4_9_3,
        short_names: false,
    };
    encode_request(&mut frame, &head, &NoHeader, body.len());
    frame.extend_from_slice(body);
    frame
}

struct Received {
    code: i32,
    opaque: i32,
    serialize: Serialize,
    body: Vec<u8>,
}

fn receive(socket: &mut Socket) -> std::io::Result<Received> {
    let mut bytes = vec![0; 8];
    socket.read_exact(&mut bytes)?;
    let size = frame_size(&bytes).unwrap().unwrap();
    bytes.resize(size, 0);
    socket.read_exact(&mut bytes[8..])?;
    let frame = Frame::parse(&mut bytes).unwrap();
    Ok(Received {
        code: frame.head.code,
        opaque: frame.head.opaque,
        serialize: frame.head.serialize,
        body: frame.body.to_vec(),
    })
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Bytes that differ from place to place.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.u8(..)).collect()
}

#[test]
fn pipelined_requests_are_answered_in_order_however_they_are_cut() {
    let server = Server::start(Limits::default());
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut socket = server.connect();
    let bodies: Vec<Vec<u8>> = (0..300).map(|at| noise(random.usize(..3000), seed ^ at)).collect();
    let mut bytes = Vec::new();
    for (opaque, body) in bodies.iter().enumerate() {
        let code = if opaque % 3 == 0 { SLICES } else { ECHO };
        bytes.extend(request(code, opaque as i32, body));
    }
    let mut writer = socket.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(random.usize(1..=rest.len().min(9000)));
            writer.write_all(now).unwrap();
            rest = later;
        }
    });
    for (opaque, body) in bodies.iter().enumerate() {
        let answer = receive(&mut socket).unwrap();
        assert_eq!((answer.code, answer.opaque), (0, opaque as i32));
        assert_eq!(answer.serialize == Serialize::Json, opaque % 2 == 0);
        assert!(answer.body == *body, "body of {opaque}");
    }
    writing.join().unwrap();
}

#[test]
fn a_frame_larger_than_any_buffer_arrives_whole() {
    let server = Server::start(Limits::default());
    let mut socket = server.connect();
    let body = noise(5_000_000, 1);
    let mut writer = socket.try_clone().unwrap();
    let frame = request(ECHO, 1, &body);
    let writing = std::thread::spawn(move || {
        for piece in frame.chunks(33_333) {
            writer.write_all(piece).unwrap();
        }
        writer.write_all(&request(ECHO, 2, b"next")).unwrap();
    });
    assert!(receive(&mut socket).unwrap().body == body);
    assert_eq!(receive(&mut socket).unwrap().body, b"next");
    writing.join().unwrap();
}

#[test]
fn bytes_that_are_no_frame_close_the_link_and_harm_nobody() {
    let server = Server::start(Limits::default());
    let mut good = server.connect();
    let hostile: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC],
        &[0xFF; 4],
        &[0x01, 0, 0, 1],
        &[0, 0, 0, 2, 0, 0],
        // A header longer than its frame.
        &[0, 0, 0, 8, 0, 0, 1, 0, b'{', b'}', 0, 0],
    ];
    for bytes in hostile {
        let mut socket = server.connect();
        socket.write_all(bytes).unwrap();
        let mut buffer = [0; 64];
        match socket.read(&mut buffer) {
            Ok(count) => assert_eq!(count, 0, "{bytes:?}"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    good.write_all(&request(ECHO, 1, b"still here")).unwrap();
    assert_eq!(receive(&mut good).unwrap().body, b"still here");
    assert_eq!(server.role.handled.load(Ordering::SeqCst), 1);
}

#[test]
fn answers_given_later_carry_their_own_opaque() {
    let server = Server::start(Limits::default());
    let mut socket = server.connect();
    for opaque in 0..200 {
        socket.write_all(&request(LATER, opaque, &opaque.to_be_bytes())).unwrap();
    }
    let mut seen = HashSet::new();
    for _ in 0..200 {
        let answer = receive(&mut socket).unwrap();
        assert_eq!(answer.body, answer.opaque.to_be_bytes());
        assert!(seen.insert(answer.opaque));
    }
}

#[test]
fn a_request_that_is_dropped_or_forgotten_is_answered_with_an_error() {
    let server = Server::start(Limits::default());
    let mut socket = server.connect();
    for (opaque, code) in [(1, DROP), (2, NOTHING)] {
        socket.write_all(&request(code, opaque, b"")).unwrap();
        let answer = receive(&mut socket).unwrap();
        assert_eq!((answer.code, answer.opaque), (1, opaque));
    }
}

#[test]
fn the_broker_asks_a_client_and_hears_its_answer() {
    let server = Server::start(Limits::default());
    let mut socket = server.connect();
    socket.write_all(&request(CALL, 5, b"")).unwrap();
    let asked = receive(&mut socket).unwrap();
    assert_eq!((asked.code, &asked.body[..]), (77, &b"you?"[..]));
    let mut answer = Vec::new();
    let head =
        broker_protocol::frame::ReplyHead { opaque: asked.opaque, serialize: Serialize::Json };
    encode_response(&mut answer, &head, 0, None, &NoHeader, 2);
    answer.extend_from_slice(b"me");
    socket.write_all(&answer).unwrap();
    let said = receive(&mut socket).unwrap();
    assert_eq!((said.code, said.opaque, &said.body[..]), (0, 5, &b"me"[..]));

    // This time the client says nothing.
    socket.write_all(&request(CALL, 6, b"")).unwrap();
    let _asked = receive(&mut socket).unwrap();
    let said = receive(&mut socket).unwrap();
    assert_eq!((said.code, said.opaque), (9, 6));
}

#[test]
fn a_peer_that_does_not_read_is_not_read_from() {
    let server = Server::start(Limits::default());
    let mut socket = server.connect();
    let give = 200_000;
    let asked = 400;
    let mut writer = socket.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        for opaque in 0..asked {
            writer.write_all(&request(GIVE, opaque, give.to_string().as_bytes())).unwrap();
        }
    });
    // 80 MB are asked for; what the sockets don't take must not pile up here.
    wait_until("some are handled", || server.role.handled.load(Ordering::SeqCst) > 0);
    // While another peer is served many times, the first has every chance to be handled on.
    let mut other = server.connect();
    for opaque in 0..1000 {
        other.write_all(&request(ECHO, opaque, b"x")).unwrap();
        receive(&mut other).unwrap();
    }
    let handled = server.role.handled.load(Ordering::SeqCst) - 1000;
    assert!(handled < 200, "{handled} requests were handled for a peer that reads nothing");
    for opaque in 0..asked {
        let answer = receive(&mut socket).unwrap();
        assert_eq!((answer.opaque, answer.body.len()), (opaque, give));
    }
    writing.join().unwrap();
}

#[test]
fn a_gone_peer_is_told_of_once_and_refuses_frames() {
    let server = Server::start(Limits::default());
    let mut socket = server.connect();
    socket.write_all(&request(ECHO, 1, b"x")).unwrap();
    receive(&mut socket).unwrap();
    drop(socket);
    wait_until("the role hears of the close", || !server.role.closed.lock().is_empty());
    wait_until("the table is empty", || server.serving.as_ref().unwrap().connections() == 0);
    assert_eq!(server.role.closed.lock().len(), 1);
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let server = Server::start(Limits { connections_max: 2, ..Limits::default() });
    let mut held = [server.connect(), server.connect()];
    for (socket, opaque) in held.iter_mut().zip(0..) {
        socket.write_all(&request(ECHO, opaque, b"x")).unwrap();
        receive(socket).unwrap();
    }
    let mut third = server.connect();
    let refused = third.write_all(&request(ECHO, 3, b"x")).is_err() || receive(&mut third).is_err();
    assert!(refused);
    drop(held);
    wait_until("the table is empty", || server.serving.as_ref().unwrap().connections() == 0);
    let mut fourth = server.connect();
    fourth.write_all(&request(ECHO, 4, b"x")).unwrap();
    assert_eq!(receive(&mut fourth).unwrap().opaque, 4);
}

#[test]
fn a_silent_connection_is_closed_and_a_busy_one_is_not() {
    let idle_time = Duration::from_millis(240);
    let server = Server::start(Limits { idle_time, ..Limits::default() });
    let mut busy = server.connect();
    let mut silent = server.connect();
    let start = Instant::now();
    let closing = std::thread::spawn(move || {
        let ended = silent.read(&mut [0; 1]);
        (ended, start.elapsed())
    });
    while !closing.is_finished() {
        busy.write_all(&request(ECHO, 1, b"x")).unwrap();
        receive(&mut busy).unwrap();
    }
    let (ended, after) = closing.join().unwrap();
    assert!(matches!(ended, Ok(0)), "{ended:?}");
    assert!(after >= idle_time, "{after:?}");
    busy.write_all(&request(ECHO, 1, b"x")).unwrap();
    receive(&mut busy).unwrap();
}

#[test]
fn a_finishing_connection_writes_what_it_has_first() {
    let server = Server::start(Limits::default());
    let mut socket = server.connect();
    let mut idle = server.connect();
    let give = 3_000_000;
    socket.write_all(&request(GIVE, 1, give.to_string().as_bytes())).unwrap();
    wait_until("it is handled", || server.role.handled.load(Ordering::SeqCst) == 1);
    let reading = std::thread::spawn(move || {
        let answer = receive(&mut socket).unwrap();
        (answer.body.len(), socket.read(&mut [0; 1]).unwrap())
    });
    let serving = server.serving.as_ref().unwrap();
    server.runtime.block_on(serving.finish(Duration::from_secs(20)));
    assert_eq!(reading.join().unwrap(), (give, 0));
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(serving.connections(), 0);
}

#[test]
fn unfinished_frames_of_all_peers_together_are_bounded() {
    let server = Server::start(Limits { partial_bytes_max: 3_000_000, ..Limits::default() });
    let mut good = server.connect();
    // Each promises 8 MB and stops after one.
    let mut start = 8_000_000_u32.to_be_bytes().to_vec();
    start.extend_from_slice(&[0, 0, 0, 2, b'{', b'}']);
    start.resize(1_000_000, 7);
    let mut hostile: Vec<Socket> = (0..5)
        .map(|_| {
            let mut socket = server.connect();
            // The ones that are too many may be closed before they are done.
            let _ = socket.write_all(&start);
            socket
        })
        .collect();
    let is_closed = |socket: &mut Socket| {
        socket.set_nonblocking(true).unwrap();
        match socket.read(&mut [0; 1]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    wait_until("two are closed, for all five are too many", || {
        hostile.iter_mut().filter_map(|socket| is_closed(socket).then_some(())).count() >= 2
    });
    good.write_all(&request(ECHO, 1, b"small and whole")).unwrap();
    assert_eq!(receive(&mut good).unwrap().body, b"small and whole");
    // What the others kept is given back with them.
    hostile.clear();
    wait_until("only one is left", || server.serving.as_ref().unwrap().connections() == 1);
    good.write_all(&request(ECHO, 2, &noise(2_900_000, 2))).unwrap();
    assert_eq!(receive(&mut good).unwrap().body.len(), 2_900_000);
}
