//! What a change changed for calls that waited. Pure.
//!
//! A cure that leaves as many calls as slow as the ones that stalled has refuted their cause, whatever the evidence was.

use crate::sweep::Row;
use serde::Serialize;

/// Chance of being wrong that is put up with.
const CHANCE: f64 = 0.05;

/// The least delay of any cause: what a call that waited no more is faster by.
const LEAST_MS: f64 = crate::control::LEAST_DELAY_MS;

/// What a change did to calls of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mended {
    /// No call is as slow as those that waited.
    All,
    /// Fewer are.
    Some,
    /// As many are, but calls as a whole take less.
    Faster,
    /// As many are: the change had nothing to do with what they waited for.
    Nothing,
    /// Too few calls waited to tell.
    Unknown,
}

impl Mended {
    /// Of the calls of one size before and after a change; none where none waited before.
    pub fn of(before: &Row, after: &Row) -> Option<Self> {
        let waited = before.stalls.waited_ms? - LEAST_MS;
        let slow = |row: &Row| row.times_ms.iter().filter(|ms| **ms >= waited).count();
        let (a, b) = (slow(before), slow(after));
        let fewer = chance_of_fewer(a, before.times_ms.len(), b, after.times_ms.len()) <= CHANCE;
        Some(match b {
            0 if fewer => Self::All,
            0 => Self::Unknown,
            _ if fewer => Self::Some,
            _ if are_faster(before, after) => Self::Faster,
            _ => Self::Nothing,
        })
    }
}

/// Whether fewer calls after a change are among the slower half of all: of calls that waited unequally long, the quicker ones may be no faster
/// than all are afterwards.
fn are_faster(before: &Row, after: &Row) -> bool {
    let mut all: Vec<f64> = [&before.times_ms[..], &after.times_ms].concat();
    all.sort_by(f64::total_cmp);
    let Some(middle) = all.get(all.len() / 2) else { return false };
    let slower = |row: &Row| row.times_ms.iter().filter(|ms| *ms >= middle).count();
    let (n, m) = (before.times_ms.len(), after.times_ms.len());
    chance_of_fewer(slower(before), n, slower(after), m) <= CHANCE
}

/// The chance that at most `b` of the `a + b` slow ones among `n + m` calls are among the `m`, if where they are is chance (Fisher's exact
/// test).
fn chance_of_fewer(a: usize, n: usize, b: usize, m: usize) -> f64 {
    let ways = |n: usize, k: usize| -> f64 {
        (0..k).map(|i| ((n - i) as f64 / (k - i) as f64).ln()).sum::<f64>()
    };
    let slow = a + b;
    let all = ways(n + m, slow);
    let chance = |b: usize| match slow - b {
        a if a > n || b > m => 0.0,
        a => (ways(n, a) + ways(m, b) - all).exp(),
    };
    (0..=b).map(chance).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_judged_by_the_calls_that_are_still_as_slow() {
        let stalls = |waited_ms| crate::cause::Stalls { waited_ms, ..Default::default() };
        let row = |slow: usize, waited_ms| Row {
            size: 64,
            calls: 30,
            lost: 0,
            lost_why: None,
            calls_per_s: 20.0,
            latency_ms: None,
            stalls: stalls(waited_ms),
            counted: None,
            finding: None,
            failed: None,
            times_ms: (0..30).map(|n| if n < slow { 60.0 } else { 20.0 }).collect(),
        };
        let change = |before, after| Mended::of(&row(before, Some(60.0)), &row(after, None));
        assert_eq!(change(30, 0), Some(Mended::All));
        assert_eq!(change(30, 10), Some(Mended::Some));
        assert_eq!(change(30, 30), Some(Mended::Nothing));
        assert_eq!(change(1, 0), Some(Mended::Unknown));
        assert_eq!(Mended::of(&row(0, None), &row(0, None)), None, "nobody waited");
        // As the lab had it: stalls of 60 ms are told of calls of 432 ms, others took 493, and with the change all take 418.
        let with = |times_ms: Vec<f64>, waited_ms| Row { times_ms, ..row(0, waited_ms) };
        let stalled = with([vec![432.6; 13], vec![493.2; 7]].concat(), Some(432.6));
        let mended = Mended::of(&stalled, &with(vec![418.2; 20], None));
        assert_eq!(mended, Some(Mended::Faster));
        assert_eq!(Mended::of(&stalled, &stalled), Some(Mended::Nothing));
    }

    #[test]
    fn as_many_slow_calls_after_as_before_are_no_change() {
        assert!(chance_of_fewer(30, 30, 30, 30) > 0.99);
        assert!(chance_of_fewer(30, 30, 29, 30) > 0.05, "one of them by chance");
        assert!(chance_of_fewer(30, 30, 0, 30) < 1e-9);
        assert!(chance_of_fewer(5, 5, 0, 5) < 0.05);
        assert!(chance_of_fewer(1, 5, 0, 5) > 0.05, "one in five is too few");
    }
}
