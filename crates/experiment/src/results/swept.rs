//! The swept fields of a run, for figures; what a field was in each scenario; what the kernels of an experiment changed.

use crate::spec::{Experiment, set};
use crate::sweep::{self, Places};
use quell_model::Manifest;
use quell_model::metric::Metric;
use quell_report::Results;
use quell_report::compare::{self, By, Comparison, MeasuredRun, Value, Wanted};
use quell_report::figures::sweep::{Sweep, SweptScenario};
use quell_store::Run;
use quell_units::{Rate, Span};
use std::collections::HashSet;

/// The swept fields of a run of this experiment; a field of one value is not swept.
pub fn swept(experiment: &Experiment, manifest: &Manifest) -> Vec<Sweep> {
    let fields = experiment.sweep.iter().filter(|(_, values)| values.len() > 1);
    let kernel = (experiment.kernels.len() > 1).then_some(sweep::KERNEL);
    let fields = fields.map(|(field, _)| field.as_str()).chain(kernel);
    let places = Places::of(experiment);
    fields.map(|field| of_field(&places, manifest, field)).collect()
}

fn of_field(places: &Places, manifest: &Manifest, field: &str) -> Sweep {
    let mut points = Vec::new();
    let mut known = HashSet::new();
    let mut unit = "";
    for cell in &manifest.cells {
        let scenario = &cell.id.scenario;
        if !known.insert(scenario) {
            continue;
        }
        let Some((base, point)) = places.get(scenario) else { continue };
        let (of_field, others): (Vec<_>, Vec<_>) =
            point.values.iter().partition(|(f, _)| f == field);
        let Some((_, value)) = of_field.into_iter().next() else { continue };
        let line =
            others.iter().fold(base.to_owned(), |line, (_, value)| format!("{line} at {value}"));
        // Kernels have names, which look like numbers.
        let number = number(value).filter(|_| field != sweep::KERNEL);
        unit = number.map_or(unit, |(_, unit)| unit);
        points.push(SweptScenario {
            scenario: scenario.clone(),
            line,
            value: value.clone(),
            number: number.map(|(n, _)| n),
        });
    }
    Sweep { field: field.to_owned(), unit, points }
}

/// A value as a number of a unit that figures have.
fn number(value: &str) -> Option<(f64, &'static str)> {
    let rate = || Some((value.parse::<Rate>().ok()?.bps() as f64 / 1e6, "Mbit/s"));
    let time = || Some((value.parse::<Span>().ok()?.as_secs_f64() * 1e3, "ms"));
    let share = || Some((value.strip_suffix('%')?.parse::<f64>().ok()?, "%"));
    let bare = || Some((value.parse::<f64>().ok()?, ""));
    bare().or_else(rate).or_else(time).or_else(share)
}

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
