//! One-way delays where the two ends have clocks of their own: corrected by how far these are apart.

use quell_model::{EchoSample, Subject, Told};
use quell_stats::{ClockOffset, OffsetEstimator};
use quell_store::{CellData, EchoSeries};
use std::borrow::Cow;

/// The clocks that one-way delays are of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clocks {
    /// Both ends have the same: the delays are exact.
    Same,
    /// Each has its own, so far apart; the delays are corrected by that.
    Apart {
        /// The estimate.
        offset: ClockOffset,
        /// The time at which the offset is given: the first packet's.
        at_ns: i64,
    },
    /// Each has its own, and no constant difference of rates explains what they say, as when one was set: there are no delays.
    Unsteady,
}

/// The packets of a stream of this cell with one-way delays by one clock: as they are, where the probe did not tell that its ends have
/// clocks of their own.
pub(crate) fn by_clocks_of<'a>(
    data: &CellData,
    series: &'a EchoSeries,
) -> (Cow<'a, [EchoSample]>, Clocks) {
    if data.told(&Subject::stream(&*series.stream, Told::Clocks)) == Some("apart") {
        let (samples, clocks) = by_one_clock(&series.samples);
        return (samples.into(), clocks);
    }
    (Cow::Borrowed(&series.samples), Clocks::Same)
}

/// These packets with one-way delays by one clock.
fn by_one_clock(samples: &[EchoSample]) -> (Vec<EchoSample>, Clocks) {
    let mut estimator = OffsetEstimator::new();
    for s in samples.iter().filter(|s| s.status.is_answered()) {
        if let (Some(up), Some(down)) = (s.up_ns, s.down_ns) {
            estimator.push(s.t_ns, up, down);
        }
    }
    let found = estimator.estimate();
    let correct = |s: &EchoSample| {
        let by = |ns: Option<i64>, sign: i64| {
            Some(ns?.saturating_sub(found?.at(s.t_ns).saturating_mul(sign)))
        };
        EchoSample { up_ns: by(s.up_ns, 1), down_ns: by(s.down_ns, -1), ..s.clone() }
    };
    let at_ns = samples.first().map_or(0, |s| s.t_ns);
    let clocks = found.map_or(Clocks::Unsteady, |offset| Clocks::Apart { offset, at_ns });
    (samples.iter().map(correct).collect(), clocks)
}

impl Clocks {
    /// What is to be said of it.
    pub fn said(&self) -> Option<String> {
        match self {
            Clocks::Same => None,
            Clocks::Apart { offset, at_ns } => {
                let ms = offset.at(*at_ns) as f64 / 1e6;
                let (bound, drift) = (offset.bound_ns / 1e6, offset.drift_ppm());
                Some(format!(
                    "the clocks of the two ends were {ms:.3} ms apart, ± {bound:.3} ms, and drifted by {drift:.2} millionths; one-way delays \
                     are corrected by that. It assumes that the empty path takes as long up as down; only ± {bound:.3} ms is certain"
                ))
            }
            Clocks::Unsteady => Some(
                "the clocks of the two ends did not run at constant rates (one was set, perhaps): one-way delays can't be told"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::EchoStatus;

    fn packets(theta: impl Fn(i64) -> i64) -> Vec<EchoSample> {
        let packet = |n: i64| EchoSample {
            up_ns: Some(10_000_000 + theta(n)),
            down_ns: Some(10_000_000 - theta(n)),
            ..EchoSample::new(n * 20_000_000, n as u64, 56, EchoStatus::Ok)
        };
        (0..100).map(packet).collect()
    }

    #[test]
    fn delays_by_clocks_a_year_apart_come_out_as_the_path_has_them() {
        let (corrected, clocks) = by_one_clock(&packets(|_| 31_536_000_000_000_000));
        assert!(corrected.iter().all(|s| s.up_ns == Some(10_000_000)), "{:?}", corrected[0]);
        assert!(corrected.iter().all(|s| s.down_ns == Some(10_000_000)));
        let said = clocks.said().expect("they are apart");
        assert!(said.contains("31536000000.000 ms") && said.contains("± 10.000 ms"), "{said}");
    }

    #[test]
    fn a_clock_that_was_set_leaves_no_one_way_delays() {
        let (corrected, clocks) = by_one_clock(&packets(|n| n / 50 * 1_000_000_000));
        assert_eq!(clocks, Clocks::Unsteady);
        assert!(corrected.iter().all(|s| s.up_ns.is_none() && s.down_ns.is_none()));
    }
}
