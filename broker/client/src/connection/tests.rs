//! A scripted server on a real socket: what it sends when, and what callers see.

use std::sync::mpsc::sync_channel;

use broker_protocol::code::{request, response};
use broker_protocol::frame::{Frame, ReplyHead, encode_response, frame_size};
use broker_protocol::header::NoHeader;
use broker_protocol::request::offset::{GetMaxOffset, OffsetResponse};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;

/// What the server reads from a request.
#[derive(Debug, PartialEq)]
struct Asked {
    code: i32,
    opaque: i32,
    is_response: bool,
    is_oneway: bool,
    remark: Option<String>,
    body: Vec<u8>,
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

async fn read_frame(socket: &mut TcpStream) -> Asked {
    let mut bytes = vec![0; 4];
    socket.read_exact(&mut bytes).await.unwrap();
    bytes.resize(frame_size(&bytes).unwrap().unwrap(), 0);
    socket.read_exact(&mut bytes[4..]).await.unwrap();
    let frame = Frame::parse(&mut bytes).unwrap();
    Asked {
        code: frame.head.code,
        opaque: frame.head.opaque,
        is_response: frame.head.is_response(),
        is_oneway: frame.head.is_oneway(),
        remark: frame.head.remark.as_deref().map(str::to_owned),
        body: frame.body.to_vec(),
    }
}

fn answer<H: Header>(opaque: i32, code: i32, remark: Option<&str>, header: &H) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reply = ReplyHead { opaque, serialize: Serialize::Json };
    encode_response(&mut bytes, &reply, code, remark, header, 0);
    bytes
}

fn server_request(opaque: i32, oneway: bool) -> Vec<u8> {
    let head = RequestHead {
        code: request::NOTIFY_CONSUMER_IDS_CHANGED,
        opaque,
        oneway,
        serialize: Serialize::Json,
        language: Language::Java,
        version: version::V4_9_3,
        short_names: false,
    };
    let mut bytes = Vec::new();
    encode_request(&mut bytes, &head, &[("consumerGroup", "g")][..], 0);
    bytes
}

fn question(queue_id: i32) -> GetMaxOffset<'static> {
    GetMaxOffset { topic: "T".into(), queue_id, committed: None }
}

#[tokio::test]
async fn answers_find_their_callers_in_any_order() {
    for serialize in [Serialize::Json, Serialize::Binary] {
        let (listener, address) = listen().await;
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let first = read_frame(&mut socket).await;
            let second = read_frame(&mut socket).await;
            for asked in [second, first] {
                let header = OffsetResponse { offset: i64::from(asked.opaque) };
                let bytes = answer(asked.opaque, 0, None, &header);
                socket.write_all(&bytes).await.unwrap();
            }
            socket
        });
        let options = ConnectionOptions { serialize, ..ConnectionOptions::default() };
        let connection = Connection::connect(&address, options).await.unwrap();
        let call = |queue_id| {
            let connection = connection.clone();
            async move {
                let header = question(queue_id);
                connection.call(request::GET_MAX_OFFSET, &header, &[]).await.unwrap()
            }
        };
        let (mut one, mut other) = tokio::join!(call(0), call(1));
        assert_eq!(one.header::<OffsetResponse>().unwrap().offset, 0);
        assert_eq!(other.header::<OffsetResponse>().unwrap().offset, 1);
        assert_eq!(other.fields(), [("offset".to_owned(), "1".to_owned())]);
        drop(server.await.unwrap());
        connection.closed().await;
    }
}

#[tokio::test]
async fn refusals_carry_code_and_remark() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let asked = read_frame(&mut socket).await;
        let code = response::TOPIC_NOT_EXIST;
        let bytes = answer(asked.opaque, code, Some("no \"such\" topic"), &NoHeader);
        socket.write_all(&bytes).await.unwrap();
        socket
    });
    let connection = Connection::connect(&address, ConnectionOptions::default()).await.unwrap();
    let reply = connection.call(request::GET_MAX_OFFSET, &question(0), &[]).await.unwrap();
    let error = reply.accepted(request::GET_MAX_OFFSET).unwrap_err();
    assert!(error.is_topic_missing());
    assert_eq!(
        error.to_string(),
        format!("{address} refused request 30 with code 17: no \"such\" topic")
    );
    server.await.unwrap();
}

