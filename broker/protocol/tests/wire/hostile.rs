//! Bytes that nobody well-meaning sends: they give an error, never a panic, and never cost more
//! memory than they have themselves.
//!
//! The mutation test runs for `FUZZ_SECONDS` (default 1). It is seeded by `FUZZ_SEED`, which a
//! failure prints. `fuzz/` has the same check guided by coverage.

use std::time::{Duration, Instant};

use broker_protocol::frame::{Frame, FrameError, frame_size};
use broker_protocol::header::NoHeader;
use broker_protocol::limits::{FRAME_MAX, HEADER_NESTING_MAX};
use broker_protocol::request::pull::PullMessage;
use broker_protocol::request::send::SendMessage;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::golden;

/// Reads the bytes in every way there is, and sees that nothing is allocated.
fn read(bytes: &mut [u8]) -> Result<(), FrameError> {
    let mut outcome = Ok(());
    let allocations = allocation_counter::measure(|| {
        outcome = frame_size(bytes).map(|_| ()).and_then(|()| {
            let frame = Frame::parse(bytes)?;
            let mut fields = 0;
            frame.ext.for_each(|_, _| fields += 1);
            assert_eq!(fields, frame.ext.entries().count());
            let _ = frame.ext.decode::<SendMessage<'_>>();
            let _ = frame.ext.decode::<PullMessage<'_>>();
            assert!(frame.ext.decode::<NoHeader>().is_ok());
            Ok(())
        });
    });
    assert_eq!(allocations.count_total, 0, "hostile bytes cost memory");
    outcome
}

/// A frame with right lengths around any header.
fn framed(serialize: u8, header: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(header.len() + 4).unwrap().to_be_bytes().to_vec();
    let word = u32::from(serialize) << 24 | u32::try_from(header.len()).unwrap();
    frame.extend_from_slice(&word.to_be_bytes());
    frame.extend_from_slice(header);
    frame
}

fn json(header: &str) -> Result<(), FrameError> {
    read(&mut framed(0, header.as_bytes()))
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_errors_at_worst(mut bytes in vec(any::<u8>(), 0..200)) {
        let _ = read(&mut bytes);
    }

    #[test]
    fn arbitrary_headers_are_errors_at_worst(
        serialize in 0..3_u8,
        header in prop_oneof![
            vec(any::<u8>(), 0..200),
            "[{}\\[\\]\",:'\\\\u0-9a-f ]{0,60}".prop_map(String::into_bytes),
            "\\{\"extFields\":\\{[{}\",:'\\\\u0-9a-f ]{0,40}\\}\\}".prop_map(String::into_bytes),
        ],
    ) {
        let _ = read(&mut framed(serialize, &header));
    }
}

#[test]
fn a_prefix_of_a_frame_is_no_frame() {
    for golden in golden::all() {
        let whole = golden.bytes();
        for length in 0..whole.len() {
            let mut prefix = whole[..length].to_vec();
            let size = frame_size(&prefix).unwrap();
            assert_eq!(size, (length >= 4).then_some(whole.len()), "{}", golden.name);
            assert!(read(&mut prefix).is_err(), "{} cut to {length} bytes", golden.name);
        }
    }
}

#[test]
fn a_header_cut_short_is_no_header() {
    for golden in golden::all() {
        let whole = golden.bytes();
        let word = u32::from_be_bytes(whole[4..8].try_into().unwrap());
        let header = &whole[8..8 + (word & 0x00FF_FFFF) as usize];
        for length in 0..header.len() {
            let cut = read(&mut framed(whole[4], &header[..length]));
            assert!(cut.is_err(), "{} header cut to {length} bytes", golden.name);
        }
    }
}

