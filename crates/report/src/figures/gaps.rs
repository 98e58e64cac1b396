//! Variation of delay and time between arrivals: how steadily packets come.

use super::{Made, Shape, empty, series_name, source};
use crate::analysis::Transit;
use crate::analysis::series::{Binned, gaps};
use quell_chart::{Axis, Figure, Histogram, Legend, Panel};
use quell_store::Run;

pub(super) fn figure(run: &Run, shape: Shape) -> Made {
    let title = "Variation of delay, and time between arrivals";
    let all = gaps(run);
    if all.is_empty() {
        return empty(title, run, "No packets with answers were recorded in this run.");
    }
    let several = all.windows(2).any(|pair| pair[0].scenario == pair[1].scenario);
    let of = match all.iter().all(|g| g.of == Transit::Up) {
        true => "one-way delay to the reflector",
        false => "round-trip time",
    };
    let subtitle = match shape {
        Shape::Wide => format!("Left: change of the {of} from packet to packet; right: arrivals"),
        Shape::Narrow => format!("Change of the {of}; time between arrivals"),
    };
    let columns = shape.columns(2);
    let rows = 2 * all.len() / columns;
    let mut figure = Figure::new(title)
        .subtitle(subtitle)
        .note(format!(
            "{}. All scenarios have the same bins; the rarest 2 % of packets lie beyond the axes.",
            source(&run.manifest)
        ))
        .columns(columns)
        .legend(Legend::Hidden)
        .size(shape.width(820), 110 + 112 * rows as u32);
    for scenario in &all {
        let name = series_name(&scenario.scenario, &scenario.stream, several);
        let panel = |label: &str, binned: &Binned| {
            let ends = binned.edges.first().zip(binned.edges.last());
            let mut x = Axis::linear(label).unit("ms");
            if let Some((low, high)) = ends {
                x = x.from(*low).to(*high);
            }
            let shares = binned.shares.iter().copied();
            Panel::new(x, Axis::linear("Packets").percent())
                .title(name.clone())
                .mark(Histogram::new("", binned.edges.iter().copied(), shares))
        };
        figure = figure
            .panel(panel("Change of delay", &scenario.variations))
            .panel(panel("Between arrivals", &scenario.between));
    }
    Ok(figure)
}
