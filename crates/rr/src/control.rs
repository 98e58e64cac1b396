//! Whether calls waited for an ACK that this end delayed: the same calls again, with that ACK sent at once. Pure.
//!
//! ```text
//!   the server holds the rest     part ─ ACK 40 ms later ─ round trip ─ rest      at once: part ─ round trip ─ rest
//!   its program takes the time    part ─────────────────────────────── rest      at once: the same, held meanwhile or not
//!   the line is slow              part ── part ── part ── part ── part           at once: the same
//! ```
//!
//! A rest that comes after a delayed ACK need not come because of it; one that comes sooner by that delay when the ACK does, was held for
//! it. Both answers are judged by the order of the times alone (rank sum test), so that a path that varies gives neither. (What Nagle's rule costs here
//! is asked in the same way: nagle.rs.)

use crate::client::Call;
use serde::Serialize;

/// The least delay of an ACK (`TCP_DELACK_MIN`, include/net/tcp.h: 40 ms), less the longest tick of a kernel's clock.
pub(crate) const LEAST_DELAY_MS: f64 = 30.0;

/// The longest (`TCP_DELACK_MAX`, include/net/tcp.h: 200 ms), and the longest tick.
const LONGEST_DELAY_MS: f64 = 210.0;

/// After how many control calls their times are looked at, and the chance of being wrong that is put up with then: 5 % together.
pub(crate) const LOOKS: [(usize, f64); 2] = [(5, 0.01), (30, 0.04)];

/// Most calls that are compared with control calls: the last ones.
pub(crate) const MOST_COMPARED: usize = 30;

/// What control calls tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// With the ACK at once the rest came sooner: it was held for it.
    Sooner,
    /// It took as long: something else took the time.
    Same,
    /// The times leave both open.
    #[default]
    Unknown,
}

/// Calls that were made after the others to compare them with: all is as in those but for one thing.
#[derive(Debug, Clone, Default)]
pub struct ControlCalls {
    /// In these this end sent its ACKs at once.
    pub at_once: Vec<Call>,
    /// In these this end had `TCP_NODELAY` set.
    pub no_delay: Vec<Call>,
    /// In these the server sent its ACKs at once.
    pub at_once_there: Vec<Call>,
}

/// Control calls beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Controls {
    pub(crate) verdict: Verdict,
    /// How many there were.
    pub(crate) calls: usize,
    /// From the first part of a reply to its last, least and most of all control calls, in milliseconds.
    least_ms: f64,
    most_ms: f64,
}

impl Controls {
    /// What they tell of calls of which some may have waited.
    pub(crate) fn of(calls: &[Call], controls: &[Call]) -> Self {
        let Some(first) = calls.iter().position(Call::may_be_held_there) else {
            return Self::default();
        };
        let with = took(controls);
        // Without the call that was chosen for what it took: the rest was not.
        let mut plain = took(&calls[first + 1..]);
        plain.drain(..plain.len().saturating_sub(MOST_COMPARED));
        let chance = LOOKS.iter().rev().find(|(calls, _)| with.len() >= *calls);
        Self {
            verdict: chance.map_or(Verdict::Unknown, |(_, chance)| {
                verdict(&plain, &with, LEAST_DELAY_MS, *chance).0
            }),
            calls: with.len(),
            least_ms: with.iter().copied().reduce(f64::min).unwrap_or(0.0),
            most_ms: with.iter().copied().reduce(f64::max).unwrap_or(0.0),
        }
    }

    /// Whether this call's reply took what those of control calls did, and the delay of an ACK.
    pub(crate) fn explain(&self, call: &Call) -> bool {
        let beyond = self.least_ms + LEAST_DELAY_MS..=self.most_ms + LONGEST_DELAY_MS;
        beyond.contains(&call.gathering_ms())
    }
}

/// How long replies took from their first part to their last, of calls in which this end sent nothing again.
fn took(calls: &[Call]) -> Vec<f64> {
    let good = calls.iter().filter(|c| c.latency_ns.is_some() && c.retransmits == 0);
    good.map(Call::gathering_ms).collect()
}

