//! The reading side: cuts the byte stream into frames and hands them on.

use std::sync::Arc;

use broker_protocol::frame::{Frame, ReplyHead, encode_response, frame_size};
use broker_protocol::header::NoHeader;
use broker_protocol::limits::{FRAME_LENGTH_BYTES, FRAME_PREFIX_BYTES, HEADER_MAX};
use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::mpsc;

use super::Core;
use super::reply::{Reply, ServerRequest, fields_of};

/// Room that is made for each read.
const READ_BYTES: usize = 64 * 1024;

/// The reader task: ends with the connection, and says why.
pub(super) async fn read_frames(
    core: Arc<Core>,
    mut socket: OwnedReadHalf,
    outgoing: mpsc::WeakSender<Vec<u8>>,
) {
    let mut buffer = BytesMut::new();
    loop {
        match frame_size(&buffer) {
            Ok(Some(size)) if size <= buffer.len() => {
                let frame = buffer.split_to(size).freeze();
                if let Err(reason) = hand_on(&core, frame, &outgoing) {
                    return core.close(&reason);
                }
                continue;
            }
            Ok(Some(size)) => buffer.reserve(size - buffer.len()),
            Ok(None) => buffer.reserve(READ_BYTES),
            Err(error) => return core.close(&format!("bad frame: {error}")),
        }
        match socket.read_buf(&mut buffer).await {
            Ok(0) => return core.close("the peer closed it"),
            Ok(_) => {}
            Err(error) => return core.close(&format!("read: {error}")),
        }
    }
}

/// Gives one whole frame to the caller that waits for it, or to the handler.
fn hand_on(core: &Core, frame: Bytes, outgoing: &mpsc::WeakSender<Vec<u8>>) -> Result<(), String> {
    let (head, body) = split(&frame).ok_or("a frame shorter than its header")?;
    let mut scratch = head.clone();
    let parsed = Frame::parse(&mut scratch).map_err(|error| format!("bad frame: {error}"))?;
    let opaque = parsed.head.opaque;
    if parsed.head.is_response() {
        let reply = Reply {
            code: parsed.head.code,
            remark: parsed.head.remark.as_deref().map(str::to_owned),
            body,
            head,
            scratch: Vec::new(),
            address: core.address.clone(),
        };
        core.answered(opaque, reply);
        return Ok(());
    }
    let reply_head = ReplyHead { opaque, serialize: parsed.head.serialize };
    let request = ServerRequest {
        code: parsed.head.code,
        oneway: parsed.head.is_oneway(),
        fields: fields_of(&parsed),
        body,
        address: core.address.clone(),
    };
    let oneway = request.oneway;
    let Some(handler) = core.options.handler.as_deref() else {
        tracing::debug!(code = request.code, "no handler for a request of the server");
        return Ok(());
    };
    let Some(answer) = handler(request) else { return Ok(()) };
    if oneway {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(256 + answer.body.len());
    let remark = answer.remark.as_deref();
    encode_response(&mut bytes, &reply_head, answer.code, remark, &NoHeader, answer.body.len());
    bytes.extend_from_slice(&answer.body);
    if let Some(outgoing) = outgoing.upgrade()
        && outgoing.try_send(bytes).is_err()
    {
        // The server repeats what matters; waiting here would stop every other answer.
        tracing::warn!(address = core.address, "dropped an answer: the connection is congested");
    }
    Ok(())
}

/// The frame up to its body, with its length put right, and the body.
fn split(frame: &Bytes) -> Option<(Vec<u8>, Bytes)> {
    let word = frame.get(FRAME_LENGTH_BYTES..FRAME_PREFIX_BYTES)?.try_into().ok()?;
    let header = usize::try_from(u32::from_be_bytes(word)).ok()? & HEADER_MAX;
    let end = FRAME_PREFIX_BYTES + header;
    let mut head = frame.get(..end)?.to_vec();
    let length = u32::try_from(end - FRAME_LENGTH_BYTES).ok()?;
    head.get_mut(..FRAME_LENGTH_BYTES)?.copy_from_slice(&length.to_be_bytes());
    Some((head, frame.slice(end..)))
}
