//! Prints what the codec costs on the hot path: reading a captured send of 1 KiB and writing its
//! answer, in nanoseconds each. `cargo run --release -p broker-protocol --example codec_cost`;
//! under an instruction counter pass the number of rounds: `codec_cost 100000`.

use std::hint::black_box;
use std::time::Instant;

use broker_protocol::code::response;
use broker_protocol::frame::{Frame, ReplyHead, Serialize, encode_response};
use broker_protocol::header::Header;
use broker_protocol::request::pull::{PullMessage, PullMessageResponse};
use broker_protocol::request::send::{SendMessage, SendMessageResponse};

const SEND: &str = "{\"code\":310,\"extFields\":{\"a\":\"frames_producer\",\"b\":\"Frames\",\
    \"c\":\"TBW102\",\"d\":\"4\",\"e\":\"2\",\"f\":\"0\",\"g\":\"1796038682395\",\"h\":\"0\",\
    \"i\":\"KEYS\\u0001k1 k2\\u0002UNIQ_KEY\\u0001FD000000000000000000000000000002568730946E0997\
    D77F160000\\u0002WAIT\\u0001true\\u0002TAGS\\u0001TagA\",\"j\":\"0\",\"k\":\"false\",\
    \"m\":\"false\"},\"flag\":0,\"language\":\"JAVA\",\"opaque\":7,\
    \"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}";

const PULL: &str = "{\"code\":11,\"extFields\":{\"queueId\":\"3\",\"maxMsgNums\":\"32\",\
    \"sysFlag\":\"4\",\"suspendTimeoutMillis\":\"3000\",\"commitOffset\":\"0\",\
    \"topic\":\"Frames\",\"queueOffset\":\"0\",\"expressionType\":\"TAG\",\"subscription\":\"*\",\
    \"subVersion\":\"0\",\"consumerGroup\":\"frames_pull\"},\"flag\":0,\"language\":\"JAVA\",\
    \"opaque\":37,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":399}";

fn framed(header: &str, body: usize) -> Vec<u8> {
    let number = |length: usize| u32::try_from(length).unwrap_or(0).to_be_bytes();
    let mut frame = number(4 + header.len() + body).to_vec();
    frame.extend_from_slice(&number(header.len()));
    frame.extend_from_slice(header.as_bytes());
    frame.resize(frame.len() + body, b'x');
    frame
}

/// Runs `round` so many times in 100 batches; prints the mean of the best batch, for what else the
/// machine does can only add.
#[expect(clippy::print_stdout, reason = "that is what the program is for")]
fn measure(what: &str, rounds: u32, mut round: impl FnMut()) {
    let batch = (rounds / 100).max(1);
    let mut best = f64::INFINITY;
    for _ in 0..100 {
        let begin = Instant::now();
        for _ in 0..batch {
            round();
        }
        best = best.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(batch));
    }
    println!("{what}: {best:.0} ns");
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let send = framed(SEND, 1024);
    let pull = framed(PULL, 0);
    // Parsing rewrites its buffer, so each round gets a fresh copy; its cost is the first line.
    let mut buffer = send.clone();
    measure("copy of the send frame", rounds, || {
        buffer.copy_from_slice(&send);
        black_box(&mut buffer);
    });
    measure("copy, parse and decode of a send", rounds, || {
        buffer.copy_from_slice(&send);
        let frame = Frame::parse(black_box(&mut buffer));
        black_box(frame.map(|frame| frame.ext.decode::<SendMessage<'_>>())).ok();
    });
    let mut buffer = pull.clone();
    measure("copy, parse and decode of a pull", rounds, || {
        buffer.copy_from_slice(&pull);
        let frame = Frame::parse(black_box(&mut buffer));
        black_box(frame.map(|frame| frame.ext.decode::<PullMessage<'_>>())).ok();
    });
    measure_answers(rounds);
}

fn measure_answers(rounds: u32) {
    let sent = SendMessageResponse {
        queue_id: 2,
        trace_on: Some("true".into()),
        msg_region: Some("DefaultRegion".into()),
        msg_id: "7F000001000036570000000000000000".into(),
        queue_offset: 123_456,
        transaction_id: None,
        batch_uniq_id: None,
        recall_handle: None,
    };
    let pulled = PullMessageResponse {
        suggest_which_broker_id: 0,
        next_begin_offset: 123_456,
        max_offset: 123_457,
        min_offset: 0,
        offset_delta: None,
        topic_sys_flag: None,
        group_sys_flag: None,
        forbidden_type: None,
    };
    for serialize in [Serialize::Json, Serialize::Binary] {
        answer(&format!("{serialize:?} answer to a send"), rounds, serialize, None, &sent);
        answer(
            &format!("{serialize:?} answer to a pull"),
            rounds,
            serialize,
            Some("FOUND"),
            &pulled,
        );
    }
}

fn answer<H: Header>(
    what: &str,
    rounds: u32,
    serialize: Serialize,
    remark: Option<&str>,
    header: &H,
) {
    let mut out = Vec::with_capacity(1024);
    let reply = ReplyHead { opaque: 7, serialize };
    measure(what, rounds, || {
        out.clear();
        let header = black_box(header);
        encode_response(&mut out, black_box(&reply), response::SUCCESS, remark, header, 0);
        black_box(&mut out);
    });
}
