//! Figures by name. They describe what analysis computed; drawing is quell-chart's.

mod averages;
mod backlog;
mod gaps;
mod goodput;
mod rtt;

use crate::analysis::series::{Part, Which};
use crate::analysis::timeline::Change;
use quell_chart::{Axis, Figure, Mark};
use quell_model::Manifest;
use quell_store::Run;

/// A figure's name and what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// The name, as `quell plot --figure` takes it.
    pub name: &'static str,
    /// What it shows, in a few words.
    pub shows: &'static str,
}

/// A figure with data in it, or one that says why there is none.
type Made = Result<Figure, Box<Figure>>;

/// What a figure is of.
#[derive(Clone, Copy)]
struct Subject<'a> {
    run: &'a Run,
    which: Which,
}

struct Entry {
    name: Name,
    make: fn(Subject, Shape) -> Made,
    /// The names of the streams that it shows; none where it shows something else.
    streams: Option<fn(Subject) -> Vec<String>>,
}

/// For which width a figure is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A desk's screen, or paper.
    Wide,
    /// A phone held upright.
    Narrow,
}

impl Shape {
    /// Width in CSS pixels: as given, or a phone's.
    fn width(self, wide: u32) -> u32 {
        match self {
            Shape::Wide => wide,
            Shape::Narrow => 360,
        }
    }

    /// Panels beside each other: as given, or one.
    fn columns(self, wide: usize) -> usize {
        match self {
            Shape::Wide => wide,
            Shape::Narrow => 1,
        }
    }
}

const fn entry(
    name: &'static str,
    shows: &'static str,
    make: fn(Subject, Shape) -> Made,
    streams: Option<fn(Subject) -> Vec<String>>,
) -> Entry {
    Entry { name: Name { name, shows }, make, streams }
}

/// All figures, in the order of the page.
const ALL: [Entry; 8] = [
    entry(
        "rtt-time",
        "round-trip time over time, by scenario, as lines",
        rtt::lines,
        Some(rtt::streams_of),
    ),
    entry(
        "rtt-scatter",
        "round-trip time over time, by scenario, one dot a packet",
        rtt::scatter,
        Some(rtt::streams_of),
    ),
    entry(
        "rtt-averages",
        "mean round-trip time with its deviation, and loss, by stream",
        averages::figure,
        Some(rtt::streams_of),
    ),
    entry(
        "rtt-cdf",
        "distribution of the round-trip time",
        rtt::distribution,
        Some(rtt::streams_of),
    ),
    entry("rtt-box", "round-trip time by scenario, as boxes", rtt::boxes, Some(rtt::streams_of)),
    entry(
        "goodput-time",
        "goodput over time, stacked by flow, a panel each way",
        goodput::figure,
        Some(goodput::streams_of),
    ),
    entry("queue-backlog", "bytes waiting in queues over time", backlog::figure, None),
    entry(
        "jitter-gap",
        "jitter packet by packet, and time between arrivals",
        gaps::figure,
        Some(gaps::streams_of),
    ),
];

/// The names of all figures.
pub const NAMES: [Name; ALL.len()] = {
    let mut names = [ALL[0].name; ALL.len()];
    let mut index = 0;
    while index < ALL.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
};

/// There is no figure of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no figure {name:?}; there are {}", list())]
pub struct UnknownFigure {
    /// What was asked for.
    pub name: String,
}

fn list() -> String {
    NAMES.map(|n| n.name).join(", ")
}

/// A figure of a run, by its name. A run without the data gives a figure that says so.
///
/// # Errors
/// When there is no figure of that name; the answer lists those that there are.
pub fn figure(run: &Run, name: &str) -> Result<Figure, UnknownFigure> {
    let subject = Subject { run, which: Which::Usual };
    Ok((known(name)?.make)(subject, Shape::Wide).unwrap_or_else(|empty| *empty))
}

fn known(name: &str) -> Result<&'static Entry, UnknownFigure> {
    let entry = ALL.iter().find(|e| e.name.name == name);
    entry.ok_or_else(|| UnknownFigure { name: name.to_owned() })
}

