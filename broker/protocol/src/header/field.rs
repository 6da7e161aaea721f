//! How one field value is read and written, for each type a table may name.

use std::borrow::Cow;

use super::FieldProblem;
use crate::frame::{FieldName, FieldWriter, integer};

/// A type of header field.
pub trait Field<'a>: Sized {
    /// Reads a value. `None` means: as if the field were not there, which is how an empty text
    /// reads where a number is expected (binary headers write null so).
    ///
    /// # Errors
    /// When the value is not of this type.
    fn read(value: &'a [u8]) -> Result<Option<Self>, FieldProblem>;

    /// What the field is when it is not there; `None` if it must be there.
    fn absent() -> Option<Self>;

    /// Writes the value, or nothing if there is none.
    fn write(&self, name: &FieldName, out: &mut FieldWriter<'_>);
}

impl<'a> Field<'a> for Cow<'a, str> {
    fn read(value: &'a [u8]) -> Result<Option<Self>, FieldProblem> {
        match std::str::from_utf8(value) {
            Ok(text) => Ok(Some(Cow::Borrowed(text))),
            Err(_) => Err(FieldProblem::NotText),
        }
    }

    fn absent() -> Option<Self> {
        None
    }

    fn write(&self, name: &FieldName, out: &mut FieldWriter<'_>) {
        out.text(name, self);
    }
}

impl Field<'_> for i32 {
    fn read(value: &[u8]) -> Result<Option<Self>, FieldProblem> {
        match integer(value).map(i32::try_from) {
            Some(Ok(number)) => Ok(Some(number)),
            _ if value.is_empty() => Ok(None),
            _ => Err(FieldProblem::NotInt),
        }
    }

    fn absent() -> Option<Self> {
        None
    }

    fn write(&self, name: &FieldName, out: &mut FieldWriter<'_>) {
        out.integer(name, i64::from(*self));
    }
}

impl Field<'_> for i64 {
    fn read(value: &[u8]) -> Result<Option<Self>, FieldProblem> {
        match integer(value) {
            Some(number) => Ok(Some(number)),
            None if value.is_empty() => Ok(None),
            None => Err(FieldProblem::NotLong),
        }
    }

    fn absent() -> Option<Self> {
        None
    }

    fn write(&self, name: &FieldName, out: &mut FieldWriter<'_>) {
        out.integer(name, *self);
    }
}

/// As Java peers read it: "true" in any case is true, everything else is false.
impl Field<'_> for bool {
    fn read(value: &[u8]) -> Result<Option<Self>, FieldProblem> {
        Ok((!value.is_empty()).then(|| value.eq_ignore_ascii_case(b"true")))
    }

    fn absent() -> Option<Self> {
        None
    }

    fn write(&self, name: &FieldName, out: &mut FieldWriter<'_>) {
        out.flag(name, *self);
    }
}

impl Field<'_> for f64 {
    fn read(value: &[u8]) -> Result<Option<Self>, FieldProblem> {
        match std::str::from_utf8(value).map(str::parse) {
            Ok(Ok(number)) => Ok(Some(number)),
            _ if value.is_empty() => Ok(None),
            _ => Err(FieldProblem::NotFloat),
        }
    }

    fn absent() -> Option<Self> {
        None
    }

    fn write(&self, name: &FieldName, out: &mut FieldWriter<'_>) {
        out.float(name, *self);
    }
}

impl<'a, F: Field<'a>> Field<'a> for Option<F> {
    fn read(value: &'a [u8]) -> Result<Option<Self>, FieldProblem> {
        F::read(value).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn write(&self, name: &FieldName, out: &mut FieldWriter<'_>) {
        if let Some(value) = self {
            value.write(name, out);
        }
    }
}

/// Leaves the frame behind.
pub trait IntoOwned {
    /// The same field without a borrow.
    type Static;

    /// Copies what is borrowed.
    fn into_owned(self) -> Self::Static;
}

impl IntoOwned for Cow<'_, str> {
    type Static = Cow<'static, str>;

    fn into_owned(self) -> Self::Static {
        Cow::Owned(Cow::into_owned(self))
    }
}

impl<T: IntoOwned> IntoOwned for Option<T> {
    type Static = Option<T::Static>;

    fn into_owned(self) -> Self::Static {
        self.map(IntoOwned::into_owned)
    }
}

macro_rules! already_owned {
    ($($ty:ty)*) => {
        $(impl IntoOwned for $ty {
            type Static = $ty;

            fn into_owned(self) -> $ty {
                self
            }
        })*
    };
}

already_owned! { i32 i64 bool f64 }
