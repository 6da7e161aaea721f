//! The wire format from outside: frames captured from Apache RocketMQ, round trips of arbitrary
//! content, and hostile bytes.

#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod round_trip;
