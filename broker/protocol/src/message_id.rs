//! Message ids, both in upper-case hex: the offset id, which says where a broker stored a message,
//! and the unique id, which a client gives a message before it is sent.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::Deref,
    sync::atomic::{AtomicU16, Ordering},
};

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
const LEN_MAX: usize = 56;

/// An id in hex, held in place. 32 characters with an IPv4 address inside, 56 with an IPv6 one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId {
    text: [u8; LEN_MAX],
    len: u8,
}

impl MessageId {
    const fn new() -> MessageId {
        MessageId { text: [0; LEN_MAX], len: 0 }
    }

    fn push_hex(&mut self, bytes: &[u8]) {
        let digits =
            bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xF]).map(|n| DIGITS[usize::from(n)]);
        let free = self.text.iter_mut().skip(usize::from(self.len));
        for (to, digit) in free.zip(digits) {
            *to = digit;
            self.len += 1;
        }
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text
            .get(..usize::from(self.len))
            .and_then(|text| std::str::from_utf8(text).ok())
            .unwrap_or_default()
    }
}

impl Deref for MessageId {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

fn push_ip(id: &mut MessageId, ip: IpAddr) {
    match ip.to_canonical() {
        IpAddr::V4(ip) => id.push_hex(&ip.octets()),
        IpAddr::V6(ip) => id.push_hex(&ip.octets()),
    }
}

/// The offset id of the message that `store_host` keeps at `physical_offset`.
#[must_use]
pub fn offset_id(store_host: SocketAddr, physical_offset: u64) -> MessageId {
    let mut id = MessageId::new();
    push_ip(&mut id, store_host.ip());
    id.push_hex(&u32::from(store_host.port()).to_be_bytes());
    id.push_hex(&physical_offset.to_be_bytes());
    id
}

/// Where the message of an offset id lies: the broker's address and the physical offset. None for
/// what is no offset id; digits of either case are read.
#[must_use]
pub fn parse_offset_id(id: &str) -> Option<(SocketAddr, u64)> {
    let id = id.as_bytes();
    let (ip, rest): (IpAddr, &[u8]) = match id.len() {
        32 => {
            let (ip, rest) = id.split_at(8);
            (Ipv4Addr::from(u32::try_from(hex(ip)?).ok()?).into(), rest)
        }
        56 => {
            let (high, rest) = id.split_at(16);
            let (low, rest) = rest.split_at(16);
            let ip = u128::from(hex(high)?) << 64 | u128::from(hex(low)?);
            (Ipv6Addr::from(ip).into(), rest)
        }
        _ => return None,
    };
    let (port, offset) = rest.split_at_checked(8)?;
    let port = u16::try_from(hex(port)?).ok()?;
    Some((SocketAddr::new(ip, port), hex(offset)?))
}

/// The value of at most sixteen hex digits.
fn hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, digit| {
        Some(value << 4 | u64::from(char::from(*digit).to_digit(16)?))
    })
}

/// Makes unique ids as the Java client does: address, process, class loader, milliseconds since the
/// month began, counter. Everything but the last two is written once, at the start.
///
/// As in Java, an id repeats when one process makes more than 65,536 in a millisecond.
#[derive(Debug)]
pub struct UniqueIds {
    prefix: MessageId,
    counter: AtomicU16,
    utc_offset_ms: i64,
}

impl UniqueIds {
    /// `process` and `loader` tell makers at one address apart (Java: process id and a class
    /// loader's hash). `utc_offset_ms` is what local time is ahead of UTC: mqadmin reads the time
    /// out of an id by its own month.
    #[must_use]
    pub fn new(ip: IpAddr, process: u16, loader: u32, utc_offset_ms: i64) -> UniqueIds {
        let mut prefix = MessageId::new();
        push_ip(&mut prefix, ip);
        prefix.push_hex(&process.to_be_bytes());
        prefix.push_hex(&loader.to_be_bytes());
        UniqueIds { prefix, counter: AtomicU16::new(0), utc_offset_ms }
    }

    /// The next id; `now_ms` is Unix time in milliseconds.
    pub fn next(&self, now_ms: i64) -> MessageId {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        let local = now_ms.saturating_add(self.utc_offset_ms);
        // 32 bits hold any month's milliseconds, as an unsigned number.
        let since_month = (local - month_start(local)) as u32;
        let mut id = self.prefix;
        id.push_hex(&since_month.to_be_bytes());
        id.push_hex(&counter.to_be_bytes());
        id
    }
}

