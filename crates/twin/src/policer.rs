//! A policer's rate and burst, by the rule of the table of causes.

use crate::flood::{ETHERNET, Flood, drops};
use quell_cause::{DatagramFacts, TokenBucket};

/// How much of the time between two floods a bucket may have taken to fill: one that took most of it may not have been full.
const FILLED: f64 = 0.5;
/// Bytes that the connection beside a flood sends meanwhile, at most: they take tokens, too.
const BESIDE: f64 = 1000.0;

/// Of packets with their Ethernet header, as the lab's lines count. `before` was sent before it.
pub fn bucket(flood: &Flood, before: &Flood) -> Result<TokenBucket, &'static str> {
    let quiet_s = (flood.at_s - before.at_s - before.seconds) * FILLED;
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
        pings: BESIDE / flood.seconds,
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
            let flood = policed(rate, burst, burst);
            let told = bucket(&flood, &before(1.0)).expect("a policer");
            assert!(told.low_bits_per_second <= rate * 8.0 * 1.001, "{told:?}");
            assert!(rate * 8.0 * 0.999 <= told.high_bits_per_second, "{told:?}");
            let high = told.high_burst_bytes.expect("it was full");
            assert!(
                told.low_burst_bytes <= burst * 1.01 && burst * 0.99 <= high,
                "{told:?} {burst}"
            );
        }
    }

    #[test]
    fn a_bucket_that_was_still_filling_held_at_least_what_came() {
        // 0.4 s of tokens, of a bucket that holds more.
        let told = bucket(&policed(3e5, 120e3, 2e6), &before(0.4)).expect("a policer");
        assert_eq!(told.high_burst_bytes, None, "{told:?}");
        assert!((told.low_burst_bytes - 120e3).abs() < 2e3, "{told:?}");
    }

    /// A flood that ended so long before.
    fn before(quiet_s: f64) -> Flood {
        Flood { at_s: -quiet_s - 6.0, seconds: 6.0, ..Flood::default() }
    }

    /// Bytes a second, the bytes in the bucket at first, and as many as it holds.
    fn policed(rate: f64, holds: f64, burst: f64) -> Flood {
        let mut tokens = (holds, 0.0);
        line(1428.0, 0.9, 6.0, (1.25e6, 0.0), |queue| {
            tokens.0 = (tokens.0 + (queue.now_s - tokens.1) * rate).min(burst);
            tokens.1 = queue.now_s;
            let passes = tokens.0 >= 1442.0;
            tokens.0 -= if passes { 1442.0 } else { 0.0 };
            passes
        })
    }
}
