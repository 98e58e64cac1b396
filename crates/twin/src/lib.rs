//! The twin of a line: what its rate, delay, loss, buffer and queue are, by traffic whose every packet is logged where it comes.
//!
//! ```text
//!   schedule ──► LineObservations ──conclude──► MeasuredLine (line.toml) ──► sentence
//!     pings, trains, floods             │
//!     (quell_probe, quell_flow)         ├─ base_delay, loss, grid          by pings over the idle line
//!                                       ├─ rate, overhead, buffer          by floods of packets of two sizes
//!                                       ├─ over_time                       by every flood: whether the rate stays, or its series
//!                                       ├─ marks                           by floods that may be marked
//!                                       └─ queue_kind, fairness, policer, sharing
//! ```
//!
//!   line.toml ─held_out─► loads on the line and through its twin, beside each other
//!   line.toml ─choose─► candidates on the line's twin ─► trials ─► a policy
//!
//! Each estimator is a function from packets to a value with its bounds, or to why it is unknown. Pure, but for `schedule`.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

mod base_delay;
mod bounded;
mod buffer;
pub mod choose;
mod conclude;
mod fairness;
mod flood;
mod from_runs;
mod grid;
pub mod held_out;
mod loss;
mod marks;
mod over_time;
mod overhead;
mod policer;
mod queue_kind;
mod rate;
mod schedule;
mod sentence;
mod sharing;

pub use conclude::conclude;
pub use flood::Flood;
pub use from_runs::from_results;
pub use schedule::{
    DirectionObservations, LearnPlan, LearnProgress, LineObservations, TwinError, USUAL_BUDGET,
    learn,
};
pub use sentence::{figures, sentence};
