//! What Quell calculates from samples, without I/O, clock or hidden randomness.
//!
//! ```text
//!   numbers --Sample::new--> Sample --> quantiles, Summary, BoxSummary, ECDF
//!   a stream without an end --> Running: the same figures in bounded memory
//!   transit times, in order of arrival --> Jitter (RFC 3550)
//!   delays there and back by two clocks --> OffsetEstimator: how far the clocks are apart
//!   sequence numbers, in order of arrival --> RecentOrder (RFC 4737)
//!   times over many decades --> LogHistogram
//!   one figure for each repeat, packets sent and lost --> Interval
//!   values of each repeat --> Pooled, its quantiles with their intervals
//!   two of these, or one value a repeat of each --> Difference, with its interval
//! ```
//!
//! Values are floats in whatever unit the caller uses; answers come in the same unit. Where an answer
//! does not exist (no samples, NaN among them), it is `None`, never a zero that looks measured.

mod beta;
pub mod boxes;
pub mod difference;
pub mod ecdf;
pub mod interval;
pub mod jitter;
pub mod log_histogram;
pub mod offset;
pub mod quantile_interval;
pub mod recent_order;
pub mod rng;
pub mod running;
pub mod sample;

pub use beta::TAIL;
pub use boxes::BoxSummary;
pub use difference::{Difference, Ranged};
pub use interval::{Batch, Interval};
pub use jitter::Jitter;
pub use log_histogram::LogHistogram;
pub use offset::{ClockOffset, OffsetEstimator};
pub use quantile_interval::{Pooled, PooledQuantile};
pub use recent_order::RecentOrder;
pub use rng::Rng;
pub use running::{Running, RunningAround};
pub use sample::{Sample, Summary, mean, median, quantile, sd, summary};
