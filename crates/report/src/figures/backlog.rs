//! What waits in queues over time, and for how long, one scenario after the other.

use super::common::{Made, PageWidth, Subject, events, part_axis, restarted, source};
use crate::analysis::series::{Backlog, Part, backlog};
use quell_chart::{Axis, Figure, Mark, Panel, Polyline};

/// Seconds on the common axis, and what is drawn at each; none is a gap.
type Points = Vec<(f64, Option<f64>)>;

#[derive(Clone, Copy)]
struct BacklogCurve {
    title: &'static str,
    what: &'static str,
    label: &'static str,
    unit: &'static str,
    how: &'static str,
    of: fn(&Backlog) -> Points,
}

const BYTES: BacklogCurve = BacklogCurve {
    title: "Queue backlog over time",
    what: "Bytes waiting by device",
    label: "Waiting",
    unit: "kB",
    how: "1 kB is 1000 bytes.",
    of: |line| line.bytes.iter().map(|(t, bytes)| (*t, Some(bytes / 1e3))).collect(),
};

const WAIT: BacklogCurve = BacklogCurve {
    title: "Waiting time in queues",
    what: "How long until as many bytes had left as were waiting, by device",
    label: "Waiting time",
    unit: "ms",
    how: "Where a queue sends in order that is what its last packet waited; where flows take turns, what a packet behind all of them would \
          wait. A gap: they had not left by the last look.",
    of: |line| line.wait.clone(),
};

pub(super) fn bytes(subject: Subject, shape: PageWidth) -> Made {
    figure(subject, shape, BYTES)
}

pub(super) fn wait(subject: Subject, shape: PageWidth) -> Made {
    figure(subject, shape, WAIT)
}

fn figure(subject: Subject, shape: PageWidth, kind: BacklogCurve) -> Made {
    let (run, title) = (subject.run, kind.title);
    let Some(course) = backlog(run, subject.begin_ns()).filter(|c| !c.parts.is_empty()) else {
        return Err("No queues were sampled in this run.".to_owned());
    };
    if course.parts.iter().all(|p| p.lines.is_empty()) {
        return Err("Queues were sampled, and nothing ever waited in them.".to_owned());
    }
    let names = names(&course.parts);
    let figure = Figure::new(title)
        .subtitle(format!("{}, in the measurements of the probe {}", kind.what, course.probe))
        .note(format!("{}. First repeat. {}", source(&run.manifest), kind.how));
    let axis = Axis::linear(kind.label).unit(kind.unit).with_zero();
    if shape == PageWidth::Narrow {
        let values = course.parts.iter().flat_map(|p| &p.lines).flat_map(kind.of);
        let most = values.filter_map(|(_, value)| value).fold(0.0, f64::max);
        let panels = course.parts.iter().map(|part| {
            let part = restarted(part, |line: &mut Backlog, by| {
                line.bytes.iter_mut().for_each(|(t, _)| *t -= by);
                line.wait.iter_mut().for_each(|(t, _)| *t -= by);
            });
            Panel::new(part_axis(&part), axis.clone().to((most * 1.05).max(1e-3)))
                .title(part.scenario.clone())
                .marks(events(&part.changes, part.shift_s))
                .marks(lines(std::slice::from_ref(&part), &names, kind))
        });
        let figure = panels.fold(figure, Figure::panel);
        return Ok(figure.size(shape.width(980), 120 + 150 * course.parts.len() as u32));
    }
    let mut panel = Panel::new(subject.course_axis(&course.parts), axis);
    for part in &course.parts {
        panel = panel.mark(Mark::phase(part.from_s, part.to_s, part.scenario.clone()));
        panel = panel.marks(events(&part.changes, part.shift_s));
    }
    Ok(figure.panel(panel.marks(lines(&course.parts, &names, kind))).size(980, 420))
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

fn lines(parts: &[Part<Backlog>], names: &[(String, String)], kind: BacklogCurve) -> Vec<Polyline> {
    let line = |(device, name): &(String, String)| {
        let of_device = parts.iter().flat_map(|p| &p.lines).filter(|l| l.device == *device);
        let points = of_device.flat_map(|line| {
            let points = (kind.of)(line);
            let gap = points.last().map(|(t, _)| (*t + 1e-3, None));
            points.into_iter().chain(gap)
        });
        Polyline::with_gaps(name.clone(), points)
    };
    names.iter().map(line).collect()
}
