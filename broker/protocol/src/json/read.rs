//! The lenient reader: a serde deserializer over text.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{
    Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};

use super::{
    JsonError,
    scan::{Key, Reader, Result, Scalar, boolean, double, integer},
};

impl<'de> Reader<'de> {
    fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        if self.take_null() {
            return visitor.visit_seq(de::value::SeqDeserializer::<_, JsonError>::new(
                std::iter::empty::<u8>(),
            ));
        }
        // fastjson may say which kind of set it is.
        if matches!(self.peek(), Some(b'S' | b'T')) && !matches!(self.word(), "Set" | "TreeSet") {
            return Err(self.error("expected an array"));
        }
        self.enter(b'[')?;
        let value = visitor.visit_seq(Elements { reader: self, first: true })?;
        self.leave(b']')?;
        Ok(value)
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V, is_struct: bool) -> Result<V::Value> {
        if self.take_null() {
            return visitor.visit_map(de::value::MapDeserializer::<_, JsonError>::new(
                std::iter::empty::<(&str, &str)>(),
            ));
        }
        self.enter(b'{')?;
        let last = if is_struct { self.last_members()? } else { None };
        let value = visitor.visit_map(Members { reader: self, first: true, last })?;
        self.leave(b'}')?;
        Ok(value)
    }
}

macro_rules! deserialize_integers {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            let scalar = self.scalar()?;
            let value = integer(&scalar)
                .and_then(|value| <$type>::try_from(value).ok())
                .ok_or_else(|| self.error(concat!("not a number of type ", stringify!($type))))?;
            visitor.$visit(value)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.peek() {
            Some(b'{') => self.object(visitor, false),
            Some(b'[' | b'S' | b'T') => self.list(visitor),
            _ => match self.scalar()? {
                Scalar::Null => visitor.visit_unit(),
                Scalar::Bool(value) => visitor.visit_bool(value),
                Scalar::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
                Scalar::Text(Cow::Owned(text)) => visitor.visit_string(text),
                Scalar::Number(text) => match text.parse::<i64>() {
                    Ok(value) => visitor.visit_i64(value),
                    Err(_) => match text.parse::<f64>() {
                        Ok(value) => visitor.visit_f64(value),
                        Err(_) => Err(self.error("not a number")),
                    },
                },
            },
        }
    }

    deserialize_integers! {
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let scalar = self.scalar()?;
        visitor.visit_f64(double(&scalar).ok_or_else(|| self.error("not a number"))?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        let scalar = self.scalar()?;
        visitor.visit_bool(boolean(&scalar).ok_or_else(|| self.error("not a boolean"))?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.scalar()? {
            Scalar::Null => visitor.visit_borrowed_str(""),
            Scalar::Bool(value) => visitor.visit_borrowed_str(if value { "true" } else { "false" }),
            Scalar::Number(text) | Scalar::Text(Cow::Borrowed(text)) => {
                visitor.visit_borrowed_str(text)
            }
            Scalar::Text(Cow::Owned(text)) => visitor.visit_string(text),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.take_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.list(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.object(visitor, false)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.object(visitor, true)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        loop {
            if !self.reader.more(self.first, b']')? {
                return Ok(None);
            }
            self.first = false;
            // A null among the elements is none.
            if !self.reader.take_null() {
                return seed.deserialize(&mut *self.reader).map(Some);
            }
        }
    }
}

struct Members<'a, 'de> {
    reader: &'a mut Reader<'de>,
    first: bool,
    /// Where the members that count begin; `None`: all of them do.
    last: Option<HashMap<Cow<'de, str>, usize>>,
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        loop {
            if !self.reader.more(self.first, b'}')? {
                return Ok(None);
            }
            self.first = false;
            let start = self.reader.at();
            let key = self.reader.key()?;
            if self.last.as_ref().is_some_and(|last| last.get(&key.text) != Some(&start)) {
                self.reader.skip()?;
                continue;
            }
            // A null member is no member, so that the type's default holds.
            if !self.reader.take_null() {
                return seed.deserialize(key).map(Some);
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value> {
        seed.deserialize(&mut *self.reader)
    }
}

macro_rules! deserialize_number_keys {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            match integer(&Scalar::Text(self.text)).and_then(|value| i64::try_from(value).ok()) {
                Some(value) => visitor.visit_i64(value),
                None => Err(JsonError::new("the key is not a number", 0)),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.text {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    deserialize_number_keys! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i128 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}
