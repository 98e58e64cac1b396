//! What changes with a swept field: each figure over the field's values, a line for each scenario.

use super::common::{PageWidth, grid, series_name, source};
use crate::analysis::{Estimate, IntervalEnds, Summary, SummaryRow};
use quell_chart::{Axis, Band, Figure, Panel, Polyline, Scatter, decent};
use quell_model::Manifest;
use std::collections::HashMap;

/// A swept field, and where it stands in each scenario of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    pub field: String,
    /// Its unit, where its values are numbers of one.
    pub unit: &'static str,
    pub points: Vec<SweptScenario>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SweptScenario {
    pub scenario: String,
    /// The scenario of the file, with the values of other swept fields: what one line is of.
    pub line: String,
    /// The field's value as it stands in the file.
    pub value: String,
    /// The same as a number in [`Sweep::unit`]; none where it is none.
    pub number: Option<f64>,
}

type Of = fn(&SummaryRow) -> Option<Estimate>;

/// What is drawn of each stream: its name, its unit, how many of it the summary's is.
const KINDS: [(&str, &str, f64, Of); 5] = [
    ("Round-trip time, median", "ms", 1.0, |r| {
        r.rtt_p50_ms.filter(|_| r.rtt_p50_at_most_ms.is_none())
    }),
    ("One-way delay up, median", "ms", 1.0, |r| r.up_p50_ms),
    ("Jitter up", "ms", 1.0, |r| r.jitter_up_ms),
    ("Loss", "%", 100.0, |r| r.loss.filter(|_| r.loss_at_most.is_none())),
    ("Goodput", "Mbit/s", 1.0, |r| r.goodput_mbps),
];

/// A panel for each kind of figure; none where nothing was measured.
pub fn figure(
    manifest: &Manifest,
    summary: &Summary,
    sweep: &Sweep,
    shape: PageWidth,
) -> Option<Figure> {
    let mut values: Vec<&str> = Vec::new();
    for point in &sweep.points {
        if !values.contains(&&*point.value) {
            values.push(&point.value);
        }
    }
    // A line has one name in all panels, those with a single stream too.
    let drawn = |r: &&SummaryRow| is_own(r) && KINDS.iter().any(|(.., of)| of(r).is_some());
    let mut streams = summary.rows.iter().filter(drawn).map(|r| &r.stream);
    let first = streams.next();
    let several = streams.any(|stream| Some(stream) != first);
    let panels: Vec<Panel> =
        KINDS.iter().filter_map(|kind| panel(summary, sweep, &values, kind, several)).collect();
    if panels.is_empty() {
        return None;
    }
    let repeats = summary.rows.iter().map(|r| r.repeats).max().unwrap_or(0);
    let how = match repeats {
        0..3 => "Intervals need three repeats".to_owned(),
        n => format!("The mean of {n} repeats, with its 95 % interval"),
    };
    let figure = Figure::new(format!("By {}", sweep.field))
        .subtitle(how)
        .note(format!("{}. Streams of probes; those of loads are left out.", source(manifest)));
    Some(grid(figure, panels, shape, 220))
}

fn panel(
    summary: &Summary,
    sweep: &Sweep,
    values: &[&str],
    (name, unit, factor, of): &(&str, &str, f64, Of),
    several: bool,
) -> Option<Panel> {
    let own = summary.rows.iter().filter(|r| is_own(r));
    let rows: Vec<&SummaryRow> = own.filter(|r| of(r).is_some()).collect();
    let mut streams: Vec<&str> = Vec::new();
    for row in &rows {
        if !streams.contains(&&*row.stream) {
            streams.push(&row.stream);
        }
    }
    let mut lines: Vec<&str> = Vec::new();
    for point in &sweep.points {
        if !lines.contains(&&*point.line) {
            lines.push(&point.line);
        }
    }
    let place = |point: &SweptScenario| match numbers(sweep) {
        Some(_) => point.number,
        None => values.iter().position(|v| *v == point.value).map(|at| at as f64),
    };
    let mut panel = Panel::new(axis(sweep, values), Axis::linear(*name).unit(*unit).with_zero());
    let found: HashMap<(&str, &str), &SummaryRow> =
        rows.iter().rev().map(|r| ((&*r.scenario, &*r.stream), *r)).collect();
    let mut any = false;
    for line in lines {
        for stream in &streams {
            let mut points: Vec<(f64, Estimate)> = Vec::new();
            for point in sweep.points.iter().filter(|p| p.line == line) {
                let row = found.get(&(&*point.scenario, *stream));
                points.extend(place(point).zip(row.and_then(|r| of(r))));
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if points.is_empty() {
                continue;
            }
            any = true;
            let name = series_name(line, stream, several);
            let ends = |(x, estimate): &(f64, Estimate)| match estimate.interval? {
                IntervalEnds { low: Some(low), high: Some(high) } => {
                    Some((*x, low * factor, high * factor))
                }
                _ => None,
            };
            let middle = || points.iter().map(|(x, estimate)| (*x, estimate.value * factor));
            panel = panel.mark(Band::new(name.clone(), points.iter().filter_map(ends)));
            panel = panel
                .mark(Polyline::new(name.clone(), middle()))
                .mark(Scatter::new(name, middle()));
        }
    }
    any.then_some(panel)
}

fn is_own(row: &SummaryRow) -> bool {
    row.stream == row.probe || row.probe == quell_model::CellId::TOGETHER
}

fn numbers(sweep: &Sweep) -> Option<(f64, f64)> {
    let all: Option<Vec<f64>> = sweep.points.iter().map(|p| p.number).collect();
    let all = all?;
    let low = all.iter().copied().reduce(f64::min)?;
    Some((low, all.iter().copied().reduce(f64::max)?))
}

fn axis(sweep: &Sweep, values: &[&str]) -> Axis {
    let label = sweep.field.clone();
    match numbers(sweep) {
        // Values of several magnitudes are as a rule meant as factors.
        Some((low, high)) if low > 0.0 && high / low > 4.0 => {
            let (low, high) = decent(low, high);
            Axis::log10(label).unit(sweep.unit).from(low).to(high)
        }
        Some(_) => Axis::linear(label).unit(sweep.unit),
        None => Axis::categories(label, values.iter().copied()),
    }
}
