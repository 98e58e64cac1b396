//! What was seen of a host, who hears how far it is, and why nothing could be seen.

use crate::facts::ConnectionLooks;
use quell_host::Snapshot;
use quell_sys::SysError;

/// Hears how far it is.
pub trait DoctorProgress {
    /// What is done now; `takes_long` where that is a second or more.
    fn progress(&mut self, words: &str, takes_long: bool);
}

#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    #[error(transparent)]
    System(#[from] SysError),
    /// What was tried, and what came of it.
    #[error("{0}")]
    Failed(String),
    /// A recording that is none.
    #[error("{0}")]
    Unusable(String),
}

/// What was seen of this host.
pub(crate) struct Examination {
    pub before: Option<Snapshot>,
    pub now: Snapshot,
    pub looks: ConnectionLooks,
    /// Context switches a second before the command.
    pub quiet_switches: Option<f64>,
    pub seconds: f64,
}
