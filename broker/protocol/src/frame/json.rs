//! Reads the JSON header in one pass, as leniently as the parsers of existing clients: names with
//! or without quotes, single quotes, numbers and booleans where texts are expected, nulls, spare
//! commas, unknown names with any value. Strings are unescaped where they stand (no escape is
//! shorter than what it means), and the fields region is rewritten as [`super::ext`] describes.

use std::ops::Range;

use super::ext::{FILLER, TOKEN_END};
use super::scan::{find_either, integer};
use super::{FrameError, RawHead};
use crate::limits::HEADER_NESTING_MAX;
use crate::version::Language;

/// What a value is, once read. Ranges are the unescaped text.
enum Value {
    Text(Range<usize>),
    /// A number or a boolean.
    Bare(Range<usize>),
    Null,
    /// An object or array that nobody reads.
    Nested,
}

pub(super) fn read_head(header: &mut [u8]) -> Result<RawHead, FrameError> {
    // Checked once for all: after this no byte of 254 or 255 can be in the text.
    if std::str::from_utf8(header).is_err() {
        return Err(FrameError::Utf8);
    }
    let mut reader = Reader { text: header, at: 0 };
    let mut head = RawHead {
        code: 0,
        language: Language::Other,
        version: 0,
        opaque: 0,
        flag: 0,
        remark: None,
        ext: None,
    };
    reader.skip_space();
    reader.expect(b'{', "an object must begin")?;
    loop {
        reader.skip_space_and_commas();
        if reader.peek() == b'}' {
            reader.at += 1;
            break;
        }
        reader.member(&mut head)?;
    }
    reader.skip_space();
    if reader.at < reader.text.len() {
        Err(reader.error("text after the object"))
    } else {
        Ok(head)
    }
}

struct Reader<'b> {
    text: &'b mut [u8],
    at: usize,
}

