//! `quell tune`: what is typed becomes calls of `quell_tuning`, and what these report becomes text or JSON.

mod args;
mod explain;
mod prove;
mod text;

use crate::failure::Failure;
use crate::shape::print;
pub use args::{ApplyArgs, PlanArgs, RevertArgs, StatusArgs};
pub use explain::{ExplainArgs, explain};
use quell_act::{Kernel, Patience};
use quell_tuning::Tuner;
use quell_tuning::dotted;
use quell_tuning::report::{self, PlanReport};
use quell_units::Span;
use serde_json::json;
use std::process::ExitCode;

pub fn plan(args: &PlanArgs) -> Result<ExitCode, Failure> {
    let tuner = Tuner::new(args.wish.wish()?, &args.folders.folders())?;
    let proof = match args.prove.prove.as_deref() {
        None => None,
        Some("lab") => Some(prove::in_lab(&tuner.plan, &tuner.host, &args.prove)?),
        Some(_) => {
            return Err(Failure::usage(
                "a plan touches nothing: --prove HOST goes with quell tune apply, --prove lab with both",
            ));
        }
    };
    let routes = tuner.routes(&args.to)?;
    let report = PlanReport::of(&tuner.plan, &tuner.now, &routes, proof.as_ref());
    print(&report, args.json, || text::plan(&report, args.all))?;
    Ok(match proof {
        Some(proof) if !proof.helped() => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

pub fn apply(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    let tuner = Tuner::new(args.wish.wish()?, &args.folders.folders())?;
    let keep = !args.for_now;
    tuner.refuse_half(args.partly, keep)?;
    let within = args.confirm.confirm_within.and_then(Patience::span);
    let routes = tuner.own_routes(&args.route)?;
    let nothing = !tuner.has_settings() && routes.is_empty();
    let mut kernel = Kernel::open().map_err(Failure::system)?;
    let proof = match args.prove.prove.as_deref() {
        None => None,
        // There is nothing to prove.
        _ if nothing => None,
        Some("lab") => Some(prove::in_lab(&tuner.plan, &tuner.host, &args.prove)?),
        Some(host) => {
            let goals = tuner.goals(routes.clone(), false);
            Some(prove::with_host(host, &mut kernel, &args.prove, &tuner, &goals)?)
        }
    };
    if let Some(proof) = proof.as_ref().filter(|proof| !proof.helped()) {
        let report = json!({ "kept": false, "proof": proof });
        let kept = "nothing was kept: all is as it was before\n";
        print(&report, args.json, || text::proof(proof) + kept)?;
        return Ok(ExitCode::from(1));
    }
    let goals = tuner.goals(routes, keep);
    let applied = tuner.apply(&mut kernel, &goals, within)?;
    let remarks = remarks(args, &tuner, &goals.record, &applied, within);
    let report = json!({
        "wanted": goals.record.wanted,
        "kept": true,
        "changed": !applied.steps.is_empty(),
        "steps": applied.steps,
        "settings": report::settings(&goals.record),
        "remarks": remarks,
        "confirm_within_s": within.map(Span::as_secs_f64),
        "proof": proof,
    });
    print(&report, args.json, || {
        let proof = proof.as_ref().map(|proof| text::proof(proof) + "\n").unwrap_or_default();
        proof + &text::applied(&goals.record.wanted, &applied.steps, &remarks)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What there is to say of what was applied.
fn remarks(
    args: &ApplyArgs,
    tuner: &Tuner,
    record: &quell_tuning::TuningRecord,
    applied: &quell_tuning::Applied,
    within: Option<Span>,
) -> Vec<String> {
    let mut said = applied.said.clone();
    match within {
        Some(within) if !applied.steps.is_empty() => said.push(format!(
            "in force for {within}, and not kept for the next boot; to keep it: quell tune confirm{}",
            args.folders.words()
        )),
        _ if args.for_now => said.push("until the next boot".to_owned()),
        _ => {}
    }
    said.extend(tuner.plan.remarks.iter().cloned());
    let others = tuner.files.overridden(record);
    said.extend(others.iter().map(|other| text::overriding(other) + ": it wins then"));
    said
}

pub fn confirm(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let steps = quell_tuning::confirm(&args.folders.folders())?;
    print(&json!({ "confirmed": true, "steps": steps }), args.json, || {
        text::listed(&steps) + "what is in force stays\n"
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn status(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let status = report::status(&args.folders.folders())?;
    print(&status, args.json, || text::status(&status, &args.folders.words()))?;
    Ok(if status.in_order() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

pub fn revert(args: &RevertArgs) -> Result<ExitCode, Failure> {
    let changed_too = match (args.all, args.keep_changed) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    let reverted = quell_tuning::revert(&args.folders.folders(), changed_too)?;
    let left: Vec<String> = reverted.left.iter().map(|key| dotted(key)).collect();
    let done = &reverted.done;
    let report = json!({
        "reverted": reverted.wanted, "steps": done.steps, "left": left, "remarks": done.said,
    });
    print(&report, args.json, || {
        let mut text = text::listed(&done.steps);
        left.iter().for_each(|key| text += &format!("  {key} is left as somebody set it\n"));
        text += &format!("{}: all is as it was before\n", reverted.wanted);
        text + &text::remarks(&done.said)
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn recover(args: &StatusArgs) -> Result<ExitCode, Failure> {
    let (found, steps) = quell_tuning::recover(&args.folders.folders())?;
    print(&json!({ "recovered": found, "steps": steps }), args.json, || {
        let how = if found { "all is as it was before\n" } else { "nothing is unfinished\n" };
        text::listed(&steps) + how
    })?;
    Ok(ExitCode::SUCCESS)
}
