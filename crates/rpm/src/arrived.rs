//! What arrived, be it that TCP hands it on later.
//!
//! ```text
//!   a queue of a second   1 × 3 4 5 6 … 900 2      2 is sent again, and goes through the whole queue
//!   handed on             1                 ► 900  in one interval what arrived in two: more than the line carries
//!   arrived               1 · 3 4 5 6 … 900 2      as the line brought it
//! ```
//!
//! A sender's kernel tells how many segments the other end holds back now, and what all those carry that are under way. A receiver's tells only how
//! many ever came, in order or not: what they carry is known of the times in which nothing is held back, where bytes and segments go on together.
//! Not all are full: TLS writes in pieces, and the first of a connection, a head, is short. One that is sent twice needlessly carries nothing.
//!
//! A second's edge lies between two arrivals. What came at the later one was on the line before the edge, too:
//!
//! ```text
//!   arrivals   ──1───────2───┆───3─────    the edge: 2, and as much of 3 as of the time between them was over
//! ```

use crate::limits::LIMITS;
use quell_netlink::sock_diag::TcpInfo;

const SECOND_NS: f64 = 1e9;

/// What the kernel says of a connection's segments with data.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Segments {
    bytes: u64,
    held: HeldBack,
}

/// What the kernel knows of what the other end, or it itself, holds back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum HeldBack {
    /// A sender: bytes that are held back now.
    Bytes(f64),
    /// A receiver: how many segments ever arrived, how many of those out of order, and the largest, in bytes.
    Ever { arrived: u64, out_of_order: u64, largest: u64 },
}

impl Default for HeldBack {
    fn default() -> Self {
        Self::Ever { arrived: 0, out_of_order: 0, largest: 0 }
    }
}

impl Segments {
    /// As the receiver's kernel counts them; none where it does not.
    pub fn received(info: &TcpInfo) -> Option<Self> {
        let arrived = info.data_segs_in?.into();
        let out_of_order = info.rcv_ooopack?.into();
        let held = HeldBack::Ever { arrived, out_of_order, largest: info.rcv_mss.into() };
        Some(Self { bytes: info.bytes_received?, held })
    }

    /// As the sender's kernel counts them; none where it does not. The first has a head of so many bytes, and goes alone.
    pub fn delivered(info: &TcpInfo, head: u64) -> Option<Self> {
        let acked = info.bytes_acked?;
        let sent = info.bytes_sent?.saturating_sub(info.bytes_retrans?);
        Some(Self::sent(sent, acked, info.unacked.into(), info.sacked.into(), head))
    }

    /// Of a sender: bytes sent, each counted once; those acknowledged, the SYN among them; segments under way, and those of them that are held back.
    fn sent(sent: u64, acked: u64, unacked: u64, held: u64, head: u64) -> Self {
        let bytes = acked.saturating_sub(1);
        // What comes first is what the others wait for. A short one says nothing of them.
        let (from, segments) =
            if bytes < head { (head, unacked.saturating_sub(1)) } else { (bytes, unacked) };
        let under_way = sent.saturating_sub(from);
        let share = held.min(segments) as f64 / segments.max(1) as f64;
        Self { bytes: acked, held: HeldBack::Bytes(under_way as f64 * share) }
    }
}

/// A connection when it was looked at last, and the bytes of it that a receiver holds back.
#[derive(Debug, Clone, Copy, Default)]
struct Looked {
    at: Segments,
    held: f64,
}

impl Looked {
    /// A receiver's look: what is held back now, if a segment carries so much, and what bytes and segments went on together, if they did.
    fn looks(&mut self, now: &Segments, payload: impl Fn(u64) -> f64) -> Option<(f64, f64)> {
        let last = std::mem::replace(&mut self.at, *now);
        let HeldBack::Ever { arrived, out_of_order, largest } = now.held else { return None };
        let (seen, late) = match last.held {
            HeldBack::Ever { arrived, out_of_order, .. } => (arrived, out_of_order),
            HeldBack::Bytes(_) => (0, 0),
        };
        let bytes = now.bytes.saturating_sub(last.bytes) as f64;
        let segments = arrived.saturating_sub(seen);
        let late = out_of_order.saturating_sub(late);
        // More than they can carry had waited for one of them.
        if late == 0 && bytes <= (segments * largest) as f64 {
            // What is seen first has the head; without bytes it is one that had come before.
            return (seen > 0 && bytes > 0.0).then_some((bytes, segments as f64));
        }
        let payload = payload(largest);
        let released = (bytes - segments.saturating_sub(late) as f64 * payload).max(0.0);
        self.held = (self.held + late as f64 * payload - released).max(0.0);
        None
    }
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    at_ns: u64,
    /// Bytes on the line until then.
    bytes: f64,
    /// Whether nothing arrived since.
    open: bool,
}

