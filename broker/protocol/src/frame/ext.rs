//! The request's own fields: names and values, read in order, without a map.
//!
//! The JSON reader rewrites this region in place into a form that can be read any number of times.
//! Tokens (name, value, name, value ...) are lent out as they stand; the punctuation before each
//! becomes its mark: any number of [`PAD`], then one byte with the token's length, or
//! [`TOKEN_LONG`] if that does not fit, and then the token ends before the next [`PAD`], a byte
//! that UTF-8 does not have. Binary headers are read as they came.

use super::scan::find_255;
use super::{FrameError, Serialize, scan};
use crate::header::{FromExt, HeaderError};

/// Fills what is no token, and ends a long one.
pub(super) const PAD: u8 = 255;
/// Mark of a token too long for its length to fit.
pub(super) const TOKEN_LONG: u8 = 254;
/// Longest token whose length is its mark, in bytes.
pub(super) const TOKEN_SHORT_MAX: usize = 253;

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
    #[inline]
    fn marked_token(&mut self) -> Option<&'a [u8]> {
        // Nearly every mark stands over two quotes and the comma or colon between them.
        match self.rest.split_first_chunk() {
            Some((&[PAD, PAD, length], rest)) if usize::from(length) <= TOKEN_SHORT_MAX => {
                let (token, rest) = rest.split_at_checked(usize::from(length))?;
                self.rest = rest;
                Some(token)
            }
            _ => self.rarely_marked_token(),
        }
    }

    #[inline(never)]
    fn rarely_marked_token(&mut self) -> Option<&'a [u8]> {
        // A value that had many escapes has left many pads.
        while let Some((&[PAD, PAD, PAD, PAD, PAD, PAD, PAD, PAD], rest)) =
            self.rest.split_first_chunk()
        {
            self.rest = rest;
        }
        loop {
            let (mark, rest) = self.rest.split_first()?;
            self.rest = rest;
            let length = match *mark {
                PAD => continue,
                TOKEN_LONG => find_255(rest)?,
                length => usize::from(length),
            };
            let (token, rest) = rest.split_at_checked(length)?;
            self.rest = rest;
            return Some(token);
        }
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

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.serialize {
            Serialize::Json => Some((self.marked_token()?, self.marked_token()?)),
            Serialize::Binary => self.prefixed_entry(),
        }
    }
}
