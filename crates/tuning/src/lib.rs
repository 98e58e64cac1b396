//! `quell tune`: kernel settings computed for a role, not pasted, and put in force with a way back.
//!
//! ```text
//!   pure     Wish (role, rate, RTT) ─┐            ┌─ proposals: key, now, the kernel's default, wanted, why, source
//!                                    ├─► Tuning ──┼─ cures of single routes and sockets
//!            HostFacts: kernel,     ─┘            └─ what a transfer reaches, now and then
//!            memory, settings now
//!   effects  host (reads the facts) ─► Tuner ─► act: running values, /etc/sysctl.d/60-quell-tune.conf, the record (what was there)
//!                                           └─► proof: as it is beside as planned, in the lab or with a `quell serve`
//! ```
//!
//! No line is ever below what the kernel would do by itself. What others write, and why it is not taken, is in `handbook`.

#![allow(missing_docs, reason = "the library of one command")]

pub mod conf;
mod cures;
mod defaults;
mod facts;
mod files;
pub mod handbook;
mod host;
mod plan;
pub mod proof;
mod proposal;
mod record;
pub mod report;
mod roles;
mod routes;
mod rtt;
mod tuner;
mod window;

pub use cures::{Cure, RouteCure};
pub use defaults::{FRESH, KernelDefault, default_of};
pub use facts::{HostFacts, KEYS, Release, Role, Wish};
pub use files::Files;
pub use host::{Settings, this_host};
pub use plan::{PlanError, Tuning};
pub use proposal::{Proposal, SettingAction, dotted, same};
pub use record::{PLACE as RECORD_PLACE, RecordError, Setting, TuningRecord};
pub use rtt::least_rtt;
pub use tuner::{Applied, Goals, Tuner, confirm, recover, revert};
pub use window::{Path, Reach};

pub use quell_act::CommandError;
use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct Folders {
    /// Below which folder /etc and /var are.
    pub root: PathBuf,
    /// Folder of the undo log of this boot.
    pub state: PathBuf,
}