const DAY_MS: i64 = 86_400_000;

/// The millisecond at which the month of `ms` began, in the same time zone.
fn month_start(ms: i64) -> i64 {
    let days = ms.div_euclid(DAY_MS);
    // Days since 1 March of year 0 of the proleptic Gregorian calendar, then the usual descent
    // through its 400-year eras; months of a year that begins in March follow 153/5.
    let era_day = (days + 719_468).rem_euclid(146_097);
    let era_year = (era_day - era_day / 1_460 + era_day / 36_524 - era_day / 146_096) / 365;
    let year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    let month = (5 * year_day + 2) / 153;
    let day_of_month = year_day - (153 * month + 2) / 5;
    (days - day_of_month) * DAY_MS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn offset_ids_are_javas() {
        let id = offset_id("10.1.2.3:10911".parse().unwrap(), 123_456);
        assert_eq!(id.as_str(), "0A01020300002A9F000000000001E240");
        let id = offset_id("[fd00::2]:10911".parse().unwrap(), 0);
        assert_eq!(id.as_str(), "FD00000000000000000000000000000200002A9F0000000000000000");
        let mapped = offset_id("[::ffff:10.1.2.3]:10911".parse().unwrap(), 123_456);
        assert_eq!(mapped.as_str(), "0A01020300002A9F000000000001E240");
    }

    proptest! {
        #[test]
        fn offset_ids_lead_back(ip: IpAddr, port: u16, offset: u64) {
            let host = SocketAddr::new(ip.to_canonical(), port);
            prop_assert_eq!(parse_offset_id(&offset_id(host, offset)), Some((host, offset)));
        }

        #[test]
        fn any_text_is_judged(text in "\\PC{0,60}") {
            let _ = parse_offset_id(&text);
        }
    }

    #[test]
    fn other_texts_are_no_offset_ids() {
        assert_eq!(parse_offset_id(""), None);
        assert_eq!(parse_offset_id("0A01020300002A9F000000000001E24"), None);
        assert_eq!(parse_offset_id("0A01020300002A9F000000000001E24G"), None);
        // The port has four bytes; a value beyond two is no port.
        assert_eq!(parse_offset_id("0A01020300012A9F000000000001E240"), None);
        assert_eq!(parse_offset_id(&"\u{e9}".repeat(16)), None);
        assert!(parse_offset_id("0a01020300002a9f000000000001e240").is_some());
    }

    #[test]
    fn unique_ids_are_javas() {
        // An id that a Java client made in the last hours of a month.
        let ids = UniqueIds::new("fd00::2".parse().unwrap(), 0x42BC, 0x3094_6E09, 0);
        let now = 1_796_038_541_459;
        assert_eq!(
            ids.next(now).as_str(),
            "FD00000000000000000000000000000242BC30946E0997D558930000"
        );
        assert!(ids.next(now).ends_with("0001"));
        let ids = UniqueIds::new("10.0.0.1".parse().unwrap(), 1, 2, 0);
        assert_eq!(ids.next(0).as_str(), "0A000001000100000002000000000000");
        // East of UTC a new month has begun before midnight UTC.
        let ids = UniqueIds::new("10.0.0.1".parse().unwrap(), 1, 2, 3_600_000);
        assert!(ids.next(31 * DAY_MS - 1).ends_with("0036EE7F0000"));
    }

    #[test]
    fn the_counter_wraps() {
        let ids = UniqueIds::new("10.0.0.1".parse().unwrap(), 1, 2, 0);
        ids.counter.store(u16::MAX, Ordering::Relaxed);
        assert!(ids.next(0).ends_with("FFFF"));
        assert!(ids.next(0).ends_with("0000"));
    }

    #[test]
    fn months_begin_where_the_calendar_says() {
        let mut start = 0;
        for year in 1970_u32..2110 {
            let leap =
                (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
            let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for length in lengths {
                let end = start + length * DAY_MS;
                assert_eq!(month_start(start), start, "{year}");
                assert_eq!(month_start(end - 1), start, "{year}");
                start = end;
            }
        }
    }
}
