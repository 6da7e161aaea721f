//! The lexer of lenient JSON: scalars, strings, keys, and what may stand between them.

use std::borrow::Cow;
use std::collections::HashMap;

use super::JsonError;
use crate::limits::{JSON_CONTAINERS_MAX, JSON_DEPTH_MAX};

pub(super) type Result<T> = std::result::Result<T, JsonError>;

/// Reads values off the front of a text.
pub(super) struct Reader<'de> {
    text: &'de str,
    at: usize,
    depth: u32,
    /// Objects and arrays that may still come: bounds what a short text can make a type allocate.
    containers: usize,
    /// Of a struct's member that comes twice only the last one is read.
    last_members: bool,
}

/// A value that is no container, as it stands in the text.
pub(super) enum Scalar<'de> {
    Null,
    Bool(bool),
    Number(&'de str),
    Text(Cow<'de, str>),
}

/// The key of a member: text, or the text of an object.
pub(super) struct Key<'de> {
    pub(super) text: Cow<'de, str>,
}

impl<'de> Reader<'de> {
    pub(super) fn new(text: &'de str) -> Reader<'de> {
        let containers = (text.len() / 8 + 1_024).min(JSON_CONTAINERS_MAX);
        Reader { text, at: 0, depth: 0, containers, last_members: false }
    }

    /// A reader to which only the last member of a name in a struct exists. It looks through each
    /// struct once more.
    pub(super) fn of_last_members(text: &'de str) -> Reader<'de> {
        Reader { last_members: true, ..Reader::new(text) }
    }

    /// Where the last member of each name in the object begins whose opening brace is taken; `None`
    /// when all are to be read. The reader stays where it is.
    pub(super) fn last_members(&mut self) -> Result<Option<HashMap<Cow<'de, str>, usize>>> {
        if !self.last_members {
            return Ok(None);
        }
        let (at, containers) = (self.at, self.containers);
        let mut last = HashMap::new();
        while self.more(last.is_empty(), b'}')? {
            let start = self.at;
            last.insert(self.key()?.text, start);
            self.skip()?;
        }
        (self.at, self.containers) = (at, containers);
        Ok(Some(last))
    }

    /// The byte of the text that is next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Refuses anything but blanks after the value.
    pub(super) fn end(mut self) -> Result<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("trailing characters")),
        }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> JsonError {
        JsonError::new(message, self.at)
    }

    /// The next byte that is not blank, without taking it.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn expect(&mut self, wanted: u8) -> Result<()> {
        if self.peek() != Some(wanted) {
            return Err(self.error(format!("expected `{}`", char::from(wanted))));
        }
        self.at += 1;
        Ok(())
    }

    pub(super) fn enter(&mut self, open: u8) -> Result<()> {
        self.expect(open)?;
        if self.depth == JSON_DEPTH_MAX {
            return Err(self.error("nested too deep"));
        }
        if self.containers == 0 {
            return Err(self.error("too many objects"));
        }
        self.depth += 1;
        self.containers -= 1;
        Ok(())
    }

    pub(super) fn leave(&mut self, close: u8) -> Result<()> {
        self.expect(close)?;
        self.depth -= 1;
        Ok(())
    }

    /// Moves to the next member or element: false at the closing byte. Commas may be repeated or
    /// trail, as fastjson allows.
    pub(super) fn more(&mut self, first: bool, close: u8) -> Result<bool> {
        let mut commas = 0_u32;
        while self.peek() == Some(b',') {
            self.at += 1;
            commas += 1;
        }
        match self.peek() {
            None => Err(self.error("unexpected end")),
            Some(byte) if byte == close => Ok(false),
            Some(_) if first || commas > 0 => Ok(true),
            Some(_) => Err(self.error("expected `,`")),
        }
    }

    /// The run of name and number characters at this place.
    pub(super) fn word(&mut self) -> &'de str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let len = rest
            .bytes()
            .take_while(|byte| {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'_' | b'$' | b'.' | b'-' | b'+' | b'@')
            })
            .count();
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    pub(super) fn scalar(&mut self) -> Result<Scalar<'de>> {
        match self.peek() {
            Some(b'"' | b'\'') => Ok(Scalar::Text(self.string()?)),
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.') => {
                match self.word() {
                    "null" | "NaN" | "undefined" => Ok(Scalar::Null),
                    "true" => Ok(Scalar::Bool(true)),
                    "false" => Ok(Scalar::Bool(false)),
                    word if word.bytes().any(|byte| byte.is_ascii_digit()) => {
                        Ok(Scalar::Number(word))
                    }
                    word => Err(self.error(format!("unexpected `{word:.20}`"))),
                }
            }
            Some(b'{' | b'[') => Err(self.error("unexpected object or array")),
            Some(_) => Err(self.error("unexpected character")),
            None => Err(self.error("unexpected end")),
        }
    }

    /// A string between either kind of quotes, unescaped.
    fn string(&mut self) -> Result<Cow<'de, str>> {
        let quote = self.peek().unwrap_or(b'"');
        self.expect(quote)?;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut owned = String::new();
        let mut copied = start;
        loop {
            match bytes.get(self.at) {
                None => return Err(self.error("string has no end")),
                Some(byte) if *byte == quote => break,
                Some(b'\\') => {
                    owned.push_str(self.text.get(copied..self.at).unwrap_or_default());
                    self.at += 1;
                    owned.push(self.escape()?);
                    copied = self.at;
                }
                Some(_) => self.at += 1,
            }
        }
        let tail = self.text.get(copied..self.at).unwrap_or_default();
        self.at += 1;
        if copied == start {
            return Ok(Cow::Borrowed(tail));
        }
        owned.push_str(tail);
        Ok(Cow::Owned(owned))
    }

    /// The character of an escape whose backslash is taken.
    fn escape(&mut self) -> Result<char> {
        let escaped = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        let escaped = escaped.ok_or_else(|| self.error("string has no end"))?;
        self.at += escaped.len_utf8();
        Ok(match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' | 'F' => '\u{c}',
            'v' => '\u{b}',
            '0'..='7' => char::from(escaped as u8 - b'0'),
            'x' => char::from_u32(self.hex(2)?).unwrap_or(char::REPLACEMENT_CHARACTER),
            'u' => self.utf16()?,
            other => other,
        })
    }

    /// The character of one `\u` escape or of a pair; half a pair is a replacement character.
    fn utf16(&mut self) -> Result<char> {
        let unit = self.hex(4)?;
        let is_pair =
            (0xD800..0xDC00).contains(&unit) && self.text.get(self.at..self.at + 2) == Some("\\u");
        if is_pair {
            let after_first = self.at;
            self.at += 2;
            let low = self.hex(4)?;
            if (0xDC00..0xE000).contains(&low) {
                let joined = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = after_first;
        }
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self, digits: usize) -> Result<u32> {
        let value = self
            .text
            .get(self.at..self.at + digits)
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|text| u32::from_str_radix(text, 16).ok())
            .ok_or_else(|| self.error("broken escape"))?;
        self.at += digits;
        Ok(value)
    }

    /// The key of a member, with its colon.
    pub(super) fn key(&mut self) -> Result<Key<'de>> {
        let key = match self.peek() {
            Some(b'"' | b'\'') => Key { text: self.string()? },
            Some(b'{') => {
                let start = self.at;
                self.skip()?;
                let text = self.text.get(start..self.at).unwrap_or_default();
                Key { text: Cow::Borrowed(text) }
            }
            _ => {
                let word = self.word();
                if word.is_empty() {
                    return Err(self.error("expected a key"));
                }
                Key { text: Cow::Borrowed(word) }
            }
        };
        self.expect(b':')?;
        Ok(key)
    }

    /// Passes over one value.
    pub(super) fn skip(&mut self) -> Result<()> {
        match self.peek() {
            Some(b'{') => {
                self.enter(b'{')?;
                let mut first = true;
                while self.more(first, b'}')? {
                    first = false;
                    self.key()?;
                    self.skip()?;
                }
                self.leave(b'}')
            }
            Some(b'[') => {
                self.enter(b'[')?;
                let mut first = true;
                while self.more(first, b']')? {
                    first = false;
                    self.skip()?;
                }
                self.leave(b']')
            }
            _ => self.scalar().map(drop),
        }
    }

    /// Takes a `null`, or an absent value, if one is next.
    pub(super) fn take_null(&mut self) -> bool {
        if self.peek() != Some(b'n') {
            return false;
        }
        let before = self.at;
        if self.word() == "null" {
            return true;
        }
        self.at = before;
        false
    }
}

