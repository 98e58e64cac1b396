//! Kernel settings that are computed, not pasted.
//!
//! ```text
//!   Wish: role, rate, RTT ─┐            ┌─ proposals: key, now, the kernel's default, wanted, why, source
//!                          ├─► Tuning ──┼─ cures of single routes and sockets
//!   HostFacts: kernel, memory, ─┘            └─ what a transfer reaches, now and then
//!         settings now
//!   Tuning ─► TuningRecord (what was there), conf::text (the file)      handbook: what others write, and why it is not taken
//! ```
//!
//! Pure: what is read of a host comes in as [`HostFacts`]. No line is ever below what the kernel would do by itself.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

pub mod conf;
mod cures;
mod defaults;
pub mod handbook;
mod host;
mod plan;
mod proposal;
mod record;
mod roles;
mod window;

pub use cures::{Cure, RouteCure};
pub use defaults::{FRESH, KernelDefault, default_of};
pub use host::{HostFacts, KEYS, Release, Role, Wish};
pub use plan::{PlanError, Tuning};
pub use proposal::{Proposal, SettingAction, dotted, same};
pub use record::{PLACE as RECORD_PLACE, RecordError, Setting, TuningRecord};
pub use window::{Path, Reach, ReachLimit};
