//! What waits in queues over time, one scenario after the other.

use super::common::{Made, Subject, empty, events, part_axis, source};
use super::shape::Shape;
use crate::analysis::series::{Backlog, Part, backlog};
use quell_chart::{Axis, Figure, Mark, Panel, Polyline};

pub(super) fn figure(Subject { run, .. }: Subject, shape: Shape) -> Made {
    let title = "Queue backlog over time";
    let Some(course) = backlog(run).filter(|c| !c.parts.is_empty()) else {
        return empty(title, run, "No queues were sampled in this run.");
    };
    if course.parts.iter().all(|p| p.lines.is_empty()) {
        return empty(title, run, "Queues were sampled, and nothing ever waited in them.");
    }
    let names = names(&course.parts);
    let figure = Figure::new(title)
        .subtitle(format!(
            "Bytes waiting by device, in the measurements of the probe {}",
            course.probe
        ))
        .note(format!("{}. First repeat. 1 kB is 1000 bytes.", source(&run.manifest)));
    let waiting = Axis::linear("Waiting").unit("kB").with_zero();
    if shape == Shape::Narrow {
        let bytes = course.parts.iter().flat_map(|p| &p.lines).flat_map(|l| &l.bytes);
        let most = bytes.map(|(_, bytes)| bytes / 1e3).fold(0.0, f64::max);
        let panels = course.parts.iter().map(|part| {
            Panel::new(part_axis(part), waiting.clone().to((most * 1.05).max(1e-3)))
                .title(part.scenario.clone())
                .marks(events(&part.changes, part.from_s))
                .marks(lines(std::slice::from_ref(part), &names))
        });
        let figure = panels.fold(figure, Figure::panel);
        return Ok(figure.size(shape.width(980), 120 + 150 * course.parts.len() as u32));
    }
    let end = course.parts.last().map_or(1.0, |p| p.to_s);
    let x = Axis::linear("Time, one scenario after the other").unit("s").from(0.0).to(end);
    let mut panel = Panel::new(x, waiting);
    for part in &course.parts {
        panel = panel.mark(Mark::phase(part.from_s, part.to_s, part.scenario.clone()));
        panel = panel.marks(events(&part.changes, part.from_s));
    }
    Ok(figure.panel(panel.marks(lines(&course.parts, &names))).size(980, 420))
}

/// Devices in order of appearance, and how their lines are called: with the queues that they have in any scenario.
fn names(parts: &[Part<Backlog>]) -> Vec<(String, String)> {
    let mut devices: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in parts.iter().flat_map(|part| &part.lines) {
        let at = devices.iter().position(|(d, _)| *d == line.device).unwrap_or_else(|| {
            devices.push((&line.device, Vec::new()));
            devices.len() - 1
        });
        if !devices[at].1.contains(&line.kind.as_str()) {
            devices[at].1.push(&line.kind);
        }
    }
    let named = |(device, kinds): (&str, Vec<&str>)| {
        (device.to_owned(), format!("{device} ({})", kinds.join(", ")))
    };
    devices.into_iter().map(named).collect()
}

/// A line for each device through these parts.
fn lines(parts: &[Part<Backlog>], names: &[(String, String)]) -> Vec<Polyline> {
    let line = |(device, name): &(String, String)| {
        let of_device = parts.iter().flat_map(|p| &p.lines).filter(|l| l.device == *device);
        let points = of_device.flat_map(|line| {
            let kilobytes = line.bytes.iter().map(|(t, bytes)| (*t, bytes / 1e3));
            let gap = line.bytes.last().map(|(t, _)| (*t + 1e-3, f64::NAN));
            kilobytes.chain(gap)
        });
        Polyline::new(name.clone(), points)
    };
    names.iter().map(line).collect()
}
