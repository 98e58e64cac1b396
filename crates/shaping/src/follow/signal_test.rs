//! Whether a signal sees this line's queue: the line is loaded with more than it carries, and the signal moves, or it does not. Pure.
//!
//! ```text
//!   idle 2 s ──► load 3 s at more than the line's rate        moved: sees
//!                 │                                           not, and a part of the load was lost: blind
//!                 └─ what of it arrived                       not, and all of it arrived: unknown
//!
//!   not seen ──► load 3 s at a tenth more than arrived        the same
//! ```
//!
//! Where the line's queue is fair to flows, a ping has one of its own and waits for nobody: it would say that all is well at any rate.

use super::controller::PACKET_BITS;
use quell_stats::quantile;
use quell_units::Rate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A delay that rose by less may be anything.
const LEAST_MS: f64 = 3.0;
/// A load of which more than this part is lost was more than the line carries.
const OVERLOAD: f64 = 0.03;
/// With fewer probes a delay that did not rise tells nothing, and with fewer than the second one that did.
pub const LEAST_PROBES: usize = 20;
const LEAST_RISEN: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignalVerdict {
    Sees,
    Blind,
    Unknown,
}

/// What was measured of one signal one way, and what it means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalTest {
    pub verdict: SignalVerdict,
    /// Medians without and with the load, from the least delay.
    pub idle_ms: Option<f64>,
    pub loaded_ms: Option<f64>,
    /// Of the probes beside the load.
    pub lost_percent: f64,
    pub offered_bps: u64,
    pub arrived_bps: u64,
    /// Why it is unknown.
    pub why: Option<String>,
}

/// Delays in ms from any zero; of the loaded time also how many probes were not answered.
pub fn judge(
    idle: &[f64],
    loaded: &[f64],
    lost: usize,
    offered: Rate,
    arrived: Rate,
) -> SignalTest {
    let least = idle.iter().copied().fold(f64::INFINITY, f64::min);
    let from_least = |delays: &[f64], q| quantile(delays, q).map(|value| value - least);
    let (idle_ms, loaded_ms) = (from_least(idle, 0.5), from_least(loaded, 0.5));
    // An outage while it is idle is no spread.
    let spread = from_least(idle, 0.75).unwrap_or(0.0);
    let probes = loaded.len() + lost;
    let missing = 1.0 - arrived.bps() as f64 / offered.bps().max(1) as f64;
    // A fair queue lets a probe wait for the packet that is being sent.
    let packets_ms = 2.0 * PACKET_BITS / arrived.bps().max(1) as f64 * 1e3;
    let moved = loaded_ms.zip(idle_ms).is_some_and(|(loaded, idle)| {
        loaded - idle >= LEAST_MS.max(packets_ms).max(3.0 * (spread - idle)).max(spread)
    });
    let few = idle.len().min(loaded.len()) < LEAST_PROBES;
    let (verdict, why) = match () {
        () if moved && loaded.len() >= LEAST_RISEN => (SignalVerdict::Sees, None),
        () if few => (
            SignalVerdict::Unknown,
            Some(format!(
                "{} answers before the load and {} of {probes} beside it are too few",
                idle.len(),
                loaded.len()
            )),
        ),
        () if missing > OVERLOAD => (SignalVerdict::Blind, None),
        () => (
            SignalVerdict::Unknown,
            Some("the line carried the whole load, so that no queue had to form".to_owned()),
        ),
    };
    SignalTest {
        verdict,
        idle_ms,
        loaded_ms,
        lost_percent: 100.0 * lost as f64 / probes.max(1) as f64,
        offered_bps: offered.bps(),
        arrived_bps: arrived.bps(),
        why,
    }
}

impl SignalTest {
    /// Whether the line carried the whole load, as far as is known.
    pub fn is_carried(&self) -> bool {
        self.arrived_bps as f64 > (1.0 - OVERLOAD) * self.offered_bps as f64
    }

    /// One that could not be carried out.
    pub fn failed(why: String) -> Self {
        SignalTest {
            verdict: SignalVerdict::Unknown,
            idle_ms: None,
            loaded_ms: None,
            lost_percent: 0.0,
            offered_bps: 0,
            arrived_bps: 0,
            why: Some(why),
        }
    }
}

impl fmt::Display for SignalTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bps: u64| Rate::from_bps(bps / 10_000 * 10_000);
        match self.verdict {
            SignalVerdict::Sees => write!(f, "sees the line's queue")?,
            SignalVerdict::Blind => write!(f, "blind to the line's queue")?,
            SignalVerdict::Unknown => write!(f, "unknown whether it sees the line's queue")?,
        }
        if let Some(why) = &self.why {
            write!(f, " ({why})")?;
        }
        if let Some((idle, loaded)) = self.idle_ms.zip(self.loaded_ms) {
            write!(
                f,
                ": its delay rose by {:.1} ms while {} of {} arrived",
                loaded - idle,
                rate(self.arrived_bps),
                rate(self.offered_bps)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(middle: f64, spread: f64, count: usize) -> Vec<f64> {
        (0..count).map(|n| middle + spread * ((n * 7 % 11) as f64 / 10.0 - 0.5)).collect()
    }

    #[test]
    fn a_signal_is_believed_where_it_moves_and_refused_where_the_load_overflows_and_it_does_not() {
        let mbit = |n: u64| Rate::from_bps(n * 1_000_000);
        use SignalVerdict::{Blind, Sees, Unknown};
        let idle = around(20.0, 1.0, 100);
        // Idle, loaded, lost probes, offered, arrived.
        let cases = [
            (
                "a FIFO fills",
                &idle,
                around(180.0, 40.0, 140),
                8,
                (50, 20),
                Sees,
                "rose by 160.0 ms while 20Mbit of 50Mbit",
            ),
            (
                "fair queues upstream",
                &idle,
                around(20.4, 1.0, 150),
                0,
                (50, 20),
                Blind,
                "rose by 0.4 ms while 20Mbit of 50Mbit",
            ),
            ("a policer drops", &idle, around(20.0, 1.0, 90), 60, (50, 20), Blind, "blind"),
            (
                "fair queues of a slow line",
                &idle,
                around(24.0, 1.0, 150),
                0,
                (23, 3),
                Blind,
                "rose by 4.0 ms",
            ),
            (
                "the line carries it all",
                &idle,
                around(20.0, 1.0, 150),
                0,
                (50, 50),
                Unknown,
                "the line carried the whole load",
            ),
            (
                "an outage while it was idle",
                &[around(20.0, 1.0, 80), around(400.0, 100.0, 16)].concat(),
                around(270.0, 40.0, 140),
                8,
                (50, 20),
                Sees,
                "rose by",
            ),
            ("the far end went", &idle, Vec::new(), 3, (50, 0), Unknown, "too few"),
            ("a deep buffer", &idle, vec![1100.0; 10], 115, (50, 20), Sees, "rose by 1080"),
            ("one late answer", &idle, vec![300.0; 2], 120, (50, 1), Unknown, "too few"),
            (
                "a line with jitter",
                &around(40.0, 30.0, 100),
                around(52.0, 30.0, 150),
                0,
                (50, 20),
                Blind,
                "rose by 12",
            ),
        ];
        for (name, idle, loaded, lost, (offered, arrived), verdict, words) in cases {
            let test = judge(idle, &loaded, lost, mbit(offered), mbit(arrived));
            let said = test.to_string();
            assert!(test.verdict == verdict && said.contains(words), "{name}: {said}");
        }
    }
}
