//! Any bytes as a frame: they must parse or fail, and what parses must write and read the same.

#![no_main]

use broker_protocol::frame::{
    Frame, ReplyHead, RequestHead, encode_request, encode_response, frame_size,
};
use broker_protocol::request::pull::PullMessage;
use broker_protocol::request::send::SendMessage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    // Most inputs have wrong outer lengths; right ones are what reaches the readers.
    if let Some(prefix) = bytes.first_chunk_mut::<8>() {
        let [_, _, _, _, serialize, h1, h2, h3] = *prefix;
        let rest = u32::try_from(data.len() - 8).unwrap_or(0);
        let header = u32::from_be_bytes([0, h1, h2, h3]).min(rest);
        prefix[..4].copy_from_slice(&(rest + 4).to_be_bytes());
        prefix[4..].copy_from_slice(&header.to_be_bytes());
        prefix[4] = serialize & 1;
    }
    let _ = frame_size(data);
    let Ok(frame) = Frame::parse(&mut bytes) else { return };
    let _ = frame.ext.decode::<SendMessage<'_>>();
    let _ = frame.ext.decode::<PullMessage<'_>>();
    let pairs = pairs(&frame);

    // A frame of ours with this content must come back whole.
    let mut written = Vec::new();
    let (opaque, serialize) = (frame.head.opaque, frame.head.serialize);
    let remark = frame.head.remark.as_deref().filter(|remark| !remark.is_empty());
    let reply = ReplyHead { opaque, serialize };
    let code = i32::from(frame.head.code as i16);
    encode_response(&mut written, &reply, code, remark, &pairs[..], 0);
    let back = Frame::parse(&mut written).expect("our own frame");
    assert_eq!((back.head.code, back.head.opaque), (code, opaque));
    assert_eq!(back.head.remark.as_deref(), remark);
    assert!(pairs == self::pairs(&back));

    if let Ok(send) = frame.ext.decode::<SendMessage<'_>>() {
        let request = RequestHead {
            code,
            opaque,
            oneway: false,
            serialize,
            language: frame.head.language,
            version: 1,
            short_names: true,
        };
        let mut written = Vec::new();
        encode_request(&mut written, &request, &send, 0);
        let back = Frame::parse(&mut written).expect("our own frame");
        assert_eq!(back.ext.decode::<SendMessage<'_>>().as_ref(), Ok(&send));
    }
});

/// Names beyond 32767 bytes cannot be written in binary; they are left out here as there.
fn pairs<'a>(frame: &Frame<'a>) -> Vec<(&'a str, &'a str)> {
    let mut pairs = Vec::new();
    frame.ext.for_each(|key, value| pairs.push((key, value)));
    pairs.retain(|(key, _)| key.len() <= i16::MAX as usize);
    pairs
}
