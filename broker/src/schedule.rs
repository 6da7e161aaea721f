//! Delayed messages. A message with a delay level waits in `SCHEDULE_TOPIC_XXXX`, one queue a
//! level, and is put into its own topic when its time has come. Diverting a new message is
//! [`divert`]; sends and send-backs call it.

mod levels;

pub use levels::{DelayLevels, LevelsError, divert};
