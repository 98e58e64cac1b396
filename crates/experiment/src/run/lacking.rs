//! What the running kernel lacks for the scenarios of an experiment that are optional: what stands in for fq_codel, or that they are left out.
//!
//! ```text
//!   optional scenario ──lacks nothing──► as it is
//!        ├── with sfq or a plain queue for fq_codel, lacks nothing ──► so, which is said
//!        └── else ──► left out, with the reason
//! ```

use super::host_lacking;
use crate::spec::Experiment;
use quell_lab::cell::{CellPlan, ChangeWhat};
use quell_policy::without_fq_codel;

/// What to do where the running kernel won't.
pub const INSTEAD: &str =
    "run it in the guest kernel instead, which needs no rights: --kernel guest";

/// What the running kernel lacks for these plans, a line each, as it answered.
pub fn of_the_host(plans: &[CellPlan]) -> Result<Vec<String>, String> {
    host_lacking(plans).map_err(|why| {
        let why = why.trim_start_matches("quell: ");
        format!("no network can be made on the running kernel: {why}\n{INSTEAD}")
    })
}

/// Lets others stand in for fq_codel where the running kernel lacks it, and takes out the optional scenarios that lack something else; what is to
/// be said of each.
pub fn stand_in(
    experiment: &mut Experiment,
    plans: &mut Vec<CellPlan>,
) -> Result<Vec<String>, String> {
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
        for has_sfq in [true, false] {
            let mut other = plan.clone();
            if lacking.is_empty() || !names_fq_codel(&lacking) {
                break;
            }
            let Some(words) = replace(&mut other, has_sfq) else { break };
            if of_the_host(std::slice::from_ref(&other))?.is_empty() {
                said.push(format!("{name}: {words}"));
                for plan in plans.iter_mut().filter(|plan| is_its(plan)) {
                    replace(plan, has_sfq);
                }
                lacking.clear();
            }
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
        return Err(said.join("\n"));
    }
    Ok(said)
}

fn names_fq_codel(lacking: &[String]) -> bool {
    lacking.iter().any(|line| line.starts_with("queue `fq_codel`"))
}

/// Puts what stands in for fq_codel into a plan's queues.
fn replace(plan: &mut CellPlan, has_sfq: bool) -> Option<&'static str> {
    let changed = plan.changes.iter_mut().filter_map(|change| match &mut change.what {
        ChangeWhat::Queue(queue) => Some(queue),
        ChangeWhat::Line { .. } => None,
    });
    let queues = plan.queues.iter_mut().chain(changed);
    queues.filter_map(|queue| without_fq_codel(&mut queue.tree, has_sfq)).last()
}
