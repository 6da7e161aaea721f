//! Foreign clients, tools and servers against ours.

mod apache_it;
mod clients;
mod mqadmin;
mod peers;