#[test]
fn lengths_beyond_their_bounds_close_the_connection() {
    let first = |bytes: &[u8]| frame_size(bytes);
    assert_eq!(first(b""), Ok(None));
    assert_eq!(first(&[0, 0, 0]), Ok(None));
    assert_eq!(first(&[0, 0, 0, 3]), Err(FrameError::Length(3)));
    assert_eq!(first(&[0xFF; 4]), Err(FrameError::Length(u32::MAX)));
    assert_eq!(first(b"GET / HTTP/1.1\r\n"), Err(FrameError::Length(0x4745_5420)));
    assert_eq!(first(&[0x16, 3, 1, 2, 0, 1]), Err(FrameError::Length(0x1603_0102)));
    let largest = u32::try_from(FRAME_MAX - 4).unwrap();
    assert_eq!(first(&largest.to_be_bytes()), Ok(Some(FRAME_MAX)));
    assert_eq!(first(&(largest + 1).to_be_bytes()), Err(FrameError::Length(largest + 1)));
    let header_too_long = [0, 0, 0, 8, 0, 0, 0, 5];
    let error = FrameError::HeaderLength { header: 5, frame: 8 };
    assert_eq!(first(&header_too_long), Err(error));
    assert_eq!(first(&[0, 0, 0, 8, 2, 0, 0, 0]), Err(FrameError::Serialization(2)));
}

#[test]
fn inner_lengths_of_binary_headers_are_checked() {
    // Code, language, version, opaque, flag; then a remark and fields of the lengths given.
    let header = |remark: u32, fields: u32, rest: &[u8]| {
        let mut header = vec![0, 10, 0, 1, 0x8F, 0, 0, 0, 1, 0, 0, 0, 0];
        header.extend_from_slice(&remark.to_be_bytes());
        header.extend_from_slice(&fields.to_be_bytes());
        header.extend_from_slice(rest);
        read(&mut framed(1, &header))
    };
    assert_eq!(header(0, 0, b""), Ok(()));
    assert_eq!(header(0, 8, b"\0\x01k\0\0\0\x01v"), Ok(()));
    for remark in [1, 5, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        assert!(matches!(header(remark, 0, b""), Err(FrameError::Binary(_))), "remark {remark}");
    }
    for fields in [1, 9, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        let outcome = header(0, fields, b"\0\x01k\0\0\0\x01v");
        assert!(matches!(outcome, Err(FrameError::Binary(_))), "fields {fields}");
    }
    let long_key = header(0, 8, b"\x7F\xFFk\0\0\0\x01v");
    assert!(matches!(long_key, Err(FrameError::Binary(_))));
    for value in [[0, 0, 0, 2], [0x7F, 0xFF, 0xFF, 0xFF], [0xFF; 4]] {
        let [a, b, c, d] = value;
        let outcome = header(0, 8, &[0, 1, b'k', a, b, c, d, b'v']);
        assert!(matches!(outcome, Err(FrameError::Binary(_))), "value {value:?}");
    }
    assert_eq!(header(0, 8, b"\0\x01k\0\0\0\x01\xC3"), Err(FrameError::Utf8));
}

#[test]
fn broken_json_is_refused_and_lenient_json_is_not() {
    for good in [
        "{}",
        " { } ",
        "{code:1,}",
        "{\"code\":1,,\"flag\":0}",
        "{'code':'1'}",
        "{\"extFields\":null}",
        "{\"extFields\":{},\"extFields\":{a:1}}",
        "{\"language\":null,\"language\":3}",
        "{\"@type\":\"java.lang.Class\",\"val\":{\"$ref\":\"..\"}}",
        "{\"extFields\":{\"a\":\"\\0\\7\\v\\x41\\/\\'\"}}",
        "{\"code\":+1}",
    ] {
        assert_eq!(json(good), Ok(()), "{good}");
    }
    for bad in [
        "",
        "null",
        "[]",
        "{",
        "}",
        "{}{}",
        "{} x",
        "{code}",
        "{code:}",
        "{:1}",
        "{\"code\":1.5}",
        "{\"code\":true}",
        "{\"code\":2147483648}",
        "{\"code\":\"\"}",
        "{\"code\":{}}",
        "{\"code:1}",
        "{\"extFields\":[]}",
        "{\"extFields\":\"a\"}",
        "{\"extFields\":{\"a\"}}",
        "{\"extFields\":{\"a\":}}",
        "{\"extFields\":{\"a\":1 \"b\":2}}",
        "{\"extFields\":{\"a\":word}}",
        "{\"extFields\":{\"a\":\"\\q\"}}",
        "{\"extFields\":{\"a\":\"\\u12\"}}",
        "{\"extFields\":{\"a\":\"\\u12g4\"}}",
        "{\"extFields\":{\"a\":\"\\",
        "{\"x\":[}",
        "{\"x\":[1,2}",
        "{\"x\":{\"a\":[}]}",
    ] {
        assert!(matches!(json(bad), Err(FrameError::Json { .. })), "{bad}: {:?}", json(bad));
    }
    assert_eq!(read(&mut framed(0, b"{\"remark\":\"\xC3\"}")), Err(FrameError::Utf8));
    assert_eq!(read(&mut framed(0, b"{\"extFields\":{\"a\":\"\xFF\"}}")), Err(FrameError::Utf8));
}

