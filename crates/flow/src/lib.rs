//! Throughput between two hosts: the client, its results and what they mean.
//!
//! ```text
//!   FlowPlan ──► run ──► Outcome ──► Findings ──► a headline, the working, JSON, iperf3's JSON
//!             │
//!             ├─ talk      the control connection: iperf3's protocol (quell_wire::iperf3)
//!             ├─ looks     at each stream, at round times
//!             ├─ lane      how a stream comes to stand; its data is moved by quell_load::lane
//!             └─ latency   small packets before and beside the load (quell_probe)
//!
//!   Outcome  ◄── told      what the server told, as far as it can be
//!   Findings ◄── sender_facts      what its sender waited for: facts, of which quell_cause makes a cause
//! ```
//!
//! It talks to `quell serve` and to an unmodified `iperf3 -s`; what only a Quell tells is then missing from the results.

mod arrived;
mod error;
mod fate;
pub mod findings;
pub mod iperf_json;
mod lane;
pub mod latency;
mod looks;
mod measured;
mod ours;
mod outcome;
mod plan;
mod progress;
mod sender_facts;
mod session;
mod still;
mod talk;
mod told;

pub use error::FlowError;
pub use findings::Findings;
pub use outcome::{Heard, Interval, IntervalLane, LaneOutcome, Outcome};
pub use plan::{
    Amount, FlowPlan, LARGEST_BLOCK, LARGEST_DATAGRAM, MOST_STREAMS, SMALLEST_DATAGRAM, Senders,
    Transport, UDP_RATE,
};
pub use progress::Progress;
pub use quell_load::lane::LaneCounts;
pub use quell_load::own_queue::Standing;
pub use session::run;
