//! Kernel settings that are computed, not pasted.
//!
//! ```text
//!   Wish: role, rate, RTT ─┐            ┌─ proposals: key, now, the kernel's default, wanted, why, source
//!                          ├─► Tuning ──┼─ cures of single routes and sockets
//!   Host: kernel, memory, ─┘            └─ what a transfer reaches, now and then
//!         settings now
//!   Tuning ─► Record (what was there), conf::text (the file)      handbook: what others write, and why it is not taken
//! ```
//!
//! Pure: what is read of a host comes in as [`Host`]. No line is ever below what the kernel would do by itself.

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
pub use defaults::{FRESH, Known, default_of};
pub use host::{Host, KEYS, Release, Role, Wish};
pub use plan::{PlanError, Tuning};
pub use proposal::{Proposal, Wanted, dotted, same};
pub use record::{PLACE as RECORD_PLACE, Record, RecordError, Setting};
pub use window::{Limit, Path, Reach};
