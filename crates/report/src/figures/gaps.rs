//! Variation of delay and time between arrivals: how steadily packets come.

use super::{Made, empty, series_name, source};
use crate::analysis::Transit;
use crate::analysis::series::{ScenarioGaps, gaps};
use quell_chart::{Axis, Bins, Figure, Histogram, Legend, Panel};
use quell_stats::quantile;
use quell_store::Run;

/// Bars in one histogram.
const BINS: usize = 60;

pub(super) fn figure(run: &Run) -> Made {
    let title = "Variation of delay, and time between arrivals";
    let all = gaps(run);
    if all.is_empty() {
        return empty(title, run, "No packets with answers were recorded in this run.");
    }
    let several = all.windows(2).any(|pair| pair[0].scenario == pair[1].scenario);
    let of = if all.iter().all(|g| g.of == Transit::Up) {
        "one-way delays to the reflector"
    } else {
        "round-trip times"
    };
    let variations = range(&all, |g| &g.variations_ms);
    let between = range(&all, |g| &g.gaps_ms);
    let mut figure = Figure::new(title)
        .subtitle(format!("Left: difference of {of} of consecutive packets. Right: arrivals"))
        .note(format!(
            "{}. A row for each scenario; the rarest 1 % lie beyond the axes.",
            source(&run.manifest)
        ))
        .columns(2)
        .legend(Legend::Hidden)
        .size(820, 110 + 130 * all.len() as u32);
    for (index, scenario) in all.iter().enumerate() {
        let name = series_name(&scenario.scenario, &scenario.stream, several);
        let last = index + 1 == all.len();
        let panel = |label: &str, (low, high): (f64, f64), values: &[f64]| {
            let shown: Vec<f64> =
                values.iter().copied().filter(|v| (low..=high).contains(v)).collect();
            let x = Axis::linear(if last { label } else { "" }).unit(if last { "ms" } else { "" });
            let bins = Bins::Linear(bins(&shown, high - low));
            Panel::new(x.from(low).to(high), Axis::linear("Packets"))
                .title(name.clone())
                .mark(Histogram::of("", &shown, bins))
        };
        figure = figure
            .panel(panel("Variation of delay", variations, &scenario.variations_ms))
            .panel(panel("Time between arrivals", between, &scenario.gaps_ms));
    }
    Ok(figure)
}

/// As many bins as make bars equally wide in all rows, whatever part of the axis the values of a row take.
fn bins(shown: &[f64], axis: f64) -> usize {
    let low = shown.iter().copied().fold(f64::INFINITY, f64::min);
    let high = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let part = if axis > 0.0 && high > low { (high - low) / axis } else { 0.0 };
    ((BINS as f64 * part).ceil() as usize).max(1)
}

/// The range that holds 99 % of the values of every scenario.
fn range(all: &[ScenarioGaps], of: fn(&ScenarioGaps) -> &Vec<f64>) -> (f64, f64) {
    let ends = all.iter().filter_map(|g| {
        let values = of(g);
        Some((quantile(values, 0.005)?, quantile(values, 0.995)?))
    });
    let (low, high) = ends
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (a, b)| (low.min(a), high.max(b)));
    if low < high {
        (low, high)
    } else if low.is_finite() {
        (low - 0.5, low + 0.5)
    } else {
        (0.0, 1.0)
    }
}
