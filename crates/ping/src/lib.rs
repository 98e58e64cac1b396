//! `quell ping`: several streams at once, watched while they run, summed up at the end, kept as a run where that is wanted.
//!
//! ```text
//!   StreamSpec ──target──► PingSession ──prepare──► Prober (a thread) ──run──┬─► PingSink   who watches
//!                              ▲                                             ├─► Keep       a run
//!                              └──────────────── kept ◄── a run              └─► Tally, one a stream ──► PingReport
//! ```

mod days;
mod hosts;
mod hours;
mod kept;
mod metrics;
mod minutes;
mod report;
mod run;
mod session;
mod tally;
mod target;

pub use days::{DayRuns, DiskBound, reread};
pub use hosts::{listed, range};
pub use hours::{Hour, hours};

pub use kept::{begin, reopen};
pub use report::{PacketLine, PingReport, PingStart};
pub use run::{PingKeeper, PingRun, PingSink, run};
pub use session::{Method, PingSession};
pub use tally::{Bucket, Recent, Retried, Tally};
pub use target::{MOST, StreamDefaults, StreamSpec, Target, resolve, size};

#[derive(Debug, thiserror::Error)]
pub enum PingError {
    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    System(String),
    #[error("{0}")]
    Silent(String),
    #[error(transparent)]
    Store(#[from] quell_store::StoreError),
}

impl From<quell_sys::SysError> for PingError {
    fn from(error: quell_sys::SysError) -> Self {
        Self::System(error.to_string())
    }
}
