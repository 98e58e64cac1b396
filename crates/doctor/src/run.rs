//! One examination: looks at this host for a second, while a command runs, or at what was recorded, and asks the other end of a path.

use crate::command::{CommandPlan, CommandReport};
use crate::examination::{DoctorError, DoctorProgress, Examination};
use crate::facts::ConnectionLooks;
use crate::peer::PeerReport;
use crate::peer_flows::{self, PeerPlan};
use crate::{Check, CheckVerdict, Facts, command, examine};
use quell_finding::{Finding, worst_first};
use quell_host::capture::{Depth, backlogs, connections, take};
use quell_host::sockets::owners;
use quell_host::{Snapshot, record};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, readable, wait};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Times between looks at the connections, in milliseconds: uneven, so that what repeats itself is not always met at the same point.
pub(crate) const LOOKS_MS: [u64; 6] = [170, 160, 190, 150, 180, 150];

pub struct DoctorPlan {
    pub checks: Vec<&'static Check>,
    pub source: Source,
    /// Where to keep what was read.
    pub record: Option<PathBuf>,
    pub peer: Option<PeerPlan>,
}

pub enum Source {
    /// This host, for a second.
    Now,
    /// This host, while a command runs.
    During(CommandPlan),
    /// What `record` kept.
    Recorded(PathBuf),
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub seconds: f64,
    /// The worst first.
    pub findings: Vec<Finding>,
    pub checks: Vec<CheckVerdict>,
    pub during: Option<CommandReport>,
    pub peer: Option<PeerReport>,
}

pub fn run(plan: &DoctorPlan, sink: &mut dyn DoctorProgress) -> Result<Report, DoctorError> {
    let peer = plan.peer.as_ref().map(|peer| peer_flows::ask(peer, sink)).transpose()?;
    let (seen, during) = match &plan.source {
        Source::Now => (look()?, None),
        Source::During(command) => {
            let (seen, report) = command::watch(command)?;
            (seen, Some(report))
        }
        Source::Recorded(folder) => (read(folder)?, None),
    };
    if let Some(folder) = &plan.record {
        keep(&seen, folder)?;
    }
    let owners = match plan.source {
        Source::Recorded(_) => BTreeMap::new(),
        _ => owners(&inodes(&seen.now)),
    };
    let facts = Facts {
        before: seen.before.as_ref(),
        now: &seen.now,
        looks: &seen.looks,
        owners: &owners,
        quiet_switches: seen.quiet_switches,
        peer: peer.as_ref(),
    };
    let checks = examine(&facts, plan.checks.iter().copied());
    let mut findings = findings(&checks);
    worst_first(&mut findings);
    Ok(Report { seconds: seen.seconds, findings, checks, during, peer })
}

/// All that checks found, in their order.
pub(crate) fn findings(verdicts: &[CheckVerdict]) -> Vec<Finding> {
    verdicts.iter().flat_map(|verdict| verdict.outcome.findings().to_vec()).collect()
}

/// The inodes of the sockets that a finding may be about.
pub(crate) fn inodes(snapshot: &Snapshot) -> BTreeSet<u32> {
    let Ok(sockets) = snapshot.sockets() else { return BTreeSet::new() };
    let all = sockets.tcp.iter().chain(&sockets.listeners).chain(&sockets.udp);
    all.map(|socket| socket.inode).collect()
}

fn look() -> Result<Examination, DoctorError> {
    let begun = monotonic_ns();
    let before = take(Depth::Full);
    let mut looks = ConnectionLooks::default();
    let mut alarm = Alarm::new()?;
    for milliseconds in LOOKS_MS {
        alarm.set(Some(monotonic_ns() + milliseconds * 1_000_000))?;
        wait(&mut [readable(&alarm)])?;
        // With very many sockets a look takes long itself.
        if let Ok(sockets) = connections() {
            looks.look(monotonic_ns(), &sockets, &backlogs());
        }
        if monotonic_ns() - begun > 1_500_000_000 {
            break;
        }
    }
    let now = take(Depth::Full);
    let seconds = (monotonic_ns() - begun) as f64 / 1e9;
    Ok(Examination { before: Some(before), now, looks, quiet_switches: None, seconds })
}

fn keep(seen: &Examination, folder: &Path) -> Result<(), DoctorError> {
    let write = |snapshot, name| {
        record::write(snapshot, &folder.join(name)).map_err(|e| DoctorError::Failed(e.to_string()))
    };
    if let Some(before) = &seen.before {
        write(before, "before")?;
    }
    write(&seen.now, "now")
}

/// What was recorded: `now`, and `before` where it is there; or one snapshot by itself.
fn read(folder: &Path) -> Result<Examination, DoctorError> {
    let one =
        |folder: &Path| record::read(folder).map_err(|e| DoctorError::Unusable(e.to_string()));
    // Whoever typed it knows where it leads; what is inside came from elsewhere.
    let folder = &std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let inner = folder.join("now");
    let now = one(if inner.is_dir() { &inner } else { folder })?;
    let before = folder.join("before");
    let before = if before.is_dir() { Some(one(&before)?) } else { None };
    let seconds = before.as_ref().map_or(0.0, |before| now.seconds_since(before));
    let looks = ConnectionLooks::default();
    Ok(Examination { before, now, looks, quiet_switches: None, seconds })
}
