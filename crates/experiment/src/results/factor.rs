//! What a field was in each scenario of a run, and what the kernels of an experiment changed.

use crate::spec::{Experiment, set};
use crate::sweep::{self, Places};
use quell_model::metric::Metric;
use quell_report::Results;
use quell_report::compare::{self, By, Comparison, MeasuredRun, Value, Wanted};
use quell_store::Run;

/// What the other kernels of an experiment changed against its first, in sentences; none where it has one, or nothing that they have in common.
pub fn kernels(run: &Run, results: &Results, experiment: &Experiment) -> Vec<String> {
    if experiment.kernels.len() < 2 {
        return Vec::new();
    }
    let places = Places::of(experiment);
    let field = |_: usize, scenario: &str| value_of(run, &places, sweep::KERNEL, scenario);
    let metrics = [Metric::Loss, Metric::RttP50, Metric::RttP99, Metric::Goodput, Metric::Load];
    let wanted = Wanted {
        by: Some(By::Field(sweep::KERNEL, &field)),
        scenarios: Vec::new(),
        streams: Vec::new(),
        metrics: metrics.to_vec(),
        margin: 0.0,
    };
    let sources = [MeasuredRun { run, results }];
    Comparison::of(&sources, &wanted).map_or(Vec::new(), |found| compare::changed(&found))
}

/// What a field was in a scenario of a run, of which these scenarios are swept.
pub fn value_of(run: &Run, places: &Places, field: &str, scenario: &str) -> Option<Value> {
    let m = &run.manifest;
    let of_run = |value: String| Some(Value { value, scenario: scenario.to_owned() });
    let placed = places.get(scenario);
    let is_swept = |path: &str| {
        placed
            .as_ref()
            .is_some_and(|(_, point)| point.values.iter().any(|(field, _)| field == path))
    };
    match field {
        "kernel" if !is_swept(sweep::KERNEL) => of_run(m.kernel.version.clone()),
        "quell" => of_run(m.quell.clone()),
        "seed" => of_run(m.seed.to_string()),
        path => match placed {
            Some((base, point)) if point.values.iter().any(|(field, _)| field == path) => {
                let is_path = |value: &&(String, String)| value.0 == path;
                let value = point.values.iter().find(is_path)?.1.clone();
                let others =
                    point.values.iter().filter(|v| !is_path(v)).map(|(_, v)| format!(" at {v}"));
                Some(Value { value, scenario: others.fold(base.to_owned(), |s, o| s + &o) })
            }
            _ => of_run(set::get(&m.experiment_text, path)?),
        },
    }
}
