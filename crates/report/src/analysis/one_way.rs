//! One-way delays where the two ends have clocks of their own: corrected by how far these are apart.

use quell_stats::ClockOffset;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clocks {
    /// Both ends have the same: the delays are exact.
    Same,
    /// Each has its own, so far apart; the delays are corrected by that.
    Apart {
        offset: ClockOffset,
        /// The time at which the offset is given: the first packet's.
        at_ns: i64,
    },
    /// Each has its own, and no constant difference of rates explains what they say, as when one was set: there are no delays.
    Unsteady,
}

impl Clocks {
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
                "the clocks of the two ends did not run at constant rates (one was set, perhaps): one-way delays are unknown"
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::echo::{EchoFold, EchoResult};
    use quell_model::{EchoSample, EchoStatus, Told};

    fn result(theta: impl Fn(i64) -> i64) -> EchoResult {
        let mut fold = EchoFold::exact();
        fold.tell(&Told::Clocks, "apart");
        for n in 0..100 {
            fold.take(&EchoSample {
                up_ns: Some(10_000_000 + theta(n)),
                down_ns: Some(10_000_000 - theta(n)),
                ..EchoSample::new(n * 20_000_000, n as u64, 56, EchoStatus::Ok)
            });
        }
        fold.result()
    }

    #[test]
    fn delays_by_clocks_a_year_apart_come_out_as_the_path_has_them() {
        let found = result(|_| 31_536_000_000_000_000);
        for way in [found.up_ms, found.down_ms] {
            assert_eq!(way.map(|d| (d.n, d.min, d.max)), Some((100, 10.0, 10.0)));
        }
        let said = found.clocks.said().expect("they are apart");
        assert!(said.contains("31536000000.000 ms") && said.contains("± 10.000 ms"), "{said}");
    }

    #[test]
    fn a_clock_that_was_set_leaves_no_one_way_delays() {
        let found = result(|n| n / 50 * 1_000_000_000);
        assert_eq!(found.clocks, Clocks::Unsteady);
        assert_eq!((found.up_ms, found.down_ms, found.jitter_up_ms), (None, None, None));
    }
}
