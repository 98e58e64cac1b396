//! How much a full buffer holds, and whether it counts packets or bytes, by what stood before packets of two sizes that were dropped.

use crate::bounded::Bounded;
use crate::flood::{Flood, FloodPacket, drops};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BufferSize {
    Packets(Bounded),
    Bytes(Bounded),
}

/// Of a queue that drops what finds no room. The buffer is what waits, without the packet on the line.
pub fn buffer(small: &Flood, large: &Flood) -> Result<BufferSize, String> {
    let [few, many] = [full(large)?, full(small)?];
    let (few, many) = (few as f64, many as f64);
    // Of large packets there is room for a whole number, and less than one more.
    let by_large = (few * large.wire(), (few + 1.0) * large.wire());
    let by_small = (many * small.wire(), (many + 1.0) * small.wire());
    let is_bytes = by_small.1 >= by_large.0 * 0.98 && by_small.0 <= by_large.1 * 1.02;
    let is_packets = (many - few).abs() <= (few * 0.02).max(1.0);
    match (is_packets, is_bytes) {
        (true, false) => {
            // The one on the wire may count.
            let bounds = (few.min(many) - 1.0, few.max(many) + 1.0);
            Ok(BufferSize::Packets(Bounded::new(few, bounds)))
        }
        (false, true) => {
            // One of them may have left, or been sent, a moment too late to be counted right.
            let (low, high) = (by_small.0 - small.wire(), by_small.1 + small.wire());
            Ok(BufferSize::Bytes(Bounded::new((low + high) / 2.0, (low, high))))
        }
        (true, true) => Err("it has room for hardly a packet: either unit would do".into()),
        (false, false) => Err(format!(
            "{few:.0} large packets and {many:.0} small ones filled it: neither packets nor bytes"
        )),
    }
}

/// How many waited where there was no room for another.
fn full(flood: &Flood) -> Result<usize, String> {
    let packets = flood.packets();
    let most = most(&packets);
    let dropped = drops(&packets);
    let at_the_brim = dropped.iter().filter(|drop| drop.backlog + 2 >= most).count();
    if at_the_brim < 5 {
        return Err(format!("{most} packets did not fill it in {:.1} s", flood.seconds));
    }
    Ok(most.saturating_sub(1))
}

/// The longest queue that any packet met, the one on the line in it.
pub fn most(packets: &[FloodPacket]) -> usize {
    packets.iter().map(|packet| packet.backlog).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::made_up::{Queued, line};

    fn told(passes: impl Fn(&Queued, f64) -> bool, wire: f64) -> Result<BufferSize, String> {
        let [small, large] = [128.0, 1428.0].map(|packet| {
            line(packet, 2.0, 4.0, (wire, 10.0), |queue| passes(queue, packet + 14.0))
        });
        buffer(&small, &large)
    }

    #[test]
    fn a_buffers_unit_is_that_in_which_both_sizes_agree() {
        for packets in [20, 100, 1000] {
            let told = told(|queue, _| queue.packets < packets, 1.25e6 * 2.0);
            let Ok(BufferSize::Packets(told)) = told else { panic!("{told:?}") };
            assert!(told.low <= packets as f64 && packets as f64 <= told.high, "{told:?}");
        }
        for bytes in [20e3, 256e3] {
            let told = told(|queue, size| queue.bytes + size <= bytes, 1.25e6);
            let Ok(BufferSize::Bytes(told)) = told else { panic!("{told:?}") };
            assert!(told.low <= bytes && bytes <= told.high, "{told:?} {bytes}");
            assert!(told.high - told.low < 430.0, "{told:?}");
        }
    }

    #[test]
    fn what_was_not_filled_is_unknown() {
        let told = told(|_, _| true, 1.25e6);
        assert!(told.as_ref().is_err_and(|why| why.contains("did not fill it")), "{told:?}");
    }
}
