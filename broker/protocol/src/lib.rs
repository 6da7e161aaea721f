//! RocketMQ 4.9 remoting protocol and message formats: bytes to types and back.

pub mod body;
pub mod code;
pub mod frame;
pub mod header;
pub mod json;
pub mod limits;
pub mod message_id;
pub mod name;
pub mod perm;
pub mod properties;
pub mod record;
pub mod request;
pub mod sys_flag;
pub mod tags;
pub mod version;
