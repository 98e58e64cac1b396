//! `quell tune`: kernel settings computed for a role, with a way back.
//!
//! ```text
//!   asked (role, rate, RTT) ─┐                       ┌─ act: running values, /etc/sysctl.d/60-quell-tune.conf, the record
//!   look  (this host)       ─┴─ quell_tune::Tuning ──┤
//!                                                    └─ prove: the lab, or a `quell serve`
//! ```

mod asked;
pub mod commands;
mod explain;
mod files;
mod look;
mod prove;
mod report;
mod routes;
mod settled;

use crate::failure::Failure;
use crate::shape::{Patience, failure, open, watchdog};
pub use asked::{ApplyArgs, PlanArgs, RevertArgs, StatusArgs};
pub use explain::{ExplainArgs, explain};
use files::{CHANGE, Files};
use quell_act::{Goal, Log};
use quell_tune::Tuning;
use serde_json::json;
use settled::{Settled, act};
use std::process::ExitCode;

/// `quell tune plan`.
pub fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let settled = Settled::of(args.wish.wish()?, &args.places)?;
    let proof = match args.prove.prove.as_deref() {
        None => None,
        Some("lab") => Some(prove::in_lab(&settled.plan, &settled.host, &args.prove)?),
        Some(_) => {
            return Err(Failure::usage(
                "a plan touches nothing: --prove HOST goes with quell tune apply, --prove lab with both",
            ));
        }
    };
    let commands = routes::commands(&routes::wanted(&settled.plan, &args.to)?);
    report::plan(&settled.plan, &settled.now, &commands, proof.as_ref(), args.json);
    Ok(match proof {
        Some(proof) if !proof.helped() => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

/// `quell tune apply`.
pub fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let settled = Settled::of(args.wish.wish()?, &args.places)?;
    refuse_sealed(&settled, args.partly)?;
    may_write(&settled.plan)?;
    let within = match args.confirm_within {
        Some(Patience::Within(span)) => Some(span),
        _ => None,
    };
    let keep = !args.for_now;
    if keep {
        settled.files.refuse_foreign()?;
    }
    let routes = routes::wanted(&settled.plan, &args.route)?;
    routes::refuse_others(&routes, files::log(&args.places)?.as_ref())?;
    let mut kernel = open()?;
    let nothing = settled.plan.settings().next().is_none() && routes.is_empty();
    let proof = match args.prove.prove.as_deref() {
        // There is nothing to prove.
        _ if nothing => None,
        None => None,
        Some("lab") => Some(prove::in_lab(&settled.plan, &settled.host, &args.prove)?),
        Some(host) => {
            let record = settled.record(false);
            let goal = settled.files.goal(&record, settled.earlier.as_ref());
            let goal = Goal { routes: routes.clone(), ..goal };
            Some(prove::with_host(host, &mut kernel, args, &settled, &record, &goal)?)
        }
    };
    if let Some(proof) = &proof
        && !proof.helped()
    {
        let document = json!({ "kept": false, "proof": proof.document() });
        report::not_kept(proof, &document, args.json);
        return Ok(ExitCode::from(1));
    }
    let record = settled.record(keep);
    let goal = Goal { routes, ..settled.files.goal(&record, settled.earlier.as_ref()) };
    // What is not confirmed must not come back at boot.
    let goal = match within {
        Some(_) => Goal { files: Vec::new(), ..goal },
        None => goal,
    };
    if !goal.files.is_empty() {
        settled.files.make_folders()?;
    }
    let applied = act(&mut kernel, &args.places, goal, &record, within)?;
    report::applied(&settled, &record, &applied, within, proof.as_ref(), args);
    Ok(ExitCode::SUCCESS)
}

/// Refuses to do half of a plan where nobody asked for that.
fn refuse_sealed(settled: &Settled, partly: bool) -> Result<(), Failure> {
    let (plan, why) = (&settled.plan, &settled.host.sealed);
    let line = |key| format!("  {}: {}", quell_tune::dotted(key), why.get(key).map_or("", |w| w));
    let sealed: Vec<String> = plan.sealed().map(|sealed| line(sealed.key)).collect();
    let some = plan.settings().next().is_some();
    if sealed.is_empty() || (partly && some) {
        return Ok(());
    }
    let advice = match some {
        true => "; --partly sets the others",
        false => "; set them on the machine itself, outside of the container or namespace",
    };
    Err(Failure::system(format!(
        "some settings can't be written here; nothing was changed{advice}:\n{}",
        sealed.join("\n")
    )))
}

/// Told before anything is touched.
fn may_write(plan: &Tuning) -> Result<(), Failure> {
    use nix::unistd::{AccessFlags, access};
    for (key, _) in plan.settings() {
        access(&std::path::Path::new("/proc/sys").join(key), AccessFlags::W_OK).map_err(|errno| {
            Failure::system(format!(
                "{} can't be written: {}; nothing was changed. It needs root: sudo quell tune apply …",
                quell_tune::dotted(key),
                errno.desc()
            ))
        })?;
    }
    Ok(())
}

/// `quell tune confirm`.
pub fn confirm(args: &StatusArgs) -> Result<ExitCode, Failure> {
    quell_act::confirm(&args.places.state, Some(CHANGE), "quell tune confirm").map_err(failure)?;
    let log = files::log(&args.places)?;
    let record = log.as_ref().and_then(files::of_log);
    let mut steps = Vec::new();
    if let Some(record) = record.filter(|record| !record.file.is_empty()) {
        let files = Files::of(&args.places);
        files.refuse_foreign()?;
        files.make_folders()?;
        let goal = Goal { routes: routes::as_they_are(log.as_ref()), ..files.goal(&record, None) };
        steps = act(&mut open()?, &args.places, goal, &record, None)?.steps;
    }
    if args.json.json {
        println!("{}", crate::text::document(&json!({ "confirmed": true, "steps": steps })));
    } else {
        steps.iter().for_each(|step| println!("  {step}"));
        println!("what is in force stays");
    }
    Ok(ExitCode::SUCCESS)
}

/// `quell tune status`.
pub fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let files = Files::of(&args.places);
    let log = files::log(&args.places)?;
    let recorded = files.recorded()?;
    let report = report::status(&files, log.as_ref(), recorded.as_ref(), &args.places)?;
    report.print(args.json);
    Ok(if report.broken { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// `quell tune revert`.
pub fn revert(args: &RevertArgs) -> Result<ExitCode, Failure> {
    let files = Files::of(&args.places);
    let log = files::log(&args.places)?;
    let recorded = match files.recorded()? {
        Some(record) => Some(record),
        None => log.as_ref().and_then(files::of_log),
    };
    let Some(record) = recorded else {
        return Err(Failure::check("nothing of `quell tune` is in force"));
    };
    let now = report::now(&record);
    let changed = files::changed(&record, &now);
    if !changed.is_empty() && !args.all && !args.keep_changed {
        let lines = changed.iter().map(|(key, value)| {
            let set = record.settings.iter().find(|s| s.key == *key).map_or("", |s| s.set.as_str());
            format!("  {} = {value}, set to {set}", quell_tune::dotted(key))
        });
        return Err(Failure::check(format!(
            "somebody has changed these since; nothing was changed now. --all brings them back too, --keep-changed leaves them:\n{}",
            lines.collect::<Vec<_>>().join("\n")
        )));
    }
    let stay: Vec<String> = match args.keep_changed {
        true => changed.iter().map(|(key, _)| key.clone()).collect(),
        false => Vec::new(),
    };
    let mut kernel = open()?;
    let command = "quell tune revert";
    let before = |log: Option<&Log>| Ok(files.before(&record, log, &stay));
    let done =
        quell_act::take_off(&mut kernel, &args.places.state, CHANGE, command, &watchdog, &before)
            .map_err(failure)?;
    report::reverted(&record, &done, &stay, args.json);
    Ok(ExitCode::SUCCESS)
}

/// `quell tune recover`.
pub fn recover(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let mut kernel = open()?;
    let done = quell_act::recover(&mut kernel, &args.places.state, "quell tune recover")
        .map_err(failure)?;
    let steps: Vec<&String> = done.iter().flat_map(|(_, done)| &done.steps).collect();
    if args.json.json {
        println!(
            "{}",
            crate::text::document(&json!({ "recovered": !done.is_empty(), "steps": steps }))
        );
        return Ok(ExitCode::SUCCESS);
    }
    steps.iter().for_each(|step| println!("  {step}"));
    println!(
        "{}",
        if done.is_empty() { "nothing is unfinished" } else { "all is as it was before" }
    );
    Ok(ExitCode::SUCCESS)
}
