//! `quell doctor`: what makes this host slow.
//!
//! ```text
//!   a look ── six at the connections, a second ── a look ──► Facts ──► checks ──► findings, the worst first
//! ```

mod args;
mod drops;
mod during;
mod echo;
mod ends;
mod peer;
mod seen;
mod text;
mod told;
mod watch;

use crate::failure::Failure;
use crate::text::columns;
pub use args::DoctorArgs;
use args::{chosen, known};
use quell_doctor::{Check, Facts, Stalls, Verdict, examine};
use quell_finding::{Finding, Severity, worst_first};
use quell_host::capture::{Depth, connections, take};
use quell_host::{owner, record};
use quell_sys::clock::monotonic_ns;
use quell_sys::wait::{Alarm, readable, wait};
use seen::{Examination, LOOKS, inodes};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// `quell doctor`.
pub fn doctor(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    if args.list {
        return list(args);
    }
    if let Some(name) = &args.explain {
        return explain(name, args);
    }
    let checks = chosen(&args.only)?;
    if args.limit.is_some() && args.during.is_none() && !args.watch {
        return Err(Failure::usage("--limit goes with --during or --watch"));
    }
    if args.watch {
        return watch::watch(args, &checks);
    }
    let peer = args.peer.as_deref().map(|name| peer::ask(args, name)).transpose()?;
    let seen = match &args.from {
        Some(folder) => read(folder)?,
        None => look(args)?,
    };
    if let Some(folder) = &args.record {
        keep(&seen, folder)?;
    }
    let owners =
        if args.from.is_none() { owner::owners(&inodes(&seen.now)) } else { BTreeMap::new() };
    let facts = Facts {
        before: seen.before.as_ref(),
        now: &seen.now,
        stalls: &seen.stalls,
        owners: &owners,
        quiet_switches: seen.watched.as_ref().and_then(|watched| watched.quiet_switches),
        peer: peer.as_ref(),
    };
    let verdicts = examine(&facts, checks);
    let mut findings: Vec<Finding> =
        verdicts.iter().flat_map(|verdict| verdict.outcome.findings().to_vec()).collect();
    worst_first(&mut findings);
    let failed = seen.watched.as_ref().is_some_and(|watched| watched.failed.is_some());
    if args.json.json {
        let document = document(&seen, &findings, &verdicts, peer.as_ref(), args);
        println!("{}", crate::text::document(&document));
    } else {
        let lines = text::report(&seen, &findings, &verdicts, args, columns());
        lines.iter().for_each(|line| println!("{line}"));
    }
    let wrong =
        findings.iter().any(|finding| finding.severity >= args.severity.max(Severity::Warning));
    Ok(ExitCode::from(u8::from(wrong || failed)))
}

fn list(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let checks = chosen(&args.only)?;
    if args.json.json {
        let all: Vec<_> = checks.iter().map(|check| described(check)).collect();
        println!("{}", crate::text::document(&json!(all)));
    } else {
        text::list(&checks, columns()).iter().for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(name: &str, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let check = known(name)?;
    if args.json.json {
        println!("{}", crate::text::document(&described(check)));
    } else {
        text::explanation(check, columns()).iter().for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(check: &Check) -> serde_json::Value {
    json!({
        "number": check.number,
        "name": check.name,
        "group": check.group,
        "title": check.title,
        "evidence": check.evidence,
        "rule": check.rule,
        "severity": check.severity,
        "why": check.why,
        "fix": check.fix,
        "source": check.source,
    })
}

fn document(
    seen: &Examination,
    findings: &[Finding],
    verdicts: &[Verdict],
    peer: Option<&quell_doctor::peer::Peer>,
    args: &DoctorArgs,
) -> serde_json::Value {
    let shown: Vec<&Finding> = findings.iter().filter(|f| f.severity >= args.severity).collect();
    json!({
        "seconds": seen.seconds,
        "findings": shown,
        "checks": verdicts,
        "during": seen.watched.as_ref().map(during::document),
        "peer": peer,
    })
}

/// Looks at this host for a second, or while a command runs.
fn look(args: &DoctorArgs) -> Result<Examination, Failure> {
    let begun = monotonic_ns();
    if let Some(command) = &args.during {
        return during::watch(command, args.limit.unwrap_or(during::LIMIT));
    }
    let before = take(Depth::Full);
    let mut stalls = Stalls::default();
    let mut alarm = Alarm::new().map_err(Failure::system)?;
    for milliseconds in LOOKS {
        let due = monotonic_ns() + milliseconds * 1_000_000;
        alarm.set(Some(due)).map_err(Failure::system)?;
        wait(&mut [readable(&alarm)]).map_err(Failure::system)?;
        // With very many sockets a look takes long itself.
        if let Ok(sockets) = connections() {
            stalls.look(&sockets);
        }
        if monotonic_ns() - begun > 1_500_000_000 {
            break;
        }
    }
    let now = take(Depth::Full);
    let seconds = (monotonic_ns() - begun) as f64 / 1e9;
    Ok(Examination { before: Some(before), now, stalls, watched: None, seconds })
}

fn keep(seen: &Examination, folder: &std::path::Path) -> Result<(), Failure> {
    let write =
        |snapshot, name| record::write(snapshot, &folder.join(name)).map_err(Failure::system);
    if let Some(before) = &seen.before {
        write(before, "before")?;
    }
    write(&seen.now, "now")
}

/// What --record kept: `now`, and `before` where it is there; or one snapshot by itself.
fn read(folder: &std::path::Path) -> Result<Examination, Failure> {
    let one = |folder: PathBuf| record::read(&folder).map_err(Failure::unusable);
    // Whoever typed it knows where it leads; what is inside came from elsewhere.
    let folder = &std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let inner = folder.join("now");
    let now = one(if inner.is_dir() { inner } else { folder.to_owned() })?;
    let before = folder.join("before");
    let before = if before.is_dir() { Some(one(before)?) } else { None };
    let seconds = before.as_ref().map_or(0.0, |before| now.seconds_since(before));
    Ok(Examination { before, now, stalls: Stalls::default(), watched: None, seconds })
}
