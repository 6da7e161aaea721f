//! A frame that outlives its connection's buffer.

use broker_protocol::frame::{
    ExtFields, FieldWriter, Frame, Head, RequestHead, Serialize, encode_request,
};
use broker_protocol::header::Header;

/// A copy of a frame, for work that goes on after the connection has moved to its next one.
///
/// The copy keeps the header in the binary form, whatever the peer wrote: a JSON header is
/// unescaped where it stood and can't be read twice. `frame().head` still says what the peer sent.
#[derive(Debug, Clone)]
pub struct OwnedFrame {
    bytes: Vec<u8>,
    head: Head<'static>,
}

impl OwnedFrame {
    /// Copies the frame.
    pub fn copy(frame: &Frame<'_>) -> OwnedFrame {
        let request = RequestHead {
            code: frame.head.code,
            opaque: frame.head.opaque,
            oneway: frame.head.is_oneway(),
            serialize: Serialize::Binary,
            language: frame.head.language,
            version: frame.head.version,
            short_names: false,
        };
        let mut bytes = Vec::with_capacity(256 + frame.body.len());
        encode_request(&mut bytes, &request, &AllFields(frame.ext), frame.body.len());
        bytes.extend_from_slice(frame.body);
        let remark = frame.head.remark.as_ref().map(|remark| remark.to_string().into());
        // The binary form has only 16 bits for the code, so the head is kept beside it.
        OwnedFrame { bytes, head: Head { remark, ..without_remark(&frame.head) } }
    }

    /// Bytes that the copy keeps in memory, roughly.
    #[expect(clippy::len_without_is_empty, reason = "a frame is never empty")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The fixed part of the header.
    pub fn head(&self) -> &Head<'static> {
        &self.head
    }

    /// The frame again.
    pub fn frame(&mut self) -> Frame<'_> {
        #[expect(clippy::expect_used, reason = "`copy` wrote these bytes with our own encoder")]
        let frame = Frame::parse(&mut self.bytes).expect("a copied frame is whole");
        Frame { head: self.head.clone(), ..frame }
    }
}

fn without_remark(head: &Head<'_>) -> Head<'static> {
    Head {
        code: head.code,
        language: head.language,
        version: head.version,
        opaque: head.opaque,
        flag: head.flag,
        remark: None,
        serialize: head.serialize,
    }
}

/// Writes fields on as they came.
struct AllFields<'a>(ExtFields<'a>);

impl Header for AllFields<'_> {
    fn write(&self, out: &mut FieldWriter<'_>) {
        self.0.for_each(|name, value| out.pair(name, value));
    }
}
