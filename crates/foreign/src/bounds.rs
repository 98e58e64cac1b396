//! How much of a file is believed: far more than these programs write in hours, and little enough to hold.

/// Largest file that is read, in bytes.
pub const MOST_BYTES: usize = 256 << 20;

/// Most bytes that a compressed file may unpack to. A few kilobytes of gzip can stand for gigabytes.
pub const MOST_UNPACKED: usize = 256 << 20;

/// Most packets and intervals of all streams together.
pub const MOST_SAMPLES: usize = 1 << 20;

/// Most streams.
pub(crate) const MOST_STREAMS: usize = 4096;

/// Longest name of a stream, a host or the like, in bytes; what is longer is cut.
pub(crate) const LONGEST: usize = 255;

/// Longest time between two moments of one file that is believed, in seconds: four months.
pub(crate) const MOST_SECONDS: f64 = 1e7;

/// Most tests in one file.
pub(crate) const MOST_TESTS: usize = 1024;

/// Longest text in which words of ping and mtr are looked for, in bytes.
pub(crate) const MOST_PRINTED: usize = 64 << 20;

/// Most objects of JSON in one test: each takes more memory than its text.
pub(crate) const MOST_OBJECTS: usize = 1 << 23;
