//! `quell doctor`: what makes this host slow. Arguments and text; the rest is in `crates/doctor`.

mod args;
mod text;

use crate::failure::Failure;
use crate::options::{Family, words};
use crate::progress::StatusLine;
use crate::text::{columns, put};
pub use args::DoctorArgs;
use args::{check_named, chosen};
use quell_doctor::command::CommandPlan;
use quell_doctor::watch::{LEAST_EVERY, WatchEnd, WatchEvent, WatchPlan, watch};
use quell_doctor::{Check, DoctorError, DoctorPlan, DoctorProgress, PeerPlan, Source, named};
use quell_finding::Severity;
use quell_units::Span;
use serde::Serialize;
use serde_json::json;
use std::process::ExitCode;
use std::time::SystemTime;

/// How long a command may take where nothing else is asked for.
const LIMIT: Span = Span::from_secs(600);

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
        return keep_watching(args, checks);
    }
    let plan = plan(args, checks)?;
    let mut progress = Progress(StatusLine::default());
    let report = quell_doctor::run(&plan, &mut progress);
    drop(progress);
    let mut report = report.map_err(failure)?;
    let wrong = report.findings.iter().any(|f| f.severity >= args.severity.max(Severity::Warning));
    let failed = report.during.as_ref().is_some_and(|during| during.failed.is_some());
    if args.json.json {
        report.findings.retain(|finding| finding.severity >= args.severity);
        print_json(&report);
    } else {
        put(&(text::report(&report, args, columns()).join("\n") + "\n"));
    }
    Ok(ExitCode::from(u8::from(wrong || failed)))
}

fn failure(error: DoctorError) -> Failure {
    match error {
        DoctorError::Unusable(_) => Failure::unusable(error),
        _ => Failure::system(error),
    }
}

fn print_json(value: &impl Serialize) {
    println!("{}", crate::text::document(&json!(value)));
}

fn plan(args: &DoctorArgs, checks: Vec<&'static Check>) -> Result<DoctorPlan, Failure> {
    let source = match (&args.from[..], &args.during) {
        ([_, ..], _) => Source::Files(args.from.clone()),
        ([], Some(command)) => Source::During(CommandPlan {
            shown: command.clone(),
            words: program(command)?,
            limit: args.limit.unwrap_or(LIMIT),
            stop: crate::interrupt::bell()?,
        }),
        ([], None) => Source::Now,
    };
    let peer = args.peer.as_deref().map(|name| -> Result<_, Failure> {
        let found = Family::default().server(name, quell_wire::iperf3::PORT)?;
        let (hint, secret) = (found.hint(), args.secret.read()?);
        Ok(PeerPlan { name: name.to_owned(), to: found.to, hint, secret })
    });
    Ok(DoctorPlan { checks, source, record: args.record.clone(), peer: peer.transpose()? })
}

/// The program of --during and its arguments.
fn program(command: &str) -> Result<Vec<String>, Failure> {
    if let Some(host) = command.strip_prefix("flow:") {
        let own = std::env::current_exe()
            .map_err(|e| Failure::system(format!("finding this program: {e}")))?;
        let own = own.to_string_lossy().into_owned();
        return Ok([own.as_str(), "flow", host.trim(), "-t", "5"].map(str::to_owned).to_vec());
    }
    words(&format!("--during \"{command}\""), command)
}

fn list(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let checks = chosen(&args.only)?;
    // Those that only other instruments find are told where all are asked for.
    let causes = quell_cause::TABLE.iter().filter(|row| named(row.name).is_none());
    let causes: Vec<_> = causes.filter(|_| args.only.is_empty()).collect();
    if args.json.json {
        let checks = checks.iter().map(|check| json!(check));
        let all: Vec<_> = checks.chain(causes.iter().map(|row| json!(row))).collect();
        print_json(&all);
    } else {
        text::list(&checks, &causes, columns()).iter().for_each(|line| println!("{line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(name: &str, args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let cause = quell_cause::named(name.trim()).filter(|row| named(row.name).is_none());
    let (document, lines) = match cause {
        Some(row) => (json!(row), text::cause(row, columns())),
        None => {
            let check = check_named(name)?;
            (json!(check), text::explanation(check, columns()))
        }
    };
    match args.json.json {
        true => print_json(&document),
        false => lines.iter().for_each(|line| println!("{line}")),
    }
    Ok(ExitCode::SUCCESS)
}

fn keep_watching(args: &DoctorArgs, checks: Vec<&'static Check>) -> Result<ExitCode, Failure> {
    if args.every < LEAST_EVERY {
        return Err(Failure::usage(format!(
            "--every {}: a look takes a good part of a second; take 1s or more",
            args.every
        )));
    }
    let until = args.until.as_deref().map(check_named).transpose()?.map(|check| check.name);
    if let Some(name) = until.filter(|name| checks.iter().all(|check| check.name != *name)) {
        return Err(Failure::usage(format!(
            "--until {name}: that check is not among those of --only"
        )));
    }
    let plan = WatchPlan {
        checks,
        severity: args.severity,
        every: args.every,
        limit: args.limit,
        until,
        stop: crate::interrupt::bell()?,
    };
    let report = watch(&plan, &mut |event| tell(event, args)).map_err(failure)?;
    let wrong = report.worst.is_some_and(|worst| worst >= args.severity.max(Severity::Warning));
    Ok(ExitCode::from(u8::from(wrong || report.why == WatchEnd::Until)))
}

fn tell(event: &WatchEvent, args: &DoctorArgs) {
    #[derive(Serialize)]
    struct Timed<'a> {
        at: &'a str,
        #[serde(flatten)]
        event: &'a WatchEvent,
    }
    let at = &quell_units::time::rfc3339(SystemTime::now());
    if args.json.json {
        println!("{}", json!(Timed { at, event }));
    } else {
        text::event(at, event, args, columns()).iter().for_each(|line| println!("{line}"));
    }
}

/// How far it is, on standard error: on a terminal a line that changes, elsewhere a line for each step that takes a second or more.
struct Progress(StatusLine);

impl DoctorProgress for Progress {
    fn progress(&mut self, words: &str, takes_long: bool) {
        match self.0.is_live() {
            false if takes_long => eprintln!("{words}"),
            _ => self.0.show(words),
        }
    }
}
