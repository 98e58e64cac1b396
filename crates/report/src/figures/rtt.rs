//! Round-trip times: over time, distribution, boxes.

use super::common::{
    self, Made, PageWidth, Subject, TimeRange, bound, distinct, events, five_numbers, grid, listed,
    mark, of_bounds, of_few, series_name, source,
};
use crate::analysis::series::{ScenarioDelays, StreamDelays, delayed, delays};
use quell_chart::{Axis, Boxes, Figure, Legend, Panel, Polyline, Scatter};

const NOTHING: &str = "No packets with answers were recorded in this run.";

pub(super) fn lines(subject: Subject, shape: PageWidth) -> Made {
    let how = "Gaps in a line are lost packets.";
    over_time(subject, shape, "Round-trip time over time", how, |panel, name, stream| {
        panel.mark(Polyline::with_gaps(name, stream.over_time.iter().copied()))
    })
}

pub(super) fn scatter(subject: Subject, shape: PageWidth) -> Made {
    let all = delays(subject.run, subject.which);
    let (mut shown, mut packets) = (0, 0);
    for (_, stream) in streams(&all) {
        shown += stream.dots.len();
        packets += stream.answered_over_time;
    }
    let how = match shown < packets {
        true => format!(
            "Dots for {shown} of {packets} packets that were answered, drawn by lot: as dense here and there as all of them."
        ),
        false => "A dot for each packet that was answered.".to_owned(),
    };
    over_time(subject, shape, "Round-trip time, packet by packet", &how, |panel, name, stream| {
        panel.mark(Scatter::new(name, stream.dots.iter().copied()))
    })
}

/// A panel for each scenario, all with the same axes, so that heights can be compared across panels.
fn over_time(
    subject: Subject,
    shape: PageWidth,
    title: &str,
    how: &str,
    draw: impl Fn(Panel, String, &StreamDelays) -> Panel,
) -> Made {
    let (run, all) = (subject.run, delays(subject.run, subject.which));
    let Some(range) = TimeRange::of(streams(&all).map(|(_, stream)| stream)) else {
        return Err(NOTHING.to_owned());
    };
    let ends = || streams(&all).filter_map(|(_, s)| Some(s.over_time.last()?.0));
    let several = has_several(&all);
    let any_lost = streams(&all).any(|(_, s)| !s.lost_at.is_empty());
    // More than four lines in one panel can't be told apart.
    let parts: Vec<(&ScenarioDelays, &[StreamDelays])> =
        all.iter().flat_map(|s| s.streams.chunks(4).map(move |part| (s, part))).collect();
    let columns = if parts.len() > 1 { shape.columns(2) } else { 1 };
    let rows = parts.len().div_ceil(columns);
    let mut figure = Figure::new(title)
        .note(format!("{}. First repeat. {how}", source(&run.manifest)))
        .columns(columns)
        .share_x()
        .legend(if several || any_lost { Legend::Top } else { Legend::Hidden })
        .size(shape.width(980), if rows == 1 { 400 } else { 120 + 170 * rows as u32 });
    figure = figure.subtitle(match parts.len() {
        1 => format!("Stream {}", shown_streams(&all)),
        _ => format!("{}; a panel for each scenario, all with the same axes", shown_streams(&all)),
    });
    for (scenario, streams) in parts {
        let x = subject.time_axis_of(ends());
        let mut panel = Panel::new(x, range.axis()).title(panel_title(&scenario.scenario, streams));
        panel = panel.marks(events(&scenario.changes, 0.0));
        for stream in streams {
            let name = if several { stream.stream.clone() } else { "RTT".to_owned() };
            panel = draw(panel, name, stream);
        }
        // Along the ground, where no time is.
        let lost = streams.iter().flat_map(|s| &s.lost_at);
        let lost: Vec<(f64, f64)> = lost.map(|t| (*t, range.above_ground())).collect();
        if !lost.is_empty() {
            panel = panel.mark(Scatter::new("lost", lost));
        }
        figure = figure.panel(panel);
    }
    Ok(figure)
}

/// The names of the streams that a figure shows, few of many.
fn shown_streams(all: &[ScenarioDelays]) -> String {
    listed(streams(all).map(|(_, stream)| &stream.stream))
}

/// The streams that figures of round-trip times show.
pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    distinct(delayed(subject.run, subject.which).iter())
}

