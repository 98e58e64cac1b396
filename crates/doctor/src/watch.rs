//! Keeping on looking, and telling what changes: for a fault that shows once a night.
//!
//! ```text
//!   look ─ six at the connections ─ look ─ six ─ look …      each look is what the next is compared with, so that nothing moves unseen
//!     └──────── findings ─────────► FollowedFindings ─┬ not known ──► appeared
//!                                                     ├ known ──────► grew, where it is twice as much, worse, or moves again after it stood
//!                                                     └ gone ───────► went
//! ```

use crate::examination::DoctorError;
use crate::facts::ConnectionLooks;
use crate::run::{LOOKS_MS, findings, inodes};
use crate::{Check, CheckOutcome, CheckVerdict, Facts, examine};
use quell_finding::{Finding, Severity, Value, worst_first};
use quell_host::Snapshot;
use quell_host::capture::{Depth, backlogs, connections, take};
use quell_host::sockets::{Owner, owners};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use quell_units::Span;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The shortest time between two looks: a look at a large host takes a good part of a second.
pub const LEAST_EVERY: Span = Span::from_secs(1);
/// How long the first look takes.
const FIRST_NS: u64 = 1_000_000_000;

/// What is watched, and until when.
pub struct WatchPlan {
    pub checks: Vec<&'static Check>,
    pub severity: Severity,
    /// From one look to the next.
    pub every: Span,
    pub limit: Option<Span>,
    /// Ends it when this check finds something.
    pub until: Option<&'static str>,
    pub stop: Arc<Bell>,
}

/// What is told while it goes on.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum WatchEvent {
    Began {
        checks: usize,
        every_s: f64,
        /// Checks that can't look, and why.
        could_not_look: BTreeMap<String, String>,
    },
    /// It was not there at the last look.
    Appeared {
        finding: Finding,
    },
    /// There is more of it than when it was told last.
    Grew {
        finding: Finding,
    },
    /// It is not there any more; as it was told last.
    Went {
        finding: Finding,
    },
    Ended(WatchReport),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WatchReport {
    pub why: WatchEnd,
    pub seconds: f64,
    pub looks: u64,
    /// Findings that appeared, and that were there in the end.
    pub appeared: u64,
    pub present: usize,
    /// The worst of all.
    #[serde(skip)]
    pub worst: Option<Severity>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchEnd {
    Stopped,
    Limit,
    Until,
}

/// Looks until somebody ends it, the limit is reached, or the awaited finding is there.
pub fn watch(
    plan: &WatchPlan,
    tell: &mut dyn FnMut(&WatchEvent),
) -> Result<WatchReport, DoctorError> {
    let begun = monotonic_ns();
    let mut looks = Looks {
        stop: &plan.stop,
        alarm: Alarm::new()?,
        end: plan.limit.map(|limit| begun.saturating_add(limit.nanos())),
        before: take(Depth::Full),
        seen: ConnectionLooks::default(),
        owners: BTreeMap::new(),
        nobodys: BTreeSet::new(),
        inodes: BTreeMap::new(),
    };
    let mut followed = FollowedFindings::default();
    let (mut count, mut appeared) = (0, 0);
    let why = loop {
        let ended = looks.wait(if count == 0 { FIRST_NS } else { plan.every.nanos() })?;
        let verdicts = looks.judge(&plan.checks);
        count += 1;
        if count == 1 {
            tell(&began(&verdicts, plan));
        }
        let mut findings = findings(&verdicts);
        let is_awaited = |finding: &Finding| plan.until == Some(finding.id.as_str());
        let awaited = findings.iter().any(is_awaited);
        findings.retain(|finding| finding.severity >= plan.severity || is_awaited(finding));
        worst_first(&mut findings);
        for event in followed.take(findings) {
            appeared += u64::from(matches!(event, WatchEvent::Appeared { .. }));
            tell(&event);
        }
        match ended {
            _ if awaited => break WatchEnd::Until,
            Some(why) => break why,
            None => {}
        }
    };
    let report = WatchReport {
        why,
        seconds: (monotonic_ns() - begun) as f64 / 1e9,
        looks: count,
        appeared,
        present: followed.present.len(),
        worst: followed.worst,
    };
    tell(&WatchEvent::Ended(report.clone()));
    Ok(report)
}

fn began(verdicts: &[CheckVerdict], plan: &WatchPlan) -> WatchEvent {
    let blind = verdicts.iter().filter_map(|verdict| match &verdict.outcome {
        CheckOutcome::CouldNotLook(why) => Some((verdict.check.clone(), why.clone())),
        _ => None,
    });
    WatchEvent::Began {
        checks: plan.checks.len(),
        every_s: plan.every.nanos() as f64 / 1e9,
        could_not_look: blind.collect(),
    }
}

struct Looks<'a> {
    stop: &'a Bell,
    alarm: Alarm,
    end: Option<u64>,
    before: Snapshot,
    /// Whose sockets, of those that are there; and those of which nobody knows.
    owners: BTreeMap<u32, Owner>,
    nobodys: BTreeSet<u32>,
    /// Inodes of connections by the kernel's number for them: one that its program has closed has none any more, and is still its own.
    inodes: BTreeMap<u64, u32>,
    /// What was seen of connections since the last look.
    seen: ConnectionLooks,
}

