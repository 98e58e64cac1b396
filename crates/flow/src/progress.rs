//! What is told of a test while it goes.

use crate::latency::Latency;
use crate::outcome::Interval;

/// What is told while it goes.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The server is there; the idle path is measured.
    Connected {
        /// Bytes in one write or datagram.
        block: u64,
    },
    /// Data flows.
    Started {
        /// Without a load.
        latency: &'a Latency,
        /// Whether the server says what it sees while it goes.
        hears: bool,
    },
    /// One report.
    Interval(&'a Interval),
    /// The data is through; the server's results are awaited.
    Ending,
}
