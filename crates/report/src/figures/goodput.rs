//! Goodput over time, stacked by flow, one scenario after the other: the documents' chart of a transfer through six scenarios. Flows of
//! different directions don't share a line, and don't stand on each other: each way has its panel.

use super::common::{Made, Subject, distinct, empty, events, part_axis, source};
use super::shape::Shape;
use crate::analysis::series::{Course, Goodput, Part, goodput};
use quell_chart::{Axis, Figure, Mark, Panel, Stack};

/// The streams that the figure shows.
pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    let course = goodput(subject.run);
    distinct(course.iter().flat_map(|c| &c.parts).flat_map(|p| &p.lines).map(|l| &l.stream))
}

pub(super) fn figure(Subject { run, .. }: Subject, shape: Shape) -> Made {
    let title = "Goodput over time, by flow";
    let nothing =
        || empty(title, run, "No flows with a reporting receiver were recorded in this run.");
    let Some(course) = goodput(run).filter(|c| !c.parts.is_empty()) else { return nothing() };
    let names = names(&course);
    let figure = Figure::new(title)
        .subtitle(subtitle(&course, &names))
        .note(format!(
            "{}. First repeat; payload that receivers' programs got. TCP hands it over in order: what waited behind a lost segment comes at \
             once when that has come again, as a peak above the line's rate.",
            source(&run.manifest)
        ));
    let ways = ways(&course);
    let panels = ways.iter().flat_map(|way| {
        let parts = of_way(&course, way.as_deref());
        // Where others have a name, what has none says so.
        let label = (ways.len() > 1).then(|| way.as_deref().unwrap_or("way not known"));
        match shape {
            Shape::Narrow => narrow(&parts, &names, label),
            Shape::Wide => vec![wide(&parts, &names, label)],
        }
    });
    let panels: Vec<Panel> = panels.collect();
    let height = match shape {
        Shape::Narrow => 120 + 150 * panels.len() as u32,
        Shape::Wide => 120 + 320 * panels.len() as u32,
    };
    Ok(panels.into_iter().fold(figure, Figure::panel).size(shape.width(980), height))
}

fn rate() -> Axis {
    Axis::linear("Goodput").unit("Mbit/s")
}

/// A panel for each scenario.
fn narrow(parts: &[Part<Goodput>], names: &[String], way: Option<&str>) -> Vec<Panel> {
    let most = parts.iter().map(highest).fold(0.0, f64::max);
    let panel = |part: &Part<Goodput>| {
        let title = way.map_or(part.scenario.clone(), |way| format!("{}: {way}", part.scenario));
        Panel::new(part_axis(part), rate().from(0.0).to((most * 1.05).max(1e-3)))
            .title(title)
            .marks(events(&part.changes, part.from_s))
            .mark(stack(std::slice::from_ref(part), names))
    };
    parts.iter().map(panel).collect()
}

/// All scenarios in one panel.
fn wide(parts: &[Part<Goodput>], names: &[String], way: Option<&str>) -> Panel {
    let end = parts.last().map_or(1.0, |p| p.to_s);
    let x = Axis::linear("Time, one scenario after the other").unit("s").from(0.0).to(end);
    let mut panel = Panel::new(x, rate());
    if let Some(way) = way {
        panel = panel.title(way);
    }
    for part in parts {
        panel = panel.mark(Mark::phase(part.from_s, part.to_s, part.scenario.clone()));
        panel = panel.marks(events(&part.changes, part.from_s));
    }
    panel.mark(stack(parts, names))
}

/// The ways of all flows.
fn ways(course: &Course<Goodput>) -> Vec<Option<String>> {
    let lines = course.parts.iter().flat_map(|p| &p.lines);
    let mut ways: Vec<Option<String>> = lines.map(|l| l.way.clone()).collect();
    ways.sort_unstable();
    ways.dedup();
    ways
}

/// The same scenarios with the flows of one way alone.
fn of_way(course: &Course<Goodput>, way: Option<&str>) -> Vec<Part<Goodput>> {
    let mut parts = course.parts.clone();
    parts.iter_mut().for_each(|part| part.lines.retain(|l| l.way.as_deref() == way));
    parts
}

fn subtitle(course: &Course<Goodput>, names: &[String]) -> String {
    let own = course.parts.iter().flat_map(|p| &p.lines).find(|l| l.is_probe);
    match own {
        Some(own) if names.len() > 1 => {
            format!(
                "The flow measured, {}, is at the bottom; loads are stacked above it",
                own.stream
            )
        }
        _ => format!("Cells of the probe {}", course.probe),
    }
}

/// Names of flows: the probe's own first, so that they stand on the ground line where they can be compared.
fn names(course: &Course<Goodput>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for own in [true, false] {
        for line in course.parts.iter().flat_map(|p| &p.lines).filter(|l| l.is_probe == own) {
            if !names.contains(&line.stream) {
                names.push(line.stream.clone());
            }
        }
    }
    names
}

/// One stack over all scenarios. Each part ends with its last value at its end, and a gap.
fn stack(parts: &[Part<Goodput>], names: &[String]) -> Stack {
    let x = parts.iter().flat_map(times);
    let mut stack = Stack::new(x).stepped();
    for name in names {
        let values = parts.iter().flat_map(|part| {
            let line = part.lines.iter().find(|l| l.stream == *name);
            let mut values: Vec<f64> = match line {
                Some(line) => line.intervals.iter().map(|(_, v)| *v).collect(),
                None => vec![f64::NAN; times(part).len() - 2],
            };
            values.push(values.last().copied().unwrap_or(f64::NAN));
            values.push(f64::NAN);
            values
        });
        stack = stack.layer(name.clone(), values);
    }
    stack
}

/// Starts of a part's intervals, its end, and a place for the gap after it.
fn times(part: &Part<Goodput>) -> Vec<f64> {
    let intervals = part.lines.first().map_or(&[][..], |l| &l.intervals);
    let starts = intervals.iter().map(|(t, _)| *t);
    starts.chain([part.to_s, part.to_s + (part.to_s - part.from_s) * 0.001]).collect()
}

/// The greatest sum of a part's flows, in Mbit/s.
fn highest(part: &Part<Goodput>) -> f64 {
    let count = part.lines.first().map_or(0, |l| l.intervals.len());
    let sum = |i: usize| part.lines.iter().filter_map(|l| l.intervals.get(i)).map(|(_, v)| v).sum();
    (0..count).map(sum).fold(0.0, f64::max)
}
