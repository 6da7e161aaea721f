//! The store: files of RocketMQ 4.9, written through memory mappings. Records go to the commit log
//! (`commit_log`), one row of files for all topics; the dispatcher then enters them into the
//! ConsumeQueue of their queue and into the index. [`Store`] is the door. The store knows no topic
//! policy, no consumer group and no socket.

mod arrivals;
pub mod check;
mod checkpoint;
mod commit_log;
pub mod config;
mod consume_queue;
mod delay;
mod deleted_topics;
mod dispatcher;
pub mod durable;
pub mod env;
mod error;
mod file_maker;
mod folder;
mod followers;
mod frontier;
mod health;
mod index;
pub mod mapped_file;
mod query;
mod read;
mod retention;
pub mod segments;
mod status;
mod store;
mod threads;
mod time;
mod wake;

pub use arrivals::ArrivalReceiver;
pub use commit_log::{Appended, Flushed, NewRecord};
pub use config::StoreConfig;
pub use consume_queue::{Queue, Unit};
pub use delay::DelayLevels;
pub use env::Env;
pub use error::{AppendError, NotWritable, StoreError};
pub use query::IndexAnswer;
pub use read::{ColdReads, Read, ReadOutcome, ReadStatus};
pub use status::{PUT_TIME_BOUNDS_MS, StoreStatus};
pub use store::Store;
