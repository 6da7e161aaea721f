//! Reads the binary header that is called ROCKETMQ: fixed numbers, then remark and fields with
//! length prefixes. Every length is checked against what encloses it before it is used.

use super::ext::Entries;
use super::{FrameError, RawHead, scan};
use crate::version::Language;

/// Bytes of the fixed numbers: code, language, version, opaque, flag.
const FIXED: usize = 2 + 1 + 2 + 4 + 4;

pub(super) fn read_head(header: &[u8]) -> Result<RawHead, FrameError> {
    const SHORT: FrameError = FrameError::Binary("shorter than its fixed part");
    let fixed: &[u8; FIXED] = header.first_chunk().ok_or(SHORT)?;
    let [c0, c1, language, v0, v1, o0, o1, o2, o3, f0, f1, f2, f3] = *fixed;

    let remark_length = length_at(header, FIXED, "remark length is missing")?;
    let remark_start = FIXED + 4;
    let remark = remark_start..remark_start.saturating_add(remark_length);
    let Some(remark_bytes) = header.get(remark.clone()) else {
        return Err(FrameError::Binary("remark is longer than the header"));
    };
    if std::str::from_utf8(remark_bytes).is_err() {
        return Err(FrameError::Utf8);
    }

    let ext_length = length_at(header, remark.end, "fields' length is missing")?;
    let ext_start = remark.end + 4;
    let ext = ext_start..ext_start.saturating_add(ext_length);
    let Some(ext_bytes) = header.get(ext.clone()) else {
        return Err(FrameError::Binary("fields are longer than the header"));
    };
    Entries::check_binary(ext_bytes)?;

    Ok(RawHead {
        code: i32::from(i16::from_be_bytes([c0, c1])),
        language: Language::from_code(language),
        version: i32::from(i16::from_be_bytes([v0, v1])),
        opaque: i32::from_be_bytes([o0, o1, o2, o3]),
        flag: i32::from_be_bytes([f0, f1, f2, f3]),
        remark: Some(remark).filter(|range| !range.is_empty()),
        ext: Some(ext).filter(|range| !range.is_empty()),
    })
}

/// A negative length reads as one of 2 GiB and more, which no header can hold.
fn length_at(header: &[u8], at: usize, missing: &'static str) -> Result<usize, FrameError> {
    scan::u32_at(header, at).map(|length| length as usize).ok_or(FrameError::Binary(missing))
}
