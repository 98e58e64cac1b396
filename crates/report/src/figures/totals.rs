//! What all flows carried each way, and the ping meanwhile, in one figure: Flent's `all`, with the line's rate drawn and each direction apart.

use super::common::{Made, PageWidth, Subject, distinct, listed, series_name, source, times};
use super::goodput::{of_way, ways};
use crate::analysis::series::{Part, delays, goodput};
use quell_chart::{Axis, Figure, Panel, Polyline};

/// Most scenarios in one figure: more lines can't be told apart.
const MOST: usize = 4;

pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    let course = goodput(subject.run, 0);
    let flows = course.iter().flat_map(|c| &c.parts).flat_map(|p| &p.lines).map(|l| &l.stream);
    let pings = super::rtt::streams_of(subject);
    distinct(flows.chain(pings.iter()))
}

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let (run, title) = (subject.run, "Totals in each direction, and ping");
    let course = goodput(run, subject.begin_ns()).filter(|c| !c.parts.is_empty());
    let Some(course) = course else {
        return Err("No flows with a reporting receiver were recorded in this run.".to_owned());
    };
    let all_pings = delays(run, subject.which);
    if all_pings.is_empty() {
        return Err("No packets with answers were recorded beside the flows.".to_owned());
    }
    let mut names: Vec<&str> = course.parts.iter().map(|part| &*part.scenario).collect();
    let left_out = names.len().saturating_sub(MOST);
    names.truncate(MOST);
    let longest = course.parts.iter().map(|p| p.to_s - p.shift_s).fold(0.0, f64::max);
    let axis = || subject.time_axis(Some(longest));
    let total = |part: &Part<_>, way: &Option<String>| {
        let mut sums: Vec<(f64, f64)> = Vec::new();
        for line in part.lines.iter().filter(|l: &&crate::analysis::series::Goodput| l.way == *way)
        {
            sums.resize(line.intervals.len().max(sums.len()), (f64::NAN, 0.0));
            for (sum, (t, mbps)) in sums.iter_mut().zip(&line.intervals) {
                *sum = (t - part.shift_s, sum.1 + if mbps.is_nan() { 0.0 } else { *mbps });
            }
        }
        let end = sums.last().map(|(_, last)| (part.to_s - part.shift_s, *last));
        sums.into_iter().chain(end).collect::<Vec<_>>()
    };
    let mut panels = Vec::new();
    for way in ways(&course) {
        let label = way.as_deref().unwrap_or("way not known");
        let mut panel =
            Panel::new(axis(), Axis::linear("Goodput of all flows").unit("Mbit/s").with_zero())
                .title(label);
        let parts = of_way(subject, &course, way.as_deref());
        for part in parts.iter().filter(|part| names.contains(&&*part.scenario)) {
            panel = panel.mark(Polyline::new(part.scenario.clone(), total(part, &way)).stepped());
        }
        panels.push(panel.marks(way.and_then(|way| subject.capacity(&way, &names))));
    }
    let pings: Vec<_> = all_pings.iter().filter(|s| names.contains(&&*s.scenario)).collect();
    let several = pings.iter().any(|s| s.streams.len() > 1);
    let ping_axis = times(pings.iter().flat_map(|s| &s.streams));
    let mut panel = Panel::new(axis(), ping_axis).title("Ping");
    for scenario in &pings {
        for stream in &scenario.streams {
            let name = series_name(&scenario.scenario, &stream.stream, several);
            panel = panel.mark(Polyline::with_gaps(name, stream.over_time.iter().copied()));
        }
    }
    panels.push(panel);
    let rest = match left_out {
        0 => String::new(),
        n => format!(" {n} more scenarios are left out; --scenarios names some."),
    };
    let flows = distinct(course.parts.iter().flat_map(|p| &p.lines).map(|l| &l.stream));
    let streams = pings.iter().flat_map(|s| &s.streams).map(|s| &s.stream);
    let rows = panels.len() as u32;
    let figure = Figure::new(title)
        .subtitle(format!(
            "Flows: {}, in the measurements of the probe {}; packets: {}",
            listed(flows.iter()),
            course.probe,
            listed(streams)
        ))
        .note(format!(
            "{}. First repeat. Goodput is payload; the line's rate counts headers too. Gaps in the ping's line are lost packets.{rest}",
            source(&run.manifest)
        ))
        .share_x();
    let figure = panels.into_iter().fold(figure, Figure::panel);
    Ok(figure.size(shape.width(980), 140 + 170 * rows))
}