#[test]
fn nesting_has_an_end() {
    let nested = |depth: usize| json(&format!("{{x:{}{}}}", "[".repeat(depth), "]".repeat(depth)));
    let deepest = HEADER_NESTING_MAX as usize;
    assert_eq!(nested(deepest), Ok(()));
    assert!(matches!(nested(deepest + 1), Err(FrameError::Json { .. })));
    assert!(nested(1_000_000).is_err());
}

/// A small generator, so that a seed says everything: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        const TELLING: &[u8] = b"\"\\{}[],:'u0\x00\x01\x7F\x80\xFE\xFF ";
        let at = self.below(bytes.len());
        match self.below(6) {
            0 => bytes[at] = TELLING[self.below(TELLING.len())],
            1 => bytes[at] ^= 1 << self.below(8),
            2 => bytes.insert(at, TELLING[self.below(TELLING.len())]),
            3 if bytes.len() > 9 => drop(bytes.remove(at)),
            4 => {
                let from = self.below(other.len());
                let piece = &other[from..(from + 1 + self.below(20)).min(other.len())];
                bytes.splice(at..at, piece.iter().copied());
            }
            _ => {
                let to = (at + 1 + self.below(20)).min(bytes.len());
                let piece = bytes[at..to].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// Makes the outer lengths right again (usually), so that the header is reached.
fn mend(random: &mut Random, bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().max(8), 0);
    if random.below(8) > 0 {
        let length = u32::try_from(bytes.len() - 4).unwrap();
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        let header = (length - 4).min(u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]));
        let header = if random.below(4) > 0 { length - 4 } else { header };
        let serialize = bytes[4] & 1;
        bytes[4..8].copy_from_slice(&header.to_be_bytes());
        bytes[4] = serialize;
    }
}

#[test]
fn mutated_frames_are_errors_at_worst() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = setting("FUZZ_SEED").unwrap_or(0x5EED);
    let limit = Duration::from_secs(setting("FUZZ_SECONDS").unwrap_or(1));
    eprintln!("FUZZ_SEED={seed}");
    let corpus: Vec<Vec<u8>> = golden::all().iter().map(golden::Golden::bytes).collect();
    let mut random = Random(seed | 1);
    let (mut tried, mut read_well) = (0_u64, 0_u64);
    let begin = Instant::now();
    while begin.elapsed() < limit {
        for _ in 0..100 {
            let mut bytes = corpus[random.below(corpus.len())].clone();
            // Without its body a frame has more of what is worth breaking.
            let header = u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]) as usize;
            bytes.truncate(8 + header);
            for _ in 0..=random.below(4) {
                let other = &corpus[random.below(corpus.len())];
                random.mutate(&mut bytes, other);
            }
            mend(&mut random, &mut bytes);
            tried += 1;
            read_well += u64::from(read(&mut bytes).is_ok());
        }
    }
    // Both must happen, or the test breaks frames too much or too little.
    assert!(read_well > 0 && read_well < tried, "{read_well} of {tried} were read");
}
