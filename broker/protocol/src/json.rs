//! JSON as Java's fastjson reads and writes it.
//!
//! fastjson writes the keys of maps as they are: numbers without quotes, objects as objects. It
//! reads those back, and much more: single quotes, names without quotes, numbers as strings, `null`
//! for anything. Old clients depend on what it writes, so [`to_vec`] writes the same, and
//! [`from_slice`] reads what any of them may send. A type hint (`@type`) is an unknown field like
//! any other: nothing is ever made from it.
//!
//! Types say what they hold with serde. [`from_slice`] turns a missing or `null` field into the
//! type's default where the type asks serde for that, and refuses depth and size beyond bounds.

mod java_double;
mod read;
mod scan;
mod write;

pub use java_double::java_double;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// Why a text is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message} at byte {at}")]
pub struct JsonError {
    message: String,
    at: usize,
    /// A member of a struct came twice.
    is_duplicate: bool,
}

/// Reads one value from `bytes`. Bytes that are not UTF-8 are read as Java would: each as a
/// replacement character.
///
/// Of a member that comes twice the last one counts.
///
/// The key of an object that is itself an object reaches a `String` key as its JSON text, and a
/// typed key as that type.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    let text = String::from_utf8_lossy(bytes);
    match read(scan::Reader::new(&text)) {
        // Seldom, and dear to look for: so only when a type has complained.
        Err(error) if error.is_duplicate => read(scan::Reader::of_last_members(&text)),
        done => done,
    }
}

fn read<T: DeserializeOwned>(mut reader: scan::Reader<'_>) -> Result<T, JsonError> {
    let value = T::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Writes `value` as fastjson does by default: compact, no nulls, keys that are numbers or objects
/// without quotes.
///
/// # Errors
/// None for the bodies of this crate; a type with keys that JSON can't say, or byte strings.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, JsonError> {
    write::write(value, write::Form::Fastjson)
}

/// Writes `value` as any JSON reader takes it: compact, no nulls, every key a string.
///
/// # Errors
/// As [`to_vec`].
pub fn to_vec_standard<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, JsonError> {
    write::write(value, write::Form::Standard)
}

/// Writes `value` as fastjson's pretty format does, which config files have: tabs, and keys that
/// are numbers not on lines of their own.
///
/// # Errors
/// As [`to_vec`].
pub fn to_vec_pretty<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, JsonError> {
    write::write(value, write::Form::Pretty)
}

impl JsonError {
    fn new(message: impl Into<String>, at: usize) -> JsonError {
        JsonError { message: message.into(), at, is_duplicate: false }
    }
}

impl serde::de::Error for JsonError {
    fn duplicate_field(field: &'static str) -> JsonError {
        let message = format!("{field} comes twice under two names");
        JsonError { is_duplicate: true, ..JsonError::new(message, 0) }
    }

    fn custom<T: std::fmt::Display>(message: T) -> JsonError {
        JsonError::new(message.to_string(), 0)
    }
}

impl serde::ser::Error for JsonError {
    fn custom<T: std::fmt::Display>(message: T) -> JsonError {
        JsonError::new(message.to_string(), 0)
    }
}

#[cfg(test)]
mod tests;