impl Looks<'_> {
    /// Lets time pass, with looks at the connections; says why that ended before its time.
    fn wait(&mut self, time: u64) -> Result<Option<WatchEnd>, DoctorError> {
        self.seen = ConnectionLooks::default();
        let begun = monotonic_ns();
        let mut part = 0;
        for share in LOOKS_MS {
            part += share;
            let due = begun + time / 1000 * part;
            let due = self.end.map_or(due, |end| due.min(end));
            self.alarm.set(Some(due))?;
            wait(&mut [readable(&self.alarm), readable(self.stop)])?;
            if self.stop.rings() {
                return Ok(Some(WatchEnd::Stopped));
            }
            if self.end.is_some_and(|end| monotonic_ns() >= end) {
                return Ok(Some(WatchEnd::Limit));
            }
            if let Ok(sockets) = connections() {
                self.seen.look(monotonic_ns(), &sockets, &backlogs());
            }
        }
        Ok(None)
    }

    /// Judges what is since the last time.
    fn judge(&mut self, checks: &[&'static Check]) -> Vec<CheckVerdict> {
        let mut now = take(Depth::Full);
        if let Ok(sockets) = &mut now.sockets {
            for socket in sockets.tcp.iter_mut().filter(|socket| socket.inode == 0) {
                socket.inode = self.inodes.get(&socket.cookie).copied().unwrap_or(0);
            }
            self.inodes = sockets.tcp.iter().map(|s| (s.cookie, s.inode)).collect();
        }
        self.find_owners(&inodes(&now));
        let facts = Facts {
            before: Some(&self.before),
            now: &now,
            looks: &self.seen,
            owners: &self.owners,
            quiet_switches: None,
            peer: None,
            drops: None,
            reported: &[],
        };
        let verdicts = examine(&facts, checks.iter().copied());
        self.before = now;
        verdicts
    }

    /// Finds the owners of sockets that are new: that takes a look at each open file of each process.
    fn find_owners(&mut self, inodes: &BTreeSet<u32>) {
        self.owners.retain(|inode, _| inodes.contains(inode));
        self.nobodys.retain(|inode| inodes.contains(inode));
        let new = |inode: &&u32| !self.owners.contains_key(inode) && !self.nobodys.contains(inode);
        let new: BTreeSet<u32> = inodes.iter().filter(new).copied().collect();
        self.owners.extend(owners(&new));
        self.nobodys.extend(new.into_iter().filter(|inode| !self.owners.contains_key(inode)));
    }
}

/// What is known from the looks so far; pure.
#[derive(Debug, Default)]
struct FollowedFindings {
    /// By check and subject: as it was told last, and whether it moved at the last look.
    present: BTreeMap<(String, String), (Finding, bool)>,
    worst: Option<Severity>,
}

