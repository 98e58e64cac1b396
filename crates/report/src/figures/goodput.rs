//! Goodput over time, stacked by flow, one scenario after the other: the documents' chart of a transfer through six scenarios. Flows of
//! different directions don't share a line, and don't stand on each other: each way has its panel.

use super::common::{
    Made, PageWidth, Subject, distinct, events, listed, part_axis, restarted, source,
};
use crate::analysis::series::{Course, Goodput, Part, goodput};
use quell_chart::{Axis, Figure, Mark, Panel, Stack};

/// The streams that the figure shows.
pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    let course = goodput(subject.run, 0);
    distinct(course.iter().flat_map(|c| &c.parts).flat_map(|p| &p.lines).map(|l| &l.stream))
}

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let run = subject.run;
    let title = "Goodput over time, by flow";
    let nothing =
        || Err("No flows with a reporting receiver were recorded in this run.".to_owned());
    let Some(course) = goodput(run, subject.begin_ns()).filter(|c| !c.parts.is_empty()) else {
        return nothing();
    };
    let names = names(&course);
    let figure = Figure::new(title)
        .subtitle(subtitle(&course, &names))
        .note(format!(
            "{}. First repeat; payload. What TCP handed over in one go behind a repaired loss is drawn when it came, at the line's rate; \
             that counts headers too.",
            source(&run.manifest)
        ));
    let ways = ways(&course);
    let panels = ways.iter().flat_map(|way| {
        let parts = of_way(subject, &course, way.as_deref());
        // Where others have a name, what has none says so.
        let label = (ways.len() > 1).then(|| way.as_deref().unwrap_or("way not known"));
        match shape {
            PageWidth::Narrow => narrow(subject, &parts, &names, label),
            PageWidth::Wide => vec![wide(subject, &parts, &names, label)],
        }
    });
    let panels: Vec<Panel> = panels.collect();
    let height = match shape {
        PageWidth::Narrow => 120 + 150 * panels.len() as u32,
        PageWidth::Wide => 120 + 320 * panels.len() as u32,
    };
    Ok(panels.into_iter().fold(figure, Figure::panel).size(shape.width(980), height))
}

fn rate() -> Axis {
    Axis::linear("Goodput").unit("Mbit/s")
}

fn narrow(
    subject: Subject,
    parts: &[Part<Goodput>],
    names: &[String],
    way: Option<&str>,
) -> Vec<Panel> {
    let most = parts.iter().map(highest).fold(0.0, f64::max);
    let panel = |part: &Part<Goodput>| {
        let title = way.map_or(part.scenario.clone(), |way| format!("{}: {way}", part.scenario));
        let part = &restarted(part, |line: &mut Goodput, by| {
            line.intervals.iter_mut().for_each(|(t, _)| *t -= by);
        });
        Panel::new(part_axis(part), rate().from(0.0).to((most * 1.05).max(1e-3)))
            .title(title)
            .marks(events(&part.changes, part.shift_s))
            .marks(way_of(part).and_then(|way| subject.capacity(way, &[&part.scenario])))
            .mark(stack(std::slice::from_ref(part), names))
    };
    parts.iter().map(panel).collect()
}

fn wide(subject: Subject, parts: &[Part<Goodput>], names: &[String], way: Option<&str>) -> Panel {
    let mut panel = Panel::new(subject.course_axis(parts), rate());
    if let Some(way) = way {
        panel = panel.title(way);
    }
    for part in parts {
        panel = panel.mark(Mark::phase(part.from_s, part.to_s, part.scenario.clone()));
        panel = panel.marks(events(&part.changes, part.shift_s));
    }
    let scenarios: Vec<&str> = parts.iter().map(|part| &*part.scenario).collect();
    let line = parts.iter().find_map(way_of);
    panel.mark(stack(parts, names)).marks(line.and_then(|way| subject.capacity(way, &scenarios)))
}

fn way_of(part: &Part<Goodput>) -> Option<&str> {
    part.lines.iter().find_map(|line| line.way.as_deref())
}

/// The ways of all flows: down, then up, as lines are spoken of; what has no way last.
pub(super) fn ways(course: &Course<Goodput>) -> Vec<Option<String>> {
    let mut ways: Vec<Option<String>> = Vec::new();
    for line in course.parts.iter().flat_map(|p| &p.lines) {
        if !ways.contains(&line.way) {
            ways.push(line.way.clone());
        }
    }
    ways.sort_by_key(|way| match way {
        Some(way) if way.ends_with(" down") => 0,
        Some(way) if way.ends_with(" up") => 1,
        Some(_) => 2,
        None => 3,
    });
    ways
}

/// The same scenarios with the flows of one way alone, which carry no more than the line's rate.
pub(super) fn of_way(
    subject: Subject,
    course: &Course<Goodput>,
    way: Option<&str>,
) -> Vec<Part<Goodput>> {
    let of_part = |part: &Part<Goodput>| {
        let mut part = part.clone();
        part.lines.retain(|l| l.way.as_deref() == way);
        match way.and_then(|way| subject.rate(way, &part.scenario)) {
            Some(mbps) => part.held_to(mbps),
            None => part,
        }
    };
    course.parts.iter().map(of_part).collect()
}

fn subtitle(course: &Course<Goodput>, names: &[String]) -> String {
    let all = listed(names.iter());
    let own = course.parts.iter().flat_map(|p| &p.lines).find(|l| l.is_probe);
    match own {
        Some(own) if names.len() > 1 => {
            format!(
                "{all}: the flow measured, {}, is at the bottom; loads are stacked above it",
                own.stream
            )
        }
        _ => format!("{all}, in the measurements of the probe {}", course.probe),
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
