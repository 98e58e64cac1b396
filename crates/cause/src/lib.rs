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
//! A cause is a file in `causes`. Where the facts leave several, the answer is [`Cause::Unknown`] with the facts beside it; where a cause is likely
//! and not proven, the finding is not `sure`. Pure: no I/O, no clock.

pub mod calls;
pub mod capture;
mod causes;
mod connection;
mod packet_sizes;
mod row;
mod sender;

pub use causes::{TABLE, named};
pub use connection::{ConnectionFacts, LossFacts};
pub use packet_sizes::SizeFacts;
pub use row::{Cause, Row};
pub use sender::{FlowEnd, SenderCause, SenderFacts};
