//! A line that is faster than a flow, seen by those pings that met the flow's segments.
//!
//! ```text
//!   full   ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓   a ping waits for what is left of a segment: any part of it alike, or for more of them
//!   faster ▓▓▓▓····▓▓▓▓····▓▓▓▓····   at the rate that was reached a segment would take as long as ▓▓▓▓····, and no ping waits for so much
//! ```
//!
//! A token bucket that the flow keeps empty is full as well: who has to wait there waits for its next segment's worth. Pings that met nothing tell of
//! neither: they may have had a queue of their own, or a token that was saved up.

/// Of what a segment takes at the rate that was reached: a ping that meets a full line waits for more with a chance of a third.
const PART: f64 = 2.0 / 3.0;
/// So improbable is what was seen, were the line full.
const CHANCE: f64 = 0.01;

/// Whether these pings rule out that the line, or a bucket of tokens, was full: `waits` are the milliseconds that the load added to each, of which those
/// above `none` met something, and `segment_ms` is what a segment takes at the rate that the flow reached.
pub fn is_faster(waits: &[f64], none: f64, segment_ms: f64) -> bool {
    let met: Vec<f64> = waits.iter().copied().filter(|wait| *wait > none).collect();
    let longer = |limit: f64| met.iter().filter(|wait| **wait > limit).count();
    let half = met.iter().copied().fold(0.0, f64::max) / 2.0;
    // Where the flow's bursts keep step with the pings, all wait alike, and that says nothing.
    let quarter = met.len() / 4;
    let is_even = quarter > 0 && (quarter..=met.len() - quarter).contains(&longer(half));
    let limit = PART * segment_ms;
    is_even && none < limit && at_most(longer(limit), met.len(), 1.0 - PART) < CHANCE
}

/// The chance that of `n` no more than `few` have what each has with a chance of `p`.
fn at_most(few: usize, n: usize, p: f64) -> f64 {
    // From the chance that none has it, each from the one before.
    let mut exactly = (1.0 - p).powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut all = exactly;
    for k in 0..few.min(n) {
        exactly *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
        all += exactly;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pings of which a part meets a line on which a segment takes so long, and waits for any part of it.
    fn waits(n: usize, meet: usize, segment_ms: f64) -> Vec<f64> {
        let met = (0..meet).map(|k| segment_ms * (k as f64 + 0.5) / meet as f64);
        met.chain(std::iter::repeat_n(0.0, n - meet)).collect()
    }

    #[test]
    fn pings_that_wait_for_less_than_a_segment_at_the_flows_rate_saw_a_faster_line() {
        // 36 of 100 Mbit/s, and 57.
        assert!(is_faster(&waits(128, 46, 0.121), 0.017, 0.339));
        assert!(is_faster(&waits(128, 73, 0.121), 0.011, 0.214));
        // A line that is full, where all meet it, and a token bucket, where a few do.
        assert!(!is_faster(&waits(128, 128, 0.121), 0.006, 0.121));
        assert!(!is_faster(&waits(128, 20, 0.605), 0.03, 0.605));
        // 90 of 100 Mbit/s are too near to it.
        assert!(!is_faster(&waits(128, 115, 0.121), 0.007, 0.134));
    }

    #[test]
    fn few_pings_and_pings_in_step_with_the_flow_tell_nothing() {
        assert!(!is_faster(&[], 0.0, 1.0));
        assert!(!is_faster(&waits(128, 8, 0.121), 0.017, 0.339));
        assert!(is_faster(&waits(128, 14, 0.121), 0.017, 0.339));
        assert!(!is_faster(&[0.1; 100], 0.017, 0.339));
        let two = [[0.1; 50], [0.09; 50]].concat();
        assert!(!is_faster(&two, 0.017, 0.339));
    }

    #[test]
    fn the_chance_is_the_binomial_distributions() {
        assert!((at_most(1, 3, 0.5) - 0.5).abs() < 1e-12);
        assert!((at_most(2, 10, 1.0 / 3.0) - 0.299_141).abs() < 1e-6);
        assert!((at_most(5, 5, 0.3) - 1.0).abs() < 1e-12);
    }
}