/// Whether `with` are sooner than `plain` by so many milliseconds, or not; and by how many they are in the median.
pub(crate) fn verdict(plain: &[f64], with: &[f64], least_ms: f64, chance: f64) -> (Verdict, f64) {
    let shift = |by: f64| -> Vec<f64> { plain.iter().map(|ms| ms - by).collect() };
    let differences: Vec<f64> =
        plain.iter().flat_map(|p| with.iter().map(move |w| p - w)).collect();
    let Some(typical) = quell_stats::median(&differences) else { return (Verdict::Unknown, 0.0) };
    let sooner = chance_of_less(with, plain) <= chance;
    let same = chance_of_less(&shift(least_ms), with) <= chance;
    let verdict = match typical >= least_ms / 2.0 {
        true if sooner => Verdict::Sooner,
        false if same => Verdict::Same,
        _ => Verdict::Unknown,
    };
    (verdict, typical)
}

/// The chance that values of one kind split in two have as many pairs in which that of `less` is the lesser one, or more (Mann and
/// Whitney, exact; equal ones do not count).
fn chance_of_less(less: &[f64], more: &[f64]) -> f64 {
    let pairs = less.iter().map(|l| more.iter().filter(|m| l < m).count()).sum::<usize>();
    let (n, m) = (less.len(), more.len());
    // Of `i` and `j` values: the chance of each number of pairs. The greatest of all values is one of the `j` with chance j / (i + j), and
    // makes `i` pairs then.
    let mut row: Vec<Vec<f64>> = Vec::new();
    for i in 0..=n {
        let above = std::mem::take(&mut row);
        for j in 0..=m {
            let mut chances = vec![0.0; i * j + 1];
            if i == 0 || j == 0 {
                chances[0] = 1.0;
            } else {
                let all = (i + j) as f64;
                for (u, chance) in above[j].iter().enumerate() {
                    chances[u] += chance * i as f64 / all;
                }
                for (u, chance) in row[j - 1].iter().enumerate() {
                    chances[u + i] += chance * j as f64 / all;
                }
            }
            row.push(chances);
        }
    }
    row.last().map_or(1.0, |chances| chances[pairs.min(chances.len())..].iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chances_of_an_order_are_exact() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(chance_of_less(&[1.0, 2.0], &[3.0, 4.0, 5.0]), 0.1);
        near(chance_of_less(&[1.0, 3.0], &[2.0, 4.0, 5.0]), 0.2);
        near(chance_of_less(&[9.0, 9.0], &[9.0, 9.0]), 1.0);
        near(chance_of_less(&[], &[1.0]), 1.0);
    }

    fn verdict(plain: &[f64], with: &[f64], chance: f64) -> Verdict {
        super::verdict(plain, with, LEAST_DELAY_MS, chance).0
    }

    #[test]
    fn a_rest_that_comes_as_late_was_not_held_and_one_that_comes_sooner_was() {
        assert_eq!(verdict(&[40.2; 9], &[0.2; 5], 0.01), Verdict::Sooner);
        assert_eq!(verdict(&[60.20; 9], &[60.22; 5], 0.01), Verdict::Same);
        assert_eq!(verdict(&[60.20; 9], &[60.18; 5], 0.01), Verdict::Same);
        assert_eq!(verdict(&[40.2], &[0.2; 5], 0.01), Verdict::Unknown, "one call may be chance");
        assert_eq!(verdict(&[], &[0.2; 5], 0.01), Verdict::Unknown);
        let varies =
            |plus: f64| -> Vec<f64> { (0..30).map(|i| plus + f64::from(i * 37 % 101)).collect() };
        assert_eq!(verdict(&varies(40.0), &varies(0.0)[1..6], 0.01), Verdict::Unknown);
        assert_eq!(verdict(&varies(50.0), &varies(0.0), 0.04), Verdict::Sooner);
        assert_eq!(verdict(&varies(0.0), &varies(0.0), 0.04), Verdict::Same);
    }
}
