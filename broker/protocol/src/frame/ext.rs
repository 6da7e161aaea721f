//! The request's own fields: names and values, read in order, without a map.
//!
//! The JSON reader rewrites this region in place into a form that can be read any number of times:
//! each token (name, value, name, value ...) ends with the byte 255, and the rest of what was
//! punctuation before a token is 254. Neither byte occurs in UTF-8, so tokens need no escapes and
//! can be lent out as they stand. Binary headers are read as they came.

use super::scan::find_255;
use super::{FrameError, Serialize, scan};
use crate::header::{FromExt, HeaderError};

/// Ends a token.
pub(super) const TOKEN_END: u8 = 255;
/// Fills what is no token.
pub(super) const FILLER: u8 = 254;

/// Undecoded fields of a header. Cheap to copy; reading does not use them up.
#[derive(Debug, Clone, Copy)]
pub struct ExtFields<'a> {
    bytes: Option<&'a [u8]>,
    serialize: Serialize,
}

impl<'a> ExtFields<'a> {
    /// `bytes` is a region that one of the two header readers has checked.
    pub(super) fn new(bytes: Option<&'a [u8]>, serialize: Serialize) -> Self {
        ExtFields { bytes, serialize }
    }

    /// Did the header say nothing about fields at all? (`{}` is not that.)
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.bytes.is_none()
    }

    /// Reads the fields of one request. Fields it does not know are skipped, whatever they hold; of
    /// a name that comes twice the last one counts.
    ///
    /// # Errors
    /// When a field that the request needs is missing, or one is not of its type. The connection is
    /// fine: answer with the error's text.
    pub fn decode<H: FromExt<'a>>(&self) -> Result<H, HeaderError> {
        H::from_ext(self.entries())
    }

    /// Every field in the order of the wire, as raw UTF-8 bytes.
    #[must_use]
    pub fn entries(&self) -> Entries<'a> {
        Entries { rest: self.bytes.unwrap_or_default(), serialize: self.serialize }
    }

    /// Calls `each` with every name and value in the order of the wire.
    pub fn for_each(&self, mut each: impl FnMut(&'a str, &'a str)) {
        for (key, value) in self.entries() {
            each(text(key), text(value));
        }
    }

    /// Value of the first field called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'a str> {
        self.entries().find(|(key, _)| *key == name.as_bytes()).map(|(_, value)| text(value))
    }
}

/// Both header readers refuse headers that are not UTF-8, so the empty text never comes out.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Iterator over names and values, both valid UTF-8.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: &'a [u8],
    serialize: Serialize,
}

impl<'a> Entries<'a> {
    fn marked_token(&mut self) -> Option<&'a [u8]> {
        while let Some((&FILLER, rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        let (token, rest) = self.rest.split_at_checked(find_255(self.rest)?)?;
        self.rest = rest.get(1..)?;
        Some(token)
    }

    fn prefixed_token(&mut self, length: usize, prefix: usize) -> Option<&'a [u8]> {
        let (token, rest) = self.rest.get(prefix..)?.split_at_checked(length)?;
        self.rest = rest;
        Some(token)
    }

    fn prefixed_entry(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let length = u16::from_be_bytes(*self.rest.first_chunk()?);
        let key = self.prefixed_token(usize::from(length), 2)?;
        let length = scan::u32_at(self.rest, 0)?;
        let value = self.prefixed_token(length as usize, 4)?;
        Some((key, value))
    }

    /// Checks lengths and text of a whole binary region.
    pub(super) fn check_binary(bytes: &'a [u8]) -> Result<(), FrameError> {
        let mut entries = Entries { rest: bytes, serialize: Serialize::Binary };
        while !entries.rest.is_empty() {
            let Some((key, value)) = entries.prefixed_entry() else {
                return Err(FrameError::Binary("a field is longer than the fields' length"));
            };
            if std::str::from_utf8(key).is_err() || std::str::from_utf8(value).is_err() {
                return Err(FrameError::Utf8);
            }
        }
        Ok(())
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match self.serialize {
            Serialize::Json => Some((self.marked_token()?, self.marked_token()?)),
            Serialize::Binary => self.prefixed_entry(),
        }
    }
}
