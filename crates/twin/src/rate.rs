//! How many packets of one size a line carries in a second while it is never idle.

use crate::bounded::Bounded;
use crate::flood::{Flood, FloodPacket, busy, spacing};
use quell_stats::Interval;

/// Times into which a flood is cut, to see by how much they differ.
const PARTS: usize = 8;
/// What stamps and other packets, such as of the control connection, may add.
const SLACK: f64 = 0.001;
/// By less than this a gap differs from the usual one where nothing stood in it: the smallest packet on a line of small ones.
const NEAR: f64 = 0.03;

/// Packets a second.
pub fn packet_rate(flood: &Flood) -> Result<Bounded, &'static str> {
    let packets = flood.packets();
    let busy = busy(&packets).ok_or("no packet waited for another: the line was not full")?;
    let packets = &packets[busy];
    if packets.len() < 3 * PARTS {
        return Err("fewer than 24 packets came while the line was full");
    }
    let each_s = each(packets);
    if each_s <= 0.0 {
        return Err("its packets came all at once");
    }
    let value = 1.0 / each_s;
    let length = packets.len() / PARTS;
    let rates: Vec<f64> = (0..PARTS)
        .map(|part| &packets[part * length..=((part + 1) * length).min(packets.len() - 1)])
        .map(|part| 1.0 / each(part))
        .collect();
    let spread = Interval::of_mean(&rates);
    let low = spread.map_or(value, |spread| spread.low) * (1.0 - SLACK);
    let high = spread.map_or(value, |spread| spread.high) * (1.0 + SLACK);
    Ok(Bounded::new(value, (low, high)))
}

/// Seconds from one packet to the next, by those gaps in which nothing of another, nor a late timer, stood. Where stamps are those of several at once,
/// only all of them together are right.
fn each(packets: &[FloodPacket]) -> f64 {
    let gaps: Vec<f64> = packets.windows(2).map(|pair| pair[1].came_s - pair[0].came_s).collect();
    let median = quell_stats::median(&gaps).unwrap_or(0.0);
    let near: Vec<f64> =
        gaps.iter().copied().filter(|gap| (gap / median - 1.0).abs() < NEAR).collect();
    match quell_stats::mean(&near) {
        Some(each_s) if near.len() as f64 > 0.95 * gaps.len() as f64 => each_s,
        _ => spacing(packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::line;

    #[test]
    fn the_rate_is_that_of_the_packets_that_waited() {
        for (wire, load) in [(6.25e4, 2.0), (1.25e6, 1.1), (3.75e7, 2.0)] {
            let flood = line(1428.0, load, 3.0, (wire, 8.0), |queue| queue.packets < 100);
            let rate = packet_rate(&flood).expect("it is full");
            let truth = wire / 1450.0;
            assert!((rate.value / truth - 1.0).abs() < 8e-3, "{rate:?} {truth}");
            assert!(rate.low <= truth && truth <= rate.high);
        }
    }

    #[test]
    fn a_line_that_is_not_full_tells_no_rate() {
        let flood = line(1428.0, 0.5, 3.0, (1.25e6, 0.0), |_| true);
        assert_eq!(packet_rate(&flood), Err("no packet waited for another: the line was not full"));
    }
}
