//! The queues, classes and filters of devices as one hierarchy, wherever they were read.
//!
//! ```text
//!   kernel ──netlink──► Snapshot ──live──┐
//!   tc -j … show ─┐                      ├─► records ──assemble──► Hierarchy ──► drawings (elsewhere)
//!   tc … show ────┴─ a file ──read───────┘                          │  findings: what will go wrong, in words
//!                                                                   └  change(): counters per second between two
//! ```
//!
//! Records are what one line or one message says. Assembling finds out whose they are, what hangs where, which class a filter chooses, and
//! which device feeds which IFB. Nothing here talks to a kernel, reads a file or draws.

mod assemble;
mod change;
mod findings;
mod live;
mod model;
mod read;
mod record;
mod settings;
mod u32_tables;
mod u32_words;

pub use assemble::assemble;
pub use change::{PerSecond, change, moved};
pub use live::{LiveDevice, records_of};
pub use model::{Device, Filter, Finding, Hierarchy, Node, Target, Trouble};
pub use read::posted::stripped;
pub use read::{PassedOver, ReadError, Reading, read};
pub use record::{Attachment, Counters, Deed, FilterRecord, Hook, NodeRecord, Record, What};
pub use settings::Setting;