#[derive(Debug, Clone)]
pub struct ArrivedBytes {
    looked: Vec<Looked>,
    /// Bytes and segments of times in which nothing was held back.
    known: (f64, f64),
    /// Whether this second added to them.
    learnt: bool,
    /// Bytes that arrived, TLS's among them, and when the last of them did.
    arrived: (u64, f64),
    /// The same and those that were told, when it was asked last.
    told: (f64, f64),
    /// Part of the bytes that is not TLS's.
    plain: f64,
    edges: Vec<Edge>,
}

impl ArrivedBytes {
    pub fn since(began_ns: u64) -> Self {
        Self {
            looked: Vec::new(),
            known: (0.0, 0.0),
            learnt: false,
            arrived: (began_ns, 0.0),
            told: (0.0, 0.0),
            plain: 1.0,
            edges: vec![Edge { at_ns: began_ns, bytes: 0.0, open: false }],
        }
    }

    /// Looks at all connections; the more often, the more seldom something came out of order meanwhile.
    pub fn look(&mut self, each: &[Segments], at_ns: u64) {
        self.looked.resize(each.len(), Looked::default());
        let (bytes, segments) = self.known;
        let payload = |largest: u64| if segments > 0.0 { bytes / segments } else { largest as f64 };
        for (now, last) in each.iter().zip(&mut self.looked) {
            if let Some((bytes, segments)) = last.looks(now, payload) {
                self.known = (self.known.0 + bytes, self.known.1 + segments);
                self.learnt = true;
            }
        }
        let bytes = each.iter().zip(&self.looked).map(|(now, last)| {
            now.bytes as f64
                + match now.held {
                    HeldBack::Bytes(held) => held,
                    HeldBack::Ever { .. } => last.held,
                }
        });
        self.arrives(bytes.sum(), at_ns);
    }

    fn arrives(&mut self, bytes: f64, at_ns: u64) {
        let (before_ns, before) = self.arrived;
        if bytes == before {
            return;
        }
        for edge in self.edges.iter_mut().filter(|edge| edge.open) {
            let lasted = at_ns.saturating_sub(before_ns).max(1) as f64;
            let over = edge.at_ns.saturating_sub(before_ns) as f64 / lasted;
            edge.bytes += (bytes - before) * over.min(1.0) * self.plain;
            edge.open = false;
        }
        self.arrived = (at_ns, bytes);
    }

    /// Bytes that arrived until now, of which `plain` were handed on or acknowledged: without what TLS adds. Those that were where segments are
    /// counted several at a time, or not at all. To be asked once a second.
    pub fn now(&mut self, each: Option<&[Segments]>, plain: u64, at_ns: u64) -> u64 {
        let told = each.and_then(|each| self.told(each, plain, at_ns)).unwrap_or(plain as f64);
        self.edges.push(Edge { at_ns, bytes: told, open: true });
        told as u64
    }

    fn told(&mut self, each: &[Segments], plain: u64, at_ns: u64) -> Option<f64> {
        self.look(each, at_ns);
        if std::mem::take(&mut self.learnt) {
            self.known = (self.known.0 * LIMITS.kept, self.known.1 * LIMITS.kept);
        }
        let most = each.iter().map(|one| match one.held {
            HeldBack::Ever { arrived, largest, .. } => (arrived + 1) * largest,
            HeldBack::Bytes(_) => one.bytes,
        });
        let in_order: u64 = each.iter().map(|one| one.bytes).sum();
        if in_order > most.sum::<u64>() {
            return None;
        }
        self.plain = (plain as f64 / in_order.max(1) as f64).min(1.0);
        let (before, told) = self.told;
        let bytes = self.arrived.1;
        self.told = (bytes, told + (bytes - before) * self.plain);
        Some(self.told.1)
    }

