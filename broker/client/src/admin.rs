//! Administration: what mqadmin can ask of brokers and name servers, as typed functions.
//!
//! Every function names the broker by address; which brokers to ask is the caller's to know (see
//! [`Admin::cluster_info`]). Names of topics and groups are sent as they are: an administrator
//! sees through namespaces.

mod broker;
mod group;
mod message;
mod name_server;
mod offset;
mod topic;

pub use message::FoundMessages;

use crate::client::Client;

/// Administration through a client's connections.
#[derive(Clone, Copy, Debug)]
pub struct Admin<'c> {
    client: &'c Client,
}

impl Client {
    /// Administration through this client's connections.
    pub fn admin(&self) -> Admin<'_> {
        Admin { client: self }
    }
}
