//! What figures share: whose they are, the words around their data, and names few of many.

use crate::analysis::series::{Part, StreamDelays, Which};
use crate::analysis::timeline::Change;
use quell_chart::{Axis, Figure, FiveNumbers, Mark};
use quell_model::Manifest;
use quell_stats::BoxSummary;
use quell_store::Run;

/// A figure with data in it, or why there is none.
pub(super) type Made = Result<Figure, Box<Nothing>>;

/// There is nothing to show.
pub(super) struct Nothing {
    /// A figure that says so.
    pub figure: Figure,
    /// Why.
    pub why: String,
}

/// What a figure is of.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) run: &'a Run,
    pub(super) which: Which,
}

/// The small print of a figure: which run it shows.
pub(super) fn source(manifest: &Manifest) -> String {
    let partial = if manifest.complete { "" } else { " · partial run" };
    format!("Run {} · seed {}{partial}", manifest.run, manifest.seed)
}

/// A figure that says that there is nothing to show.
pub(super) fn empty(title: &str, run: &Run, why: &str) -> Made {
    let note = source(&run.manifest);
    let figure = Figure::new(title).subtitle(why).note(note).size(760, 160);
    Err(Box::new(Nothing { figure, why: why.to_owned() }))
}

/// Marks of what was changed, `from_s` being where the cell begins on the axis. Changes of one time share a mark.
pub(super) fn events(changes: &[Change], from_s: f64) -> Vec<Mark> {
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

/// The axis of time of one scenario among several panels; its times are those of the common axis.
pub(super) fn part_axis<T>(part: &Part<T>) -> Axis {
    Axis::linear("Time").unit("s").from(part.from_s).to(part.to_s)
}

/// The name of a series: the scenario, and the stream where there are several.
pub(super) fn series_name(scenario: &str, stream: &str, several: bool) -> String {
    if several { format!("{scenario}: {stream}") } else { scenario.to_owned() }
}

/// Names, each once, in order of appearance.
pub(super) fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    }
    distinct
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
    let few = streams.filter_map(|(name, part)| Some(format!("{name} {:.1} %", part? * 100.0)));
    let few: Vec<String> = few.collect();
    match &few[..] {
        [] => String::new(),
        few => format!(
            " * Times of fewer than half of the packets, those that were answered: {}; of the rest nobody knows them.",
            few.join(", ")
        ),
    }
}

/// The numbers of a box.
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

/// From this ratio of the greatest to the least time, equal ratios take equal space: bufferbloat is a matter of factors.
const WIDE: f64 = 8.0;

/// The common range of round-trip times.
pub(super) struct Range {
    low: f64,
    high: f64,
}

/// The axis of the round-trip times of these streams.
pub(crate) fn times<'a>(streams: impl Iterator<Item = &'a StreamDelays>) -> Axis {
    Range::of(streams)
        .map_or_else(|| Axis::linear("Round-trip time").unit("ms"), |range| range.axis())
}

impl Range {
    /// Of these streams; none where none of them has an answer.
    pub fn of<'a>(streams: impl Iterator<Item = &'a StreamDelays>) -> Option<Self> {
        let ends = |s: &StreamDelays| Some((s.distribution.first()?.0, s.distribution.last()?.0));
        streams
            .filter_map(ends)
            .map(|(low, high)| Self { low, high })
            .reduce(|a, b| Self { low: a.low.min(b.low), high: a.high.max(b.high) })
    }
    fn is_wide(&self) -> bool {
        self.low > 0.0 && self.high / self.low > WIDE
    }

    /// The lowest place of the axis.
    pub fn ground(&self) -> f64 {
        if self.is_wide() { self.low * 0.8 } else { 0.0 }
    }

    /// As low as a marker can stand there whole.
    pub fn above_ground(&self) -> f64 {
        const PART: f64 = 0.025;
        match self.is_wide() {
            true => self.ground() * (self.high * 1.25 / self.ground()).powf(PART),
            false => self.high * 1.1 * PART,
        }
    }

    pub fn axis(&self) -> Axis {
        let label = "Round-trip time";
        if self.is_wide() {
            Axis::log10(label).unit("ms").from(self.ground()).to(self.high * 1.25)
        } else {
            Axis::linear(label).unit("ms").from(0.0).to(self.high * 1.1)
        }
    }
}
