//! Packets on their way out of this host: which of ours the kernel speaks of, and how long it waited in the own queue. Pure.
//!
//! The kernel numbers packets by itself. The first it tells of each, that it is at the queue, it tells while we send it; that pairs
//! its number with ours.

use std::collections::VecDeque;

/// Packets that are remembered; of older ones nothing is told any more, as a rule.
const MOST: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct QueuedPacket {
    id: u32,
    seq: u64,
    queue_ns: u64,
    /// When it was on the wire, by the device's clock.
    wire_ns: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Departures(VecDeque<QueuedPacket>);

impl Departures {
    /// Our packet `seq` is the kernel's `id`, and came to the queue.
    pub fn at_queue(&mut self, id: u32, seq: u64, stamp_ns: u64) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(QueuedPacket { id, seq, queue_ns: stamp_ns, wire_ns: None });
    }

    /// A packet came to the driver: which, and how long it waited before, in nanoseconds.
    pub fn at_driver(&mut self, id: u32, stamp_ns: u64) -> Option<(u64, u64)> {
        let packet = self.0.iter().rev().find(|p| p.id == id)?;
        // The wall clock may have been set back in between.
        Some((packet.seq, stamp_ns.checked_sub(packet.queue_ns)?))
    }

    pub fn on_wire(&mut self, id: u32, stamp_ns: u64) {
        if let Some(packet) = self.0.iter_mut().rev().find(|p| p.id == id) {
            packet.wire_ns = Some(stamp_ns);
        }
    }

    /// When our packet was on the wire, by the device's clock.
    pub fn wire_ns(&self, seq: u64) -> Option<u64> {
        self.0.iter().rev().find(|p| p.seq == seq)?.wire_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_in_the_queue_is_told_of_the_right_packet_also_when_the_kernel_skips_numbers() {
        let mut departures = Departures::default();
        for (id, seq) in [(0, 0), (2, 1), (3, 2)] {
            departures.at_queue(id, seq, 1_000 * seq);
        }
        assert_eq!(departures.at_driver(3, 2_500), Some((2, 500)));
        assert_eq!(departures.at_driver(2, 9_000), Some((1, 8_000)));
        assert_eq!(departures.at_driver(1, 9_000), None, "it was never at the queue");
        assert_eq!(departures.at_driver(3, 1_999), None, "the clock was set back");
        departures.on_wire(2, 77);
        assert_eq!((departures.wire_ns(1), departures.wire_ns(2)), (Some(77), None));
    }

    #[test]
    fn a_number_that_comes_again_is_the_younger_packets_and_memory_is_bounded() {
        let mut departures = Departures::default();
        for seq in 0..10_000u64 {
            departures.at_queue((seq % 700) as u32, seq, seq);
        }
        assert_eq!(departures.0.len(), MOST);
        assert_eq!(departures.at_driver(0, 20_000), Some((9_800, 10_200)));
    }
}