impl FollowedFindings {
    /// Takes what a look found; gives what changed, the worst first as it came.
    fn take(&mut self, findings: Vec<Finding>) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        let mut gone = std::mem::take(&mut self.present);
        for finding in findings {
            self.worst = self.worst.max(Some(finding.severity));
            let key = (finding.id.clone(), finding.subject.clone());
            let moving = moves(&finding);
            let known = match gone.remove(&key) {
                None => {
                    events.push(WatchEvent::Appeared { finding: finding.clone() });
                    (finding, moving)
                }
                Some((told, was_moving)) if grew(&told, was_moving, &finding) => {
                    events.push(WatchEvent::Grew { finding: finding.clone() });
                    (finding, moving)
                }
                Some((told, _)) => (told, moving),
            };
            self.present.insert(key, known);
        }
        events.extend(gone.into_values().map(|(finding, _)| WatchEvent::Went { finding }));
        events
    }
}

/// Whether a counter that it is about moved since the look before.
fn moves(finding: &Finding) -> bool {
    let moved = |evidence: &quell_finding::Evidence| {
        evidence.unit.ends_with("while watching") && amount(&evidence.value) > 0.0
    };
    finding.evidence.iter().any(moved)
}

fn grew(told: &Finding, was_moving: bool, now: &Finding) -> bool {
    let first = |finding: &Finding| finding.evidence.first().map_or(0.0, |e| amount(&e.value));
    let (was, is) = (first(told), first(now));
    now.severity > told.severity || (was > 0.0 && is >= 2.0 * was) || (!was_moving && moves(now))
}

fn amount(value: &Value) -> f64 {
    match value {
        Value::Count(count) => *count as f64,
        Value::Number(number) => *number,
        Value::Part { part, .. } => *part as f64,
        Value::Text(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_finding::Evidence;

    fn drops(total: u64, moved: u64) -> Finding {
        let mut finding = Finding {
            id: "queue-drops".into(),
            subject: "eth0".into(),
            severity: Severity::Warning,
            sure: true,
            says: "a queue was full".into(),
            evidence: vec![Evidence::amount("dropped", total, "since the start", "rtnetlink")],
            why: String::new(),
            remedies: Vec::new(),
            source: String::new(),
        };
        if moved > 0 {
            finding =
                finding.saw(Evidence::amount("of these", moved, "while watching", "rtnetlink"));
        }
        finding
    }

    /// What a look changes, in words.
    fn changes(watch: &mut FollowedFindings, findings: Vec<Finding>) -> Vec<&'static str> {
        let word = |event: WatchEvent| match event {
            WatchEvent::Appeared { .. } => "appeared",
            WatchEvent::Grew { .. } => "grew",
            _ => "went",
        };
        watch.take(findings).into_iter().map(word).collect()
    }

    #[test]
    fn a_fault_of_one_night_is_told_when_it_comes_and_when_it_is_gone() {
        let mut watch = FollowedFindings::default();
        assert_eq!(changes(&mut watch, vec![]), [""; 0]);
        assert_eq!(changes(&mut watch, vec![drops(10, 10)]), ["appeared"]);
        assert_eq!(changes(&mut watch, vec![drops(15, 5)]), [""; 0]);
        assert_eq!(changes(&mut watch, vec![drops(21, 6)]), ["grew"], "twice as many");
        assert_eq!(
            changes(&mut watch, vec![drops(41, 20)]),
            [""; 0],
            "not twice what was told last"
        );
        assert_eq!(changes(&mut watch, vec![]), ["went"]);
        assert_eq!(changes(&mut watch, vec![]), [""; 0]);
        assert_eq!(watch.worst, Some(Severity::Warning));
    }

    #[test]
    fn what_stood_and_moves_again_is_told_again() {
        let mut watch = FollowedFindings::default();
        assert_eq!(changes(&mut watch, vec![drops(1000, 0)]), ["appeared"]);
        assert_eq!(changes(&mut watch, vec![drops(1000, 0)]), [""; 0]);
        assert_eq!(changes(&mut watch, vec![drops(1003, 3)]), ["grew"]);
        assert_eq!(changes(&mut watch, vec![drops(1006, 3)]), [""; 0], "it still moves");
    }

    #[test]
    fn what_gets_worse_is_told() {
        let mut watch = FollowedFindings::default();
        watch.take(vec![drops(5, 5)]);
        let worse = Finding { severity: Severity::Serious, ..drops(6, 1) };
        assert_eq!(changes(&mut watch, vec![worse]), ["grew"]);
        assert_eq!(watch.worst, Some(Severity::Serious));
    }
}
