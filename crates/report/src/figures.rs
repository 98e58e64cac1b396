//! Figures by name. They describe what analysis computed; drawing is quell-chart's.

mod averages;
mod backlog;
pub(crate) mod common;
mod gaps;
mod goodput;
mod one_way;
mod pairs;
mod rtt;
pub mod sweep;
mod tcp;
mod totals;
mod waterfall;

use crate::analysis::series::Which;
use crate::insight::Pair;
pub(crate) use common::source;
pub use common::{Capacity, Wanted};
use common::{Made, Subject};
use quell_chart::Figure;
use quell_store::Run;

pub use common::PageWidth;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    pub name: &'static str,
    pub shows: &'static str,
}

struct Entry {
    name: Name,
    make: fn(Subject, PageWidth) -> Made,
    /// The names of the streams that it shows; none where it shows something else.
    streams: Option<fn(Subject) -> Vec<String>>,
}

const fn entry(
    name: &'static str,
    shows: &'static str,
    make: fn(Subject, PageWidth) -> Made,
    streams: Option<fn(Subject) -> Vec<String>>,
) -> Entry {
    Entry { name: Name { name, shows }, make, streams }
}

const ALL: [Entry; 15] = [
    entry(
        "before-after",
        "ping and goodput as it is and shaped, a row for each pair of scenarios",
        pairs::over_time,
        None,
    ),
    entry(
        "before-after-cdf",
        "distribution of the round-trip time as it is and shaped, by pair",
        pairs::distributions,
        None,
    ),
    entry(
        "totals",
        "goodput of all flows in each direction, and ping, a line for each scenario",
        totals::figure,
        Some(totals::streams_of),
    ),
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
        "goodput over time, stacked by flow, a panel for each direction",
        goodput::figure,
        Some(goodput::streams_of),
    ),
    entry(
        "tcp",
        "TCP's window, round trip, pacing and delivery rate over time",
        tcp::figure,
        Some(tcp::streams_of),
    ),
    entry(
        "one-way",
        "one-way delays over time, a panel for each direction",
        one_way::figure,
        Some(one_way::streams_of),
    ),
    entry("queue-backlog", "bytes waiting in queues over time", backlog::bytes, None),
    entry("queue-wait", "how long bytes wait in queues, over time", backlog::wait, None),
    entry(
        "jitter-gap",
        "jitter packet by packet, and time between arrivals, as distributions",
        gaps::figure,
        Some(gaps::streams_of),
    ),
    entry(
        "page-waterfall",
        "what a page load waited for, request by request",
        waterfall::figure,
        Some(waterfall::streams_of),
    ),
];

pub const NAMES: [Name; ALL.len()] = {
    let mut names = [ALL[0].name; ALL.len()];
    let mut index = 0;
    while index < ALL.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
};

/// The figures, first the one that suits what a run holds best.
pub fn best_first(run: &Run) -> impl Iterator<Item = &'static str> {
    let packets = run.cells.iter().any(|cell| !cell.echoes.is_empty());
    let flows = run.cells.iter().any(|cell| !cell.flows.is_empty());
    let best = match (packets, flows) {
        _ if !Pair::all(&run.manifest).is_empty() => "before-after",
        (true, _) if run.manifest.scenarios().len() > 1 => "rtt-box",
        (true, true) => "totals",
        (true, false) => "rtt-time",
        (false, true) => "goodput-time",
        (false, false) => "page-waterfall",
    };
    let rest = NAMES.into_iter().map(|n| n.name).filter(move |name| *name != best);
    std::iter::once(best).chain(rest)
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no figure {name:?}; there are {}", list())]
pub struct UnknownFigure {
    pub name: String,
}

fn list() -> String {
    NAMES.map(|n| n.name).join(", ")
}

impl Entry {
    fn make(&self, subject: Subject, shape: PageWidth) -> Made {
        let mut figure = (self.make)(subject, shape)?;
        // What was done about a line has one colour in all figures, and the line as it is another.
        if let ([pair], false) = (&subject.pairs()[..], self.name.name.starts_with("before-after"))
        {
            figure = figure.first([&pair.after, &pair.before].map(String::as_str));
        }
        // Of one stream none is left out, and a run of it may be long.
        let is_usual = subject.which == Which::Usual && streams_of(subject.run).len() > 1;
        let Some(of) = self.streams.filter(|_| is_usual) else {
            return Ok(figure);
        };
        let shown = of(subject);
        let all = of(Subject { which: Which::Named, ..subject });
        let rest: Vec<&String> = all.iter().filter(|name| !shown.contains(name)).collect();
        Ok(match rest.is_empty() {
            true => figure,
            false => {
                let rest = common::listed(rest.into_iter());
                figure.also(&format!("Not shown: {rest}; --streams names some."))
            }
        })
    }
}

