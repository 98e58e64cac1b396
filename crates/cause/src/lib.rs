//! Who waited, for what: one table of causes, whichever instrument finds them.
//!
//! ```text
//!   flow    shares of the kernel's clocks ─┐
//!   rr      calls, and calls changed ──────┤
//!   trace   packets of both directions ────┼─ facts ──► Cause ──► its Row: sentence, why, remedies, source ──► Finding
//!   doctor  counters and sockets ──────────┤
//!   path    probes of several sizes ───────┘
//! ```
//!
//! Where the facts leave several, the answer is [`Cause::Unknown`] with the facts beside it; where a cause is likely
//! and not proven, the finding is not `sure`. Pure: no I/O, no clock.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

pub mod calls;
pub mod capture;
mod causes;
mod connection;
mod packet_sizes;
mod policer;
mod sender;

/// More of the time than this is most of it.
const MOST: f64 = 2.0 / 3.0;

pub use causes::{Cause, Row, TABLE, named};
pub use connection::{ConnectionFacts, LossFacts, QUEUE_US};
pub use packet_sizes::SizeFacts;
pub use policer::{DatagramFacts, TokenBucket};
pub use sender::SenderFacts;
