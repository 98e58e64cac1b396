//! What figures share: whose they are, the words around their data, and names few of many.

use crate::analysis::series::{Part, Which};
use crate::analysis::timeline::Change;
use quell_chart::{Axis, Figure, Mark};
use quell_model::Manifest;
use quell_store::Run;

/// A figure with data in it, or one that says why there is none.
pub(super) type Made = Result<Figure, Box<Figure>>;

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
    Err(Box::new(Figure::new(title).subtitle(why).note(note).size(760, 160)))
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
