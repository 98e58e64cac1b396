//! The rates of the lines of a run, for figures: from the experiment that it was made by.

use crate::spec::Experiment;
use crate::sweep;
use quell_lab::cell::{CellPlan, ChangeWhat};
use quell_lab::topology::Link;
use quell_report::figures::Capacity;
use quell_units::Rate;

/// The rates of all lines that have one, in each scenario. None where this version could not run the experiment any more.
pub fn capacities(text: &str, experiment: &Experiment) -> Vec<Capacity> {
    let Ok((_, plans)) = sweep::spread(text, experiment) else { return Vec::new() };
    let mut all: Vec<Capacity> = Vec::new();
    for plan in &plans {
        if !all.iter().any(|c| c.scenario == plan.id.scenario) {
            all.extend(of_plan(plan));
        }
    }
    all
}

fn of_plan(plan: &CellPlan) -> Vec<Capacity> {
    let directions = |link| [("up", 0), ("down", 1)].map(|(name, end)| (link, name, end));
    let lines = plan.topology.link.iter().flat_map(directions);
    let of = |(link, name, end): (&Link, &str, usize)| {
        let own = if end == 0 { &link.up } else { &link.down };
        let first = own.as_ref().or(link.both.as_ref()).and_then(|line| line.rate);
        let changed = plan.changes.iter().filter_map(|change| match &change.what {
            ChangeWhat::Line { on, line }
                if on.device == link.name && on.node == link.ends[end] =>
            {
                Some((change.at.as_secs_f64(), line.rate?))
            }
            _ => None,
        });
        let steps: Vec<(f64, f64)> =
            first.map(|rate| (0.0, rate)).into_iter().chain(changed).map(mbps).collect();
        (!steps.is_empty()).then(|| Capacity {
            scenario: plan.id.scenario.clone(),
            way: format!("{} {name}", link.name),
            steps,
        })
    };
    lines.filter_map(of).collect()
}

fn mbps((at, rate): (f64, Rate)) -> (f64, f64) {
    (at, rate.bps() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load_file;

    #[test]
    fn a_line_has_the_rate_of_its_scenario_and_of_its_time() {
        let text = r#"
            name = "t"
            duration = "10s"
            sweep = { "topology.link.l.up.rate" = ["1Mbit", "2Mbit"] }
            [topology]
            hosts = ["a", "b"]
            [[topology.link]]
            name = "l"
            ends = ["a", "b"]
            up = { rate = "1Mbit" }
            [[scenario]]
            name = "s"
            [[timeline]]
            at = "4s"
            link = "l"
            up = { rate = "500kbit" }
            [[probe]]
            name = "p"
            kind = "ping"
            from = "a"
            to = "b"
        "#;
        let experiment = load_file::parse("test", text).expect("it can be read");
        let found = capacities(text, &experiment);
        let shown: Vec<_> = found.iter().map(|c| (&*c.scenario, &*c.way, &c.steps[..])).collect();
        let (one, two) = ([(0.0, 1.0), (4.0, 0.5)], [(0.0, 2.0), (4.0, 0.5)]);
        assert_eq!(shown, [("s-1Mbit", "l up", &one[..]), ("s-2Mbit", "l up", &two[..])]);
    }
}