impl Reader<'_> {
    fn error(&self, problem: &'static str) -> FrameError {
        FrameError::Json { problem, at: self.at }
    }

    /// The byte at hand; 0 at the end, which is no token either.
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.text.get(range.clone()).unwrap_or_default()
    }

    fn expect(&mut self, byte: u8, problem: &'static str) -> Result<(), FrameError> {
        if self.peek() != byte {
            return Err(self.error(problem));
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        while is_space(self.peek()) {
            self.at += 1;
        }
    }

    fn skip_space_and_commas(&mut self) {
        while is_space(self.peek()) || self.peek() == b',' {
            self.at += 1;
        }
    }

    /// One member of the header object.
    fn member(&mut self, head: &mut RawHead) -> Result<(), FrameError> {
        let key = self.key()?;
        match self.slice(&key) {
            b"code" => head.code = self.number()?.unwrap_or(head.code),
            b"version" => head.version = self.number()?.unwrap_or(head.version),
            b"opaque" => head.opaque = self.number()?.unwrap_or(head.opaque),
            b"flag" => head.flag = self.number()?.unwrap_or(head.flag),
            b"language" => {
                if let Value::Text(name) = self.value()? {
                    head.language = Language::from_name(self.slice(&name));
                }
            }
            b"remark" => {
                head.remark = match self.value()? {
                    Value::Text(range) | Value::Bare(range) => Some(range),
                    Value::Null | Value::Nested => None,
                }
            }
            b"extFields" => {
                if self.peek() == b'{' {
                    head.ext = Some(self.fields()?);
                } else if !matches!(self.value()?, Value::Null) {
                    return Err(self.error("extFields must be an object"));
                }
            }
            _ => {
                self.value()?;
            }
        }
        Ok(())
    }

    /// A name and its colon, and the space after that.
    fn key(&mut self) -> Result<Range<usize>, FrameError> {
        let key = match self.peek() {
            quote @ (b'"' | b'\'') => self.string(quote)?,
            _ => self.bare()?,
        };
        self.skip_space();
        self.expect(b':', "a colon must follow the name")?;
        self.skip_space();
        Ok(key)
    }

    fn value(&mut self) -> Result<Value, FrameError> {
        match self.peek() {
            quote @ (b'"' | b'\'') => Ok(Value::Text(self.string(quote)?)),
            b'{' | b'[' => {
                self.skip_nested()?;
                Ok(Value::Nested)
            }
            _ => {
                let range = self.bare()?;
                match self.slice(&range) {
                    b"null" => Ok(Value::Null),
                    b"true" | b"false" | [b'-' | b'+' | b'0'..=b'9', ..] => Ok(Value::Bare(range)),
                    _ => Err(self.error("not a value")),
                }
            }
        }
    }

    /// A whole number, quoted or not; `None` for null.
    fn number(&mut self) -> Result<Option<i32>, FrameError> {
        match self.value()? {
            Value::Text(range) | Value::Bare(range) => integer(self.slice(&range))
                .and_then(|number| i32::try_from(number).ok())
                .map(Some)
                .ok_or(self.error("not a whole number of 32 bits")),
            Value::Null => Ok(None),
            Value::Nested => Err(self.error("not a number")),
        }
    }

    /// A run without quotes: a number, a word.
    fn bare(&mut self) -> Result<Range<usize>, FrameError> {
        let start = self.at;
        while !matches!(
            self.peek(),
            0..=b' ' | b'"' | b'\'' | b',' | b':' | b'[' | b']' | b'{' | b'}' | b'\\'
        ) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.error("a name or value is missing"))
        } else {
            Ok(start..self.at)
        }
    }

    /// The fields object: marks each token in place. Fields that are null or hold something nested
    /// are as absent.
    fn fields(&mut self) -> Result<Range<usize>, FrameError> {
        self.at += 1;
        let start = self.at;
        let mut unmarked = start;
        loop {
            self.skip_space_and_commas();
            if self.peek() == b'}' {
                self.fill(unmarked..self.at);
                self.at += 1;
                return Ok(start..self.at - 1);
            }
            let key = self.key()?;
            let value = self.value()?;
            // The byte after a bare value becomes its end mark, so it is read before that.
            self.skip_space();
            let closing = match self.peek() {
                b',' => false,
                b'}' => true,
                _ => return Err(self.error("a comma or the end of the object must follow")),
            };
            self.at += 1;
            if let Value::Text(value) | Value::Bare(value) = value {
                self.mark(unmarked, &key);
                self.mark(key.end + 1, &value);
                unmarked = value.end + 1;
            }
            if closing {
                self.fill(unmarked..self.at);
                return Ok(start..self.at);
            }
        }
    }

    fn mark(&mut self, unmarked: usize, token: &Range<usize>) {
        self.fill(unmarked..token.start);
        if let Some(end) = self.text.get_mut(token.end) {
            *end = TOKEN_END;
        }
    }

    fn fill(&mut self, gap: Range<usize>) {
        // Nearly every gap is a comma or colon and a quote: worth more than a call.
        match self.text.get_mut(gap) {
            Some([]) | None => {}
            Some([a]) => *a = FILLER,
            Some([a, b]) => (*a, *b) = (FILLER, FILLER),
            Some(longer) => longer.fill(FILLER),
        }
    }

    /// A quoted string, unescaped in place; leaves off after the closing quote.
    fn string(&mut self, quote: u8) -> Result<Range<usize>, FrameError> {
        self.at += 1;
        let start = self.at;
        let mut end = start;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(run) = find_either(rest, quote, b'\\') else {
                return Err(self.error("a string does not end"));
            };
            if end != self.at {
                self.text.copy_within(self.at..self.at + run, end);
            }
            end += run;
            self.at += run + 1;
            if self.text.get(self.at - 1) == Some(&quote) {
                return Ok(start..end);
            }
            end = self.escape(end)?;
        }
    }

    /// Writes what the escape at hand (its backslash just passed) means at `end`; gives the new end.
    fn escape(&mut self, end: usize) -> Result<usize, FrameError> {
        let meant = match self.peek() {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\u{b}',
            digit @ b'0'..=b'7' => char::from(digit - b'0'),
            same @ (b'"' | b'\'' | b'\\' | b'/') => char::from(same),
            b'x' => {
                let code = self.hex(self.at + 1, 2)?;
                self.at += 2;
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            b'u' => self.utf16_escape()?,
            _ => return Err(self.error("unknown escape")),
        };
        self.at += 1;
        let mut utf8 = [0; 4];
        let utf8 = meant.encode_utf8(&mut utf8).as_bytes();
        if let Some(place) = self.text.get_mut(end..end + utf8.len()) {
            place.copy_from_slice(utf8);
        }
        Ok(end + utf8.len())
    }

    /// `\uXXXX`, or two of them for one character beyond the 16-bit plane. Half a pair reads as the
    /// replacement character. Leaves off at the last digit.
    fn utf16_escape(&mut self) -> Result<char, FrameError> {
        let first = self.hex(self.at + 1, 4)?;
        self.at += 4;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        let follows = self.text.get(self.at + 1..self.at + 3) == Some(b"\\u");
        if (0xD800..0xDC00).contains(&first) && follows {
            let second = self.hex(self.at + 3, 4)?;
            if (0xDC00..0xE000).contains(&second) {
                self.at += 6;
                let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&self, at: usize, digits: usize) -> Result<u32, FrameError> {
        let digits = self.text.get(at..at + digits).ok_or(self.error("an escape is cut off"))?;
        digits.iter().try_fold(0, |code, byte| {
            let digit = char::from(*byte).to_digit(16).ok_or(self.error("not a hex digit"))?;
            Ok(code * 16 + digit)
        })
    }

    /// Passes an object or array of any content.
    fn skip_nested(&mut self) -> Result<(), FrameError> {
        let mut depth = 0;
        // One bit a level: is it an object? A bracket must be closed by its like.
        let mut objects: u64 = 0;
        loop {
            match self.peek() {
                quote @ (b'"' | b'\'') => {
                    self.string(quote)?;
                    continue;
                }
                opening @ (b'{' | b'[') => {
                    depth += 1;
                    if depth > HEADER_NESTING_MAX {
                        return Err(self.error("nested too deep"));
                    }
                    objects = (objects << 1) | u64::from(opening == b'{');
                }
                closing @ (b'}' | b']') => {
                    if (objects & 1 == 1) != (closing == b'}') {
                        return Err(self.error("brackets do not match"));
                    }
                    objects >>= 1;
                    depth -= 1;
                }
                0 => return Err(self.error("an object does not end")),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C)
}
