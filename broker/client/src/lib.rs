//! A small async client of the RocketMQ 4.9 remoting protocol.
