//! What makes a host slow: its facts, and a catalogue of checks over them.
//!
//! ```text
//!   DoctorPlan ──► run ──► Snapshot before ─┐
//!                    looks between ───┼─ Facts ──► each Check of the CATALOGUE ──► CheckVerdict ──► Report
//!                    Snapshot now ────┤
//!                    PeerReport ──────┘            (one that has a cause's name finds that cause: crates/cause)
//! ```
//!
//! The checks are pure: recorded facts give the same verdicts as live ones. A check is one file in `checks`: evidence, rule, severity, remedies, source.

pub mod check;
mod checks;
pub mod command;
pub mod counters;
mod examination;
pub mod facts;
pub mod packet_drops;
pub mod peer;
mod peer_flows;
mod peer_views;
mod posted;
mod posted_links;
mod posted_sockets;
pub mod reported;
pub mod run;
pub mod watch;

pub use check::{Check, CheckGroup, CheckOutcome, CheckVerdict};
pub use checks::CATALOGUE;
pub use examination::{DoctorError, DoctorProgress};
pub use facts::{ConnectionLooks, Facts};
pub use peer_flows::PeerPlan;
pub use posted::PostedText;
pub use run::{DoctorPlan, Report, Source, run};

pub fn named(name: &str) -> Option<&'static Check> {
    CATALOGUE.iter().copied().find(|check| check.name == name)
}

/// Carries checks out, in their order.
pub fn examine<'a>(
    facts: &Facts<'_>,
    checks: impl IntoIterator<Item = &'a Check>,
) -> Vec<CheckVerdict> {
    let one = |check: &Check| CheckVerdict {
        check: check.name.to_owned(),
        group: check.group,
        outcome: (check.look)(facts).unwrap_or_else(CheckOutcome::CouldNotLook),
    };
    checks.into_iter().map(one).collect()
}
