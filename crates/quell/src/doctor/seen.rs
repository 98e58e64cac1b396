//! What was seen of this host, before anything is made of it.

use quell_doctor::Stalls;
use quell_doctor::during::Move;
use quell_host::Snapshot;
use std::collections::BTreeMap;

/// All that was seen, and what to make of it.
pub struct Examination {
    /// A while before.
    pub before: Option<Snapshot>,
    /// Now.
    pub now: Snapshot,
    /// Connections, between the two.
    pub stalls: Stalls,
    /// The command of --during.
    pub watched: Option<Watched>,
    /// How long it took.
    pub seconds: f64,
}

/// What a command did, and what moved meanwhile.
pub struct Watched {
    /// As it was given.
    pub command: String,
    /// How long it ran.
    pub seconds: f64,
    /// Why it did not end well.
    pub failed: Option<String>,
    /// How often was looked.
    pub looks: u32,
    /// Counters.
    pub moves: Vec<Move>,
    /// Busy and softirq, in percent of all CPUs.
    pub cpu: Option<(f64, f64)>,
    /// Context switches a second before.
    pub quiet_switches: Option<f64>,
    /// The longest queue: bytes that waited, by device.
    pub longest: BTreeMap<String, u64>,
}
