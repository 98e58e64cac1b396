//! Goodput over time, stacked by flow, one scenario after the other: the documents' chart of a transfer through six scenarios.

use super::{Made, Shape, empty, events, part_axis, source};
use crate::analysis::series::{Course, Goodput, Part, goodput};
use quell_chart::{Axis, Figure, Mark, Panel, Stack};
use quell_store::Run;

pub(super) fn figure(run: &Run, shape: Shape) -> Made {
    let title = "Goodput over time, by flow";
    let nothing =
        || empty(title, run, "No flows with a reporting receiver were recorded in this run.");
    let Some(course) = goodput(run).filter(|c| !c.parts.is_empty()) else { return nothing() };
    let names = names(&course);
    let figure = Figure::new(title)
        .subtitle(subtitle(&course, &names))
        .note(format!("{}. First repeat; payload that receivers got.", source(&run.manifest)));
    let rate = Axis::linear("Goodput").unit("Mbit/s");
    if shape == Shape::Narrow {
        let most = course.parts.iter().map(highest).fold(0.0, f64::max);
        let panels = course.parts.iter().map(|part| {
            Panel::new(part_axis(part), rate.clone().from(0.0).to((most * 1.05).max(1e-3)))
                .title(part.scenario.clone())
                .marks(events(&part.changes, part.from_s))
                .mark(stack(std::slice::from_ref(part), &names))
        });
        let figure = panels.fold(figure, Figure::panel);
        return Ok(figure.size(shape.width(980), 120 + 150 * course.parts.len() as u32));
    }
    let end = course.parts.last().map_or(1.0, |p| p.to_s);
    let x = Axis::linear("Time, one scenario after the other").unit("s").from(0.0).to(end);
    let mut panel = Panel::new(x, rate);
    for part in &course.parts {
        panel = panel.mark(Mark::phase(part.from_s, part.to_s, part.scenario.clone()));
        panel = panel.marks(events(&part.changes, part.from_s));
    }
    panel = panel.mark(stack(&course.parts, &names));
    Ok(figure.panel(panel).size(980, 440))
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
