//! The smoke figure of a pair: its median, around it the spread of round-trip times, and how much was lost.
//!
//! Loss is a mark on the median whose colour and shape tell how much; where nothing came, on the ground.

use crate::folder::{HOUR_NS, Pair};
use crate::history::{Bin, MEDIAN, MeshHistory, PairHistory};
use quell_chart::{Axis, Band, Figure, Mark, Panel, Polyline, Scatter};

const DAY_NS: i64 = 24 * HOUR_NS;

/// From [`crate::history::SHARES`]: all packets, four of five, half of them.
const SPREADS: [(usize, usize); 3] = [(0, 7), (1, 5), (2, 4)];

const LOSSES: [(&str, f64); 3] =
    [("up to 2 % lost", 0.02), ("2 to 20 % lost", 0.2), ("over 20 % lost", f64::INFINITY)];

const SERIES: &str = "median";

pub fn smoke(mesh: &MeshHistory, key: &Pair, pair: &PairHistory, width: u32) -> Figure {
    let midnight = mesh.from_ns - mesh.from_ns.rem_euclid(DAY_NS);
    let x = |ns: i64| (ns - midnight) as f64 / 1e9;
    let middle = |bin: &Bin| x(bin.from_ns + bin.length_ns as i64 / 2);
    let ms = |bin: &Bin, share| bin.rtt_ns(share).map_or(f64::NAN, |ns| ns / 1e6);
    let day = &quell_units::time::rfc3339(
        std::time::UNIX_EPOCH + std::time::Duration::from_nanos(midnight.max(0) as u64),
    )[..10];
    let mut panel = Panel::new(
        Axis::clock(format!("Time, UTC, from {day} on")).from(x(mesh.from_ns)).to(x(mesh.to_ns)),
        Axis::linear("Round-trip time").unit("ms").with_zero(),
    );
    for (low, high) in SPREADS {
        let band = pair.columns.iter().map(|bin| (middle(bin), ms(bin, low), ms(bin, high)));
        panel = panel.mark(Band::new(SERIES, with_gaps(&pair.columns, band)));
    }
    let median = pair.columns.iter().map(|bin| (middle(bin), ms(bin, MEDIAN)));
    let median = median.map(|(x, y)| (x, y, y));
    let line = with_gaps(&pair.columns, median).into_iter().map(|(x, y, _)| (x, y));
    panel = panel.mark(Polyline::new(SERIES, line));
    let mut above = 0.0;
    for (name, most) in LOSSES {
        let of = |bin: &Bin| f64::from(bin.lost()) / f64::from(bin.sent.max(1));
        let bins = pair.columns.iter().filter(|bin| of(bin) > above && of(bin) <= most);
        let marks: Vec<(f64, f64)> =
            bins.map(|bin| (middle(bin), bin.rtt_ns(MEDIAN).map_or(0.0, |ns| ns / 1e6))).collect();
        if !marks.is_empty() {
            panel = panel.mark(Scatter::new(name, marks));
        }
        above = most;
    }
    for path in pair.paths.iter().skip(1).filter(|path| path.from_ns >= mesh.from_ns) {
        panel = panel.mark(Mark::event(x(path.from_ns), "path"));
    }
    let minutes = pair.columns.first().map_or(1, |bin| bin.length_ns / 60_000_000_000);
    Figure::new(format!("{} to {}, {}", key.agent, key.peer, key.class))
        .note(format!(
            "Median of each {}; around it half, four of five, and all of the packets.",
            if minutes == 1 { "minute".to_owned() } else { format!("{minutes} minutes") }
        ))
        // Amber, orange, wine red: no loss looks fine.
        .first([SERIES, LOSSES[1].0, "", " ", LOSSES[2].0, LOSSES[0].0])
        .size(width, 300)
        .panel(panel)
}

/// A gap where columns do not follow each other: nothing was measured there.
fn with_gaps(
    columns: &[Bin],
    values: impl Iterator<Item = (f64, f64, f64)>,
) -> Vec<(f64, f64, f64)> {
    let mut all = Vec::new();
    let mut end = None;
    for (bin, value) in columns.iter().zip(values) {
        if end.is_some_and(|end| end != bin.from_ns) {
            all.push((value.0, f64::NAN, f64::NAN));
        }
        all.push(value);
        end = Some(bin.from_ns + bin.length_ns as i64);
    }
    all
}
