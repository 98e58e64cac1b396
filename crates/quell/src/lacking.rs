//! What the running kernel lacks for the scenarios of an experiment that are optional: what stands in for it, or that they are left out.
//!
//! ```text
//!   optional scenario ──lacks nothing──► as it is
//!        ├── with what stands in, lacks nothing ──► so, which is said
//!        └── else ──► left out, with the reason
//! ```

use crate::failure::Failure;
use quell_experiment::spec::Experiment;
use quell_lab::cell::{CellPlan, ChangeWhat};
use quell_shaper::{Lack, instead};

/// What to do where the running kernel won't.
pub const INSTEAD: &str =
    "run it in the guest kernel instead, which needs no rights: --kernel guest";

/// What the running kernel lacks for these plans, a line each, as it answered.
pub fn of_the_host(plans: &[CellPlan]) -> Result<Vec<String>, Failure> {
    quell_experiment::run::host_lacking(plans).map_err(|why| {
        Failure::system(format!(
            "no network can be made on the running kernel: {}\n{INSTEAD}",
            why.trim_start_matches("quell: ")
        ))
    })
}

/// Lets others stand in for what the running kernel lacks, and takes out the optional scenarios for which none can; what is to be said of each.
pub fn stand_in(
    experiment: &mut Experiment,
    plans: &mut Vec<CellPlan>,
) -> Result<Vec<String>, Failure> {
    let mut said = Vec::new();
    let optional = experiment.scenario.iter().filter(|s| s.optional);
    for name in optional.map(|s| s.name.clone()).collect::<Vec<_>>() {
        let is_its = |plan: &CellPlan| plan.id.scenario == name;
        // All its plans have the same queues.
        let Some(plan) = plans.iter().find(|plan| is_its(plan)).cloned() else { continue };
        let mut lacking = of_the_host(std::slice::from_ref(&plan))?;
        if lacking.is_empty() {
            continue;
        }
        let mut lacks: Vec<Lack> = Lack::ALL.into_iter().filter(|l| names(&lacking, *l)).collect();
        while !lacks.is_empty() {
            let mut other = plan.clone();
            let words = replace(&mut other, &lacks);
            let then = of_the_host(std::slice::from_ref(&other))?;
            if then.is_empty() {
                said.extend(words.into_iter().map(|words| format!("{name}: {words}")));
                for plan in plans.iter_mut().filter(|plan| is_its(plan)) {
                    replace(plan, &lacks);
                }
                lacking.clear();
                break;
            }
            // What was to stand in for fq_codel or a program may be lacking too; then there is one more try.
            let more = [Lack::Sfq, Lack::Flower].into_iter();
            let more: Vec<_> = more.filter(|l| !lacks.contains(l) && names(&then, *l)).collect();
            if more.is_empty() {
                break;
            }
            lacks.extend(more);
        }
        if !lacking.is_empty() {
            // What it answered to each is told where a scenario is not optional.
            let what = lacking.iter().map(|line| line.split(": ").next().unwrap_or(line));
            let what = what.collect::<Vec<_>>().join(", ");
            said.push(format!("left out: {name}; the running kernel lacks {what}"));
            plans.retain(|plan| plan.id.scenario != name);
            experiment.scenario.retain(|s| s.name != name);
        }
    }
    if plans.is_empty() {
        said.push("the running kernel can carry none of the scenarios".into());
        return Err(Failure::system(said.join("\n")));
    }
    Ok(said)
}

/// Whether a kind is among what is lacking.
fn names(lacking: &[String], lack: Lack) -> bool {
    let what = match lack {
        Lack::FqCodel => "queue `fq_codel`",
        Lack::Sfq => "queue `sfq`",
        Lack::Drr => "queue `drr`",
        Lack::Bpf => "filter `bpf`",
        Lack::Flower => "filter `flower`",
        Lack::Matchall => "filter `matchall`",
    };
    lacking.iter().any(|line| line.starts_with(what))
}

/// Puts what stands in for these kinds into a plan's queues.
fn replace(plan: &mut CellPlan, lacks: &[Lack]) -> Vec<&'static str> {
    let changed = plan.changes.iter_mut().filter_map(|change| match &mut change.what {
        ChangeWhat::Queue(queue) => Some(queue),
        ChangeWhat::Line { .. } => None,
    });
    let mut said = Vec::new();
    for queue in plan.queues.iter_mut().chain(changed) {
        for words in instead(&mut queue.tree, lacks) {
            if !said.contains(&words) {
                said.push(words);
            }
        }
    }
    said
}
