//! What a request's header fields are: one table a request, from which the struct, both readers and
//! both writers follow. The tables themselves are in [`crate::request`].

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::frame::{Entries, FieldWriter};

mod field;

pub use field::{Field, IntoOwned};

/// Header fields that can be written. Declared with [`wire_header!`](crate::wire_header).
pub trait Header {
    /// Writes every field that has a value, in order of declaration.
    fn write(&self, out: &mut FieldWriter<'_>);

    /// False when the frame is to say nothing of fields at all, which JSON peers tell from `{}`.
    fn is_present(&self) -> bool {
        true
    }
}

/// Header fields that can be read; texts are borrowed from the frame.
pub trait FromExt<'a>: Sized {
    /// Reads the fields of a frame.
    ///
    /// # Errors
    /// When a needed field is missing or one is not of its type.
    fn from_ext(entries: Entries<'a>) -> Result<Self, HeaderError>;
}

/// A header that does not fit its request. The text is fit for the answer's remark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("header field {field} {problem}")]
pub struct HeaderError {
    /// Name of the field on the wire, the long one.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// The request needs it.
    #[error("is missing")]
    Missing,
    /// It must be a whole number that fits in 32 bits.
    #[error("must be a whole number from -2147483648 to 2147483647")]
    NotInt,
    /// It must be a whole number that fits in 64 bits.
    #[error("must be a whole number of at most 64 bits")]
    NotLong,
    /// It must be a number.
    #[error("must be a number")]
    NotFloat,
    /// It is not UTF-8.
    #[error("must be UTF-8 text")]
    NotText,
}

/// A command without a header object: its frame does not mention fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoHeader;

impl Header for NoHeader {
    fn write(&self, _out: &mut FieldWriter<'_>) {}

    fn is_present(&self) -> bool {
        false
    }
}

impl FromExt<'_> for NoHeader {
    fn from_ext(_entries: Entries<'_>) -> Result<Self, HeaderError> {
        Ok(NoHeader)
    }
}

/// A header object without fields: JSON frames show `"extFields":{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmptyHeader;

impl Header for EmptyHeader {
    fn write(&self, _out: &mut FieldWriter<'_>) {}
}

impl FromExt<'_> for EmptyHeader {
    fn from_ext(_entries: Entries<'_>) -> Result<Self, HeaderError> {
        Ok(EmptyHeader)
    }
}

/// `None` is [`NoHeader`].
impl<H: Header> Header for Option<H> {
    fn write(&self, out: &mut FieldWriter<'_>) {
        if let Some(header) = self {
            header.write(out);
        }
    }

    fn is_present(&self) -> bool {
        self.as_ref().is_some_and(Header::is_present)
    }
}

/// Names and values as they come, for the few commands that have no table.
impl<K: AsRef<str>, V: AsRef<str>> Header for [(K, V)] {
    fn write(&self, out: &mut FieldWriter<'_>) {
        for (name, value) in self {
            out.pair(name.as_ref(), value.as_ref());
        }
    }
}

/// A header with further fields after its own, such as the signature of an authorised client.
#[derive(Debug, Clone, Copy)]
pub struct WithExtra<'h, H, P: ?Sized> {
    /// The request's own header.
    pub header: &'h H,
    /// What follows it.
    pub extra: &'h P,
}

impl<H: Header, P: Header + ?Sized> Header for WithExtra<'_, H, P> {
    fn write(&self, out: &mut FieldWriter<'_>) {
        self.header.write(out);
        self.extra.write(out);
    }
}