/// Why there is no figure of the streams that were named.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFigure {
    /// There is no figure of this name.
    #[error(transparent)]
    Unknown(#[from] UnknownFigure),
    /// There is no stream of this name.
    #[error("there is no stream {name:?} in this run; there are {}", known.join(", "))]
    UnknownStream {
        /// What was asked for.
        name: String,
        /// The run's streams.
        known: Vec<String>,
    },
    /// The figure has no place for a stream.
    #[error(
        "{figure} can't show the stream {name:?}: it has nothing of what the figure shows{}",
        beside(shown)
    )]
    NotShown {
        /// The figure.
        figure: String,
        /// The stream.
        name: String,
        /// Those of the named streams that it can show.
        shown: Vec<String>,
    },
}

fn beside(shown: &[String]) -> String {
    match shown {
        [] => String::new(),
        shown => format!(", or not beside {}, which it can show", shown.join(", ")),
    }
}

/// A figure of these streams alone, all of them (queues stay); the usual one where none is named.
///
/// # Errors
/// When there is no figure of that name, no stream of a name, or the figure would leave out a stream that was named.
pub fn figure_of(mut run: Run, name: &str, streams: &[String]) -> Result<Figure, NoFigure> {
    if streams.is_empty() {
        return Ok(figure(&run, name)?);
    }
    let entry = known(name)?;
    let mut known: Vec<String> = Vec::new();
    for cell in &run.cells {
        let names = cell.echoes.iter().map(|s| &s.stream);
        for name in names.chain(cell.flows.iter().map(|f| &f.stream)) {
            if !known.contains(name) {
                known.push(name.clone());
            }
        }
    }
    if let Some(name) = streams.iter().find(|name| !known.contains(name)) {
        return Err(NoFigure::UnknownStream { name: name.clone(), known });
    }
    for cell in &mut run.cells {
        cell.echoes.retain(|s| streams.contains(&s.stream));
        cell.flows.retain(|f| streams.contains(&f.stream));
    }
    let subject = Subject { run: &run, which: Which::Named };
    if let Some(shown) = entry.streams.map(|of| of(subject))
        && let Some(name) = streams.iter().find(|name| !shown.contains(name))
    {
        let (figure, name) = (entry.name.name.to_owned(), name.clone());
        return Err(NoFigure::NotShown { figure, name, shown });
    }
    Ok((entry.make)(subject, Shape::Wide).unwrap_or_else(|empty| *empty))
}

/// The figures for which a run has data, with their names, in the order of the page.
pub fn present(run: &Run, shape: Shape) -> impl Iterator<Item = (Name, Figure)> {
    let subject = Subject { run, which: Which::Usual };
    ALL.iter().filter_map(move |e| Some((e.name, (e.make)(subject, shape).ok()?)))
}

/// The small print of a figure: which run it shows.
fn source(manifest: &Manifest) -> String {
    let partial = if manifest.complete { "" } else { " · partial run" };
    format!("Run {} · seed {}{partial}", manifest.run, manifest.seed)
}

/// A figure that says that there is nothing to show.
fn empty(title: &str, run: &Run, why: &str) -> Made {
    let note = source(&run.manifest);
    Err(Box::new(Figure::new(title).subtitle(why).note(note).size(760, 160)))
}

/// Marks of what was changed, `from_s` being where the cell begins on the axis. Changes of one time share a mark.
fn events(changes: &[Change], from_s: f64) -> Vec<Mark> {
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
fn part_axis<T>(part: &Part<T>) -> Axis {
    Axis::linear("Time").unit("s").from(part.from_s).to(part.to_s)
}

/// The name of a series: the scenario, and the stream where there are several.
fn series_name(scenario: &str, stream: &str, several: bool) -> String {
    if several { format!("{scenario}: {stream}") } else { scenario.to_owned() }
}

/// Names, each once, in order of appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if !distinct.contains(name) {
            distinct.push(name.clone());
        }
    }
    distinct
}

/// The names of the streams that a figure shows, few of many.
fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    const NAMED: usize = 4;
    let mut names = distinct(names);
    let more = if names.len() > NAMED { " …" } else { "" };
    names.truncate(NAMED);
    names.join(", ") + more
}

/// The mark of what stands for a minority of packets, behind its name; nothing for others.
fn mark(minority: Option<f64>) -> &'static str {
    if minority.is_some() { " *" } else { "" }
}

/// The small print of such marks: of which streams the times are those of few packets.
fn of_few(streams: impl Iterator<Item = (String, Option<f64>)>) -> String {
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
