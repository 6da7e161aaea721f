//! RocketMQ 4.9 remoting protocol and message formats: bytes to types and back.

pub mod message_id;
pub mod name;
pub mod perm;
pub mod properties;
pub mod record;
pub mod sys_flag;
pub mod tags;
