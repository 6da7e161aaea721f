//! A broker's registration: the body of code 103, as JSON or packed and compressed.

use std::{
    io::{Read, Write},
    sync::Arc,
};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{DataVersion, TopicConfig, TopicConfigs};
use crate::{
    json::{self, JsonError},
    limits::REGISTRATION_UNFOLDED_MAX,
};

/// Topics and filter servers of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisterBroker {
    /// Addresses of filter servers; none in our time.
    pub filter_server_list: Vec<String>,
    /// The broker's topics.
    pub topic_config_serialize_wrapper: TopicConfigs,
}

/// Why a registration can't be read.
#[derive(Debug, Error)]
pub enum RegisterError {
    /// The JSON, or a JSON part of the packed form, is broken.
    #[error("registration is not JSON: {0}")]
    Json(#[from] JsonError),
    /// The packed form can't be unfolded.
    #[error("registration is not zlib data: {0}")]
    Zlib(#[from] std::io::Error),
    /// The packed form unfolds to more than allowed.
    #[error("registration unfolds to more than {REGISTRATION_UNFOLDED_MAX} bytes")]
    TooLarge,
    /// A length in the packed form is impossible.
    #[error("registration is cut short or has an impossible length")]
    Length,
    /// A topic of the packed form is not `name read write perm type`.
    #[error("registration holds a broken topic: {0:.200}")]
    Topic(String),
}

impl RegisterBroker {
    /// Reads the body of a registration. `compressed` is what the request's header says; an absent
    /// body is a registration without topics.
    pub fn decode(body: &[u8], compressed: bool) -> Result<RegisterBroker, RegisterError> {
        if body.is_empty() {
            return Ok(RegisterBroker::default());
        }
        if !compressed {
            return Ok(json::from_slice(body)?);
        }
        let mut unfolded = Vec::new();
        let limit = REGISTRATION_UNFOLDED_MAX as u64 + 1;
        ZlibDecoder::new(body).take(limit).read_to_end(&mut unfolded)?;
        if unfolded.len() > REGISTRATION_UNFOLDED_MAX {
            return Err(RegisterError::TooLarge);
        }
        let mut rest = unfolded.as_slice();
        let data_version: DataVersion = json::from_slice(take(&mut rest)?)?;
        let topics = take_i32(&mut rest)?;
        let mut topic_configs = TopicConfigs { data_version, ..TopicConfigs::default() };
        for _ in 0..topics {
            let text = String::from_utf8_lossy(take(&mut rest)?);
            let topic = TopicConfig::from_text(&text)
                .ok_or_else(|| RegisterError::Topic(text.into_owned()))?;
            topic_configs.topic_config_table.insert(topic.topic_name.clone(), Arc::new(topic));
        }
        // What 5.x appends (mappings of static topics) is left unread.
        let filter_server_list = json::from_slice(take(&mut rest)?)?;
        Ok(RegisterBroker { filter_server_list, topic_config_serialize_wrapper: topic_configs })
    }

    /// The JSON form.
    pub fn encode(&self) -> Result<Vec<u8>, JsonError> {
        json::to_vec(self)
    }

    /// The packed form: a fraction of the JSON, for tables that would not fit a frame. It can't say
    /// a topic's `order` and system flag.
    pub fn encode_compressed(&self) -> Result<Vec<u8>, RegisterError> {
        let topics = &self.topic_config_serialize_wrapper;
        let mut out = ZlibEncoder::new(Vec::new(), Compression::default());
        put(&mut out, &json::to_vec(&topics.data_version)?)?;
        out.write_all(&length(topics.topic_config_table.len())?)?;
        for topic in topics.topic_config_table.values() {
            put(&mut out, topic.to_text().as_bytes())?;
        }
        put(&mut out, &json::to_vec(&self.filter_server_list)?)?;
        Ok(out.finish()?)
    }
}

fn length(len: usize) -> Result<[u8; 4], RegisterError> {
    i32::try_from(len).map(i32::to_be_bytes).map_err(|_| RegisterError::Length)
}

fn put(out: &mut impl Write, bytes: &[u8]) -> Result<(), RegisterError> {
    out.write_all(&length(bytes.len())?)?;
    Ok(out.write_all(bytes)?)
}

fn take_i32(rest: &mut &[u8]) -> Result<i32, RegisterError> {
    let (length, behind) = rest.split_first_chunk::<4>().ok_or(RegisterError::Length)?;
    *rest = behind;
    Ok(i32::from_be_bytes(*length))
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], RegisterError> {
    let length = usize::try_from(take_i32(rest)?).map_err(|_| RegisterError::Length)?;
    let (taken, behind) = rest.split_at_checked(length).ok_or(RegisterError::Length)?;
    *rest = behind;
    Ok(taken)
}
