//! One examination: looks at this host for a second, while a command runs, or at what was recorded, and asks the other end of a path.

use crate::command::{CommandPlan, CommandReport};
use crate::examination::{DoctorError, DoctorProgress, Examination};
use crate::facts::ConnectionLooks;
use crate::peer::PeerReport;
use crate::peer_flows::{self, PeerPlan};
use crate::posted::{self, PostedText};
use crate::{Check, CheckOutcome, CheckVerdict, Facts, command, examine};
use quell_finding::{Finding, Severity, worst_first};
use quell_host::Snapshot;
use quell_host::capture::{Depth, backlogs, connections, take};
use quell_host::sockets::owners;
use quell_sys::clock::monotonic_ns;
use quell_sys::input;
use quell_sys::wait::{Alarm, readable, wait};
use quell_units::fmt::plural;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
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
    /// What `record` kept, or texts as people post them, the earlier first.
    Files(Vec<PathBuf>),
}

#[derive(Debug, Serialize)]
pub struct Report {
    pub seconds: f64,
    /// The worst first.
    pub findings: Vec<Finding>,
    pub checks: Vec<CheckVerdict>,
    pub during: Option<CommandReport>,
    pub peer: Option<PeerReport>,
    /// What posted texts held.
    pub posted: Option<PostedText>,
}

pub fn run(plan: &DoctorPlan, sink: &mut dyn DoctorProgress) -> Result<Report, DoctorError> {
    let peer = plan.peer.as_ref().map(|peer| peer_flows::ask(peer, sink)).transpose()?;
    let (mut during, mut posted) = (None, None);
    let seen = match &plan.source {
        Source::Now => look()?,
        Source::During(command) => {
            let (seen, report) = command::watch(command)?;
            during = Some(report);
            seen
        }
        Source::Files(files) => {
            let (seen, text) = read(files)?;
            posted = text;
            seen
        }
    };
    if let Some(file) = &plan.record {
        keep(&seen, file)?;
    }
    let owners = match plan.source {
        Source::Files(_) => BTreeMap::new(),
        _ => owners(&inodes(&seen.now)),
    };
    let facts = Facts {
        before: seen.before.as_ref(),
        now: &seen.now,
        looks: &seen.looks,
        owners: &owners,
        quiet_switches: seen.quiet_switches,
        peer: peer.as_ref(),
        drops: during.as_ref().and_then(|report| report.dropped.as_ref().ok()),
        reported: during.as_ref().map_or(&[], |report| &report.reported),
    };
    let checks = match (&mut posted, facts.now.uptime()) {
        (Some(posted), Err(_)) => of_unknown_time(&facts, &plan.checks, posted),
        _ => examine(&facts, plan.checks.iter().copied()),
    };
    let mut findings = findings(&checks);
    worst_first(&mut findings);
    if posted.is_some() {
        // Nobody watched.
        let seen = findings.iter_mut().flat_map(|finding| &mut finding.evidence);
        seen.filter(|seen| seen.unit == "while watching")
            .for_each(|seen| seen.unit = "between the readings".into());
    }
    Ok(Report { seconds: seen.seconds, findings, checks, during, peer, posted })
}

/// Examines counters that ran for an unknown time: what depends on how long is a note.
pub(crate) fn of_unknown_time(
    facts: &Facts<'_>,
    checks: &[&'static Check],
    posted: &mut PostedText,
) -> Vec<CheckVerdict> {
    let after = |seconds: &str| {
        let mut now = facts.now.clone();
        now.texts.0.insert("/proc/uptime".to_owned(), Ok(seconds.to_owned()));
        examine(&Facts { now: &now, ..*facts }, checks.iter().copied())
    };
    let (mut verdicts, always) = (after("0"), findings(&after("1e15")));
    let found = verdicts.iter_mut().flat_map(|verdict| match &mut verdict.outcome {
        CheckOutcome::Found(found) => found.as_mut_slice(),
        _ => &mut [],
    });
    let is_same = |a: &Finding, b: &Finding| (&a.id, &a.subject) == (&b.id, &b.subject);
    let mut count = 0;
    for finding in found.filter(|one| !always.iter().any(|other| is_same(one, other))) {
        finding.severity = Severity::Note;
        finding.sure = false;
        count += 1;
    }
    if count > 0 {
        posted.remarks.push(format!(
            "How long the counters ran is unknown, so {} below may be none: add what `uptime` prints.",
            plural(count, "finding")
        ));
    }
    verdicts
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

/// What was read of a host, as `record` keeps it.
#[derive(Serialize, Deserialize)]
struct Recording {
    before: Option<Snapshot>,
    now: Snapshot,
}

/// Most bytes of a recording: a host of thousands of connections has a few megabytes of facts.
pub(crate) const LARGEST: u64 = 64 << 20;

fn keep(seen: &Examination, file: &Path) -> Result<(), DoctorError> {
    let recording = Recording { before: seen.before.clone(), now: seen.now.clone() };
    let failed =
        |e: &dyn std::fmt::Display| DoctorError::Failed(format!("writing {}: {e}", file.display()));
    let text = serde_json::to_string_pretty(&recording).map_err(|e| failed(&e))?;
    quell_store::write_output(file, text.as_bytes()).map_err(|e| failed(&e))
}

/// Reads a recording, or what people post.
fn read(files: &[PathBuf]) -> Result<(Examination, Option<PostedText>), DoctorError> {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let text = |file: &PathBuf| {
        let mut stdin = Vec::new();
        let bytes = match file.as_os_str() == "-" {
            true => io::stdin().take(LARGEST).read_to_end(&mut stdin).map(|_| stdin),
            false => input::bytes(file, LARGEST),
        };
        let bytes = bytes.map_err(|e| DoctorError::Unusable(format!("{}: {e}", file.display())))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let texts = files.iter().map(text).collect::<Result<Vec<_>, DoctorError>>()?;
    let unusable = |why: String| DoctorError::Unusable(format!("{}: {why}", names.join(", ")));
    let (before, now, posted) = match &texts[..] {
        [one] if one.starts_with("{\n  \"before\"") => {
            let recording = serde_json::from_str(one).map_err(|e| unusable(e.to_string()))?;
            let Recording { before, now } = recording;
            (before, now, None)
        }
        texts => {
            let (before, now, posted) = posted::read(texts).map_err(unusable)?;
            (before, now, Some(posted))
        }
    };
    let seconds = before.as_ref().map_or(0.0, |before| now.seconds_since(before));
    let looks = ConnectionLooks::default();
    Ok((Examination { before, now, looks, quiet_switches: None, seconds }, posted))
}
