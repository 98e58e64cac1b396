//! How long a packet takes one way over an idle line, beyond the time of its bits.

use crate::bounded::Bounded;
use quell_model::EchoSample;

/// Share of the quickest that are left out: a clock that was read late makes a packet quick.
const QUICKEST: f64 = 0.01;
/// A clock's reading, in seconds.
const CLOCK_S: f64 = 20e-6;

/// Seconds. `bits` are those of a ping's own bits; where the rate varies, the quickest pings took the fewest. Where both ends have clocks of their own, half of the round trip, and anything up to all of it.
pub fn base_delay(
    idle: &[EchoSample],
    up: bool,
    bits: Bounded,
    one_clock: bool,
) -> Result<Bounded, &'static str> {
    let way = |ping: &EchoSample| if up { ping.up_ns } else { ping.down_ns };
    let answered = || idle.iter().filter(|ping| ping.status.is_answered());
    let ways: Vec<f64> = answered().filter_map(way).map(|ns| ns as f64 / 1e9).collect();
    let rtts: Vec<f64> = answered().filter_map(|p| p.rtt_ns).map(|ns| ns as f64 / 1e9).collect();
    if ways.len() < 20 {
        return Err("fewer than 20 pings over the idle line came back");
    }
    let at = |values: &[f64], p| quell_stats::quantile(values, p).unwrap_or(f64::NAN);
    let (least, rtt) = (at(&ways, QUICKEST), at(&rtts, QUICKEST));
    if !one_clock {
        let most = (rtt - bits.low).max(0.0);
        return Ok(Bounded::new((rtt / 2.0 - bits.value).max(0.0), (0.0, most)));
    }
    if least < 0.0 || least > rtt {
        return Err("both ends do not have one clock");
    }
    // A quarter of the pings were so quick at least: what they waited for varies.
    let spread = (at(&ways, 0.25) - least).max(CLOCK_S);
    let [value, low, high] =
        [least - bits.value, least - bits.high - spread, least - bits.low + spread];
    Ok(Bounded::new(value.max(0.0), (low.max(0.0), high.max(0.0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::EchoStatus;

    fn pings(way: impl Fn(u64) -> i64) -> Vec<EchoSample> {
        (0..100)
            .map(|n| EchoSample {
                up_ns: Some(way(n)),
                down_ns: Some(20_000_000 - way(n)),
                rtt_ns: Some(20_000_000),
                ..EchoSample::new(0, n, 56, EchoStatus::Ok)
            })
            .collect()
    }

    fn bits(s: f64) -> Bounded {
        Bounded::new(s, (s, s))
    }

    #[test]
    fn the_time_of_its_own_bits_is_no_delay_of_the_line() {
        let told = base_delay(&pings(|_| 10_784_000), true, bits(784e-6), true).expect("they came");
        assert!((told.value - 0.01).abs() < 1e-6 && told.high - told.low < 1e-4, "{told:?}");
        let clocks = base_delay(&pings(|_| -5_000_000), true, bits(784e-6), true);
        assert!(clocks.is_err_and(|why| why.contains("one clock")));
        // A rate that varied was fast enough for 0.2 ms at the best.
        let varying = Bounded::new(2e-4, (2e-4, 784e-6));
        let told = base_delay(&pings(|_| 10_200_000), true, varying, true).expect("they came");
        assert!((told.value - 0.01).abs() < 1e-6 && told.low < 0.0095, "{told:?}");
        assert!(base_delay(&[], true, bits(0.0), true).is_err());
    }

    #[test]
    fn between_clocks_that_may_differ_only_the_round_trip_is_known() {
        for apart_ns in [-30_000_000, 0, 3_000_000] {
            let told = base_delay(&pings(|_| 12_000_000 + apart_ns), true, bits(0.0), false);
            let told = told.expect("they came");
            assert_eq!((told.low, told.value, told.high), (0.0, 0.01, 0.02), "{apart_ns}");
        }
    }
}