fn known(name: &str) -> Result<&'static Entry, UnknownFigure> {
    let entry = ALL.iter().find(|e| e.name.name == name);
    entry.ok_or_else(|| UnknownFigure { name: name.to_owned() })
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFigure {
    #[error(transparent)]
    Unknown(#[from] UnknownFigure),
    #[error("there is no stream {name:?} in this run; there are {}", known.join(", "))]
    UnknownStream { name: String, known: Vec<String> },
    #[error("the figure {figure} would be empty: {why}")]
    Nothing { figure: String, why: String },
    #[error("there is no scenario {name:?} in this run; there are {}", known.join(", "))]
    UnknownScenario { name: String, known: Vec<String> },
    #[error(
        "{figure} can't show the stream {name:?}: it has nothing of what the figure shows{}",
        beside(shown)
    )]
    NotShown {
        figure: String,
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

/// A figure of the streams that are named, all of them (queues stay); the usual one where none is.
///
/// # Errors
/// When there is no figure of that name, no stream of a name, or the figure would leave out a stream that was named.
pub fn figure_with(run: Run, name: &str, wanted: &Wanted) -> Result<Figure, NoFigure> {
    let Wanted { streams, span, .. } = *wanted;
    let entry = known(name)?;
    let mut run = if span == (0.0, None) { run } else { within(run, span) };
    let nothing = |why: String| NoFigure::Nothing { figure: name.to_owned(), why };
    if streams.is_empty() {
        let subject = Subject::of(&run, wanted, Which::Usual);
        return entry.make(subject, PageWidth::Wide).map_err(nothing);
    }
    let known = streams_of(&run);
    if let Some(name) = streams.iter().find(|name| !known.contains(name)) {
        return Err(NoFigure::UnknownStream { name: name.clone(), known });
    }
    for cell in &mut run.cells {
        cell.echoes.retain(|s| streams.contains(&s.stream));
        cell.flows.retain(|f| streams.contains(&f.stream));
    }
    let subject = Subject::of(&run, wanted, Which::Named);
    if let Some(shown) = entry.streams.map(|of| of(subject))
        && let Some(name) = streams.iter().find(|name| !shown.contains(name))
    {
        let (figure, name) = (entry.name.name.to_owned(), name.clone());
        return Err(NoFigure::NotShown { figure, name, shown });
    }
    entry.make(subject, PageWidth::Wide).map_err(nothing)
}

fn streams_of(run: &Run) -> Vec<String> {
    let packets = run.cells.iter().flat_map(|cell| cell.echoes.iter().map(|s| &s.stream));
    let flows = run.cells.iter().flat_map(|cell| cell.flows.iter().map(|f| &f.stream));
    common::distinct(packets.chain(flows))
}

/// The run with what was sent in this time alone. Counters stay as they are: what they count in it is told by what is before and after.
fn within(mut run: Run, (from_s, to_s): (f64, Option<f64>)) -> Run {
    let from = (from_s * 1e9) as i64;
    let to = to_s.map_or(i64::MAX, |to| (to * 1e9) as i64);
    for (record, data) in run.manifest.cells.iter_mut().zip(&mut run.cells) {
        let end = crate::analysis::window_ns(record, data);
        for series in &mut data.echoes {
            series.samples.retain(|s| (from..to).contains(&s.t_ns));
        }
        let end = end.map_or(to, |end| end.min(to));
        record.window_ns = u64::try_from(end).ok();
    }
    run
}

/// The run with these scenarios alone, in this order; all of it where none is named.
///
/// # Errors
/// When the run has no scenario of a name.
pub fn only(mut run: Run, scenarios: &[String]) -> Result<Run, NoFigure> {
    if scenarios.is_empty() {
        return Ok(run);
    }
    let known = common::distinct(run.manifest.cells.iter().map(|c| &c.id.scenario));
    if let Some(name) = scenarios.iter().find(|name| !known.contains(name)) {
        return Err(NoFigure::UnknownScenario { name: name.clone(), known });
    }
    let cells = run.manifest.cells.drain(..).zip(run.cells.drain(..));
    let place = |name: &String| scenarios.iter().position(|s| s == name);
    let mut kept: Vec<_> =
        cells.filter_map(|(c, data)| Some((place(&c.id.scenario)?, c, data))).collect();
    kept.sort_by_key(|(place, _, _)| *place);
    (run.manifest.cells, run.cells) = kept.into_iter().map(|(_, c, data)| (c, data)).unzip();
    Ok(run)
}

/// What a figure of this name shows.
pub fn named(name: &str) -> Option<Name> {
    NAMES.into_iter().find(|known| known.name == name)
}

/// A figure for a page; none where the run has nothing that it shows.
pub fn one(run: &Run, name: Name, shape: PageWidth, wanted: &Wanted) -> Option<Figure> {
    let entry = ALL.iter().find(|entry| entry.name == name)?;
    entry.make(Subject::of(run, wanted, Which::Usual), shape).ok()
}
