//! RocketMQ 4.9 remoting protocol and message formats: bytes to types and back.
