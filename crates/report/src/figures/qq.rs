//! Quantile against quantile: where two distributions differ, and how. Points on the diagonal are times that both have alike; a line beside it is a
//! delay that all packets have more; one that bends away is a tail.

use super::common::PageWidth;
use super::common::{Made, Subject, TimeRange, empty, listed, source};
use crate::analysis::series::{StreamDelays, delays};
use quell_chart::{Figure, Panel, Polyline, Scatter};

/// Quantiles drawn of each pair.
const POINTS: usize = 199;

pub(crate) fn quantile(of: &StreamDelays, share: f64) -> Option<f64> {
    let (_, all) = of.distribution.last()?;
    let at = of.distribution.partition_point(|(_, s)| *s < share * all);
    of.distribution.get(at).or(of.distribution.last()).map(|(value, _)| *value)
}

/// A panel of some streams against a first one.
pub(crate) fn panel<'a>(
    first: (&str, &StreamDelays),
    others: impl Iterator<Item = (String, &'a StreamDelays)> + Clone,
) -> Option<Panel> {
    let all = std::iter::once(first.1).chain(others.clone().map(|(_, delays)| delays));
    let range = TimeRange::of(all)?;
    let (low, high) = range.ends();
    let axis = |label: &str| range.axis_of(label);
    let mut panel =
        Panel::new(axis(&format!("Quantiles of {}", first.0)), axis("Quantiles of the others"))
            .mark(Polyline::new("alike", [(low, low), (high, high)]));
    let mut any = false;
    for (name, delays) in others {
        let points: Vec<(f64, f64)> = (1..=POINTS)
            .map(|n| n as f64 / (POINTS + 1) as f64)
            .filter_map(|share| quantile(first.1, share).zip(quantile(delays, share)))
            .collect();
        any |= !points.is_empty();
        panel = panel.mark(Scatter::new(name, points));
    }
    any.then_some(panel)
}

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let (run, title) = (subject.run, "Round-trip times, quantile against quantile");
    let all = delays(run, subject.which);
    let Some((first, others)) = all.split_first().filter(|(_, others)| !others.is_empty()) else {
        return empty(title, run, "One scenario alone has nothing that it could be held against.");
    };
    let panels: Vec<(String, Panel)> = first
        .streams
        .iter()
        .filter_map(|base| {
            let same = others.iter().filter_map(|scenario| {
                let stream = scenario.streams.iter().find(|s| s.stream == base.stream)?;
                Some((scenario.scenario.clone(), stream))
            });
            Some((base.stream.clone(), panel((&first.scenario, base), same)?))
        })
        .collect();
    if panels.is_empty() {
        return empty(title, run, "No stream with answers is in two scenarios of this run.");
    }
    let several = panels.len() > 1;
    let columns = if several { shape.columns(2) } else { 1 };
    let rows = panels.len().div_ceil(columns) as u32;
    let figure = Figure::new(title)
        .subtitle(format!(
            "{}: {POINTS} quantiles of each scenario against those of {}, all repeats",
            listed(panels.iter().map(|(stream, _)| stream)),
            first.scenario
        ))
        .note(format!(
            "{}. Of answered packets. Above the diagonal a scenario's times are longer.",
            source(&run.manifest)
        ))
        .columns(columns);
    let titled = |(stream, panel): (String, Panel)| {
        if several { panel.title(stream) } else { panel }
    };
    let figure = panels.into_iter().map(titled).fold(figure, Figure::panel);
    Ok(figure.size(shape.width(980), 120 + 420 * rows))
}
