//! Round-trip times: their spread, and how they went over time, in memory that does not grow.

use crate::time::{Time, millis, millis_or_null};
use quell_units::Span;
use serde::Serialize;

/// Stretches of time that are told apart; when a connection outlasts them, each becomes twice as long.
const STRETCHES: usize = 48;

/// How long a stretch is at first.
const FIRST_STRETCH: u64 = 10_000_000;

/// Bins per doubling: quantiles are off by at most 1/16 of their value.
const BINS_PER_DOUBLING: u64 = 8;

const BINS: usize = 64 * BINS_PER_DOUBLING as usize;

/// Round-trip times of one direction, seen from where the capture was made: from a segment's passing to its ACK's.
#[derive(Debug, Default)]
pub(super) struct Rtts {
    /// Grows to the bin of the longest time, at most [`BINS`].
    bins: Vec<u32>,
    count: u64,
    min: Option<Span>,
    max: Span,
    begin: Option<Time>,
    stretch: u64,
    stretches: Vec<Stretch>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Stretch {
    fn join(self, other: Self) -> Self {
        match (self.count, other.count) {
            (0, _) => other,
            (_, 0) => self,
            _ => Stretch {
                count: self.count + other.count,
                sum: self.sum + other.sum,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
            },
        }
    }
}

/// Round-trip times of one direction. Quantiles are exact to a sixteenth of their value.
#[derive(Debug, Clone, Serialize)]
pub struct RttSummary {
    /// How many ACKs told one.
    pub count: u64,
    /// The shortest.
    #[serde(rename = "min_ms", serialize_with = "millis_or_null")]
    pub min: Option<Span>,
    /// The median.
    #[serde(rename = "p50_ms", serialize_with = "millis_or_null")]
    pub p50: Option<Span>,
    /// 99 of 100 were no longer.
    #[serde(rename = "p99_ms", serialize_with = "millis_or_null")]
    pub p99: Option<Span>,
    /// The longest.
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
    /// How many ACKs told one.
    pub count: u64,
    /// The shortest.
    #[serde(rename = "min_ms", serialize_with = "millis")]
    pub min: Span,
    /// The mean.
    #[serde(rename = "mean_ms", serialize_with = "millis")]
    pub mean: Span,
    /// The longest.
    #[serde(rename = "max_ms", serialize_with = "millis")]
    pub max: Span,
}

fn bin(nanos: u64) -> usize {
    let nanos = nanos.max(1);
    let doubling = u64::from(nanos.ilog2());
    let base = 1_u64 << doubling;
    let part = u128::from(nanos - base) * u128::from(BINS_PER_DOUBLING) / u128::from(base);
    (doubling * BINS_PER_DOUBLING) as usize + part as usize
}

/// The middle of a bin.
fn middle(bin: usize) -> u64 {
    let (doubling, part) = (bin as u64 / BINS_PER_DOUBLING, bin as u64 % BINS_PER_DOUBLING);
    let base = 1_u128 << doubling;
    let middle = base + base * u128::from(2 * part + 1) / u128::from(2 * BINS_PER_DOUBLING);
    u64::try_from(middle).unwrap_or(u64::MAX)
}

impl Rtts {
    /// Takes a round-trip time that became known at `now`, on a connection that began at `begin`.
    pub(super) fn add(&mut self, begin: Time, now: Time, rtt: Span) {
        let nanos = rtt.nanos();
        let bin = bin(nanos).min(BINS - 1);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        if let Some(count) = self.bins.get_mut(bin) {
            *count = count.saturating_add(1);
        }
        self.count += 1;
        self.min = Some(self.min.map_or(rtt, |min| min.min(rtt)));
        self.max = self.max.max(rtt);

        let begin = *self.begin.get_or_insert(begin);
        self.stretch = self.stretch.max(FIRST_STRETCH);
        let at = now.since(begin).nanos();
        while at / self.stretch >= STRETCHES as u64 {
            self.stretch = self.stretch.saturating_mul(2);
            let pair = |pair: &[Stretch]| pair.iter().fold(Stretch::default(), |a, b| a.join(*b));
            self.stretches = self.stretches.chunks(2).map(pair).collect();
        }
        let place = (at / self.stretch) as usize;
        if self.stretches.len() <= place {
            self.stretches.resize(place + 1, Stretch::default());
        }
        if let Some(stretch) = self.stretches.get_mut(place) {
            let one = Stretch { count: 1, sum: nanos.into(), min: nanos, max: nanos };
            *stretch = stretch.join(one);
        }
    }

    /// The shortest so far.
    pub(super) fn least(&self) -> Option<Span> {
        self.min
    }

    /// The median so far.
    pub(super) fn median(&self) -> Option<Span> {
        self.quantile(1, 2)
    }

    fn quantile(&self, part: u64, of: u64) -> Option<Span> {
        let (min, rank) =
            (self.min?, (u128::from(self.count) * u128::from(part)).div_ceil(of.into()));
        let mut passed = 0_u128;
        let bin = self.bins.iter().position(|count| {
            passed += u128::from(*count);
            passed >= rank
        })?;
        Some(Span::from_nanos(middle(bin)).clamp(min, self.max))
    }

    /// What there is to tell.
    pub(super) fn summary(&self) -> RttSummary {
        let point = |(place, s): (usize, &Stretch)| {
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
            assert!((found / exact - 1.0).abs() < 1.0 / 16.0, "{found} is not near {exact}");
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
    fn any_span_has_a_bin() {
        for nanos in [0, 1, 2, 1_000_000, u64::MAX - 1, u64::MAX] {
            assert!(bin(nanos) < BINS, "{nanos}");
            assert!(middle(bin(nanos)) >= nanos / 2);
        }
    }
}
