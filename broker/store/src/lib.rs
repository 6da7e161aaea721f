//! The store: files of RocketMQ 4.9, written through memory mappings.
