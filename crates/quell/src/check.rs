//! `quell lab check`: whether an experiment could be run, and what it would put in place.

use crate::completion;
use crate::failure::Failure;
use crate::options::Json;
use crate::run::warned;
use crate::text::say;
use clap::Args;
use quell_experiment::prepare;
use quell_lab::build::ifb_name;
use quell_lab::cell::{CellPlan, ChangeWhat, PlacedQueue};
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Name of a built-in experiment, or a file
    #[arg(add = completion::experiments())]
    pub experiment: String,
    /// Print the queues as the tc commands that would make them
    #[arg(long)]
    pub tc: bool,
    /// Change a field first, like `quell run --set` (repeatable)
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub changes: Vec<String>,
    #[command(flatten)]
    pub json: Json,
}

pub fn check(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let ready = prepare(&args.experiment, &args.changes, &[], None)?;
    let length: f64 = ready.plans.iter().map(|p| p.length().as_secs_f64()).sum();
    // The cells of a scenario have the same queues.
    let mut seen = BTreeSet::new();
    let plans = ready.plans.iter().filter(|p| args.tc && seen.insert(p.id.scenario.clone()));
    let queues = plans.map(queues).collect::<Result<Vec<_>, _>>()?.concat();
    let experiment = &ready.experiment;
    if args.json.json {
        let mut document = serde_json::json!({
            "experiment": experiment.name,
            "scenarios": experiment.scenario.len(),
            "probes": experiment.probe.len(),
            "measurements": ready.plans.len(),
            "at_most_s": length,
            "expectations": experiment.expect.len(),
            "warnings": ready.warnings,
        });
        if args.tc {
            document["tc"] = serde_json::json!(queues);
        }
        println!("{}", crate::text::document(&document));
        return Ok(ExitCode::SUCCESS);
    }
    say(&format!(
        "{}: {} scenarios, {} probes, {} measurements, at most {length:.0} s inside the experiment; {} expectations\n",
        experiment.name,
        experiment.scenario.len(),
        experiment.probe.len(),
        ready.plans.len(),
        experiment.expect.len()
    ));
    print!("{}", warned(&ready.warnings));
    for queue in &queues {
        println!("\n# scenario {}, {}", queue.scenario, queue.place);
        queue.commands.iter().for_each(|command| println!("{command}"));
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Clone, Serialize)]
struct CheckedQueue {
    scenario: String,
    /// Where it is, and from when.
    place: String,
    commands: Vec<String>,
}

/// A cell's queues, and those that its timeline puts in their place.
fn queues(plan: &CellPlan) -> Result<Vec<CheckedQueue>, Failure> {
    let one = |place: String, queue: &PlacedQueue| -> Result<CheckedQueue, Failure> {
        Ok(CheckedQueue { scenario: plan.id.scenario.clone(), place, commands: commands(queue)? })
    };
    let first = plan.queues.iter().map(|queue| one(queue.on.to_string(), queue));
    let later = plan.changes.iter().filter_map(|change| match &change.what {
        ChangeWhat::Queue(queue) => Some(one(format!("{} at {}", queue.on, change.at), queue)),
        ChangeWhat::Line { on, line } => {
            let tree = quell_tc::Tree::from(line.queue.clone()?);
            let queue = PlacedQueue { on: on.clone(), incoming: false, tree };
            let place = format!("the line of {on} at {}, below its rate and delay", change.at);
            Some(one(place, &queue))
        }
    });
    first.chain(later).collect()
}

fn commands(queue: &PlacedQueue) -> Result<Vec<String>, Failure> {
    let mut commands = Vec::new();
    let mut device = queue.on.device.clone();
    if queue.incoming {
        let outside = std::mem::replace(&mut device, ifb_name(&queue.on.device));
        commands.extend([
            format!("ip link add {device} type ifb"),
            format!("ip link set {device} up"),
            format!("tc qdisc replace dev {outside} ingress"),
            format!(
                "tc filter add dev {outside} parent ffff: u32 match u32 0 0 action mirred egress redirect dev {device}"
            ),
        ]);
    }
    let steps = queue.tree.plan().map_err(Failure::usage)?;
    commands.extend(quell_tc::commands(&steps, &device));
    Ok(commands)
}
