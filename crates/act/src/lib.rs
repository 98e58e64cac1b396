//! One transaction for all that Quell changes on a machine, with a way back.
//!
//! ```text
//!   Goal (wanted) ─┐                       Log: what was there, on disk before the first step
//!                  ├─ steps() ─► [Change] ─► Transaction ─► kernel, files
//!   Now  (there)  ─┘                       Watchdog: another process; leads back if we die or nobody confirms
//! ```
//!
//! The way back is no list of what was done. It is the same function once more, [`steps`] from what is there, whatever that is, to what
//! was there. So it is right from every instant, also in the middle of a step or of another way back, and a second time does nothing.

#![allow(missing_docs, reason = "nobody else uses it as a library")]

/// Where the undo logs are unless it is said otherwise; gone after a reboot, as the queues are.
pub const DEFAULT_FOLDER: &str = "/run/quell";

mod dynamic;
mod error;
mod goal;
mod installed;
mod journal;
mod kernel;
mod lock;
mod ownership;
mod patience;
mod removal;
mod steps;
mod transaction;
mod trial;
mod undo_log;
mod watchdog;
mod way_back;

pub use dynamic::DynamicClasses;
pub use error::{ActError, CommandError, Refusal};
pub use goal::{
    Before, DeviceBefore, DeviceGoal, FileGoal, Goal, HostTableGoal, LinkGoal, OwnRoute, RouteGoal,
    SysctlGoal,
};
pub use installed::Installed;
pub use kernel::{Kernel, own_routes};
pub use lock::Lock;
pub use patience::{Patience, is_over_ssh, patience};
pub use removal::{Leave, OffRequest, off, take_off};
pub use steps::{Change, DeviceTarget, LinkNow, Machine, Now, steps};
pub use transaction::{
    ApplyRequest, Planned, RecipeChange, StartWatchdog, Temporary, apply, confirm, hold, plan,
    recover,
};
pub use trial::{kernel_has, kernel_takes, try_it};
pub use undo_log::{Begun, Earlier, Log, Standing, Who, list, log_of, renamed};
pub use watchdog::{WATCHDOG, Watchdog, own_watchdog, start_apart, watch};
pub use way_back::{Applied, roll_back};