/// A whole number out of what fastjson takes for one.
pub(super) fn integer(scalar: &Scalar<'_>) -> Option<i128> {
    let text = match scalar {
        Scalar::Null => return Some(0),
        Scalar::Bool(value) => return Some(i128::from(*value)),
        Scalar::Number(text) => text,
        Scalar::Text(text) if text.trim().is_empty() || text == "null" => return Some(0),
        Scalar::Text(text) => text.trim(),
    };
    text.parse::<i64>().map(i128::from).ok().or_else(|| {
        // Too large for 64 bits, or a fraction: Java cuts it off.
        text.parse::<i128>().ok().or_else(|| {
            let value = text.parse::<f64>().ok().filter(|value| value.abs() < 1e19)?;
            Some(value as i128)
        })
    })
}

pub(super) fn double(scalar: &Scalar<'_>) -> Option<f64> {
    match scalar {
        Scalar::Null => Some(0.0),
        Scalar::Bool(value) => Some(f64::from(u8::from(*value))),
        Scalar::Number(text) => text.parse().ok(),
        Scalar::Text(text) if text.trim().is_empty() => Some(0.0),
        Scalar::Text(text) => text.trim().parse().ok(),
    }
}

pub(super) fn boolean(scalar: &Scalar<'_>) -> Option<bool> {
    match scalar {
        Scalar::Null => Some(false),
        Scalar::Bool(value) => Some(*value),
        Scalar::Number(text) => text.parse::<f64>().ok().map(|value| value == 1.0),
        Scalar::Text(text) => match text.trim() {
            "" | "0" => Some(false),
            "1" => Some(true),
            text if text.eq_ignore_ascii_case("true") => Some(true),
            text if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        },
    }
}
