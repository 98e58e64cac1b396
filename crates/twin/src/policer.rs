//! A policer's rate and burst, by the rule of the table of causes.

use crate::flood::{ETHERNET, Flood, drops};
use quell_cause::{DatagramFacts, TokenBucket};

/// Of packets with their Ethernet header, as the lab's lines count. `quiet_s`: nothing was sent for so long before.
pub fn bucket(flood: &Flood, quiet_s: f64) -> Result<TokenBucket, &'static str> {
    let packets = flood.packets();
    let Some(first) = packets.first() else { return Err("nothing came") };
    let dropped = drops(&packets);
    let lost_from = dropped.first().map_or(u64::MAX, |drop| drop.number);
    let before: Vec<_> = packets.iter().filter(|packet| packet.number < lost_from).collect();
    let waits = |of: &mut dyn Iterator<Item = f64>| of.fold(f64::MAX, f64::min);
    let behind: Vec<(f64, u64)> = packets
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| pair[1].number > pair[0].number + 1)
        .map(|(at, pair)| (pair[1].came_s - first.came_s, at as u64 + 2))
        .collect();
    let least_before = waits(&mut before.iter().map(|packet| packet.wait_s));
    let of_behind = packets.iter().filter(|packet| packet.number > lost_from).take(8);
    let least_behind = waits(&mut of_behind.map(|packet| packet.wait_s));
    DatagramFacts {
        packet: flood.packet + ETHERNET,
        apart_s: flood.apart_s,
        lost: flood.lost(),
        before: before.len() as u64,
        before_s: before.last().map_or(0.0, |last| last.came_s - first.came_s),
        behind: &behind,
        longer_s: Some(least_behind - least_before).filter(|longer| longer.is_finite()),
        jitter_s: 0.0,
        pings: 0.0,
        quiet_s,
    }
    .bucket()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::line;

    #[test]
    fn rate_and_burst_are_between_the_bounds() {
        for (rate, burst) in [(3e5, 20e3), (3e5, 100e3), (6e5, 256e3)] {
            let mut tokens = (burst, 0.0);
            let flood = line(1428.0, 0.9, 6.0, (1.25e6, 0.0), |queue| {
                tokens.0 = (tokens.0 + (queue.now_s - tokens.1) * rate).min(burst);
                tokens.1 = queue.now_s;
                let passes = tokens.0 >= 1442.0;
                tokens.0 -= if passes { 1442.0 } else { 0.0 };
                passes
            });
            let told = bucket(&flood, 5.0).expect("a policer");
            assert!(told.low_bits_per_second <= rate * 8.0 * 1.001, "{told:?}");
            assert!(rate * 8.0 * 0.999 <= told.high_bits_per_second, "{told:?}");
            let high = told.high_burst_bytes.expect("it was full");
            assert!(
                told.low_burst_bytes <= burst * 1.01 && burst * 0.99 <= high,
                "{told:?} {burst}"
            );
        }
    }
}