/// Declares header structs, one field table each:
///
/// ```
/// use std::borrow::Cow;
/// broker_protocol::wire_header! {
///     /// What the request is for.
///     pub struct Example<'a> {
///         /// A text the request needs, with a one-letter name.
///         pub topic: Cow<'a, str> => "topic" / "b",
///         /// A number that may be missing.
///         pub times: Option<i32> => "times",
///         /// A flag with a value when missing, and an older name that is read as well.
///         pub clean: bool => "clean" | "remove" or false,
///     }
/// }
/// ```
///
/// Types: `Cow<'a, str>`, `i32`, `i64`, `bool`, `f64` and `Option` of these. Reading takes long,
/// one-letter and older names alike; writing takes the one-letter names if the request head asks
/// for them, else the long ones. A field with neither `Option` nor `or` must be there.
#[macro_export]
macro_rules! wire_header {
    () => {};
    (
        $(#[$meta:meta])*
        pub struct $name:ident<$life:lifetime> {
            $(
                $(#[$field_meta:meta])*
                pub $field:ident: $ty:ty => $long:literal $(/ $short:literal)? $(| $older:literal)?
                    $(or $default:expr)?
            ),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name<$life> {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl $name<'_> {
            /// Copies the borrowed texts, so that the header outlives its frame.
            #[must_use]
            pub fn into_owned(self) -> $name<'static> {
                $name { $($field: $crate::header::IntoOwned::into_owned(self.$field),)* }
            }
        }

        $crate::wire_header!(@impl [$name<$life>] [$life]
            $($field: $ty => $long [$($short)?] [$($older)?] [$($default)?];)*);
        $crate::wire_header! { $($rest)* }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[$field_meta:meta])*
                pub $field:ident: $ty:ty => $long:literal $(/ $short:literal)? $(| $older:literal)?
                    $(or $default:expr)?
            ),* $(,)?
        }
        $($rest:tt)*
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        $crate::wire_header!(@impl [$name] ['a]
            $($field: $ty => $long [$($short)?] [$($older)?] [$($default)?];)*);
        $crate::wire_header! { $($rest)* }
    };
    (@impl [$self:ty] [$life:lifetime]
        $($field:ident: $ty:ty => $long:literal [$($short:literal)?] [$($older:literal)?]
            [$($default:expr)?];)*
    ) => {
        const _: () = {
            #[allow(non_upper_case_globals, reason = "one constant per field, named as the field")]
            mod names {
                $(pub(super) const $field: $crate::frame::FieldName =
                    $crate::wire_header!(@name $long $($short)?);)*
            }

            impl<$life> $crate::header::Header for $self {
                fn write(&self, out: &mut $crate::frame::FieldWriter<'_>) {
                    $($crate::header::Field::write(&self.$field, &names::$field, out);)*
                }
            }

            impl<$life> $crate::header::FromExt<$life> for $self {
                fn from_ext(
                    entries: $crate::frame::Entries<$life>,
                ) -> Result<Self, $crate::header::HeaderError> {
                    $(let mut $field: Option<$ty> = None;)*
                    for (key, value) in entries {
                        $(
                            if key == $long.as_bytes()
                                $(|| key == $short.as_bytes())?
                                $(|| key == $older.as_bytes())?
                            {
                                $crate::header::read_field(value, $long, &mut $field)?;
                                continue;
                            }
                        )*
                    }
                    Ok(Self {
                        $($field: match $field {
                            Some(value) => value,
                            None => $crate::wire_header!(@absent $long $($default)?),
                        },)*
                    })
                }
            }
        };
    };
    (@name $long:literal) => { $crate::wire_header!(@name $long $long) };
    (@name $long:literal $short:literal) => {
        $crate::frame::FieldName {
            long: $long,
            short: $short,
            long_json: concat!("\"", $long, "\":\""),
            short_json: concat!("\"", $short, "\":\""),
        }
    };
    (@absent $long:literal) => { $crate::header::absent_field($long)? };
    (@absent $long:literal $default:expr) => { $default };
}

/// For the macro: reads one value. An empty one that is no text leaves the field as it was.
#[doc(hidden)]
pub fn read_field<'a, F: Field<'a>>(
    value: &'a [u8],
    field: &'static str,
    into: &mut Option<F>,
) -> Result<(), HeaderError> {
    match F::read(value) {
        Ok(Some(read)) => {
            *into = Some(read);
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(problem) => Err(HeaderError { field, problem }),
    }
}

/// For the macro: what a field is that the frame does not have.
#[doc(hidden)]
pub fn absent_field<'a, F: Field<'a>>(field: &'static str) -> Result<F, HeaderError> {
    F::absent().ok_or(HeaderError { field, problem: FieldProblem::Missing })
}
