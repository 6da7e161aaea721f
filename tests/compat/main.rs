//! Foreign clients, tools and servers against ours.

#[path = "peers.rs"]
mod peers;
