//! Round-trip times: their spread, and how they went over time, in memory that does not grow.

use crate::time::{Time, millis, millis_or_null};
use quell_units::Span;
use serde::Serialize;
use std::collections::BTreeMap;

/// Stretches of time that are told apart; when a connection outlasts them, each becomes twice as long.
const STRETCHES: usize = 48;

/// How long a stretch is at first.
const FIRST_STRETCH: u64 = 10_000_000;

/// Bins per doubling: quantiles are off by less than 1/100 of their value.
const BINS_PER_DOUBLING: u64 = 128;

/// Round-trip times of one direction, seen from where the capture was made: from a segment's passing to its ACK's.
#[derive(Debug, Default)]
pub(super) struct Rtts {
    /// Those that hold any.
    bins: BTreeMap<u16, RttBin>,
    count: u64,
    min: Option<Span>,
    max: Span,
    begin: Option<Time>,
    stretch: u64,
    stretches: Vec<RttStretch>,
}

/// Times that are nearly the same.
#[derive(Debug, Clone, Copy, Default)]
struct RttBin {
    count: u32,
    mean: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct RttStretch {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl RttStretch {
    fn join(self, other: Self) -> Self {
        match (self.count, other.count) {
            (0, _) => other,
            (_, 0) => self,
            _ => RttStretch {
                count: self.count + other.count,
                sum: self.sum + other.sum,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
            },
        }
    }
}

/// Round-trip times of one direction. Quantiles are exact to a hundredth of their value.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RttSummary {
    pub count: u64,
    #[serde(rename = "min_ms", serialize_with = "millis_or_null")]
    pub min: Option<Span>,
    #[serde(rename = "p50_ms", serialize_with = "millis_or_null")]
    pub p50: Option<Span>,
    #[serde(rename = "p99_ms", serialize_with = "millis_or_null")]
    pub p99: Option<Span>,
    #[serde(rename = "max_ms", serialize_with = "millis_or_null")]
    pub max: Option<Span>,
    /// How they went, oldest first; stretches without any are left out.
    pub over_time: Vec<RttPoint>,
}

/// Round-trip times in one stretch of time.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct RttPoint {
    /// When it begins, from the connection's first packet.
    #[serde(rename = "at_ms", serialize_with = "millis")]
    pub at: Span,
    pub count: u64,
    #[serde(rename = "min_ms", serialize_with = "millis")]
    pub min: Span,
    #[serde(rename = "mean_ms", serialize_with = "millis")]
    pub mean: Span,
    #[serde(rename = "max_ms", serialize_with = "millis")]
    pub max: Span,
}

fn bin(nanos: u64) -> u16 {
    let nanos = nanos.max(1);
    let doubling = u64::from(nanos.ilog2());
    let base = 1_u64 << doubling;
    let part = u128::from(nanos - base) * u128::from(BINS_PER_DOUBLING) / u128::from(base);
    (doubling * BINS_PER_DOUBLING) as u16 + part as u16
}

impl Rtts {
    /// Takes a round-trip time that became known at `now`, on a connection that began at `begin`.
    pub(super) fn add(&mut self, begin: Time, now: Time, rtt: Span) {
        let nanos = rtt.nanos();
        let bin = self.bins.entry(bin(nanos)).or_default();
        bin.count = bin.count.saturating_add(1);
        // All within one bin are within a hundredth of each other, and those that are equal stay exact.
        let step = (i128::from(nanos) - i128::from(bin.mean)) / i128::from(bin.count);
        bin.mean = u64::try_from(i128::from(bin.mean) + step).unwrap_or(bin.mean);
        self.count += 1;
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        self.max = self.max.max(rtt);

        let begin = *self.begin.get_or_insert(begin);
        self.stretch = self.stretch.max(FIRST_STRETCH);
        let at = now.since(begin).nanos();
        while at / self.stretch >= STRETCHES as u64 {
            self.stretch = self.stretch.saturating_mul(2);
            let pair =
                |pair: &[RttStretch]| pair.iter().fold(RttStretch::default(), |a, b| a.join(*b));
            self.stretches = self.stretches.chunks(2).map(pair).collect();
        }
        let place = (at / self.stretch) as usize;
        if self.stretches.len() <= place {
            self.stretches.resize(place + 1, RttStretch::default());
        }
        if let Some(stretch) = self.stretches.get_mut(place) {
            let one = RttStretch { count: 1, sum: nanos.into(), min: nanos, max: nanos };
            *stretch = stretch.join(one);
        }
    }

    pub(super) fn least(&self) -> Option<Span> {
        self.min
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn quantile(&self, part: u64, of: u64) -> Option<Span> {
        let (min, rank) =
            (self.min?, (u128::from(self.count) * u128::from(part)).div_ceil(of.into()));
        let mut passed = 0_u128;
        let bin = self.bins.values().find(|bin| {
            passed += u128::from(bin.count);
            passed >= rank
        })?;
        Some(Span::from_nanos(bin.mean).clamp(min, self.max))
    }

    pub(super) fn summary(&self) -> RttSummary {
        let point = |(place, s): (usize, &RttStretch)| {
            let mean = s.sum.checked_div(s.count.into())?;
            Some(RttPoint {
                at: Span::from_nanos((place as u64).saturating_mul(self.stretch)),
                count: s.count,
                min: Span::from_nanos(s.min),
                mean: Span::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
                max: Span::from_nanos(s.max),
            })
        };
        RttSummary {
            count: self.count,
            min: self.min,
            p50: self.quantile(1, 2),
            p99: self.quantile(99, 100),
            max: self.min.map(|_| self.max),
            over_time: self.stretches.iter().enumerate().filter_map(point).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_the_exact_ones() {
        let mut rtts = Rtts::default();
        for i in 1..=1000_u64 {
            rtts.add(Time(0), Time(0), Span::from_micros(i));
        }
        let summary = rtts.summary();
        let near = |found: Option<Span>, exact: f64| {
            let found = found.expect("there are samples").nanos() as f64 / 1e3;
            assert!((found / exact - 1.0).abs() < 1.0 / 100.0, "{found} is not near {exact}");
        };
        near(summary.p50, 500.0);
        near(summary.p99, 990.0);
        assert_eq!(
            (summary.min, summary.max),
            (Some(Span::from_micros(1)), Some(Span::from_millis(1)))
        );
    }

    #[test]
    fn a_long_connection_takes_no_more_memory_than_a_short_one() {
        let mut rtts = Rtts::default();
        for second in 0..100_000 {
            rtts.add(Time(0), Time(second * 1_000_000_000), Span::from_micros(second as u64 + 1));
        }
        assert!(rtts.stretches.len() <= STRETCHES, "{}", rtts.stretches.len());
        let over_time = rtts.summary().over_time;
        assert_eq!(over_time.iter().map(|p| p.count).sum::<u64>(), 100_000);
        assert!(over_time.is_sorted_by_key(|p| p.mean), "RTTs that rise are shown to rise");
    }

    #[test]
    fn any_span_has_a_bin_and_what_is_the_same_is_told_exactly() {
        for nanos in [0, 1, 2, 987_654_321, u64::MAX - 1, u64::MAX] {
            let mut rtts = Rtts::default();
            (0..3).for_each(|_| rtts.add(Time(0), Time(0), Span::from_nanos(nanos)));
            assert_eq!(rtts.summary().p50, Some(Span::from_nanos(nanos)));
        }
    }
}
