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

mod annex;
mod back;
mod beside;
mod change;
mod confirm;
mod error;
mod goal;
mod guests;
mod kernel;
mod lapsed;
mod lock;
mod log;
mod lost;
mod made;
mod off;
mod old;
mod ours;
mod part;
mod place;
mod record;
mod restate;
mod steps;
mod still;
mod transaction;
mod trial;
mod watchdog;

pub use annex::Annex;
pub use back::{Applied, roll_back};
pub use change::{Change, Target};
pub use confirm::confirm;
pub use error::{ActError, Refusal};
pub use goal::{
    Before, DeviceBefore, DeviceGoal, FileGoal, Goal, HostTableGoal, LinkGoal, OffloadGoal,
    OwnRoute, RouteGoal, SysctlGoal,
};
pub use guests::Guests;
pub use kernel::{Kernel, own_routes};
pub use lock::Lock;
pub use log::{Log, Standing, list, log_of, renamed};
pub use made::Made;
pub use off::{Leave, Off, off, take_off};
pub use record::{Begun, Earlier, Who};
pub use restate::Restating;
pub use steps::{LinkNow, Machine, Now, steps};
pub use still::still;
pub use transaction::{Asked, Planned, StartWatchdog, apply, plan, recover};
pub use trial::try_it;
pub use watchdog::{Watchdog, start_apart, watch};
