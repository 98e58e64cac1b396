//! The facts of a host, read once.
//!
//! ```text
//!   /proc, /sys ──────────── texts ──────┐
//!   rtnetlink  ───── links, queues ──────┤
//!   ethtool    ───── hardware, counters ─┼──► Snapshot ──► a folder, and back          (recorded facts are test input)
//!   sock_diag  ───── a bounded fold ─────┘       │
//!                                          counters, CPUs, settings …: pure readers over the texts
//! ```
//!
//! What could not be read stays in the snapshot with its reason, so that whoever asks for it is told why nobody knows.

pub mod capture;
pub mod counters;
pub mod cpu;
pub mod drops;
pub mod owner;
pub mod record;
pub mod settings;
pub mod snapshot;
pub mod sockets;
pub mod tables;
pub mod texts;

pub use snapshot::{Device, Queue, Snapshot};
pub use texts::{Seen, Texts};
