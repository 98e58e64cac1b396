//! Figures by name. They describe what analysis computed; drawing is quell-chart's.

mod averages;
mod backlog;
mod gaps;
mod goodput;
mod rtt;

use crate::analysis::series::Part;
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

struct Entry {
    name: Name,
    make: fn(&Run, Shape) -> Made,
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

const fn entry(name: &'static str, shows: &'static str, make: fn(&Run, Shape) -> Made) -> Entry {
    Entry { name: Name { name, shows }, make }
}

/// All figures, in the order of the page.
const ALL: [Entry; 8] = [
    entry("rtt-time", "round-trip time over time, by scenario, as lines", rtt::lines),
    entry("rtt-scatter", "round-trip time over time, by scenario, one dot a packet", rtt::scatter),
    entry(
        "rtt-averages",
        "mean round-trip time with its deviation, and loss, by stream",
        averages::figure,
    ),
    entry("rtt-cdf", "distribution of the round-trip time", rtt::distribution),
    entry("rtt-box", "round-trip time by scenario, as boxes", rtt::boxes),
    entry("goodput-time", "goodput over time, stacked by flow", goodput::figure),
    entry("queue-backlog", "bytes waiting in queues over time", backlog::figure),
    entry("jitter-gap", "variation of delay, and time between arrivals", gaps::figure),
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
    let entry = ALL.iter().find(|e| e.name.name == name);
    let entry = entry.ok_or_else(|| UnknownFigure { name: name.to_owned() })?;
    Ok((entry.make)(run, Shape::Wide).unwrap_or_else(|empty| *empty))
}

/// There is no stream of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no stream {name:?} in this run; there are {}", known.join(", "))]
pub struct UnknownStream {
    /// What was asked for.
    pub name: String,
    /// The run's streams.
    pub known: Vec<String>,
}

/// The run with these streams alone (queues stay), for a figure of them; as it is where none is named.
///
/// # Errors
/// When it has no stream of a name.
pub fn only(mut run: Run, streams: &[String]) -> Result<Run, UnknownStream> {
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
        return Err(UnknownStream { name: name.clone(), known });
    }
    if !streams.is_empty() {
        for cell in &mut run.cells {
            cell.echoes.retain(|s| streams.contains(&s.stream));
            cell.flows.retain(|f| streams.contains(&f.stream));
        }
    }
    Ok(run)
}

/// The figures for which a run has data, with their names, in the order of the page.
pub fn present(run: &Run, shape: Shape) -> impl Iterator<Item = (Name, Figure)> {
    ALL.iter().filter_map(move |e| Some((e.name, (e.make)(run, shape).ok()?)))
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
