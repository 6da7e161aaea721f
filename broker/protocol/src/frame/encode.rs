//! Writes frames: straight into the output, lengths patched in afterwards, no map in between.
//! JSON members stand in the alphabetical order that Java peers write; fields stand in the order
//! of their declaration.

use super::{FLAG_ONEWAY, FLAG_RESPONSE, Serialize, scan};
use crate::header::Header;
use crate::limits::{FRAME_LENGTH_BYTES, FRAME_PREFIX_BYTES, HEADER_MAX};
use crate::version::{self, Language};

/// The fixed part of a request to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHead {
    /// Request code. Binary headers keep only its low 16 bits, as all peers do.
    pub code: i32,
    /// Number by which the answer finds this request.
    pub opaque: i32,
    /// True when no answer is wanted.
    pub oneway: bool,
    /// How to write the header.
    pub serialize: Serialize,
    /// Our language, as the peer is to see it.
    pub language: Language,
    /// Our version, see [`crate::version`].
    pub version: i32,
    /// Write the one-letter field names of the requests that have them (310, 320, 325).
    pub short_names: bool,
}

/// What an answer takes over from its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHead {
    /// Number of the request.
    pub opaque: i32,
    /// How the request was written.
    pub serialize: Serialize,
}

/// Appends the frame of a request up to its body. The caller sends `body_len` bytes of body after
/// it; the frame's length counts them.
pub fn encode_request<H: Header + ?Sized>(
    out: &mut Vec<u8>,
    request: &RequestHead,
    header: &H,
    body_len: usize,
) {
    let fixed = Fixed {
        code: request.code,
        language: request.language,
        version: request.version,
        opaque: request.opaque,
        flag: if request.oneway { FLAG_ONEWAY } else { 0 },
        remark: None,
        short_names: request.short_names,
    };
    encode(out, &fixed, request.serialize, header, body_len);
}

/// Appends the frame of an answer up to its body, as [`encode_request`] does. It reports
/// [`version::REPORTED`].
pub fn encode_response<H: Header + ?Sized>(
    out: &mut Vec<u8>,
    reply: &ReplyHead,
    code: i32,
    remark: Option<&str>,
    header: &H,
    body_len: usize,
) {
    let fixed = Fixed {
        code,
        language: version::REPORTED_LANGUAGE,
        version: version::REPORTED,
        opaque: reply.opaque,
        flag: FLAG_RESPONSE,
        remark,
        short_names: false,
    };
    encode(out, &fixed, reply.serialize, header, body_len);
}

/// The numbers and texts that every header has.
struct Fixed<'f> {
    code: i32,
    language: Language,
    version: i32,
    opaque: i32,
    flag: i32,
    remark: Option<&'f str>,
    short_names: bool,
}

fn encode<H: Header + ?Sized>(
    out: &mut Vec<u8>,
    fixed: &Fixed<'_>,
    serialize: Serialize,
    header: &H,
    body_len: usize,
) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_PREFIX_BYTES]);
    let mark = match serialize {
        Serialize::Json => {
            encode_json(out, fixed, header);
            0
        }
        Serialize::Binary => {
            encode_binary(out, fixed, header);
            1
        }
    };
    let header_len = out.len() - start - FRAME_PREFIX_BYTES;
    debug_assert!(header_len <= HEADER_MAX, "a header of {header_len} bytes has no length");
    let length = FRAME_PREFIX_BYTES - FRAME_LENGTH_BYTES + header_len + body_len;
    patch(out, start, low_u32(length));
    patch(out, start + FRAME_LENGTH_BYTES, (mark << 24) | low_u32(header_len & HEADER_MAX));
}

/// Lengths are far below 4 GiB: a frame ends at 16 MiB.
fn low_u32(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn patch(out: &mut [u8], at: usize, number: u32) {
    if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = number.to_be_bytes();
    }
}

