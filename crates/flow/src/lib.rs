//! Throughput between two hosts: the client, its results and what they mean.
//!
//! ```text
//!   FlowPlan ──► run ──► FlowMeasurement ──► FlowReport ──► a headline, the working, JSON, iperf3's JSON
//!             │
//!             ├─ control          the control connection: iperf3's protocol (quell_wire::iperf3)
//!             ├─ sampler          the state of each stream and of this host's queues, ten times a second
//!             ├─ lane             how a stream comes to stand; its data is moved by quell_load::lane
//!             ├─ latency          small packets before and beside the load (quell_probe)
//!             └─ own_results, server_report   what each end tells the other; nobody receives more than was sent
//!
//!   kept            a run of it; document its JSON
//!
//!   report ◄── datagram_counts    sent, arrived, lost, of one stream of datagrams
//!          ◄── sender_facts       of which quell_cause makes what the sender waited for
//! ```
//!
//! It talks to `quell serve` and to an unmodified `iperf3 -s`; what only a Quell tells is then missing from the results.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

mod control;
mod datagram_counts;
mod datagram_facts;
mod document;
mod error;
mod headline;
pub mod iperf_json;
mod kept;
mod lane;
pub mod latency;
mod measurement;
mod own_results;
mod plan;
pub mod report;
mod sampler;
mod sender_facts;
mod server_report;
mod session;

pub use document::{FailedFlow, FlowDocument};
pub use error::FlowError;
pub use headline::{added_each_way, datagram_loss, headline};
pub use kept::save;
pub use measurement::Progress;
pub use measurement::{FlowMeasurement, Interval, IntervalStream, ServerCounts, StreamMeasurement};
pub use plan::{
    Amount, FlowPlan, LARGEST_BLOCK, LARGEST_DATAGRAM, MOST_STREAMS, SMALLEST_DATAGRAM, Senders,
    Transport, UDP_RATE,
};
pub use quell_load::lane::LaneCounts;
pub use quell_load::own_queue::Standing;
pub use report::FlowReport;
pub use session::run;
