//! One-way delays over time: a panel each way for each scenario, where both ends have one clock.

use super::common::{Made, PageWidth, Subject, distinct, events, listed, source};
use crate::analysis::series::{OneWayCourse, one_way};
use quell_chart::{Axis, Figure, Panel, Polyline};

type Of = fn(&OneWayCourse) -> &[(f64, Option<f64>)];

/// The streams that the figure shows.
pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    distinct(one_way(subject.run, subject.which).iter().map(|c| &c.stream))
}

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let (run, title) = (subject.run, "One-way delay over time");
    let all = one_way(run, subject.which);
    if all.is_empty() {
        let why = "No stream with one-way delays by one clock was recorded in this run (a udp probe in the lab has them).";
        return Err(why.to_owned());
    }
    let mut scenarios: Vec<&str> = all.iter().map(|c| &*c.scenario).collect();
    scenarios.dedup();
    let several = all.windows(2).any(|two| two[0].scenario == two[1].scenario);
    let ways: [(&str, Of); 2] = [("up", |c| &c.up), ("down", |c| &c.down)];
    let most = |of: Of| {
        let delays = all.iter().flat_map(of).filter_map(|(_, ms)| *ms);
        delays.fold(0.0_f64, f64::max) * 1.05
    };
    let ends = ways.map(|(_, of)| most(of).max(1e-3));
    let times = || all.iter().flat_map(|c| c.up.iter().chain(&c.down)).map(|(t, _)| *t);
    let mut figure = Figure::new(title)
        .subtitle(format!("{}; up is to the reflector, down is back", listed(all.iter().map(|c| &c.stream))))
        .note(format!(
            "{}. First repeat. Gaps in a line are lost packets; all panels of a way have the same axes.",
            source(&run.manifest)
        ))
        .columns(shape.columns(2))
        .share_x();
    for scenario in &scenarios {
        for ((way, of), high) in ways.iter().zip(ends) {
            let y = Axis::linear("Delay").unit("ms").from(0.0).to(high);
            let mut panel =
                Panel::new(subject.time_axis_of(times()), y).title(format!("{scenario}: {way}"));
            for course in all.iter().filter(|c| c.scenario == **scenario) {
                let name =
                    if several { format!("{} {way}", course.stream) } else { (*way).to_owned() };
                panel = panel.marks(events(&course.changes, 0.0));
                // A flow of data goes one way.
                if of(course).iter().any(|(_, ms)| ms.is_some()) {
                    panel = panel.mark(Polyline::with_gaps(name, of(course).iter().copied()));
                }
            }
            figure = figure.panel(panel);
        }
    }
    let rows = (2 * scenarios.len()).div_ceil(shape.columns(2)) as u32;
    Ok(figure.size(shape.width(980), 140 + 130 * rows))
}
