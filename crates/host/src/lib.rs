//! The facts of a host, read once.
//!
//! ```text
//!   /proc, /sys ──────────── texts ──────┐
//!   rtnetlink  ───── links, queues ──────┤
//!   ethtool    ───── hardware, counters ─┼──► Snapshot ──► JSON, and back
//!   sock_diag  ───── a bounded fold ─────┘       │
//!                                          counters, CPUs, settings …: pure readers over the texts
//! ```
//!
//! Beside the snapshot stand facts that both ends of a flow tell each other: what a host counted while it ran (`counted`), CPU time (`cpu_time`), how
//! an end sees a connection (`end`).
//!
//! What could not be read stays in the snapshot with its reason, so that whoever asks for it is told why nobody knows.

pub mod capture;
pub mod counted;
pub mod counters;
pub mod cpu;
pub mod cpu_time;
pub mod drops;
pub mod end;
pub mod settings;
pub mod snapshot;
pub mod sockets;
pub mod texts;

pub use snapshot::{Device, QueueCounters, Snapshot};
pub use texts::{Reading, Texts};
