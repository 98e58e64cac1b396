//! Jitter packet by packet, and time between arrivals: how steadily packets come, scenarios over each other.

use super::common::{
    Made, PageWidth, Subject, distinct, grid, listed, mark, of_few, series_name, source,
};
use crate::analysis::Transit;
use crate::analysis::series::{ScenarioGaps, gapped, gaps};
use quell_chart::{Axis, Ecdf, Figure, Panel};

type Of = fn(&ScenarioGaps) -> &[(f64, f64)];

/// The streams that the figure shows.
pub(super) fn streams_of(subject: Subject) -> Vec<String> {
    distinct(gapped(subject.run, subject.which).iter())
}

pub(super) fn figure(subject: Subject, shape: PageWidth) -> Made {
    let (run, title) = (subject.run, "Jitter packet by packet, and time between arrivals");
    let all = gaps(run, subject.which);
    if !all.iter().any(has_pairs) {
        return Err("No two packets with answers were recorded in this run.".to_owned());
    }
    let several = all.windows(2).any(|pair| pair[0].scenario == pair[1].scenario);
    let of = |of: Transit| all.iter().filter(|g| has_pairs(g)).all(|g| g.of == of);
    let of = match (of(Transit::Up), of(Transit::RoundTrip)) {
        (true, _) => "one-way delay to the reflector",
        (_, true) => "round-trip time",
        _ => "one-way delay to the reflector, or of the round-trip time where there is none",
    };
    let named = |g: &ScenarioGaps| series_name(&g.scenario, &g.stream, several);
    let few = all.iter().filter(|g| !has_pairs(g)).map(|g| {
        format!(" {}: {} of {} packets answered, no two to compare.", named(g), g.answered, g.sent)
    });
    let few: String = few.collect();
    let panels: [(&str, Of); 2] =
        [("Change of delay", |g| &g.changes), ("Time between arrivals", |g| &g.between)];
    let panels = panels.map(|(label, of)| {
        let ends = all.iter().filter_map(|g| middle(of(g)));
        let ends = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0.0, 1.0));
        let air = ((ends.1 - ends.0) * 0.02).max(1e-3);
        let x = Axis::linear(label).unit("ms").from(ends.0 - air).to(ends.1 + air);
        let line =
            |g: &ScenarioGaps| Ecdf::new(named(g) + mark(g.minority()), of(g).iter().copied());
        Panel::new(x, Axis::linear("Pairs not above").percent().from(0.0).to(1.0))
            .marks(all.iter().filter(|g| has_pairs(g)).map(line))
    });
    let figure = Figure::new(title)
        .subtitle(format!(
            "{}: change of the {of} from one arriving packet to the next (the mean of its size is the jitter), and \
             the time between the two",
            listed(all.iter().map(|g| &g.stream))
        ))
        .note(format!(
            "{}. All repeats; of each line 1 % of the pairs at most lies beyond either end of an axis.{few}{}",
            source(&run.manifest),
            of_few(all.iter().filter(|g| has_pairs(g)).map(|g| (named(g), g.minority())))
        ));
    Ok(grid(figure, panels.into(), shape, 290))
}

fn has_pairs(gaps: &ScenarioGaps) -> bool {
    gaps.pairs > 0
}

/// Where a distribution has left its lowest part behind, and where its highest begins.
fn middle(distribution: &[(f64, f64)]) -> Option<(f64, f64)> {
    let at = |share: f64| distribution.iter().find(|(_, s)| *s >= share).map(|(value, _)| *value);
    Some((at(0.01)?, at(0.99)?))
}
