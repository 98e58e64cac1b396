//! The swept fields of a run, for figures.

use crate::spec::Experiment;
use crate::sweep::{self, Places};
use quell_model::Manifest;
use quell_report::figures::sweep::{Sweep, SweptScenario};
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
