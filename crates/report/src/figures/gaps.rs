//! Jitter packet by packet, and time between arrivals: how steadily packets come.

use super::common::{Made, Subject, distinct, empty, listed, mark, of_few, series_name, source};
use super::shape::Shape;
use crate::analysis::Transit;
use crate::analysis::series::{Binned, ScenarioGaps, gaps};
use quell_chart::{Axis, Figure, Histogram, Legend, Panel};

/// The streams that the figure shows.
pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    distinct(gaps(subject.run, subject.which).iter().map(|g| &g.stream))
}

pub(super) fn figure(subject: Subject, shape: Shape) -> Made {
    let (run, title) = (subject.run, "Jitter packet by packet, and time between arrivals");
    let all = gaps(run, subject.which);
    if !all.iter().any(has_pairs) {
        return empty(title, run, "No two packets with answers were recorded in this run.");
    }
    let several = all.windows(2).any(|pair| pair[0].scenario == pair[1].scenario);
    let of = |of: Transit| all.iter().filter(|g| has_pairs(g)).all(|g| g.of == of);
    let of = match (of(Transit::Up), of(Transit::RoundTrip)) {
        (true, _) => "one-way delay to the reflector",
        (_, true) => "round-trip time",
        _ => "one-way delay to the reflector, or of the round-trip time where there is none",
    };
    let names = listed(all.iter().map(|g| &g.stream));
    let change = "from one arriving packet to the next (the mean of its size is the jitter)";
    let subtitle = match shape {
        Shape::Wide => {
            format!("{names}. Left: change of the {of} {change}; right: arrivals")
        }
        Shape::Narrow => format!("{names}. Change of the {of} {change}; time between arrivals"),
    };
    let columns = shape.columns(2);
    let rows = 2 * all.len() / columns;
    let named = |g: &ScenarioGaps| series_name(&g.scenario, &g.stream, several);
    let mut figure = Figure::new(title)
        .subtitle(subtitle)
        .note(format!(
            "{}. All repeats, with the same bins for all; of each the rarest 2 % of pairs may lie beyond the axes.{}",
            source(&run.manifest),
            of_few(all.iter().filter(|g| has_pairs(g)).map(|g| (named(g), g.minority())))
        ))
        .columns(columns)
        .legend(Legend::Hidden)
        .size(shape.width(820), 120 + 112 * rows as u32);
    for scenario in &all {
        let (sent, answered, pairs) = (scenario.sent, scenario.answered, scenario.pairs);
        let name = named(scenario) + mark(scenario.minority());
        let name = match has_pairs(scenario) {
            true => format!("{name}: {pairs} pairs of {sent} packets"),
            false => format!("{name}: {answered} of {sent} packets answered, no two to compare"),
        };
        let panel =
            |label: &str, binned: &Binned| {
                let ends = binned.edges.first().zip(binned.edges.last());
                let mut x = Axis::linear(label).unit("ms");
                if let Some((low, high)) = ends {
                    x = x.from(*low).to(*high);
                }
                let shares = binned.shares.iter().copied();
                Panel::new(x, Axis::linear("Pairs").percent())
                    .title(name.clone())
                    .mark(Histogram::new("", binned.edges.iter().copied(), shares))
            };
        figure = figure
            .panel(panel("Change of delay", &scenario.changes))
            .panel(panel("Between arrivals", &scenario.between));
    }
    Ok(figure)
}

fn has_pairs(gaps: &ScenarioGaps) -> bool {
    gaps.pairs > 0
}
