//! The header fields of every request and answer, by subject. Names in the tables are the wire's;
//! the numbers before a struct are the codes that carry it. Optional fields marked 5.x come from or
//! go to newer peers only.
//!
//! Further fields that newer clients add to any request (`bname`, `ns`, `nsd`, `oway`, `lo`,
//! `ReqT`) are skipped when read.

pub mod admin;
pub mod client;
pub mod group;
pub mod name_server;
pub mod offset;
pub mod pull;
pub mod query;
pub mod send;
pub mod topic;
pub mod transaction;
