//! The configuration of a broker and of a name server: one plain struct per room, keys in RocketMQ's
//! camelCase, every field documented with its unit and default.
//!
//! Where values come from lives in [`mod@load`]; the text of the reference page is made from this very
//! file by [`mod@reference`]. A field stands here only when some code reads it.

mod broker;
mod edit;
mod keys;
mod live;
mod load;
mod name_server;
mod properties;
pub mod reference;
mod yaml;

pub use broker::BrokerConfig;
pub use edit::edit;
pub use keys::{Setting, Table, TableError};
pub use live::{Live, RUN_TIME_KEYS};
pub use load::{Config, ConfigError, Flags, Origin, Source, load};
pub use name_server::NameServerConfig;
pub use properties::{parse_properties, write_properties};
