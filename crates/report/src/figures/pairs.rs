//! A line as it is and with something done about it, over each other: the round trip and the goodput, a row for each pair of scenarios. As it is has
//! one colour everywhere, what was done another.

use super::common::{Made, PageWidth, Subject, TimeRange, distribution, grid, listed, source};
use super::goodput::{of_way, ways};
use crate::analysis::series::{Goodput, Part, ScenarioDelays, StreamDelays, delays, goodput};
use crate::insight::Pair;
use quell_chart::{Axis, Figure, Mark, Panel, Polyline};

const NOTHING: &str =
    "No scenario of this run belongs to another one, as NAME-shaped does to NAME.";

/// What lines are called, in the order of their colours: blue, orange.
fn names(pairs: &[Pair]) -> [&'static str; 2] {
    match pairs.iter().all(|pair| pair.word() == "shaped") {
        true => ["shaped", "as it is"],
        false => ["after", "before"],
    }
}

/// A pair's scenarios with their names.
fn sides<'a>(pair: &'a Pair, [after, before]: [&'static str; 2]) -> [(&'a str, &'static str); 2] {
    [(&pair.before, before), (&pair.after, after)]
}

/// The round trips of a scenario: of its first stream.
fn pinged<'a>(all: &'a [ScenarioDelays], scenario: &str) -> Option<&'a StreamDelays> {
    all.iter().find(|delays| delays.scenario == scenario)?.streams.first()
}

pub(super) fn over_time(subject: Subject, shape: PageWidth) -> Made {
    let (run, pairs, title) = (subject.run, &subject.pairs()[..], "Before and after");
    let pings = delays(run, subject.which);
    let course = goodput(run, subject.begin_ns());
    let ways = course.iter().flat_map(|course| ways(course).into_iter().map(move |w| (course, w)));
    let parts = ways.flat_map(|(course, way)| of_way(subject, course, way.as_deref()));
    let parts: Vec<Part<Goodput>> = parts.collect();
    let names = names(pairs);
    let several = pairs.len() > 1;
    let mut panels = Vec::new();
    for pair in pairs {
        let titled = |what: &str| match several {
            true => format!("{}: {what}", pair.name()),
            false => what.to_owned(),
        };
        let of_both = || sides(pair, names).into_iter();
        let found = of_both().filter_map(|(s, name)| Some((name, pinged(&pings, s)?)));
        let found: Vec<_> = found.collect();
        if let Some(range) = TimeRange::of(found.iter().map(|(_, delays)| *delays)) {
            let ends = found.iter().filter_map(|(_, delays)| Some(delays.over_time.last()?.0));
            let panel = Panel::new(subject.time_axis_of(ends), range.axis());
            let panel = panel.title(titled("ping")).marks(idle(&pings));
            panels.push(found.into_iter().fold(panel, |panel, (name, delays)| {
                panel.mark(Polyline::with_gaps(name, delays.over_time.iter().copied()))
            }));
        }
        let part = |scenario: &str| {
            parts.iter().find(|part| part.scenario == scenario && own(part).is_some())
        };
        let flows = of_both().filter_map(|(s, name)| Some((name, part(s)?, own(part(s)?)?)));
        let flows: Vec<_> = flows.collect();
        if let Some((_, _, line)) = flows.first() {
            let y = Axis::linear("Goodput").unit("Mbit/s").with_zero();
            let rate = line
                .way
                .as_deref()
                .and_then(|way| subject.capacity(way, &[&pair.before, &pair.after]));
            let longest = flows.iter().map(|(_, p, _)| p.to_s - p.shift_s).fold(0.0, f64::max);
            let panel = Panel::new(subject.time_axis(Some(longest)), y);
            let panel = panel.title(titled(&format!("goodput of {}", line.stream))).marks(rate);
            panels.push(flows.iter().fold(panel, |panel, (name, part, line)| {
                let last = line.intervals.last().map(|(_, mbps)| (part.to_s, *mbps));
                let own = line.intervals.iter().copied().chain(last);
                let own = own.map(|(t, mbps)| (t - part.shift_s, mbps));
                panel.mark(Polyline::new(*name, own).stepped())
            }));
        }
    }
    if panels.is_empty() {
        return Err(NOTHING.to_owned());
    }
    let shown = pairs.iter().map(Pair::in_words).collect::<Vec<_>>();
    let figure = Figure::new(if several { title } else { &shown[0] })
        .subtitle(if several { listed(shown.iter()) } else { String::new() })
        .note(format!("{}. First repeat; gaps in a line are lost packets.", source(&run.manifest)))
        .first(names);
    Ok(grid(figure, panels, shape, 220))
}

/// The median without a load, where there is a scenario of that name.
fn idle(pings: &[ScenarioDelays]) -> Option<Mark> {
    let idle = pinged(pings, "unloaded")?.summary.as_ref()?.median;
    Some(Mark::reference(idle, format!("idle: {} ms", quell_units::fmt::short(idle))))
}

/// The flow that the probe measures.
fn own(part: &Part<Goodput>) -> Option<&Goodput> {
    part.lines.iter().find(|line| line.is_probe)
}

/// The distributions of the round trips, a panel for each pair.
pub(super) fn distributions(subject: Subject, shape: PageWidth) -> Made {
    let (run, pairs, title) = (subject.run, &subject.pairs()[..], "Round trips before and after");
    let pings = delays(run, subject.which);
    let names = names(pairs);
    let panel = |pair: &Pair| {
        let of =
            |(scenario, name): (&str, &str)| Some((name.to_owned(), pinged(&pings, scenario)?));
        let lines: Vec<_> = sides(pair, names).into_iter().filter_map(of).collect();
        TimeRange::of(lines.iter().map(|(_, delays)| *delays))?;
        Some(distribution(lines.into_iter()).title(pair.name()))
    };
    let panels: Vec<Panel> = pairs.iter().filter_map(panel).collect();
    if panels.is_empty() {
        return Err(NOTHING.to_owned());
    }
    let figure = Figure::new(title)
        .subtitle("Share of the packets sent; a line that ends below 100 % shows the loss")
        .note(format!("{}. All repeats.", source(&run.manifest)))
        .first(names);
    Ok(grid(figure, panels, shape, 230))
}
