//! What was seen of this host, before anything is made of it.

use quell_doctor::Stalls;
use quell_doctor::during::Move;
use quell_host::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// Times between looks at the connections, in milliseconds: uneven, so that what repeats itself is not always met at the same point.
pub const LOOKS: [u64; 6] = [170, 160, 190, 150, 180, 150];

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
    /// What the kernel dropped, or why nobody knows.
    pub drops: Result<super::drops::Seen, String>,
}

/// The inodes of the sockets that a finding may be about.
pub fn inodes(snapshot: &Snapshot) -> BTreeSet<u32> {
    let Ok(sockets) = snapshot.sockets() else { return BTreeSet::new() };
    let all = sockets.tcp.iter().chain(&sockets.listeners).chain(&sockets.udp);
    all.map(|socket| socket.inode).collect()
}
