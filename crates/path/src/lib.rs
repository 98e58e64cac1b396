//! `quell path`: the hops to a host, each with its loss and delay; how large packets may be, where marks are changed, which ways flows take.
//!
//! ```text
//!   PathSession ─ prepare ─► PathProbe ─► run ─ news ─► PathHops ──┬─► findings ─► PathReport (JSON)
//!                                          └─ events ─► PathSink       └─► kept: what a run remembers beside its samples
//! ```

mod findings;
mod hops;
mod kept;
mod report;
mod run;
mod session;

pub use findings::{PathFinding, findings, flow_numbers};
pub use hops::{Hop, PathHops, PathShape, ProbeCounts, Responder};
pub use kept::{read, session_fact};
pub use report::PathReport;
pub use run::{PathRun, PathSink, run};
pub use session::{PathError, PathSession, PathWishes, ProbeMethod, UDP_PORT};
