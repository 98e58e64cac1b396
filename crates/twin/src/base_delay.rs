//! How long a packet takes one way over an idle line, beyond the time of its bits.

use crate::bounded::Bounded;
use quell_model::EchoSample;

/// Share of the quickest that are left out: a clock that was read late makes a packet quick.
const QUICKEST: f64 = 0.01;
/// A clock's reading, in seconds.
const CLOCK_S: f64 = 20e-6;

/// Seconds. `each_s` are those of a ping's own bits.
pub fn base_delay(idle: &[EchoSample], up: bool, each_s: f64) -> Result<Bounded, &'static str> {
    let way = |ping: &EchoSample| if up { ping.up_ns } else { ping.down_ns };
    let answered = || idle.iter().filter(|ping| ping.status.is_answered());
    let ways: Vec<f64> = answered().filter_map(way).map(|ns| ns as f64 / 1e9).collect();
    let rtts: Vec<f64> = answered().filter_map(|p| p.rtt_ns).map(|ns| ns as f64 / 1e9).collect();
    if ways.len() < 20 {
        return Err("fewer than 20 pings over the idle line came back");
    }
    let at = |values: &[f64], p| quell_stats::quantile(values, p).unwrap_or(f64::NAN);
    let (least, rtt) = (at(&ways, QUICKEST), at(&rtts, QUICKEST));
    if least < 0.0 || least > rtt {
        return Err("the clocks of both ends differ: only the round trip is known");
    }
    let value = (least - each_s).max(0.0);
    // Half of the pings were so quick at least: what they waited for varies.
    let spread = (at(&ways, 0.25) - least).max(CLOCK_S);
    Ok(Bounded::new(value, ((value - spread).max(0.0), value + spread)))
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

    #[test]
    fn the_time_of_its_own_bits_is_no_delay_of_the_line() {
        let told = base_delay(&pings(|_| 10_784_000), true, 784e-6).expect("they came");
        assert!((told.value - 0.01).abs() < 1e-6 && told.high - told.low < 1e-4, "{told:?}");
        let clocks = base_delay(&pings(|_| -5_000_000), true, 784e-6);
        assert!(clocks.is_err_and(|why| why.contains("clocks")));
        assert!(base_delay(&[], true, 0.0).is_err());
    }
}
