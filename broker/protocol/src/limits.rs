//! Every bound the protocol itself sets, in one place. Bounds an operator may change live in the
//! configuration of the server, not here.

/// Largest frame on the wire, in bytes, counting the four bytes of the length itself. A longer one
/// closes the connection.
pub const FRAME_MAX: usize = 16 * 1024 * 1024;

/// Bytes of the length that opens each frame. The length does not count itself.
pub const FRAME_LENGTH_BYTES: usize = 4;

/// Bytes before the header: the frame length, then the word of serialization and header length.
pub const FRAME_PREFIX_BYTES: usize = 8;

/// Largest header, in bytes: its length has 24 bits on the wire.
pub const HEADER_MAX: usize = 0x00FF_FFFF;

/// How deep objects and arrays may nest inside a JSON header value that nobody reads.
pub const HEADER_NESTING_MAX: u32 = 32;
