//! A stream of datagrams of one size at one rate, each of which was logged where it came: what each waited, and behind how many.

use quell_wire::iperf3::{DatagramLog, LoggedDatagram};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// No flood and no queue lasts longer.
const HOUR_NS: u64 = 3_600_000_000_000;
/// Packets that may be sent beyond twice those that a flood asks for.
const MORE: f64 = 1000.0;
/// Bytes of an Ethernet header, which count on the wire.
pub const ETHERNET: f64 = 14.0;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Flood {
    /// Bytes of an IP packet.
    pub packet: f64,
    /// Seconds from one that is sent to the next.
    pub apart_s: f64,
    pub sent: u64,
    /// When it began, in seconds of the whole measurement, and how long it took.
    pub at_s: f64,
    pub seconds: f64,
    pub log: DatagramLog,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloodPacket {
    pub number: u64,
    pub sent_s: f64,
    pub came_s: f64,
    /// How much longer it took than the quickest.
    pub wait_s: f64,
    /// How many were before it in the queue or on the line when it came there, itself among them.
    pub backlog: usize,
    pub marked: bool,
}

impl Flood {
    /// Bytes on the wire, without an overhead.
    pub fn wire(&self) -> f64 {
        self.packet + ETHERNET
    }

    /// Whether a line can have done this. The log is what a far end or a file says.
    pub fn is_possible(&self) -> bool {
        let log = self.log.datagrams();
        let near = |a: i64, b: i64| a.checked_sub(b).is_some_and(|ns| ns.unsigned_abs() < HOUR_NS);
        let as_first = |first: &LoggedDatagram, other: &LoggedDatagram| {
            near(other.sent_ns, first.sent_ns) && near(other.came_ns, first.came_ns)
        };
        let apart = |first: &LoggedDatagram| {
            first.came_ns.checked_sub(first.sent_ns).is_some_and(|ns| ns.unsigned_abs() < 1 << 62)
        };
        self.apart_s > 0.0
            && (self.sent as f64) < 2.0 * self.seconds / self.apart_s + MORE
            && log.iter().all(|of| of.number <= self.sent)
            && log
                .first()
                .is_none_or(|first| apart(first) && log.iter().all(|other| as_first(first, other)))
    }

    /// Those that came, in the order in which they did.
    pub fn packets(&self) -> Vec<FloodPacket> {
        let log = self.log.datagrams();
        let Some(first) = log.first() else { return Vec::new() };
        let s = |ns: i64| ns.wrapping_sub(first.sent_ns) as f64 / 1e9;
        let quickest = log.iter().map(|d| d.came_ns - d.sent_ns).min().unwrap_or(0) as f64 / 1e9;
        let mut packets: Vec<FloodPacket> = log
            .iter()
            .map(|datagram| {
                let (sent_s, came_s) = (s(datagram.sent_ns), s(datagram.came_ns));
                let wait_s = came_s - sent_s - quickest;
                let (number, marked) = (datagram.number, datagram.marked);
                FloodPacket { number, sent_s, came_s, wait_s, backlog: 0, marked }
            })
            .collect();
        packets.sort_by(|a, b| a.came_s.total_cmp(&b.came_s));
        let each_s = busy(&packets).map_or(0.0, |busy| spacing(&packets[busy]));
        for at in 0..packets.len() {
            // The quickest took the time of its own bits too.
            let queued_s = packets[at].came_s - packets[at].wait_s - each_s;
            let before = packets[..at].partition_point(|other| other.came_s <= queued_s + 2e-6);
            packets[at].backlog = at + 1 - before;
        }
        packets
    }

    /// How many of those sent did not come.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.log.datagrams().len() as u64)
    }
}

/// Seconds from one to the next.
pub fn spacing(packets: &[FloodPacket]) -> f64 {
    match packets {
        [first, .., last] => (last.came_s - first.came_s) / (packets.len() - 1) as f64,
        _ => 0.0,
    }
}

/// The longest time in which each packet waited for others: the line was never idle.
pub fn busy(packets: &[FloodPacket]) -> Option<Range<usize>> {
    let gaps: Vec<f64> = packets.windows(2).map(|pair| pair[1].came_s - pair[0].came_s).collect();
    let least_s = quell_stats::median(&gaps)? / 2.0;
    let mut longest = 0..0;
    let mut begun = None;
    for (at, packet) in packets.iter().enumerate() {
        match packet.wait_s > least_s {
            true => {
                let run = *begun.get_or_insert(at)..at + 1;
                if run.len() > longest.len() {
                    longest = run;
                }
            }
            false => begun = None,
        }
    }
    (longest.len() > 2).then_some(longest)
}