#[tokio::test]
async fn waiting_ends_in_time_and_late_answers_are_dropped() {
    let (listener, address) = listen().await;
    let (proceed, gate) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let late = read_frame(&mut socket).await;
        gate.await.unwrap();
        let prompt = read_frame(&mut socket).await;
        for asked in [late, prompt] {
            let header = OffsetResponse { offset: i64::from(asked.opaque) };
            socket.write_all(&answer(asked.opaque, 0, None, &header)).await.unwrap();
        }
        socket
    });
    let connection = Connection::connect(&address, ConnectionOptions::default()).await.unwrap();
    let within = Duration::from_millis(30);
    let code = request::GET_MAX_OFFSET;
    let error = connection.call_within(code, &question(0), &[], within).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout { code: 30, .. }), "{error}");
    assert!(connection.0.core.calls.lock().waiting.is_empty(), "nothing leaks");
    proceed.send(()).unwrap();
    let mut reply = connection.call(code, &question(1), &[]).await.unwrap();
    assert_eq!(reply.header::<OffsetResponse>().unwrap().offset, 1);
    server.await.unwrap();
}

#[tokio::test]
async fn a_lost_connection_fails_waiting_and_later_calls() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_frame(&mut socket).await;
    });
    let connection = Connection::connect(&address, ConnectionOptions::default()).await.unwrap();
    let code = request::GET_MAX_OFFSET;
    let error = connection.call(code, &question(0), &[]).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");
    server.await.unwrap();
    connection.closed().await;
    assert!(!connection.is_open());
    let error = connection.call(code, &question(0), &[]).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");
}

#[tokio::test]
async fn bytes_that_are_no_frames_close_the_connection() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n").await.unwrap();
        socket
    });
    let connection = Connection::connect(&address, ConnectionOptions::default()).await.unwrap();
    connection.closed().await;
    let code = request::GET_MAX_OFFSET;
    let error = connection.call(code, &question(0), &[]).await.unwrap_err().to_string();
    assert!(error.contains("bad frame"), "{error}");
    server.await.unwrap();
}

#[tokio::test]
async fn requests_of_the_server_are_answered_unless_oneway() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.write_all(&server_request(7, true)).await.unwrap();
        socket.write_all(&server_request(8, false)).await.unwrap();
        read_frame(&mut socket).await
    });
    let (seen, requests) = sync_channel(8);
    let handler = move |request: ServerRequest| {
        seen.send((request.code, request.field("consumerGroup").map(str::to_owned))).unwrap();
        Some(ServerAnswer { code: 1, remark: Some("no".to_owned()), body: b"body".to_vec() })
    };
    let options =
        ConnectionOptions { handler: Some(Arc::new(handler)), ..ConnectionOptions::default() };
    let _connection = Connection::connect(&address, options).await.unwrap();
    let answer = server.await.unwrap();
    assert_eq!(
        answer,
        Asked {
            code: 1,
            opaque: 8,
            is_response: true,
            is_oneway: false,
            remark: Some("no".to_owned()),
            body: b"body".to_vec(),
        }
    );
    for _ in 0..2 {
        assert_eq!(requests.recv().unwrap(), (40, Some("g".to_owned())));
    }
}

#[tokio::test]
async fn oneway_requests_say_so_and_frames_above_the_limit_are_refused() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_frame(&mut socket).await
    });
    let connection = Connection::connect(&address, ConnectionOptions::default()).await.unwrap();
    let huge = vec![0; broker_protocol::limits::FRAME_MAX];
    let code = request::UPDATE_CONSUMER_OFFSET;
    let error = connection.oneway(code, &NoHeader, &huge).await.unwrap_err();
    assert!(matches!(error, ClientError::Invalid(_)), "{error}");
    connection.oneway(code, &NoHeader, b"x").await.unwrap();
    let asked = server.await.unwrap();
    assert!(asked.is_oneway && asked.body == b"x");
}

#[tokio::test]
async fn nobody_listening_is_said_clearly() {
    let (listener, address) = listen().await;
    drop(listener);
    let error = Connection::connect(&address, ConnectionOptions::default()).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("connect to {address}: ")), "{error}");
}