fn panel_title(scenario: &str, streams: &[StreamDelays]) -> String {
    match streams.iter().map(|s| s.lost_at.len()).sum::<usize>() {
        0 => scenario.to_owned(),
        n => format!("{scenario} ({n} lost)"),
    }
}

/// The distribution, of all repeats.
pub(super) fn distribution(subject: Subject, shape: PageWidth) -> Made {
    let title = "Distribution of the round-trip time";
    let (run, all) = (subject.run, delays(subject.run, subject.which));
    if TimeRange::of(streams(&all).map(|(_, stream)| stream)).is_none() {
        return Err(NOTHING.to_owned());
    }
    let several = has_several(&all);
    let name = |scenario: &ScenarioDelays, stream: &StreamDelays| {
        series_name(&scenario.scenario, &stream.stream, several) + bound(stream.unsure_part())
    };
    let lines: Vec<(String, &StreamDelays)> =
        streams(&all).map(|(scenario, stream)| (name(scenario, stream), stream)).collect();
    let panels = lines.chunks(4).map(|some| common::distribution(some.iter().cloned()));
    let panels = panels.collect();
    let figure = Figure::new(title)
        .subtitle(format!(
            "{}: share of the packets sent; a line that ends below 100 % shows the loss",
            shown_streams(&all)
        ))
        .note(match &*bounds(&all, several) {
            "" => source(&run.manifest),
            bounds => format!("{}.{bounds}", source(&run.manifest)),
        });
    Ok(grid(figure, panels, shape, 230))
}

/// Of which of these streams only bounds are known.
fn bounds(all: &[ScenarioDelays], several: bool) -> String {
    of_bounds(streams(all).map(|(scenario, stream)| {
        (series_name(&scenario.scenario, &stream.stream, several), stream.unsure_part())
    }))
}

pub(super) fn boxes(subject: Subject, shape: PageWidth) -> Made {
    let title = "Round-trip time by scenario";
    let (run, all) = (subject.run, delays(subject.run, subject.which));
    let Some(range) = TimeRange::of(streams(&all).map(|(_, stream)| stream)) else {
        return Err(NOTHING.to_owned());
    };
    let several = has_several(&all);
    let few = |s: &ScenarioDelays| s.streams.iter().find_map(StreamDelays::minority);
    let unsure = |s: &ScenarioDelays| s.streams.iter().find_map(StreamDelays::unsure_part);
    let named = |s: &ScenarioDelays| format!("{}{}{}", s.scenario, bound(unsure(s)), mark(few(s)));
    let names: Vec<String> = all.iter().map(named).collect();
    let minorities = streams(&all).map(|(scenario, stream)| {
        (series_name(&scenario.scenario, &stream.stream, several), stream.minority())
    });
    let minorities = of_few(minorities);
    let mut series: Vec<(String, Boxes)> = Vec::new();
    for (index, scenario) in all.iter().enumerate() {
        for stream in &scenario.streams {
            let Some(numbers) = &stream.summary else { continue };
            let numbers = five_numbers(numbers);
            let name = if several { stream.stream.clone() } else { String::new() };
            let at = series.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                series.push((name.clone(), Boxes::new(name)));
                series.len() - 1
            });
            let (name, boxes) = series.swap_remove(at);
            series.push((name, boxes.at(index, numbers)));
        }
    }
    let mut panel = Panel::new(Axis::categories("", names), range.axis());
    for (_, boxes) in series {
        panel = panel.mark(boxes);
    }
    Ok(Figure::new(title)
        .subtitle(format!(
            "{}: median, quartiles, and whiskers up to 1.5 times the distance of the quartiles",
            shown_streams(&all)
        ))
        .note(format!(
            "{}. All repeats.{}{minorities}",
            source(&run.manifest),
            bounds(&all, several)
        ))
        .panel(panel)
        .size(shape.width(980), 460))
}

fn streams(all: &[ScenarioDelays]) -> impl Iterator<Item = (&ScenarioDelays, &StreamDelays)> {
    all.iter().flat_map(|scenario| scenario.streams.iter().map(move |s| (scenario, s)))
}

fn has_several(all: &[ScenarioDelays]) -> bool {
    all.iter().any(|scenario| scenario.streams.len() > 1)
}
