//! `quell check`: whether an experiment could be run, and what it would put in place.

use crate::args::Check;
use crate::failure::Failure;
use crate::run::prepare;
use quell_lab::build::ifb_name;
use quell_lab::cell::{CellPlan, ChangeWhat, PlacedQueue};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// `quell check`.
pub fn check(args: &Check) -> Result<ExitCode, Failure> {
    let ready = prepare(&args.experiment, &args.changes, &[])?;
    let length: f64 = ready.plans.iter().map(|p| p.length().as_secs_f64()).sum();
    println!(
        "{}: {} scenarios, {} probes, {} cells, at most {length:.0} s inside the experiment; {} claims",
        ready.experiment.name,
        ready.experiment.scenario.len(),
        ready.experiment.probe.len(),
        ready.plans.len(),
        ready.experiment.expect.len()
    );
    if args.tc {
        let mut told = BTreeSet::new();
        // The cells of a scenario have the same queues.
        for plan in ready.plans.iter().filter(|p| told.insert(p.id.scenario.clone())) {
            tell(plan)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a cell's queues, and those that its timeline puts in their place, as `tc` commands.
fn tell(plan: &CellPlan) -> Result<(), Failure> {
    for queue in &plan.queues {
        println!("\n# scenario {}, {}", plan.id.scenario, queue.on);
        commands(queue)?;
    }
    for change in &plan.changes {
        match &change.what {
            ChangeWhat::Queue(queue) => {
                println!("\n# scenario {}, {} at {}", plan.id.scenario, queue.on, change.at);
                commands(queue)?;
            }
            ChangeWhat::Line { on, line } => {
                let Some(queue) = &line.queue else { continue };
                println!(
                    "\n# scenario {}, the line of {on} at {}, below its rate and delay",
                    plan.id.scenario, change.at
                );
                let tree = quell_tc::Tree::from(queue.clone());
                commands(&PlacedQueue { on: on.clone(), incoming: false, tree })?;
            }
        }
    }
    Ok(())
}

fn commands(queue: &PlacedQueue) -> Result<(), Failure> {
    let mut device = queue.on.device.clone();
    if queue.incoming {
        let outside = std::mem::replace(&mut device, ifb_name(&queue.on.device));
        println!("ip link add {device} type ifb");
        println!("ip link set {device} up");
        println!("tc qdisc replace dev {outside} ingress");
        println!(
            "tc filter add dev {outside} parent ffff: matchall action mirred egress redirect dev {device}"
        );
    }
    let steps = queue.tree.plan().map_err(Failure::usage)?;
    for command in quell_tc::commands(&steps, &device) {
        println!("{command}");
    }
    Ok(())
}
