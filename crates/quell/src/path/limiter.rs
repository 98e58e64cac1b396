//! Whether a limit of answers may be why probes to a hop have none. Pure.
//!
//! A limit is a bucket: tokens drop into it at a rate until it is full, an answer takes one, and without one there is none (`inet_peer_xrlim_allow`,
//! net/ipv4/inetpeer.c; policers). From when probes were sent and which were answered follows, for each rate and each size of the bucket, how many tokens
//! were in it at least and at most:
//!
//! ```text
//!   tokens     at most  ──╲      ╱──╲           answered: there was one, and is one less
//!              1 ─ ─ ─ ─ ─ ╲─ ─ ╱─ ─ ╲ ─ ─      no answer: there was less than one, or it was lost; surely lost where there was one
//!              at least ────╲──╱──────╲──
//!                            ✗ no answer
//! ```
//!
//! Rates and sizes are judged by ranges of them, halved until each range has too many losses, or a narrow one explains them.

use quell_model::{EchoSample, EchoStatus};
use std::collections::BTreeMap;

/// So many probes of a hop are remembered: a window in which none is left out, from the first loss on where there are more.
const REMEMBERED: usize = 2048;
/// A limit that explains all but one in so many of the losses, or of the answers where these are fewer, may be there.
const PART: usize = 20;
/// A tick of a kernel's clock, which limits may count in.
const TICK_S: f64 = 0.01;
/// So many ranges are looked at before it stays open.
const MOST_RANGES: usize = 20_000;
/// The narrowest ranges of rates, as a part of all, and of sizes, as a ratio.
const NARROW: (f64, f64) = (1.0 / 128.0, 1.1);

/// When it was sent, its flow and number.
type Key = (i64, u16, u64);

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// Answered after so many seconds.
    Answered(f64),
    Lost,
    /// It may have been answered.
    Unsure,
}

/// What became of the probes to a hop, by time.
#[derive(Debug, Clone, Default)]
pub struct Fates {
    probes: BTreeMap<Key, Fate>,
    /// What was sent until then, or from then on, is not remembered.
    after: Option<Key>,
    before: Option<Key>,
}

/// Rates in tokens a second, and sizes of buckets.
#[derive(Debug, Clone, Copy)]
struct Range {
    rate: (f64, f64),
    size: (f64, f64),
}

impl Fates {
    /// Takes what became of one, which may take the place of what was said before.
    pub fn take(&mut self, flow: u16, sample: &EchoSample) {
        let key = (sample.t_ns, flow, sample.seq);
        if self.after.is_some_and(|after| key <= after)
            || self.before.is_some_and(|before| key >= before)
        {
            return;
        }
        let fate = match sample.status {
            EchoStatus::Duplicate | EchoStatus::NotSent => return,
            EchoStatus::Unfinished => {
                self.probes.remove(&key);
                return;
            }
            EchoStatus::Error | EchoStatus::Unsure => Fate::Unsure,
            status if status.is_lost() => Fate::Lost,
            _ => Fate::Answered(sample.rtt_ns.unwrap_or(0) as f64 / 1e9),
        };
        self.probes.insert(key, fate);
        if self.probes.len() > REMEMBERED {
            match self.probes.first_key_value() {
                Some((_, Fate::Lost)) => {
                    self.before = self.probes.pop_last().map(|(key, _)| key);
                }
                _ => self.after = self.probes.pop_first().map(|(key, _)| key),
            }
        }
    }

    /// Whether a limit explains what has no answer, or next to all of it, as far as can be known. So many answers to others than these probes took
    /// tokens unseen.
    pub fn may_be_limited(&self, unseen: usize) -> bool {
        let first = self.probes.keys().next().map_or(0, |key| key.0);
        let probes: Vec<(f64, Fate)> = self
            .probes
            .iter()
            .map(|(key, fate)| (key.0.saturating_sub(first) as f64 / 1e9, *fate))
            .collect();
        let times = probes.iter().filter_map(|(_, fate)| match fate {
            Fate::Answered(s) => Some(*s),
            _ => None,
        });
        let (least, most, answered) = times
            .fold((f64::MAX, 0.0, 0_usize), |(least, most, n), s| {
                (s.min(least), s.max(most), n + 1)
            });
        let lost = probes.iter().filter(|(_, fate)| *fate == Fate::Lost).count();
        let mut apart: Vec<f64> = probes.windows(2).map(|two| two[1].0 - two[0].0).collect();
        apart.sort_unstable_by(f64::total_cmp);
        let usual = apart.get(apart.len() / 2).copied().unwrap_or(0.0);
        if answered == 0 || lost == 0 || usual <= 0.0 {
            return true;
        }
        let varies_s = TICK_S + f64::max(most - least, 0.0);
        // Beyond it a token is there whenever a probe comes.
        let highest = 1.0 / apart[0].max(usual / 4.0);
        let mut open = vec![Range { rate: (0.0, highest), size: (1.0, answered as f64 + 2.0) }];
        let most_lost = unseen + lost.min(answered) / PART;
        for _ in 0..MOST_RANGES {
            let Some(range) = open.pop() else { return false };
            if range.lost(&probes, varies_s, most_lost) > most_lost {
                continue;
            }
            match range.halves(highest) {
                Some(halves) => open.extend(halves),
                None => return true,
            }
        }
        true
    }
}

