//! What arrived, be it that TCP hands it on later.
//!
//! ```text
//!   a queue of a second   1 × 3 4 5 6 … 900 2      2 is sent again, and goes through the whole queue
//!   handed on             1                 ► 900  in one interval what arrived in two: more than the line carries
//!   arrived               1 · 3 4 5 6 … 900 2      as the line brought it
//! ```
//!
//! A sender's kernel tells how many segments the other end holds back now, a receiver's only how many ever came, in order or not. What a segment
//! carries is known of the times in which nothing is held back: there bytes and segments go on together. Not all are full: TLS writes in pieces.

use quell_netlink::sock_diag::TcpInfo;

/// What a second leaves of what was learnt before: segments may become smaller.
const KEPT: f64 = 0.5;

/// What the kernel says of a connection's segments with data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segments {
    /// How many arrived, in order or not.
    arrived: u64,
    /// Bytes in order: handed on, or acknowledged.
    bytes: u64,
    /// Of a receiver: how many ever came out of order.
    out_of_order: u64,
    /// Of a sender, who counts them: how many the other end holds back now.
    held: u64,
    counts_held: bool,
    /// The largest, in bytes.
    largest: u64,
}

impl Segments {
    /// As the receiver's kernel counts them; none where it does not.
    pub fn received(info: &TcpInfo) -> Option<Self> {
        Some(Self {
            arrived: info.data_segs_in?.into(),
            bytes: info.bytes_received?,
            out_of_order: info.rcv_ooopack?.into(),
            held: 0,
            counts_held: false,
            largest: info.rcv_mss.into(),
        })
    }

    /// As the sender's kernel counts them; none where it does not.
    pub fn delivered(info: &TcpInfo) -> Option<Self> {
        Some(Self {
            arrived: info.delivered?.into(),
            bytes: info.bytes_acked?,
            out_of_order: 0,
            held: info.sacked.into(),
            counts_held: true,
            largest: info.snd_mss.into(),
        })
    }

    /// Bytes and segments since a look before, if nothing was held back at either.
    fn together(&self, before: &Self) -> Option<(u64, u64)> {
        let segments = self.arrived.checked_sub(before.arrived)?;
        let bytes = self.bytes.checked_sub(before.bytes)?;
        let held = self.held > 0 || before.held > 0 || self.out_of_order != before.out_of_order;
        // More than they can carry had waited for one of them.
        (!held && bytes <= segments * self.largest).then_some((bytes, segments))
    }
}

/// A connection when it was looked at last, and the bytes of it that had arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Looked {
    at: Segments,
    bytes: f64,
}

/// What arrived on all connections of a direction.
#[derive(Debug, Clone, Default)]
pub struct Arrivals {
    looked: Vec<Looked>,
    /// Bytes and segments of times in which nothing was held back.
    known: (f64, f64),
    /// Bytes that arrived, TLS's among them, and those that were told.
    told: (f64, f64),
}

impl Arrivals {
    /// Looks at all connections; the more often, the more seldom something came out of order meanwhile.
    pub fn look(&mut self, each: &[Segments]) {
        self.looked.resize(each.len(), Looked::default());
        for (now, last) in each.iter().zip(&mut self.looked) {
            let together = now.together(&last.at);
            if let Some((bytes, segments)) = together {
                self.known.0 += bytes as f64;
                self.known.1 += segments as f64;
            }
            let (bytes, segments) = self.known;
            let payload = if segments > 0.0 { bytes / segments } else { now.largest as f64 };
            let in_order = now.bytes as f64;
            last.bytes = if now.counts_held {
                in_order + now.held as f64 * payload
            } else {
                let more = match together {
                    Some((bytes, _)) => bytes as f64,
                    None => now.arrived.saturating_sub(last.at.arrived) as f64 * payload,
                };
                (last.bytes + more).max(in_order)
            };
            last.at = *now;
        }
    }

    /// Bytes that arrived until now, of which `plain` were handed on or acknowledged: without what TLS adds. None where segments are counted
    /// several at a time. To be asked once a second.
    pub fn now(&mut self, each: &[Segments], plain: u64) -> Option<u64> {
        self.look(each);
        self.known = (self.known.0 * KEPT, self.known.1 * KEPT);
        let in_order: u64 = each.iter().map(|one| one.bytes).sum();
        if in_order > each.iter().map(|one| (one.arrived + 1) * one.largest).sum() {
            return None;
        }
        let share = (plain as f64 / in_order.max(1) as f64).min(1.0);
        let (before, told) = self.told;
        let bytes = self.looked.iter().map(|one| one.bytes).sum();
        self.told = (bytes, told + (bytes - before) * share);
        Some(self.told.1 as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = 1448;

    fn received(arrived: u64, bytes: u64, out_of_order: u64) -> Segments {
        Segments { arrived, bytes, out_of_order, held: 0, counts_held: false, largest: FULL }
    }

    #[test]
    fn what_a_gap_holds_back_counts_when_it_comes_and_not_when_it_is_handed_on() {
        let mut arrivals = Arrivals::default();
        let mut now = |segments: Segments| arrivals.now(&[segments], segments.bytes);
        assert_eq!(now(received(800, 800 * FULL, 0)), Some(800 * FULL));
        // 700 of 800 wait behind a gap; then it is filled, and nothing more came out of order.
        let held = received(1600, 900 * FULL, 700);
        assert_eq!(now(held), Some(1600 * FULL));
        assert_eq!(now(received(2400, 2400 * FULL, 700)), Some(2400 * FULL));
    }

    #[test]
    fn a_sender_counts_what_stands_behind_a_gap() {
        let delivered = |arrived, bytes, held| Segments {
            arrived,
            bytes,
            out_of_order: 0,
            held,
            counts_held: true,
            largest: FULL,
        };
        let mut arrivals = Arrivals::default();
        let mut now = |segments: Segments| arrivals.now(&[segments], segments.bytes);
        assert_eq!(now(delivered(100, 100_000, 0)), Some(100_000));
        assert_eq!(now(delivered(200, 110_000, 90)), Some(200_000));
        assert_eq!(now(delivered(300, 300_000, 0)), Some(300_000));
    }

    #[test]
    fn of_a_sender_whose_segments_are_fuller_behind_gaps_nothing_is_missing_in_the_end() {
        let delivered = |arrived, bytes, held| Segments {
            arrived,
            bytes,
            out_of_order: 0,
            held,
            counts_held: true,
            largest: FULL,
        };
        let mut arrivals = Arrivals::default();
        let mut now = |segments: Segments| arrivals.now(&[segments], segments.bytes);
        assert_eq!(now(delivered(1000, 500_000, 0)), Some(500_000));
        // 100 that carry 1448 bytes each, of which each tenth is in order until the last gap is filled.
        assert_eq!(now(delivered(1100, 514_480, 90)), Some(514_480 + 90 * 500));
        assert_eq!(now(delivered(1101, 644_800, 0)), Some(644_800));
    }

    #[test]
    fn segments_that_become_smaller_count_as_what_they_carry_and_tls_as_nothing() {
        let mut arrivals = Arrivals::default();
        // Half of it is TLS's.
        let mut now = |segments: Segments| {
            arrivals.now(&[segments], segments.bytes / 2).expect("they are counted one by one")
        };
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
    fn where_segments_are_not_counted_one_by_one_nothing_is_known() {
        assert_eq!(Arrivals::default().now(&[received(800, 7_000_000, 0)], 7_000_000), None);
    }
}
