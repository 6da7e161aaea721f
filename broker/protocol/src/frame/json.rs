//! Reads the JSON header in one pass, as leniently as the parsers of existing clients: names with
//! or without quotes, single quotes, numbers and booleans where texts are expected, nulls, spare
//! commas, unknown names with any value. Strings are unescaped where they stand (no escape is
//! shorter than what it means), and the fields region is rewritten as [`super::ext`] describes.

use std::ops::Range;

use super::ext::{PAD, TOKEN_LONG, TOKEN_SHORT_MAX};
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
    let mut reader = Reader { text: header, at: 0, problem: "" };
    match reader.head() {
        Ok(head) => Ok(head),
        Err(Broken) => Err(FrameError::Json { problem: reader.problem, at: reader.at }),
    }
}

/// The text is not JSON; [`Reader::problem`] says why and [`Reader::at`] where. (Small, because
/// every step of the hot path returns it.)
struct Broken;

struct Reader<'b> {
    text: &'b mut [u8],
    at: usize,
    problem: &'static str,
}

impl Reader<'_> {
    #[cold]
    fn broken<T>(&mut self, problem: &'static str) -> Result<T, Broken> {
        self.problem = problem;
        Err(Broken)
    }

    /// The byte at hand; 0 at the end, which is no token either.
    #[inline]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.text.get(range.clone()).unwrap_or_default()
    }

    #[inline]
    fn skip_space(&mut self) {
        while is_space(self.peek()) {
            self.at += 1;
        }
    }

    #[inline]
    fn skip_space_and_commas(&mut self) {
        while is_space(self.peek()) || self.peek() == b',' {
            self.at += 1;
        }
    }

    /// The whole header.
    fn head(&mut self) -> Result<RawHead, Broken> {
        let mut head = RawHead {
            code: 0,
            language: Language::Other,
            version: 0,
            opaque: 0,
            flag: 0,
            remark: None,
            ext: None,
        };
        self.skip_space();
        if self.peek() != b'{' {
            return self.broken("an object must begin");
        }
        self.at += 1;
        loop {
            self.skip_space_and_commas();
            if self.peek() == b'}' {
                self.at += 1;
                break;
            }
            self.member(&mut head)?;
        }
        self.skip_space();
        if self.at < self.text.len() { self.broken("text after the object") } else { Ok(head) }
    }

    /// One member of the header object.
    fn member(&mut self, head: &mut RawHead) -> Result<(), Broken> {
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
                    return self.broken("extFields must be an object");
                }
            }
            _ => {
                self.value()?;
            }
        }
        Ok(())
    }

    /// A name and its colon, and the space after that.
    #[inline]
    fn key(&mut self) -> Result<Range<usize>, Broken> {
        let key = match self.peek() {
            b'"' => self.string(b'"')?,
            b'\'' => self.string(b'\'')?,
            _ => self.bare()?,
        };
        self.skip_space();
        if self.peek() != b':' {
            return self.broken("a colon must follow the name");
        }
        self.at += 1;
        self.skip_space();
        Ok(key)
    }

    #[inline]
    fn value(&mut self) -> Result<Value, Broken> {
        match self.peek() {
            b'"' => Ok(Value::Text(self.string(b'"')?)),
            _ => self.rare_value(),
        }
    }

    fn rare_value(&mut self) -> Result<Value, Broken> {
        match self.peek() {
            b'\'' => Ok(Value::Text(self.string(b'\'')?)),
            b'{' | b'[' => {
                self.skip_nested()?;
                Ok(Value::Nested)
            }
            _ => {
                let range = self.bare()?;
                match self.slice(&range) {
                    b"null" => Ok(Value::Null),
                    b"true" | b"false" | [b'-' | b'+' | b'0'..=b'9', ..] => Ok(Value::Bare(range)),
                    _ => self.broken("not a value"),
                }
            }
        }
    }

    /// A whole number, quoted or not; `None` for null.
    fn number(&mut self) -> Result<Option<i32>, Broken> {
        let (start, mut number) = (self.at, 0);
        // So many digits cannot overflow.
        while self.at - start < 9 {
            let digit = self.peek().wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            number = number * 10 + i32::from(digit);
            self.at += 1;
        }
        if self.at > start && matches!(self.peek(), b',' | b'}') {
            return Ok(Some(number));
        }
        self.at = start;
        self.rare_number()
    }

    #[inline(never)]
    fn rare_number(&mut self) -> Result<Option<i32>, Broken> {
        let range = match self.value()? {
            Value::Text(range) | Value::Bare(range) => range,
            Value::Null => return Ok(None),
            Value::Nested => return self.broken("not a number"),
        };
        match integer(self.slice(&range)).map(i32::try_from) {
            Some(Ok(number)) => Ok(Some(number)),
            _ => self.broken("not a whole number of 32 bits"),
        }
    }

    /// A run without quotes: a number, a word.
    fn bare(&mut self) -> Result<Range<usize>, Broken> {
        let start = self.at;
        while !matches!(
            self.peek(),
            0..=b' ' | b'"' | b'\'' | b',' | b':' | b'[' | b']' | b'{' | b'}' | b'\\'
        ) {
            self.at += 1;
        }
        match self.at - start {
            0 => self.broken("a name or value is missing"),
            // A longer one could not be marked, see `mark`.
            1..=TOKEN_SHORT_MAX => Ok(start..self.at),
            _ => self.broken("a name or value without quotes is too long"),
        }
    }

    /// The fields object: marks each token in place. Fields that are null or hold something nested
    /// are as absent.
    fn fields(&mut self) -> Result<Range<usize>, Broken> {
        let start = self.at;
        let mut marked = start;
        self.at += 1;
        loop {
            let closes = match self.peek() {
                b'"' => self.entry(&mut marked)?,
                _ => self.rare_entry(&mut marked)?,
            };
            if closes {
                return Ok(start..marked);
            }
        }
    }

    /// A name and a text in quotes with nothing between, as nearly all clients write nearly all
    /// fields. True when the fields end with it.
    #[inline]
    fn entry(&mut self, marked: &mut usize) -> Result<bool, Broken> {
        let key_start = self.at + 1;
        let rest = self.text.get(key_start..).unwrap_or_default();
        let Some(run) = find_either(rest, b'"', b'\\') else { return self.rare_entry(marked) };
        let key = key_start..key_start + run;
        if rest.get(run..).and_then(<[u8]>::first_chunk) != Some(b"\":\"") {
            return self.rare_entry(marked);
        }
        self.at = key.end + 2;
        let value = self.string(b'"')?;
        *marked = self.mark(*marked, &key);
        *marked = self.mark(*marked, &value);
        match self.peek() {
            b',' => self.at += 1,
            b'}' => {
                self.at += 1;
                return Ok(true);
            }
            _ => self.delimiter()?,
        }
        Ok(false)
    }

    /// An entry in any other form, or the end.
    #[inline(never)]
    fn rare_entry(&mut self, marked: &mut usize) -> Result<bool, Broken> {
        self.skip_space_and_commas();
        if self.peek() == b'}' {
            self.at += 1;
            return Ok(true);
        }
        let key = self.key()?;
        let value = self.value()?;
        self.delimiter()?;
        if let Value::Text(value) | Value::Bare(value) = value {
            *marked = self.mark(*marked, &key);
            *marked = self.mark(*marked, &value);
        }
        Ok(false)
    }

    /// Sees that an entry has ended.
    fn delimiter(&mut self) -> Result<(), Broken> {
        self.skip_space();
        match self.peek() {
            b',' | b'}' => Ok(()),
            _ => self.broken("a comma or the end of the object must follow"),
        }
    }

    /// Writes a token's mark over the punctuation before it, from where the token before ended;
    /// gives where this one ends. There is always a byte of punctuation before a token, and two
    /// (quote and colon, comma or brace) after one with quotes.
    #[inline]
    fn mark(&mut self, from: usize, token: &Range<usize>) -> usize {
        let length = token.end - token.start;
        let long = length > TOKEN_SHORT_MAX;
        let mark = if long { TOKEN_LONG } else { length.to_le_bytes()[0] };
        match self.text.get_mut(from..token.start) {
            // Nearly every time: the quotes and the colon or comma between them.
            Some([a, b, c]) => (*a, *b, *c) = (PAD, PAD, mark),
            Some([pads @ .., last]) => {
                pads.fill(PAD);
                *last = mark;
            }
            Some([]) | None => {}
        }
        if long && let Some(end) = self.text.get_mut(token.end) {
            *end = PAD;
        }
        token.end + usize::from(long)
    }

    /// A quoted string, unescaped in place; leaves off after the closing quote.
    #[inline(always)]
    fn string(&mut self, quote: u8) -> Result<Range<usize>, Broken> {
        let start = self.at + 1;
        let rest = self.text.get(start..).unwrap_or_default();
        let Some(run) = find_either(rest, quote, b'\\') else {
            return self.broken("a string does not end");
        };
        let end = start + run;
        self.at = end + 1;
        if self.text.get(end) == Some(&quote) {
            Ok(start..end)
        } else {
            self.unescape(start, end, quote)
        }
    }

    /// The rest of a string from its first escape on, whose backslash has just been passed; `end`
    /// is where the unescaped text ends so far.
    fn unescape(
        &mut self,
        start: usize,
        mut end: usize,
        quote: u8,
    ) -> Result<Range<usize>, Broken> {
        loop {
            end = self.escape(end)?;
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(run) = find_either(rest, quote, b'\\') else {
                return self.broken("a string does not end");
            };
            self.text.copy_within(self.at..self.at + run, end);
            end += run;
            self.at += run + 1;
            if self.text.get(self.at - 1) == Some(&quote) {
                return Ok(start..end);
            }
        }
    }

    /// Writes what the escape at hand (its backslash just passed) means at `end`; gives the new end.
    #[inline]
    fn escape(&mut self, end: usize) -> Result<usize, Broken> {
        // What parts properties: `\u0001` and `\u0002`.
        let rest = self.text.get(self.at..).unwrap_or_default();
        if let Some([b'u', b'0', b'0', b'0', digit @ b'0'..=b'9']) = rest.first_chunk() {
            let meant = digit - b'0';
            if let Some(place) = self.text.get_mut(end) {
                *place = meant;
            }
            self.at += 5;
            return Ok(end + 1);
        }
        self.rare_escape(end)
    }

    #[inline(never)]
    fn rare_escape(&mut self, end: usize) -> Result<usize, Broken> {
        let meant = match self.peek() {
            b'u' => self.utf16_escape()?,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'v' => '\u{b}',
            digit @ b'0'..=b'7' => char::from(digit - b'0'),
            same @ (b'"' | b'\'' | b'\\' | b'/') => char::from(same),
            b'x' => {
                let code = self.hex::<2>(self.at + 1)?;
                self.at += 2;
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            _ => return self.broken("unknown escape"),
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
    fn utf16_escape(&mut self) -> Result<char, Broken> {
        let first = self.hex::<4>(self.at + 1)?;
        self.at += 4;
        if let Some(character) = char::from_u32(first) {
            return Ok(character);
        }
        let follows = self.text.get(self.at + 1..self.at + 3) == Some(b"\\u");
        if (0xD800..0xDC00).contains(&first) && follows {
            let second = self.hex::<4>(self.at + 3)?;
            if (0xDC00..0xE000).contains(&second) {
                self.at += 6;
                let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex<const DIGITS: usize>(&mut self, at: usize) -> Result<u32, Broken> {
        let Some(digits) = self.text.get(at..).and_then(<[u8]>::first_chunk::<DIGITS>) else {
            return self.broken("an escape is cut off");
        };
        let mut code = 0;
        for byte in *digits {
            let Some(digit) = char::from(byte).to_digit(16) else {
                return self.broken("not a hex digit");
            };
            code = code * 16 + digit;
        }
        Ok(code)
    }

    /// Passes an object or array of any content.
    fn skip_nested(&mut self) -> Result<(), Broken> {
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
                        return self.broken("nested too deep");
                    }
                    objects = (objects << 1) | u64::from(opening == b'{');
                }
                closing @ (b'}' | b']') => {
                    if (objects & 1 == 1) != (closing == b'}') {
                        return self.broken("brackets do not match");
                    }
                    objects >>= 1;
                    depth -= 1;
                }
                0 => return self.broken("an object does not end"),
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
