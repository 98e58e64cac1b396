//! Whether packets leave only every so often, by when those of a thin stream come.

use crate::bounded::Bounded;
use crate::flood::Flood;

/// Shortest and longest grid that is looked for, in seconds.
const LEAST_S: f64 = 0.5e-3;
const MOST_S: f64 = 20e-3;
/// How close to a grid's line all packets have to come, as a part of the grid.
const NEAR: f64 = 0.05;

/// The time between the lines on which all come, in seconds; none where they come at any time.
pub fn grid(stream: &Flood) -> Result<Option<Bounded>, &'static str> {
    let packets = stream.packets();
    let waits: Vec<f64> = packets.iter().map(|packet| packet.wait_s).collect();
    // What waits for a line waits for up to its step.
    if quell_stats::quantile(&waits, 0.9).is_some_and(|wait| wait < LEAST_S / 2.0) {
        return Ok(None);
    }
    let gaps = packets.windows(2).map(|pair| pair[1].came_s - pair[0].came_s);
    let gaps: Vec<f64> = gaps.filter(|gap| *gap > LEAST_S * 0.9).collect();
    if gaps.len() < 50 {
        return Err("fewer than 50 packets came apart from each other");
    }
    // On a grid each time between two is a whole number of its steps: the least of them is one, or some.
    let least = quell_stats::quantile(&gaps, 0.02).unwrap_or(0.0);
    let candidates = (1..=4).map(|part| least / f64::from(part));
    for step in candidates.filter(|step| (LEAST_S..=MOST_S).contains(step)) {
        let steps: Vec<f64> = gaps.iter().map(|gap| (gap / step).round().max(1.0)).collect();
        // All together tell it more exactly than one.
        let step = gaps.iter().sum::<f64>() / steps.iter().sum::<f64>();
        let off = |(gap, steps): (&f64, &f64)| (gap - steps * step).abs() <= NEAR * step;
        let near = gaps.iter().zip(&steps).filter(|pair| off((pair.0, pair.1))).count();
        if near as f64 >= 0.95 * gaps.len() as f64 {
            return Ok(Some(Bounded::new(step, (step * 0.99, step * 1.01))));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_wire::iperf3::LoggedDatagram;

    /// Packets that are sent so many nanoseconds apart, and come when `held` says.
    fn stream(apart_ns: i64, held: impl Fn(i64) -> i64) -> Flood {
        let mut flood = Flood::default();
        for number in 0..2000 {
            let sent_ns = i64::try_from(number).expect("few") * apart_ns;
            let came_ns = held(sent_ns + 10_000_000);
            flood.log.push(LoggedDatagram { number, sent_ns, came_ns, marked: false });
        }
        flood
    }

    #[test]
    fn what_leaves_every_2_ms_comes_on_a_grid_and_what_leaves_at_once_on_none() {
        for apart_us in [300, 1_700, 7_300] {
            let held = stream(apart_us * 1000, |at| (at / 2_000_000 + 1) * 2_000_000);
            let told = grid(&held).expect("enough came").expect("a grid");
            assert!((told.value - 0.002).abs() < 2e-5, "{apart_us}: {told:?}");
            assert_eq!(grid(&stream(apart_us * 1000, |at| at)), Ok(None), "{apart_us}");
        }
    }
}