    /// Bits a second of the last so many seconds, or of all if there were fewer.
    pub fn rate(&self, seconds: usize) -> f64 {
        let last = self.edges.len() - 1;
        let (from, to) = (self.edges[last.saturating_sub(seconds)], self.edges[last]);
        let lasted_ns = (to.at_ns.saturating_sub(from.at_ns) as f64).max(SECOND_NS);
        (to.bytes - from.bytes).max(0.0) * 8.0 * SECOND_NS / lasted_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = 1448;
    const SECOND: u64 = 1_000_000_000;

    fn received(arrived: u64, bytes: u64, out_of_order: u64) -> Segments {
        Segments { bytes, held: HeldBack::Ever { arrived, out_of_order, largest: FULL } }
    }

    /// Asks of one connection, second after second.
    fn asked(part: u64) -> impl FnMut(Segments) -> u64 {
        let (mut arrivals, mut at_ns) = (ArrivedBytes::since(0), 0);
        move |segments| {
            at_ns += SECOND;
            arrivals.now(Some(&[segments]), segments.bytes / part, at_ns)
        }
    }

    #[test]
    fn what_a_gap_holds_back_counts_when_it_comes_and_not_when_it_is_handed_on() {
        let mut now = asked(1);
        assert_eq!(now(received(800, 800 * FULL, 0)), 800 * FULL);
        // 700 of 800 wait behind a gap; then it is filled, and nothing more came out of order.
        assert_eq!(now(received(1600, 900 * FULL, 700)), 1600 * FULL);
        assert_eq!(now(received(2400, 2400 * FULL, 700)), 2400 * FULL);
    }

    #[test]
    fn a_sender_counts_what_stands_behind_a_gap() {
        let mut now = asked(1);
        assert_eq!(now(Segments::sent(200_000, 100_001, 100, 0, 0)), 100_001);
        // All that is under way carries as much each, whatever the connection's first did.
        assert_eq!(now(Segments::sent(210_000, 110_001, 100, 90, 0)), 200_001);
        assert_eq!(now(Segments::sent(400_000, 300_001, 100, 0, 0)), 300_001);
        assert_eq!(now(Segments::sent(400_000, 400_001, 0, 0, 0)), 400_001, "nothing is under way");
    }

    #[test]
    fn what_waits_for_a_head_is_as_long_as_it_is() {
        let mut now = asked(1);
        // Nine full ones behind a head that was lost.
        assert_eq!(now(Segments::sent(155 + 9 * FULL, 1, 10, 9, 155)), 1 + 9 * FULL);
        assert_eq!(
            now(Segments::sent(155 + 19 * FULL, 156 + 9 * FULL, 10, 0, 155)),
            156 + 9 * FULL
        );
    }

    #[test]
    fn heads_of_new_connections_tell_nothing_of_what_full_segments_carry() {
        let mut now = {
            let (mut arrivals, mut at_ns) = (ArrivedBytes::since(0), 0);
            move |each: &[Segments]| {
                at_ns += SECOND;
                arrivals.now(Some(each), each.iter().map(|one| one.bytes).sum(), at_ns)
            }
        };
        assert_eq!(now(&[received(20, 20 * FULL, 0)]), 20 * FULL);
        assert_eq!(now(&[received(40, 40 * FULL, 0)]), 40 * FULL);
        // Seconds in which the first is only behind a gap, and others show no more than a head.
        let mut each = vec![received(40, 40 * FULL, 0)];
        for second in 1..=6 {
            each[0] = received(40 + second * 10, 40 * FULL, second * 10);
            each.push(received(1, 150, 0));
            assert_eq!(now(&each), (40 + second * 10) * FULL + second * 150, "{second}");
        }
        each[0] = received(101, 101 * FULL, 60);
        assert_eq!(now(&each), 101 * FULL + 6 * 150);
    }

    #[test]
    fn what_is_sent_twice_needlessly_carries_nothing() {
        let mut now = asked(1);
        assert_eq!(now(received(10, 10 * FULL, 0)), 10 * FULL);
        assert_eq!(now(received(15, 15 * FULL, 0)), 15 * FULL);
        assert_eq!(now(received(25, 15 * FULL, 0)), 15 * FULL);
        assert_eq!(now(received(35, 25 * FULL, 0)), 25 * FULL);
        // Nor does it make what is full seem short.
        assert_eq!(now(received(45, 25 * FULL, 10)), 35 * FULL);
    }

    #[test]
    fn segments_that_become_smaller_count_as_what_they_carry_and_tls_as_nothing() {
        // Half of it is TLS's.
        let mut now = asked(2);
        for second in 1..=20 {
            assert_eq!(now(received(second * 100, second * 100_000, 0)), second * 50_000);
        }
        for second in 1..=20 {
            let arrived = now(received(2000 + second * 100, 2_000_000 + second * 50_000, 0));
            assert_eq!(arrived, 1_000_000 + second * 25_000);
        }
        let before = now(received(4100, 3_050_000, 0));
        // All of these are held back.
        let more = now(received(4200, 3_050_000, 100)) - before;
        assert!((25_000..26_000).contains(&more), "{more}");
    }

    #[test]
    fn where_segments_are_not_counted_one_by_one_or_not_at_all_it_is_what_was_handed_on() {
        let mut arrivals = ArrivedBytes::since(0);
        assert_eq!(
            arrivals.now(Some(&[received(800, 7_000_000, 0)]), 6_000_000, SECOND),
            6_000_000
        );
        assert_eq!(arrivals.now(None, 7_000_000, 2 * SECOND), 7_000_000);
        assert_eq!(arrivals.rate(4), 28e6);
    }

    #[test]
    fn however_few_segments_a_second_has_no_more_came_than_the_line_carries() {
        // A segment each 130 ms, from any time on: 8 of them, or 7, are within a second.
        for first_ms in 0..130 {
            let mut arrivals = ArrivedBytes::since(0);
            let mut came = 0;
            for ms in 0..=9_000 {
                came += u64::from(ms % 130 == first_ms);
                let each = [received(came, came * FULL, 0)];
                arrivals.look(&each, ms * SECOND / 1000);
                if ms > 0 && ms % 1000 == 0 {
                    arrivals.now(Some(&each), came * FULL, ms * SECOND / 1000);
                }
            }
            let share = arrivals.rate(4) * 0.13 / (FULL * 8) as f64;
            assert!((0.965..=1.0001).contains(&share), "{first_ms}: {share}");
        }
    }
}
