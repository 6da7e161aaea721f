//! A small async client of the RocketMQ 4.9 remoting protocol.
//!
//! [`connection`] speaks to one broker or name server; [`client`] adds name servers, routes and a
//! connection per address; [`producer`], [`consumer`] and [`admin`] calls are built on it. It is
//! meant for tools and tests: it decides nothing by itself, so there are no retries, no
//! rebalancing and no background traffic but what a caller starts.

#![forbid(unsafe_code)]

pub mod admin;
pub mod client;
pub mod connection;
pub mod consumer;
pub mod error;
pub mod message;
pub mod namespace;
pub mod producer;
pub mod route;

pub use client::{Client, ClientOptions};
pub use connection::{Connection, ConnectionOptions, Reply};
pub use consumer::{Consumer, ConsumerOptions, Pull, PullStatus, Pulled};
pub use error::ClientError;
pub use message::{Message, StoredMessage};
pub use namespace::Namespace;
pub use producer::{Producer, SendReceipt, SendStatus};
pub use route::{Destination, Route};