/// Drops in a row, before the packet that came next by its number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DropRun {
    pub count: u64,
    /// When the next one came.
    pub came_s: f64,
    /// Where the queue stood: of the one that came before it.
    pub backlog: usize,
    pub number: u64,
}

/// In the order of their numbers.
pub fn drops(packets: &[FloodPacket]) -> Vec<DropRun> {
    let mut by_number = packets.to_vec();
    by_number.sort_by_key(|packet| packet.number);
    let pairs = by_number.windows(2).filter(|pair| pair[1].number > pair[0].number + 1);
    pairs
        .map(|pair| DropRun {
            count: pair[1].number - pair[0].number - 1,
            came_s: pair[1].came_s,
            backlog: pair[0].backlog,
            number: pair[0].number + 1,
        })
        .collect()
}

/// Lines made up for tests: a queue in front of a wire, packet by packet.
#[cfg(test)]
pub mod made_up {
    use super::{Flood, FloodPacket};
    use quell_wire::iperf3::LoggedDatagram;

    /// What stands in the queue when a packet comes: how many packets and bytes, and since when the first of them waits.
    pub struct Queued {
        pub packets: usize,
        pub bytes: f64,
        pub now_s: f64,
    }

    /// `passes` says of each packet whether it finds room. The wire carries so many bytes a second, `overhead` on top of each packet.
    pub fn line(
        packet: f64,
        load: f64,
        seconds: f64,
        (wire, overhead): (f64, f64),
        mut passes: impl FnMut(&Queued) -> bool,
    ) -> Flood {
        let size = packet + 14.0;
        let each_s = (size + overhead) / wire;
        let apart_s = each_s / load;
        let mut flood = Flood { packet, apart_s, seconds, ..Flood::default() };
        let mut ends: Vec<f64> = Vec::new();
        flood.sent = (seconds / apart_s) as u64;
        for number in 0..flood.sent {
            let now_s = number as f64 * apart_s;
            // The one on the wire waits no more.
            let packets = ends.len() - ends.partition_point(|end| *end - each_s <= now_s);
            let standing = Queued { packets, bytes: packets as f64 * size, now_s };
            if !passes(&standing) {
                continue;
            }
            let end = ends.last().map_or(now_s, |last: &f64| last.max(now_s)) + each_s;
            ends.push(end);
            let (sent_ns, came_ns) = ((now_s * 1e6) as i64 * 1000, ((end + 0.01) * 1e9) as i64);
            flood.log.push(LoggedDatagram { number: number + 1, sent_ns, came_ns, marked: false });
        }
        flood
    }

    /// The same, in which `marks` says of each packet whether it is marked.
    pub fn marked(flood: Flood, mut marks: impl FnMut(&FloodPacket) -> bool) -> Flood {
        let mut log = quell_wire::iperf3::DatagramLog::default();
        for (packet, datagram) in flood.packets().iter().zip(flood.log.datagrams()) {
            log.push(LoggedDatagram { marked: marks(packet), ..*datagram });
        }
        Flood { log, ..flood }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_line_can_have_done_is_not_believed() {
        let good = made_up::line(1428.0, 2.0, 1.0, (1.25e5, 0.0), |queue| queue.packets < 50);
        assert!(good.is_possible());
        let with = |more: LoggedDatagram| {
            let mut flood = good.clone();
            flood.log.push(more);
            flood.is_possible()
        };
        let last = *good.log.datagrams().last().expect("some came");
        assert!(with(last), "one that came twice");
        for (number, sent_ns, came_ns) in [
            (1 << 61, last.sent_ns, last.came_ns),
            (1, i64::MIN, last.came_ns),
            (1, last.sent_ns, i64::MAX),
        ] {
            assert!(!with(LoggedDatagram { number, sent_ns, came_ns, ..last }), "{number}");
        }
        for sent in [1_000_000_000_000_000, u64::MAX] {
            assert!(!Flood { sent, ..good.clone() }.is_possible(), "{sent}");
        }
    }

    #[test]
    fn a_full_buffer_shows_as_its_packets_and_the_one_on_the_wire() {
        let flood = made_up::line(1428.0, 2.0, 4.0, (1.25e6, 0.0), |queue| queue.packets < 50);
        let packets = flood.packets();
        assert_eq!(packets.iter().map(|packet| packet.backlog).max(), Some(51));
        assert_eq!(packets[0].backlog, 1);
        let all = drops(&packets);
        assert!(all.iter().all(|drop| drop.backlog >= 50), "{:?}", &all[..3]);
        let busy = busy(&packets).expect("it is");
        assert!((spacing(&packets[busy]) * 1.25e6 - 1442.0).abs() < 0.1);
    }
}
