//! How much of a file is believed: far more than ping-exp ever writes, and little enough to hold.

/// Largest file that is read, in bytes.
pub const MOST_BYTES: usize = 32 << 20;

/// Most values that a file makes; a reply is four.
pub const MOST_VALUES: usize = 4 << 20;

/// Most packets of all streams together. A pickle can name the same list of replies many times, and tell any number of packets sent;
/// this bounds what comes of it.
pub const MOST_PACKETS: usize = 1 << 20;

/// Greatest depth of values in values. ping-exp needs five.
pub const MOST_DEPTH: u32 = 64;
