//! Whether calls with one thing changed are sooner, and cliffs between sizes. Pure: by the order of times alone, so that a path that varies gives
//! neither answer.

use quell_cause::calls::{CallEffect, CallExperiment};
use serde::Serialize;

/// So many standard deviations from chance is the number of pairs of a plain and a changed call in which the changed one is sooner (Mann and
/// Whitney): that is chance once in 160 times.
const DEVIATIONS: f64 = 2.5;

const LEAST_CALLS: usize = 5;

/// Whether `changed` calls are sooner than `plain` ones by `least_ms` or more, or not. Times are in milliseconds.
pub fn compare(plain: &[f64], changed: &[f64], least_ms: f64) -> CallExperiment {
    let medians = quell_stats::median(plain).zip(quell_stats::median(changed));
    let Some((before_ms, median_ms)) = medians else { return CallExperiment::default() };
    let (n, m) = (plain.len() as f64, changed.len() as f64);
    let deviation = ((n + m + 1.0) / (12.0 * n * m)).sqrt();
    let is_sure = |is_so: &dyn Fn(f64, f64) -> bool| {
        let so = plain.iter().map(|p| changed.iter().filter(|c| is_so(*p, **c)).count());
        so.sum::<usize>() as f64 / (n * m) >= 0.5 + DEVIATIONS * deviation
    };
    let sooner_ms = before_ms - median_ms;
    let effect = match changed.len() >= LEAST_CALLS {
        true if sooner_ms >= least_ms && is_sure(&|p, c| c < p) => CallEffect::Sooner,
        true if sooner_ms < least_ms && is_sure(&|p, c| c > p - least_ms) => CallEffect::Same,
        _ => CallEffect::Unknown,
    };
    CallExperiment { calls: changed.len(), median_ms, sooner_ms, effect }
}

/// Beside a difference in stalls, neighbouring sizes are a cliff when calls of one take this many times as long.
const FACTOR: f64 = 3.0;

/// And this many milliseconds longer: on a busy machine less differs by such factors for no reason.
const LEAST_MS: f64 = 5.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeTimes {
    pub size: u32,
    /// Quantiles 0.1, 0.5 and 0.9.
    pub quantiles: [f64; 3],
    pub stalled: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cliff {
    pub slow: u32,
    pub fast: u32,
    pub factor: f64,
}

/// The cliffs among sizes: nine in ten calls of one take longer than nine in ten of its neighbour, and either most of one stalled
/// and most of the other did not, or they take several times as long and more than the bytes explain.
pub fn cliffs(sizes: &[SizeTimes]) -> Vec<Cliff> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable_by_key(|times| times.size);
    let cliff = |pair: &[SizeTimes]| {
        let &[a, b] = pair else { return None };
        let median = |times: &SizeTimes| times.quantiles[1];
        let (slow, fast) = if median(&a) > median(&b) { (a, b) } else { (b, a) };
        let apart = slow.quantiles[0] > fast.quantiles[2];
        let stalls = slow.stalled > 0.5 && fast.stalled < 0.5;
        let factor = median(&slow) / median(&fast).max(1e-6);
        let bytes = f64::from(slow.size) / f64::from(fast.size.max(1));
        let steep = factor >= FACTOR && factor > bytes && median(&slow) - median(&fast) >= LEAST_MS;
        let (slow, fast) = (slow.size, fast.size);
        (apart && (stalls || steep)).then_some(Cliff { slow, fast, factor })
    };
    sorted.windows(2).filter_map(cliff).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(size: u32, median: f64, spread: f64, stalled: f64) -> SizeTimes {
        SizeTimes { size, quantiles: [median - spread, median, median + spread], stalled }
    }

    #[test]
    fn the_cliff_of_the_mailing_list_post_lies_between_723_and_724_bytes() {
        // 47.68 and 279.62 calls a second.
        let of = |size, median| times(size, median, 0.1, 0.0);
        let found = cliffs(&[of(724, 3.58), of(722, 21.0), of(725, 3.6), of(723, 20.97)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].slow, found[0].fast), (723, 724));
        assert!((found[0].factor - 5.86).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn on_a_long_path_a_stall_is_no_factor_and_still_a_cliff() {
        let found = cliffs(&[times(1447, 250.0, 1.0, 1.0), times(1448, 200.0, 1.0, 0.0)]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn jitter_a_slope_and_noise_of_microseconds_are_no_cliffs() {
        let of = |size, median| times(size, median, 0.0, 0.0);
        assert_eq!(cliffs(&[of(1, 1.0), of(2, 2.9), of(3, 8.0), of(4, 20.0)]), []);
        assert_eq!(cliffs(&[of(64, 0.02), of(65, 0.3)]), []);
        assert_eq!(cliffs(&[of(1000, 10.0), of(8000, 80.0)]), [], "as the bytes have it");
        assert_eq!(cliffs(&[times(64, 10.0, 8.0, 0.0), times(65, 40.0, 30.0, 0.0)]), []);
        assert_eq!(cliffs(&[of(64, 0.02)]), []);
        assert_eq!(cliffs(&[]), []);
    }

    #[test]
    fn calls_are_sooner_the_same_or_nobody_knows() {
        let effect = |plain: &[f64], changed: &[f64]| compare(plain, changed, 30.0).effect;
        assert_eq!(effect(&[40.2; 9], &[0.2; 5]), CallEffect::Sooner);
        assert_eq!(effect(&[60.20; 9], &[60.22; 5]), CallEffect::Same);
        assert_eq!(effect(&[60.20; 9], &[60.18; 5]), CallEffect::Same);
        assert_eq!(effect(&[40.2; 9], &[0.2; 4]), CallEffect::Unknown, "four may be chance");
        assert_eq!(effect(&[], &[0.2; 5]), CallEffect::Unknown);
        let varies =
            |plus: f64| -> Vec<f64> { (0..30).map(|i| plus + f64::from(i * 37 % 101)).collect() };
        assert_eq!(effect(&varies(40.0), &varies(0.0)[1..6]), CallEffect::Unknown);
        assert_eq!(effect(&varies(40.0), &varies(0.0)), CallEffect::Sooner);
        assert_eq!(effect(&[&[0.2; 15][..], &[40.2; 15]].concat(), &[0.2; 5]), CallEffect::Unknown);
    }
}
