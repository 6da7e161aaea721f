//! The writer: a serde serializer in fastjson's forms.

use serde::{
    Serialize, Serializer,
    ser::{
        Impossible, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple,
        SerializeTupleStruct,
    },
};

use super::{JsonError, java_double};

type Result<T> = std::result::Result<T, JsonError>;

/// Which of fastjson's forms to write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Compact, with keys as they are.
    Fastjson,
    /// Compact, with every key a string.
    Standard,
    /// Indented by tabs, with keys as they are.
    Pretty,
}

pub(super) fn write<T: Serialize + ?Sized>(value: &T, form: Form) -> Result<Vec<u8>> {
    let mut writer = Writer { out: Vec::with_capacity(256), form, indent: 0 };
    value.serialize(&mut writer)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    form: Form,
    indent: usize,
}

impl Writer {
    fn raw(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn line(&mut self) {
        if self.form == Form::Pretty {
            self.out.push(b'\n');
            self.out.resize(self.out.len() + self.indent, b'\t');
        }
    }

    fn open(&mut self, byte: u8) {
        self.out.push(byte);
        self.indent += 1;
    }

    fn close(&mut self, byte: u8, empty: bool) {
        self.indent -= 1;
        if !empty {
            self.line();
        }
        self.out.push(byte);
    }

    fn text(&mut self, text: &str) {
        self.out.push(b'"');
        let mut plain = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0x08 => b"\\b",
                0x0C => b"\\f",
                0..=0x1F | 0x7F => b"",
                _ => continue,
            };
            self.raw(text.get(plain..at).unwrap_or_default());
            plain = at + 1;
            if escape.is_empty() {
                self.raw(&format!("\\u{byte:04X}"));
            } else {
                self.out.extend_from_slice(escape);
            }
        }
        self.raw(text.get(plain..).unwrap_or_default());
        self.out.push(b'"');
    }

    /// Writes a member's value behind its key; takes the key back, from `start` on, for a null.
    fn value<T: Serialize + ?Sized>(&mut self, start: usize, value: &T) -> Result<bool> {
        let before = self.out.len();
        value.serialize(&mut *self)?;
        if self.out.get(before..) == Some(b"null") {
            self.out.truncate(start);
            return Ok(false);
        }
        Ok(true)
    }

    fn container(&mut self, open: u8, close: u8) -> Container<'_> {
        self.open(open);
        Container { writer: self, close, empty: true, key_start: 0 }
    }
}

/// An object or array that is being written.
struct Container<'a> {
    writer: &'a mut Writer,
    close: u8,
    empty: bool,
    /// Where the current member of a map begins in the output.
    key_start: usize,
}

impl Container<'_> {
    fn separate(&mut self) {
        if !self.empty {
            self.writer.out.push(b',');
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.separate();
        self.writer.line();
        self.empty = false;
        value.serialize(&mut *self.writer)
    }

    fn finish(self) {
        self.writer.close(self.close, self.empty);
    }
}

macro_rules! serialize_integers {
    ($($method:ident $type:ty;)*) => {$(
        fn $method(self, value: $type) -> Result<()> {
            self.raw(&value.to_string());
            Ok(())
        }
    )*};
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(JsonError::new(format!("JSON has no form for {what}"), 0))
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = JsonError;
    type SerializeSeq = Container<'a>;
    type SerializeTuple = Container<'a>;
    type SerializeTupleStruct = Container<'a>;
    type SerializeTupleVariant = Impossible<(), JsonError>;
    type SerializeMap = Container<'a>;
    type SerializeStruct = Container<'a>;
    type SerializeStructVariant = Impossible<(), JsonError>;

    serialize_integers! {
        serialize_i8 i8; serialize_i16 i16; serialize_i32 i32; serialize_i64 i64;
        serialize_u8 u8; serialize_u16 u16; serialize_u32 u32; serialize_u64 u64;
    }

    fn serialize_bool(self, value: bool) -> Result<()> {
        self.raw(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<()> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<()> {
        // fastjson has no text for what is no number.
        if value.is_finite() {
            self.raw(&java_double(value))
        } else {
            self.raw("null")
        }
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<()> {
        self.text(value.encode_utf8(&mut [0; 4]));
        Ok(())
    }

    fn serialize_str(self, value: &str) -> Result<()> {
        self.text(value);
        Ok(())
    }

    fn serialize_bytes(self, _value: &[u8]) -> Result<()> {
        unsupported("bytes")
    }

    fn serialize_none(self) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<()> {
        self.raw("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<()> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<()> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<()> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<()> {
        unsupported("variants with fields")
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Container<'a>> {
        Ok(self.container(b'[', b']'))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Container<'a>> {
        Ok(self.container(b'[', b']'))
    }

    fn serialize_tuple_struct(self, _name: &'static str, _len: usize) -> Result<Container<'a>> {
        Ok(self.container(b'[', b']'))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        unsupported("variants with fields")
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Container<'a>> {
        Ok(self.container(b'{', b'}'))
    }

    fn serialize_struct(self, _name: &'static str, _len: usize) -> Result<Container<'a>> {
        Ok(self.container(b'{', b'}'))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _len: usize,
    ) -> Result<Self::SerializeStructVariant> {
        unsupported("variants with fields")
    }
}

macro_rules! serialize_elements {
    ($($trait:ident $method:ident;)*) => {$(
        impl $trait for Container<'_> {
            type Ok = ();
            type Error = JsonError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
                self.element(value)
            }

            fn end(self) -> Result<()> {
                self.finish();
                Ok(())
            }
        }
    )*};
}

serialize_elements! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
}

impl SerializeStruct for Container<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<()> {
        let start = self.writer.out.len();
        self.separate();
        self.writer.line();
        self.writer.text(name);
        self.writer.out.push(b':');
        if self.writer.value(start, value)? {
            self.empty = false;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        self.finish();
        Ok(())
    }
}

impl SerializeMap for Container<'_> {
    type Ok = ();
    type Error = JsonError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key_start = self.writer.out.len();
        self.separate();
        // Written compact and apart first: what it is decides how it is set.
        let form = if self.writer.form == Form::Standard { Form::Standard } else { Form::Fastjson };
        let key = write(key, form)?;
        let is_text = key.first() == Some(&b'"');
        if is_text {
            self.writer.line();
        }
        match self.writer.form {
            Form::Standard if !is_text => {
                let key = std::str::from_utf8(&key).unwrap_or_default();
                self.writer.text(key);
            }
            _ => self.writer.out.extend_from_slice(&key),
        }
        self.writer.out.push(b':');
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        if self.writer.value(self.key_start, value)? {
            self.empty = false;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        self.finish();
        Ok(())
    }
}
