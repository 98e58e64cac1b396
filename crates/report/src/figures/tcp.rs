//! What TCP itself says of its connections: window, round trip, pacing, delivery, over time.

use super::common::{Made, PageWidth, Subject, distinct, grid, listed, series_name, source};
use crate::analysis::series::{TcpCourse, tcp};
use quell_chart::{Axis, Figure, Panel, Polyline};
use quell_model::TcpState;

/// A panel: what it shows, its unit, and the value; none where the kernel has none.
type TcpCurve = (&'static str, &'static str, fn(&TcpState) -> Option<f64>);

const KINDS: [TcpCurve; 4] = [
    ("Congestion window", "segments", |s| (s.cwnd > 0).then(|| f64::from(s.cwnd))),
    ("Smoothed round-trip time", "ms", |s| (s.srtt_us > 0).then(|| f64::from(s.srtt_us) / 1e3)),
    ("Pacing rate", "Mbit/s", |s| {
        (s.pacing_rate < u64::MAX).then_some(s.pacing_rate as f64 * 8e-6)
    }),
    ("Delivery rate", "Mbit/s", |s| (s.delivery_rate > 0).then_some(s.delivery_rate as f64 * 8e-6)),
];

/// The streams that the figure shows.
pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    distinct(tcp(subject.run, subject.which).iter().map(|c| &c.stream))
}

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let (run, title) = (subject.run, "What TCP says of its connections");
    let all = tcp(run, subject.which);
    let shown = &all[..all.len().min(12)];
    if shown.is_empty() {
        return Err("No TCP connection of a probe was sampled in this run.".to_owned());
    }
    let several = all.windows(2).any(|two| two[0].scenario == two[1].scenario);
    let left_out = match all.len() - shown.len() {
        0 => String::new(),
        n => format!(" {n} more connections are left out; --stream names some."),
    };
    // More than four lines in one panel can't be told apart.
    let panel = |some: &[TcpCourse], (name, unit, of): &TcpCurve| {
        let ends = shown.iter().filter_map(|course| Some(course.states.last()?.0));
        let panel =
            Panel::new(subject.time_axis_of(ends), Axis::linear(*name).unit(*unit).with_zero());
        let line = |course: &TcpCourse| {
            let name = series_name(&course.scenario, &course.stream, several);
            Polyline::with_gaps(name, course.states.iter().map(|(t, state)| (*t, of(state))))
        };
        panel.marks(some.iter().map(line))
    };
    let panels = shown.chunks(4).flat_map(|some| KINDS.iter().map(move |kind| panel(some, kind)));
    let figure = Figure::new(title)
        .subtitle(format!(
            "{}: as the sender's kernel tells it (tcp_info)",
            listed(all.iter().map(|c| &c.stream))
        ))
        .note(format!(
            "{}. First repeat. Delivery is the kernel's estimate of what arrives.{left_out}",
            source(&run.manifest)
        ));
    Ok(grid(figure.share_x(), panels.collect(), shape, 220))
}
