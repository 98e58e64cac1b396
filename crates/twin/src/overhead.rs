//! What each packet costs on the wire beyond its Ethernet frame, by how many of two sizes a line carries in a second.

use crate::bounded::Bounded;
use crate::flood::ETHERNET;

/// Bytes a packet. `small` and `large` are IP packets' bytes, each with the packets a second that came of it.
pub fn overhead((small, s): (f64, Bounded), (large, l): (f64, Bounded)) -> Result<Bounded, String> {
    // Both carry the same wire: s (small + o) = l (large + o).
    let of = |s: f64, l: f64| (l * large - s * small) / (s - l) - ETHERNET;
    if s.value < 1.5 * l.value {
        return Err("the line carries hardly more small packets than large ones a second".into());
    }
    let value = of(s.value, l.value);
    // What the rates share, as pings beside both, falls out: half of their slack is left.
    let bounds = [of(s.low, l.high), of(s.high, l.low)].map(|end| value + (end - value) / 2.0);
    let (low, high) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
    Ok(Bounded::new(value, (low, high)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::line;
    use crate::rate::packet_rate;

    #[test]
    fn the_overhead_is_told_to_the_byte() {
        for (wire, truth) in [(6.25e4, 0.0), (1.25e6, 22.0), (3.75e7, 44.0)] {
            let rates = [128.0, 1428.0].map(|packet| {
                let flood = line(packet, 2.0, 4.0, (wire, truth), |queue| queue.packets < 100);
                packet_rate(&flood).expect("it is full")
            });
            let told = overhead((128.0, rates[0]), (1428.0, rates[1])).expect("two sizes");
            assert!((told.value - truth).abs() < 0.5, "{told:?} {truth}");
        }
    }
}
