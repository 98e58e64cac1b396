//! What figures share: whose they are, the words around their data, and names few of many.

use crate::analysis::series::{Part, StreamDelays, Which};
use crate::analysis::timeline::LineChange;
use crate::insight::Pair;
use quell_chart::{Axis, Ecdf, Figure, FiveNumbers, Mark, Panel, decent};
use quell_model::Manifest;
use quell_stats::BoxSummary;
use quell_store::Run;
use std::collections::HashSet;

/// A figure with data in it, or why there is none.
pub(super) type Made = Result<Figure, String>;

/// The rate of a line in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Capacity {
    pub scenario: String,
    /// The line, as `dsl up`.
    pub way: String,
    /// From when on, in seconds, and how many Mbit/s on the wire.
    pub steps: Vec<(f64, f64)>,
}

/// What is wanted of a figure, and what it can't know by itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// These streams alone; the usual ones where none is named.
    pub streams: &'a [String],
    pub capacities: &'a [Capacity],
    /// Scenarios that belong together; all such where not told.
    pub pairs: Option<&'a [Pair]>,
    /// From when to when, in seconds from the start of the measurement; all of it where not told.
    pub span: (f64, Option<f64>),
}

#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) run: &'a Run,
    pub(super) which: Which,
    pub(super) capacities: &'a [Capacity],
    pub(super) pairs: Option<&'a [Pair]>,
    /// From when to when, in seconds, where not all of it.
    pub(super) span: (f64, Option<f64>),
}

impl<'a> Subject<'a> {
    pub(super) fn of(run: &'a Run, wanted: &Wanted<'a>, which: Which) -> Self {
        let Wanted { capacities, pairs, span, .. } = *wanted;
        Self { run, which, capacities, pairs, span }
    }

    pub(super) fn begin_ns(&self) -> i64 {
        (self.span.0 * 1e9) as i64
    }

    pub(super) fn pairs(&self) -> Vec<Pair> {
        self.pairs.map_or_else(|| Pair::all(&self.run.manifest), <[Pair]>::to_vec)
    }

    /// The axis of time of a panel, which ends where told unless an end was asked for.
    pub(super) fn time_axis(&self, end: Option<f64>) -> Axis {
        let axis = Axis::time("Time").from(self.span.0);
        match self.span.1.or(end) {
            Some(end) => axis.to(end),
            None => axis,
        }
    }

    /// The axis of time of panels whose lines have these times, ended where their last whole second does.
    pub(super) fn time_axis_of(&self, times: impl Iterator<Item = f64>) -> Axis {
        self.time_axis(Some(times.fold(0.0, f64::max).ceil().max(1.0)))
    }

    pub(super) fn course_axis<T>(&self, parts: &[Part<T>]) -> Axis {
        let end = parts.last().map_or(1.0, |p| p.to_s);
        let label = if parts.len() > 1 { "Time, one scenario after the other" } else { "Time" };
        Axis::time(label).from(self.span.0).to(end)
    }

    /// The rate of a line in a scenario, in Mbit/s, where it is the same all the time.
    pub(super) fn rate(&self, way: &str, scenario: &str) -> Option<f64> {
        let is = |c: &&Capacity| c.scenario == scenario && c.way == way;
        match &*self.capacities.iter().find(is)?.steps {
            [(_, mbps)] => Some(*mbps),
            _ => None,
        }
    }

    /// The rate of a line where it is the same in all these scenarios, all the time: the name of a reference line, and where it is.
    pub(super) fn capacity(&self, way: &str, scenarios: &[&str]) -> Option<Mark> {
        let all: Option<Vec<f64>> = scenarios.iter().map(|name| self.rate(way, name)).collect();
        let (first, rest) = all.as_ref()?.split_first()?;
        let label = || format!("line's rate: {first}");
        rest.iter().all(|other| other == first).then(|| Mark::reference(*first, label()))
    }
}

/// A part with times of its own. `shift` moves the times of one of its lines back.
pub(super) fn restarted<T: Clone>(part: &Part<T>, shift: impl Fn(&mut T, f64)) -> Part<T> {
    let mut part = part.clone();
    let by = part.shift_s;
    part.lines.iter_mut().for_each(|line| shift(line, by));
    part.from_s -= by;
    part.to_s -= by;
    part.shift_s = 0.0;
    part
}

/// Panels in two columns where a page is wide, a row as high as said; one row is higher.
pub(crate) fn grid(figure: Figure, panels: Vec<Panel>, shape: PageWidth, row: u32) -> Figure {
    let columns = if panels.len() > 1 { shape.columns(2) } else { 1 };
    let rows = panels.len().div_ceil(columns) as u32;
    let height = if rows == 1 { 420 } else { 130 + row * rows };
    let figure = panels.into_iter().fold(figure.columns(columns), Figure::panel);
    figure.size(shape.width(980), height)
}

/// Distributions over each other. A line that does not reach the top shows the loss.
pub(crate) fn distribution<'a>(lines: impl Iterator<Item = (String, &'a StreamDelays)>) -> Panel {
    let lines: Vec<_> = lines.collect();
    let y = Axis::linear("Packets answered within").percent().from(0.0).to(1.0);
    let panel = Panel::new(times(lines.iter().map(|(_, delays)| *delays)), y);
    lines.into_iter().fold(panel, |panel, (name, delays)| {
        panel.mark(Ecdf::new(name, delays.distribution.iter().copied()))
    })
}

/// The small print of a figure: which run it shows.
pub(crate) fn source(manifest: &Manifest) -> String {
    let partial = if manifest.complete { "" } else { " · partial run" };
    format!("Run {} · seed {}{partial}", manifest.run, manifest.seed)
}

