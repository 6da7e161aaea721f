//! Load generator for any RocketMQ 4.9-compatible broker.
fn main() {}
