//! The packets of a stream in a stretch of time, as counts and logarithmic buckets that add up.
//!
//! Bucket `i` holds round-trip times that round to `1.008^i` ns, so that its value is within 0.4 % of each of them (DDSketch: Masson, Rim and Lee,
//! VLDB 2019); any database computes it as `power(1.008, i)`.

use crate::rows::{EchoSample, EchoStatus};
use serde::{Deserialize, Serialize};

/// From one bucket to the next. Half of a step, √1.008, is 0.4 %.
pub const GROWTH: f64 = 1.008;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sketch {
    /// When it begins: wall time in nanoseconds, UTC.
    pub from_ns: i64,
    /// How long it is, as a minute or an hour.
    pub length_ns: u64,
    /// Packets whose fate is settled: answered or lost.
    pub sent: u64,
    pub lost_up: u64,
    pub lost_down: u64,
    /// Lost, nobody knows on which way.
    pub lost_somewhere: u64,
    /// Sent, and nobody can know what became of them.
    pub unsure: u64,
    pub min_ns: Option<u64>,
    pub max_ns: Option<u64>,
    /// Bucket and count, ascending; of answered packets.
    pub buckets: Vec<(u16, u32)>,
}

/// The bucket of a round-trip time.
pub fn bucket(rtt_ns: u64) -> u16 {
    // Below ln(2^64) / ln(1.008) = 5568.
    ((rtt_ns.max(1) as f64).ln() / GROWTH.ln()).round() as u16
}

/// The round-trip time of a bucket in nanoseconds.
pub fn value(bucket: u16) -> f64 {
    GROWTH.powi(i32::from(bucket))
}

impl Sketch {
    pub fn new(from_ns: i64, length_ns: u64) -> Self {
        Self { from_ns, length_ns, ..Self::default() }
    }

    /// Duplicates, and what was never under way or could not be awaited, count not at all.
    pub fn record(&mut self, packet: &EchoSample) {
        match packet.status {
            EchoStatus::Duplicate | EchoStatus::Unfinished | EchoStatus::NotSent => return,
            EchoStatus::Unsure => return self.unsure += 1,
            EchoStatus::Ok | EchoStatus::Late => {
                packet.rtt_ns.into_iter().for_each(|rtt| self.answered(rtt));
            }
            lost => *self.lost_as(lost) += 1,
        }
        self.sent += 1;
    }

    /// A packet that was recorded as lost in this way is not.
    pub fn forget_lost(&mut self, status: EchoStatus) {
        self.sent -= 1;
        *self.lost_as(status) -= 1;
    }

    fn lost_as(&mut self, status: EchoStatus) -> &mut u64 {
        match status {
            EchoStatus::LostUp => &mut self.lost_up,
            EchoStatus::LostDown => &mut self.lost_down,
            _ => &mut self.lost_somewhere,
        }
    }

    fn answered(&mut self, rtt_ns: u64) {
        self.min_ns = Some(self.min_ns.map_or(rtt_ns, |min| min.min(rtt_ns)));
        self.max_ns = Some(self.max_ns.map_or(rtt_ns, |max| max.max(rtt_ns)));
        self.add(bucket(rtt_ns), 1);
    }

    fn add(&mut self, bucket: u16, count: u32) {
        match self.buckets.binary_search_by_key(&bucket, |(b, _)| *b) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Takes in the packets of another of the same stream; the stretch of time stays.
    pub fn merge(&mut self, other: &Sketch) {
        self.sent += other.sent;
        self.lost_up += other.lost_up;
        self.lost_down += other.lost_down;
        self.lost_somewhere += other.lost_somewhere;
        self.unsure += other.unsure;
        self.min_ns = [self.min_ns, other.min_ns].into_iter().flatten().min();
        self.max_ns = self.max_ns.max(other.max_ns);
        for (bucket, count) in &other.buckets {
            self.add(*bucket, *count);
        }
    }

    pub fn lost(&self) -> u64 {
        self.lost_up + self.lost_down + self.lost_somewhere
    }

    /// Share of the sent packets that were lost; none where none was sent.
    pub fn loss(&self) -> Option<f64> {
        (self.sent > 0).then(|| self.lost() as f64 / self.sent as f64)
    }

    /// The round-trip time below which this share of the answered packets lies, in nanoseconds, within 0.4 %: that of rank ⌈share·n⌉. None where
    /// none was answered.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total: u64 = self.buckets.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = ((share.clamp(0.0, 1.0) * total as f64).ceil() as u64).max(1);
        let mut below = 0;
        self.buckets.iter().find_map(|(bucket, count)| {
            below += u64::from(*count);
            (below >= rank).then(|| value(*bucket))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answered(rtt_ns: u64) -> EchoSample {
        EchoSample { rtt_ns: Some(rtt_ns), ..EchoSample::new(0, 0, 64, EchoStatus::Ok) }
    }

    fn of(rtts: &[u64]) -> Sketch {
        let mut sketch = Sketch::new(0, 60_000_000_000);
        rtts.iter().for_each(|rtt| sketch.record(&answered(*rtt)));
        sketch
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_four_per_mille_of_the_packet_of_that_rank(
            mut rtts in prop::collection::vec(1_000_u64..10_000_000_000, 1..300), share in 0.0..1.0_f64,
        ) {
            let told = of(&rtts).quantile(share).expect("packets were answered");
            rtts.sort_unstable();
            let rank = ((share * rtts.len() as f64).ceil() as usize).max(1);
            let exact = rtts[rank - 1] as f64;
            prop_assert!((told / exact - 1.0).abs() <= 0.004, "{told} {exact}");
        }

        #[test]
        fn two_minutes_added_are_the_sketch_of_both(
            first in prop::collection::vec(1_u64..u64::MAX, 0..100), second in prop::collection::vec(1_u64..u64::MAX, 0..100),
        ) {
            let mut added = of(&first);
            added.merge(&of(&second));
            prop_assert_eq!(added, of(&[first, second].concat()));
        }
    }

    #[test]
    fn a_lost_packet_is_never_a_round_trip_of_zero() {
        let mut sketch = of(&[20_000_000]);
        for status in [EchoStatus::LostUp, EchoStatus::LostDown, EchoStatus::Lost] {
            sketch.record(&EchoSample::new(0, 1, 64, status));
        }
        assert_eq!((sketch.sent, sketch.lost(), sketch.loss()), (4, 3, Some(0.75)));
        assert_eq!(sketch.min_ns, Some(20_000_000));
        assert_eq!(sketch.buckets.len(), 1);
    }
}
