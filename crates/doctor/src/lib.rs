//! What makes a host slow: a catalogue of checks over its facts.
//!
//! ```text
//!   Snapshot before ─┐
//!   Snapshot now ────┼─ Facts ──► each Check of the CATALOGUE ──► Verdict: found, fine, not applicable, could not look
//!   Watched between ─┘
//! ```
//!
//! Pure: recorded facts give the same verdicts as live ones. A check is one file in `checks`: evidence, rule, severity, fix, source.

pub mod check;
mod checks;
pub mod during;
pub mod facts;
pub mod peer;
mod stalls;
pub mod watch;

pub use check::{Check, Group, Verdict};
pub use checks::CATALOGUE;
pub use facts::Facts;
pub use stalls::Stalls;

/// The check of this name or number.
pub fn named(name: &str) -> Option<&'static Check> {
    CATALOGUE.iter().copied().find(|check| check.name == name || check.number.to_string() == name)
}

/// Carries checks out, in their order.
pub fn examine<'a>(facts: &Facts<'_>, checks: impl IntoIterator<Item = &'a Check>) -> Vec<Verdict> {
    let one = |check: &Check| Verdict {
        check: check.name.to_owned(),
        group: check.group,
        outcome: (check.look)(facts).unwrap_or_else(quell_finding::Outcome::CouldNotLook),
    };
    checks.into_iter().map(one).collect()
}
