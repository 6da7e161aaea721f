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

/// Longest topic, in bytes (all of them ASCII): what a record and a folder name are made for.
pub const TOPIC_LEN_MAX: usize = 127;

/// Longest group, in bytes: its retry topic, `%RETRY%` and the group, must be a legal topic.
pub const GROUP_LEN_MAX: usize = 120;

/// Longest property string of a message, in bytes: its length is a signed 16-bit number.
pub const PROPERTIES_LEN_MAX: usize = 32_767;

/// How deep objects and arrays may nest inside a JSON body.
pub const JSON_DEPTH_MAX: u32 = 64;

/// Most objects and arrays that one JSON body may hold. A body may hold one for each eight of its
/// bytes, but never more than this: it bounds what a short text can make a server allocate.
pub const JSON_CONTAINERS_MAX: usize = 1 << 19;

/// Most bytes that a compressed registration may unfold to.
pub const REGISTRATION_UNFOLDED_MAX: usize = 64 * 1024 * 1024;
