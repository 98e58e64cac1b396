//! A run for other programs' eyes. CSV is the store's; here is what needs more than a table's columns.
//!
//! ```text
//!   cell ──► flent        version 4 of Flent's data files, gzip
//!   run  ──► influx       a line a packet, a flow's state, a queue's state: InfluxDB's line protocol
//!        └─► prometheus   results as metrics, in the text that Prometheus and OpenMetrics both read
//! ```
//!
//! Times of a run begin at 0; `zero_s` is the Unix time of that.

mod flent;
mod influx;
mod prometheus;

pub use flent::{NotForFlent, flent};
pub use influx::influx;
pub use prometheus::prometheus;
