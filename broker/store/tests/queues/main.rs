//! Queues, index and reads as users of the store see them: what was sent is found, whatever
//! happened to the process or to the files that can be made again.

#![allow(clippy::unwrap_used, reason = "a test's unwrap is an assertion")]

mod apache;
mod deletion;
mod index;
mod reads;
mod recovery;
mod support;
mod time;
