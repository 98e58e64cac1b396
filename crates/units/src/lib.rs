//! The vocabulary of Quell: rates, times, sizes and header marks; and which word was meant by a wrong one.
//!
//! ```text
//!   "2.5Mbit"  --FromStr-->  Rate(2_500_000)  --Display-->  "2.5Mbit"
//! ```
//!
//! Each type holds a whole number of its smallest step (bit/s, ns, byte, part per billion), so two
//! values are equal exactly when they mean the same. Text is read exactly: what does not fit the step
//! or the range is refused, never rounded. [`Display`](std::fmt::Display) prints the shortest text
//! that reads back as the same value, and serde writes that text. Where a file may hold a bare number
//! (`size = 1500`), serde takes it whenever the same digits as text would be taken.

mod buffer;
mod bytes;
mod dscp;
mod ecn;
mod error;
pub mod fmt;
pub mod nearest;
mod number;
mod rate;
mod ratio;
mod span;
pub mod table;
mod text_serde;
pub mod time;
mod tos;

pub use buffer::Buffer;
pub use bytes::Bytes;
pub use dscp::Dscp;
pub use ecn::Ecn;
pub use error::{Reason, UnitError};
pub use rate::Rate;
pub use ratio::Ratio;
pub use span::Span;
pub use tos::Tos;
