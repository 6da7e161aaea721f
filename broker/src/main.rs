//! The `broker` binary.
fn main() {}
