//! Keeping on looking, and telling what changes: for a fault that shows once a night.
//!
//! ```text
//!   look ─ six at the connections ─ look ─ six ─ look …      each look is what the next is compared with, so that nothing moves unseen
//!     └──────── findings ─────────► Watch ──► appeared, grew, went
//! ```

use super::args::{DoctorArgs, known};
use super::seen::{LOOKS, inodes};
use super::text;
use crate::failure::Failure;
use crate::text::columns;
use quell_doctor::watch::{Change, Event, Watch};
use quell_doctor::{Check, Facts, Stalls, Verdict, examine};
use quell_finding::{Finding, Outcome, Severity, lines, worst_first, wrapped};
use quell_host::capture::{Depth, sockets, take};
use quell_host::{Snapshot, owner};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, Bell, readable, wait};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

/// The shortest time between two looks: a look at a large host takes a good part of a second.
const LEAST_NS: u64 = 1_000_000_000;
/// How long the first look takes.
const FIRST_NS: u64 = 1_000_000_000;

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Stopped,
    Limit,
    Until,
}

impl Ended {
    fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Limit => "limit",
            Self::Until => "until",
        }
    }
}

/// Looks until somebody ends it, the limit is reached, or the awaited finding is there.
pub(super) fn watch(args: &DoctorArgs, checks: &[&'static Check]) -> Result<ExitCode, Failure> {
    let every = args.every.nanos();
    if every < LEAST_NS {
        return Err(Failure::usage(format!(
            "--every {}: a look takes a good part of a second; take 1s or more",
            args.every
        )));
    }
    let until = args.until.as_deref().map(known).transpose()?;
    if let Some(until) = until.filter(|until| checks.iter().all(|check| check.name != until.name)) {
        return Err(Failure::usage(format!(
            "--until {}: that check is not among those of --only",
            until.name
        )));
    }
    let stop = Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen(&stop)?;
    let begun = monotonic_ns();
    let mut looks = Looks {
        stop: &stop,
        alarm: Alarm::new().map_err(Failure::system)?,
        end: args.limit.map(|limit| begun.saturating_add(limit.nanos())),
        before: take(Depth::Full),
        stalls: Stalls::default(),
        owners: BTreeMap::new(),
        nobodys: BTreeSet::new(),
        inodes: BTreeMap::new(),
    };
    let mut watch = Watch::default();
    let (mut count, mut appeared) = (0_u64, 0_u64);
    let why = loop {
        let ended = looks.wait(if count == 0 { FIRST_NS } else { every })?;
        let verdicts = looks.judge(checks);
        count += 1;
        if count == 1 {
            tell(&began(&verdicts, checks, args), args);
        }
        let mut findings: Vec<Finding> =
            verdicts.iter().flat_map(|verdict| verdict.outcome.findings().to_vec()).collect();
        let awaited =
            until.is_some_and(|until| findings.iter().any(|finding| finding.id == until.name));
        let asked = |f: &Finding| {
            f.severity >= args.severity || until.is_some_and(|until| until.name == f.id)
        };
        findings.retain(asked);
        worst_first(&mut findings);
        for event in watch.take(findings) {
            appeared += u64::from(event.change == Change::Appeared);
            tell(&changed(&event), args);
        }
        match ended {
            _ if awaited => break Ended::Until,
            Some(why) => break why,
            None => {}
        }
    };
    let seconds = (monotonic_ns() - begun) as f64 / 1e9;
    tell(&ended(why, seconds, count, appeared, &watch, args), args);
    let wrong = watch.worst.is_some_and(|worst| worst >= args.severity.max(Severity::Warning));
    Ok(ExitCode::from(u8::from(wrong || why == Ended::Until)))
}

/// One look after the other.
struct Looks<'a> {
    stop: &'a Bell,
    alarm: Alarm,
    end: Option<u64>,
    before: Snapshot,
    /// Whose sockets, of those that are there; and those of which nobody knows.
    owners: BTreeMap<u32, owner::Owner>,
    nobodys: BTreeSet<u32>,
    /// Inodes of connections by the kernel's number for them: one that its program has closed has none any more, and is still its own.
    inodes: BTreeMap<u64, u32>,
    /// What was seen of connections since the last look.
    stalls: Stalls,
}