fn encode_json<H: Header + ?Sized>(out: &mut Vec<u8>, fixed: &Fixed<'_>, header: &H) {
    out.extend_from_slice(b"{\"code\":");
    push_integer(out, i64::from(fixed.code));
    if header.is_present() {
        out.extend_from_slice(b",\"extFields\":{");
        header.write(&mut FieldWriter {
            out,
            serialize: Serialize::Json,
            short_names: fixed.short_names,
        });
        // Each field ends with a comma, and the last one has no business there.
        if out.last() == Some(&b',') {
            out.pop();
        }
        out.push(b'}');
    }
    out.extend_from_slice(b",\"flag\":");
    push_integer(out, i64::from(fixed.flag));
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(fixed.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    push_integer(out, i64::from(fixed.opaque));
    if let Some(remark) = fixed.remark {
        out.extend_from_slice(b",\"remark\":\"");
        push_escaped(out, remark);
        out.push(b'"');
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    push_integer(out, i64::from(fixed.version));
    out.push(b'}');
}

fn encode_binary<H: Header + ?Sized>(out: &mut Vec<u8>, fixed: &Fixed<'_>, header: &H) {
    out.extend_from_slice(&low_16(fixed.code));
    out.push(fixed.language.code());
    out.extend_from_slice(&low_16(fixed.version));
    out.extend_from_slice(&fixed.opaque.to_be_bytes());
    out.extend_from_slice(&fixed.flag.to_be_bytes());
    push_prefixed(out, fixed.remark.unwrap_or_default());
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    header.write(&mut FieldWriter {
        out,
        serialize: Serialize::Binary,
        short_names: fixed.short_names,
    });
    let length = low_u32(out.len() - start - 4);
    patch(out, start, length);
}

fn low_16(number: i32) -> [u8; 2] {
    let [_, _, high, low] = number.to_be_bytes();
    [high, low]
}

fn push_prefixed(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&low_u32(text.len()).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn push_integer(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes the inside of a JSON string. Control characters other than the five with a letter are
/// written `\u00XX`; everything from the space on stands as it is.
fn push_escaped(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = text.as_bytes();
    while let Some(at) = scan::find_escaped(rest) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((special, after)) = special.split_first() else { break };
        match special {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *special]),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                let low = HEX.get(usize::from(control & 15)).copied().unwrap_or(b'0');
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', b'0' + (control >> 4), low]);
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}

/// The names of one field, with the forms that JSON needs ready-made.
#[derive(Debug)]
pub struct FieldName {
    /// Name on the wire.
    pub long: &'static str,
    /// One-letter name where the request has such; else the same as `long`.
    pub short: &'static str,
    /// `"name":"` for either.
    #[doc(hidden)]
    pub long_json: &'static str,
    #[doc(hidden)]
    pub short_json: &'static str,
}

/// Takes the fields of a header and writes them out.
#[derive(Debug)]
pub struct FieldWriter<'o> {
    out: &'o mut Vec<u8>,
    serialize: Serialize,
    short_names: bool,
}

impl FieldWriter<'_> {
    /// Writes a text field of a declared name.
    pub fn text(&mut self, name: &FieldName, value: &str) {
        match self.serialize {
            Serialize::Json => {
                self.json_name(name);
                push_escaped(self.out, value);
                self.out.extend_from_slice(b"\",");
            }
            Serialize::Binary => self.binary(name, value),
        }
    }

    /// Writes a whole number.
    pub fn integer(&mut self, name: &FieldName, value: i64) {
        self.plain(name, itoa::Buffer::new().format(value));
    }

    /// Writes `true` or `false`.
    pub fn flag(&mut self, name: &FieldName, value: bool) {
        self.plain(name, if value { "true" } else { "false" });
    }

    /// Writes a number with a fraction.
    pub fn float(&mut self, name: &FieldName, value: f64) {
        self.plain(name, &format!("{value:?}"));
    }

    /// Writes a text field whose name is not known at compile time.
    pub fn pair(&mut self, name: &str, value: &str) {
        match self.serialize {
            Serialize::Json => {
                self.out.push(b'"');
                push_escaped(self.out, name);
                self.out.extend_from_slice(b"\":\"");
                push_escaped(self.out, value);
                self.out.extend_from_slice(b"\",");
            }
            Serialize::Binary => push_entry(self.out, name, value),
        }
    }

    /// A value that needs no escapes.
    fn plain(&mut self, name: &FieldName, value: &str) {
        match self.serialize {
            Serialize::Json => {
                self.json_name(name);
                self.out.extend_from_slice(value.as_bytes());
                self.out.extend_from_slice(b"\",");
            }
            Serialize::Binary => self.binary(name, value),
        }
    }

    fn json_name(&mut self, name: &FieldName) {
        let json = if self.short_names { name.short_json } else { name.long_json };
        self.out.extend_from_slice(json.as_bytes());
    }

    fn binary(&mut self, name: &FieldName, value: &str) {
        push_entry(self.out, if self.short_names { name.short } else { name.long }, value);
    }
}

/// A name longer than 16 bits can say is left out with its value: it would break the frame.
fn push_entry(out: &mut Vec<u8>, name: &str, value: &str) {
    if let Ok(length) = i16::try_from(name.len()) {
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        push_prefixed(out, value);
    }
}
