//! A run for other programs' eyes. CSV is the store's; here is what needs more than a table's columns.
//!
//! ```text
//!   cell ──► flent        version 4 of Flent's data files, gzip
//!   run  ──► prometheus   results as metrics, in the text that Prometheus and OpenMetrics both read
//! ```
//!
//! Times of a run begin at 0; `zero_s` is the Unix time of that.

mod flent;
mod prometheus;

pub use flent::{NotForFlent, flent};
pub use prometheus::prometheus;