impl Looks<'_> {
    /// Lets time pass, with looks at the connections; says why that ended before its time.
    fn wait(&mut self, time: u64) -> Result<Option<Ended>, Failure> {
        self.stalls = Stalls::default();
        let begun = monotonic_ns();
        let mut part = 0;
        for share in LOOKS {
            part += share;
            let due = begun + time / 1000 * part;
            let due = self.end.map_or(due, |end| due.min(end));
            self.alarm.set(Some(due)).map_err(Failure::system)?;
            wait(&mut [readable(&self.alarm), readable(self.stop)]).map_err(Failure::system)?;
            if self.stop.rings() {
                return Ok(Some(Ended::Stopped));
            }
            if self.end.is_some_and(|end| monotonic_ns() >= end) {
                return Ok(Some(Ended::Limit));
            }
            if let Ok(sockets) = sockets() {
                self.stalls.look(&sockets);
            }
        }
        Ok(None)
    }

    /// Judges what is since the last time.
    fn judge(&mut self, checks: &[&'static Check]) -> Vec<Verdict> {
        let mut now = take(Depth::Full);
        if let Ok(sockets) = &mut now.sockets {
            for socket in sockets.tcp.iter_mut().filter(|socket| socket.inode == 0) {
                socket.inode = self.inodes.get(&socket.cookie).copied().unwrap_or(0);
            }
            self.inodes = sockets.tcp.iter().map(|s| (s.cookie, s.inode)).collect();
        }
        self.know(&inodes(&now));
        let facts = Facts {
            before: Some(&self.before),
            now: &now,
            stalls: &self.stalls,
            owners: &self.owners,
            quiet_switches: None,
            peer: None,
        };
        let verdicts = examine(&facts, checks.iter().copied());
        self.before = now;
        verdicts
    }

    /// Finds the owners of sockets that are new: that takes a look at each open file of each process.
    fn know(&mut self, inodes: &BTreeSet<u32>) {
        self.owners.retain(|inode, _| inodes.contains(inode));
        self.nobodys.retain(|inode| inodes.contains(inode));
        let new = |inode: &&u32| !self.owners.contains_key(inode) && !self.nobodys.contains(inode);
        let new: BTreeSet<u32> = inodes.iter().filter(new).copied().collect();
        self.owners.extend(owner::owners(&new));
        self.nobodys.extend(new.into_iter().filter(|inode| !self.owners.contains_key(inode)));
    }
}

/// For a person and for a program.
struct Told {
    lines: Vec<String>,
    json: Value,
}

fn tell(told: &Told, args: &DoctorArgs) {
    if args.json.json {
        println!("{}", told.json);
    } else {
        told.lines.iter().for_each(|line| println!("{line}"));
    }
}

fn time() -> String {
    quell_units::time::rfc3339(SystemTime::now())
}

fn began(verdicts: &[Verdict], checks: &[&Check], args: &DoctorArgs) -> Told {
    let words = format!(
        "{} watching with {} checks, a look each {}; Ctrl-C ends it",
        time(),
        checks.len(),
        args.every
    );
    let mut lines = wrapped(&words, columns());
    lines.extend(text::unseen(verdicts, columns()));
    let blind = verdicts.iter().filter_map(|verdict| match &verdict.outcome {
        Outcome::CouldNotLook(why) => Some((verdict.check.clone(), json!(why))),
        _ => None,
    });
    let json = json!({
        "at": time(),
        "event": "began",
        "checks": checks.len(),
        "every_s": args.every.nanos() as f64 / 1e9,
        "could_not_look": blind.collect::<serde_json::Map<_, _>>(),
    });
    Told { lines, json }
}

fn changed(event: &Event) -> Told {
    let (time, finding) = (time(), &event.finding);
    let word = match event.change {
        Change::Appeared => "appeared",
        Change::Grew => "grew",
        Change::Went => "went",
    };
    let what = format!("{}: {} [{}]", finding.subject, finding.says, finding.id);
    let mut out = vec![String::new()];
    if event.change == Change::Went {
        out.extend(wrapped(&format!("{time} {word}: {what}"), columns()));
    } else {
        out.push(format!("{time} {word}"));
        out.extend(lines(finding, columns()));
    }
    Told { lines: out, json: json!({ "at": time, "event": event.change, "finding": finding }) }
}

fn ended(
    why: Ended,
    seconds: f64,
    looks: u64,
    appeared: u64,
    watch: &Watch,
    args: &DoctorArgs,
) -> Told {
    let reason = match why {
        Ended::Stopped => "it was ended".to_owned(),
        Ended::Limit => "--limit was reached".to_owned(),
        Ended::Until => format!("{} was found", args.until.as_deref().unwrap_or_default()),
    };
    let left = match watch.left_out {
        0 => String::new(),
        many => format!(", {many} more were not followed"),
    };
    let words = format!(
        "{} {reason}: {looks} looks in {seconds:.0} s; {appeared} appeared, {} there now{left}",
        time(),
        watch.present()
    );
    let mut lines = vec![String::new()];
    lines.extend(wrapped(&words, columns()));
    let json = json!({
        "at": time(),
        "event": "ended",
        "why": why.word(),
        "seconds": seconds,
        "looks": looks,
        "appeared": appeared,
        "present": watch.present(),
        "left_out": watch.left_out,
    });
    Told { lines, json }
}