/// Marks of what was changed, `from_s` being where the cell begins on the axis. Changes of one time share a mark.
pub(super) fn events(changes: &[LineChange], from_s: f64) -> Vec<Mark> {
    let mut marks: Vec<(f64, Vec<&str>)> = Vec::new();
    for change in changes {
        match marks.last_mut() {
            Some((at, words)) if *at == change.at_s => {
                if !words.contains(&&*change.short) {
                    words.push(&change.short);
                }
            }
            _ => marks.push((change.at_s, vec![&change.short])),
        }
    }
    marks.into_iter().map(|(at, words)| Mark::event(from_s + at, words.join(", "))).collect()
}

/// The axis of time of one scenario among several panels.
pub(super) fn part_axis<T>(part: &Part<T>) -> Axis {
    Axis::time("Time").from(part.from_s).to(part.to_s)
}

pub(super) fn series_name(scenario: &str, stream: &str, several: bool) -> String {
    if several { format!("{scenario}: {stream}") } else { scenario.to_owned() }
}

/// Names, each once, in order of appearance.
pub(crate) fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut known = HashSet::new();
    names.filter(|name| known.insert(*name)).cloned().collect()
}

/// The names of the streams that a figure shows, few of many.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    const NAMED: usize = 4;
    let mut names = distinct(names);
    let more = if names.len() > NAMED { " …" } else { "" };
    names.truncate(NAMED);
    names.join(", ") + more
}

/// The mark of what stands for a minority of packets, behind its name; nothing for others.
pub(super) fn mark(minority: Option<f64>) -> &'static str {
    if minority.is_some() { " *" } else { "" }
}

/// The small print of such marks: of which streams the times are those of few packets.
pub(super) fn of_few(streams: impl Iterator<Item = (String, Option<f64>)>) -> String {
    parts(streams).map_or(String::new(), |few| {
        format!(
            " * Times of fewer than half of the packets, those that were answered: {few}; those of the rest are unknown."
        )
    })
}

/// What stands behind the name of a stream of whose times only bounds are known.
pub(super) fn bound(unsure: Option<f64>) -> &'static str {
    if unsure.is_some() { " ≥" } else { "" }
}

/// The small print of such marks: of which streams so many packets may be lost or late.
pub(super) fn of_bounds(streams: impl Iterator<Item = (String, Option<f64>)>) -> String {
    parts(streams).map_or(String::new(), |part| {
        format!(
            " ≥ Times are at least, and losses at least and at most: it is unknown whether some packets were lost or took a second and more: {part}."
        )
    })
}

/// The streams that have a part, with it; none where none has.
fn parts(streams: impl Iterator<Item = (String, Option<f64>)>) -> Option<String> {
    let named = streams.filter_map(|(name, part)| Some(format!("{name} {:.1} %", part? * 100.0)));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(", "))
}

pub(crate) fn five_numbers(numbers: &BoxSummary) -> FiveNumbers {
    FiveNumbers {
        low: numbers.whisker_low,
        q1: numbers.q1,
        median: numbers.median,
        q3: numbers.q3,
        high: numbers.whisker_high,
        outliers: apart(&numbers.outliers),
    }
}

/// Outliers at most once for each hundredth of a millisecond: more dots at one place show nothing more.
fn apart(sorted: &[f64]) -> Vec<f64> {
    let mut kept: Vec<f64> = Vec::new();
    for value in sorted {
        if kept.last().is_none_or(|last| value - last > 0.01) {
            kept.push(*value);
        }
    }
    kept
}

pub(super) struct TimeRange {
    low: f64,
    high: f64,
}

/// The axis of the round-trip times of these streams.
pub(crate) fn times<'a>(streams: impl Iterator<Item = &'a StreamDelays>) -> Axis {
    TimeRange::of(streams)
        .map_or_else(|| Axis::linear("Round-trip time").unit("ms"), |range| range.axis())
}

impl TimeRange {
    /// Of these streams; none where none of them has an answer.
    pub fn of<'a>(streams: impl Iterator<Item = &'a StreamDelays>) -> Option<Self> {
        let ends = |s: &StreamDelays| Some((s.distribution.first()?.0, s.distribution.last()?.0));
        streams
            .filter_map(ends)
            .map(|(low, high)| Self { low, high })
            .reduce(|a, b| Self { low: a.low.min(b.low), high: a.high.max(b.high) })
    }

    /// Whether equal ratios take equal space: bufferbloat is a matter of factors.
    fn is_wide(&self) -> bool {
        self.low > 0.0 && self.high / self.low > 8.0
    }

    pub fn ends(&self) -> (f64, f64) {
        match self.is_wide() {
            true => decent(self.low, self.high),
            false => (0.0, self.high * 1.1),
        }
    }

    /// As low as a marker can stand there whole.
    pub fn above_ground(&self) -> f64 {
        let (low, high) = self.ends();
        match self.is_wide() {
            true => low * (high / low).powf(0.03),
            false => high * 0.03,
        }
    }

    pub fn axis(&self) -> Axis {
        let (low, high) = self.ends();
        let label = "Round-trip time";
        let axis = if self.is_wide() { Axis::log10(label) } else { Axis::linear(label) };
        axis.unit("ms").from(low).to(high)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageWidth {
    /// A desk's screen, or paper.
    Wide,
    /// A phone held upright.
    Narrow,
}

impl PageWidth {
    /// Width in CSS pixels: as given, or a phone's.
    pub fn width(self, wide: u32) -> u32 {
        match self {
            PageWidth::Wide => wide,
            PageWidth::Narrow => 360,
        }
    }

    pub(crate) fn columns(self, wide: usize) -> usize {
        match self {
            PageWidth::Wide => wide,
            PageWidth::Narrow => 1,
        }
    }
}
