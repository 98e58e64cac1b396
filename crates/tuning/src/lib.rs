//! `quell tune`: kernel settings computed for a role, put in force with a way back.
//!
//! ```text
//!   Wish (role, rate, RTT) ─┐                     ┌─ act: running values, /etc/sysctl.d/60-quell-tune.conf, the record
//!   host  (this machine)   ─┴─ quell_tune::Tuning ┤
//!                                                 └─ proof: as it is beside as planned, in the lab or with a `quell serve`
//! ```

#![allow(missing_docs, reason = "the library of one command")]

mod files;
mod host;
pub mod proof;
pub mod report;
mod routes;
mod tuner;

pub use files::Files;
pub use host::{Settings, this_host};
pub use tuner::{Applied, Goals, Tuner, confirm, recover, revert};

use quell_act::ActError;
use std::fmt::Display;
use std::path::PathBuf;

/// Where files are.
#[derive(Debug, Clone)]
pub struct Folders {
    /// Below which folder /etc and /var are.
    pub root: PathBuf,
    /// Folder of the undo log of this boot.
    pub state: PathBuf,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum TuningError {
    /// Something is not as it has to be for that.
    #[error("{0}")]
    Check(String),
    /// It was asked for wrongly.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    System(String),
    #[error(transparent)]
    Act(#[from] ActError),
}

impl TuningError {
    pub fn check(why: impl Display) -> Self {
        TuningError::Check(why.to_string())
    }

    pub fn usage(why: impl Display) -> Self {
        TuningError::Usage(why.to_string())
    }

    pub fn system(why: impl Display) -> Self {
        TuningError::System(why.to_string())
    }
}
