//! What a run is: the tasks that agents carry out, the events that they send back, the rows that the store keeps, and the
//! manifest that says how it all came about.
//!
//! ```text
//!   plan ──► Task ──► agent ──► Event ──► journal ──► rows (samples, flows, queues) + Manifest
//! ```
//!
//! Pure data: no I/O, no clock, no randomness. Times inside a run are nanoseconds of the monotonic clock, relative to the start
//! of the measurement (negative while the loads warm up); wall time appears only in the manifest.

pub mod agent_message;
pub mod cell;
pub mod event;
pub mod fact;
pub mod frame;
pub mod manifest;
pub mod measured_flow;
pub mod metric;
pub mod page;
pub mod rows;
pub mod sketch;
pub mod task;

pub use agent_message::{AgentHost, Said};
pub use cell::CellId;
pub use event::{Event, Outcome};
pub use fact::{Fact, Subject, Told, When};
pub use manifest::{Backend, CellRecord, CellStatus, KernelRecord, Manifest, TaskRecord};
pub use measured_flow::{MeasuredDatagrams, MeasuredFlow};
pub use metric::Metric;
pub use rows::{EchoSample, EchoStatus, FlowSample, QueueSample, Side, TcpState};
pub use sketch::Sketch;
pub use task::{Command, Task, TaskKind};