impl Range {
    /// How many are lost at least if any of these limits was there; counted until there are more than so many. What varies is how long probes took to
    /// get there.
    fn lost(&self, probes: &[(f64, Fate)], varies_s: f64, enough: usize) -> usize {
        let ((slow, fast), (small, large)) = (self.rate, self.size);
        let slack = fast * varies_s;
        let (mut least, mut most, mut before, mut lost) = (0.0_f64, large, 0.0, 0);
        for (at, fate) in probes {
            // Not more than it holds; but how long it was full is certain, whenever the probe came.
            let at_least = least + slow * (at - before);
            least = at_least.min(small);
            most = (most + fast * (at - before)).min(large);
            before = *at;
            match fate {
                Fate::Answered(_) => {
                    if most < 1.0 - slack {
                        // One that had no answer before was lost, and took no token.
                        lost += 1;
                        most = large;
                    }
                    least = least.max(1.0 - slack) - 1.0;
                    most -= 1.0;
                }
                Fate::Lost if at_least >= 1.0 + slack => {
                    lost += 1;
                    least -= 1.0;
                }
                Fate::Lost => most = most.min(1.0 + slack),
                Fate::Unsure => least = (least - 1.0).max(-slack),
            }
            if lost > enough {
                break;
            }
        }
        lost
    }

    /// The two halves of it, unless it is narrow.
    fn halves(self, highest: f64) -> Option<[Self; 2]> {
        let ((slow, fast), (small, large)) = (self.rate, self.size);
        let rates = (fast - slow) / highest / NARROW.0;
        let sizes = (large / small).ln() / NARROW.1.ln();
        if rates <= 1.0 && sizes <= 1.0 {
            return None;
        }
        Some(if rates >= sizes {
            let middle = (slow + fast) / 2.0;
            [Self { rate: (slow, middle), ..self }, Self { rate: (middle, fast), ..self }]
        } else {
            let middle = (small * large).sqrt();
            [Self { size: (small, middle), ..self }, Self { size: (middle, large), ..self }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Probes each so many milliseconds, of which this says whether they are answered.
    fn fates(count: u64, interval_ms: i64, mut is_answered: impl FnMut(u64) -> bool) -> Fates {
        let mut fates = Fates::default();
        for seq in 0..count {
            let status = if is_answered(seq) { EchoStatus::Ok } else { EchoStatus::Lost };
            let rtt_ns = status.is_answered().then_some(12_000_000 + seq % 3 * 1_000_000);
            let t_ns = seq as i64 * interval_ms * MS;
            fates.take(0, &EchoSample { rtt_ns, ..EchoSample::new(t_ns, seq, 56, status) });
        }
        fates
    }

    /// A bucket: its rate a second, its size and how often it is asked.
    fn bucket(rate: f64, size: f64, interval_ms: i64) -> impl FnMut(u64) -> bool {
        let mut tokens = size;
        move |_| {
            tokens = (tokens + rate * interval_ms as f64 / 1e3).min(size);
            let has = tokens >= 1.0;
            tokens -= if has { 1.0 } else { 0.0 };
            has
        }
    }

    /// The same number for the same seed and place, from 0 to 1.
    fn chance(seed: u64, at: u64) -> f64 {
        let mut z = (seed << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) as f64 / u64::MAX as f64
    }

    #[test]
    fn what_any_bucket_leaves_unanswered_it_may_have() {
        for (rate, size) in
            [(1.0, 6.0), (1.0, 1.0), (4.3, 2.0), (0.1, 3.0), (3.07, 16.3), (4.9, 50.0)]
        {
            let limited = fates(300, 200, bucket(rate, size, 200));
            assert!(limited.may_be_limited(0), "{rate} a second, {size}");
        }
        // And few of them lost beside.
        let mut limit = bucket(1.0, 6.0, 200);
        let both = fates(300, 200, |seq| chance(1, seq) > 0.02 && limit(seq));
        assert!(both.may_be_limited(0));
    }

    #[test]
    fn what_is_lost_while_tokens_must_be_there_no_bucket_explains() {
        for seed in 0..20 {
            for part in [0.3, 0.5, 0.8] {
                let lossy = fates(200, 1000, |seq| chance(seed, seq) > part);
                assert!(!lossy.may_be_limited(0), "{part}, {seed}");
            }
        }
    }

    #[test]
    fn of_few_losses_it_stays_open() {
        assert!(fates(60, 1000, |seq| seq != 30).may_be_limited(0));
        assert!(fates(3, 1000, |seq| seq != 1).may_be_limited(0));
        assert!(fates(100, 1000, |seq| seq < 60).may_be_limited(0), "an empty bucket");
        assert!(fates(100, 1000, |_| false).may_be_limited(0));
    }

    #[test]
    fn of_many_probes_those_from_the_first_loss_on_are_remembered() {
        let long = fates(10_000, 1000, |seq| seq < 3000 || chance(3, seq) > 0.3);
        assert_eq!(long.probes.len(), REMEMBERED);
        assert_eq!(long.probes.first_key_value().map(|(_, fate)| *fate), Some(Fate::Lost));
        assert!(!long.may_be_limited(0));
        // What was lost and came late was answered.
        let mut late = fates(60, 1000, |seq| seq != 30);
        let sample = EchoSample::new(30_000 * MS, 30, 56, EchoStatus::Late);
        late.take(0, &EchoSample { rtt_ns: Some(5_000_000_000), ..sample });
        assert!(!late.probes.values().any(|fate| *fate == Fate::Lost));
    }
}
