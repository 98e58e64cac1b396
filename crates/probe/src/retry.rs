//! Whether a connect that was answered after its SYN had been sent again lost its first exchange. Pure.
//!
//! ```text
//!   k    SYN ───────────────────── SYN again ────── answer      to the first, which took long? to the second, since the first is lost?
//!   j          SYN ── answer                                    sent after it, answered before it
//! ```
//!
//! The kernel sends a SYN again after a second, and a server its answer too, so that time alone tells nothing (Karn). What tells:
//! - an answer sooner than a second and the least round trip after the first SYN can only be that to the first;
//! - the timestamp that the answer brings back is that of the first SYN which arrived there;
//! - a connect that none of the next overtook, none of five or more, took as long as the path did then: a loss would have held it alone;
//! - one that was overtaken, by others or by its own second SYN, is lost where the path does not hold one exchange back by so much: where
//!   it took at least twice as far from the least as all that are certain, or was overtaken by at least twice as much, and so many are
//!   certain that this is no chance.
//!
//! All else nobody can know. A connect is judged when no answer would be waited for any more, or at the end, by all that was seen until
//! then.

use std::collections::VecDeque;

/// The kernel sends a SYN again after so long (`TCP_TIMEOUT_INIT`, include/net/tcp.h), and a server its answer.
const REPEAT_NS: u64 = 1_000_000_000;
/// Connects that are remembered.
const REMEMBERED: usize = 1024;
/// The least of so many answers is one to a first SYN, although each of them came after the SYN was sent again: else all were lost.
const FEW: u64 = 8;
/// Connects behind another, none of which overtook it, that are not all lost with it.
const FOLLOWERS: usize = 5;
/// Chance of a verdict that would be wrong, where delays spread evenly over a range as wide as the exchange's that is judged.
const CHANCE: f64 = 1e-4;
/// So many times further than all that are certain is far: delays do not all spread evenly.
const FAR: f64 = 2.0;
/// What is certain ends a second behind the least round trip: where it reaches further than this, nobody sees how far the path's delays do.
const SEEN_NS: u64 = REPEAT_NS / 2;
/// Round trips that differ by less are the same.
const SAME_NS: u64 = 1_000;

/// What became of the first exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// It was answered; its time is the round trip.
    Answered,
    /// It was answered late, or its SYN or its answer was lost.
    Unsure,
    /// Its SYN or the answer was lost.
    Lost,
}

/// A connect that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When its first SYN was sent, in nanoseconds.
    pub begun_ns: u64,
    /// How long after that the answer came.
    pub took_ns: u64,
    /// Whether it is the answer to the first SYN, as its timestamp says; none where it has none.
    pub is_to_first: Option<bool>,
}

impl Exchange {
    fn ended_ns(&self) -> u64 {
        self.begun_ns.saturating_add(self.took_ns)
    }

    fn is_overtaken_by(&self, quick: &Self) -> bool {
        quick.begun_ns > self.begun_ns && quick.ended_ns() < self.ended_ns()
    }
}

/// What the connects of one stream tell about each other.
#[derive(Debug, Default)]
pub struct Retries {
    least_ns: Option<u64>,
    /// The least of all that may be to a first SYN, and how many these are.
    least_of_all: Option<(u64, u64)>,
    /// By how much an exchange that was certain took longer than one that overtook it.
    held_back_ns: u64,
    certain: VecDeque<Exchange>,
    /// These and those that are not.
    answered: VecDeque<Exchange>,
}

impl Retries {
    /// A connect was answered.
    pub fn answered(&mut self, exchange: Exchange) {
        remember(&mut self.answered, exchange);
        if exchange.is_to_first != Some(false) {
            let (least, count) = self.least_of_all.unwrap_or((u64::MAX, 0));
            self.least_of_all = Some((least.min(exchange.took_ns), count + 1));
        }
    }

    /// That its time is a round trip is certain.
    pub fn certain(&mut self, exchange: Exchange) {
        for other in &self.certain {
            let [slow, quick] = match exchange.begun_ns < other.begun_ns {
                true => [&exchange, other],
                false => [other, &exchange],
            };
            if slow.is_overtaken_by(quick) {
                self.held_back_ns = self.held_back_ns.max(slow.took_ns - quick.took_ns);
            }
        }
        let took_ns = exchange.took_ns;
        self.least_ns = Some(self.least_ns.map_or(took_ns, |least| least.min(took_ns)));
        remember(&mut self.certain, exchange);
    }

    /// The least round trip.
    fn least_ns(&self) -> Option<u64> {
        let of_all = self.least_of_all.filter(|(_, count)| *count >= FEW).map(|(least, _)| least);
        match (self.least_ns, of_all) {
            (Some(certain), Some(of_all)) => Some(certain.min(of_all)),
            (certain, of_all) => certain.or(of_all),
        }
    }

    /// By how much the path's least round trip may be below the least that was seen: of so many values spread evenly, a thousand times out of
    /// a thousand and one less than by this.
    fn below_ns(&self) -> u64 {
        let seen = if self.certain.len() as u64 >= FEW { &self.certain } else { &self.answered };
        let times = || seen.iter().map(|e| e.took_ns);
        let spread_ns = times().max().unwrap_or(0) - times().min().unwrap_or(0);
        spread_ns.saturating_mul(7) / (seen.len() as u64).max(1)
    }

    /// Whether a connect whose SYN was sent again was answered by the first exchange, for certain.
    pub fn is_answer(&self, exchange: &Exchange) -> bool {
        let Some(least_ns) = self.least_ns().filter(|_| exchange.is_to_first != Some(false)) else {
            return false;
        };
        exchange.took_ns.saturating_add(self.below_ns()) < least_ns + REPEAT_NS
            || self.is_in_step(exchange, least_ns) && !self.is_far(exchange)
    }

    /// What became of the first exchange of a connect whose SYN was sent again.
    pub fn judge(&self, exchange: &Exchange) -> First {
        if self.is_answer(exchange) {
            return First::Answered;
        }
        let came_second = exchange.is_to_first == Some(false);
        let overtaken_ns = self.overtaken_by(exchange);
        let in_step = !came_second
            && self.least_ns().is_none_or(|least_ns| self.is_in_step(exchange, least_ns));
        if in_step || overtaken_ns.is_none() && !came_second {
            return First::Unsure;
        }
        let behind_ns = overtaken_ns.max(came_second.then_some(REPEAT_NS)).unwrap_or(0);
        match self.is_far(exchange) || self.is_alone(exchange, behind_ns) {
            true => First::Lost,
            false => First::Unsure,
        }
    }

    /// How much longer it took than the quickest that began later and was answered before it.
    fn overtaken_by(&self, slow: &Exchange) -> Option<u64> {
        let overtook = self.answered.iter().filter(|quick| slow.is_overtaken_by(quick));
        let quickest = overtook.map(|quick| quick.took_ns).min()?;
        Some(slow.took_ns - quickest)
    }

    /// Those that were begun after it and before the SYN to which the answer would be, were the first exchange lost.
    fn followers(&self, slow: &Exchange, within_ns: u64) -> impl Iterator<Item = &Exchange> {
        let (after, before) = (slow.begun_ns, slow.begun_ns.saturating_add(within_ns));
        self.answered.iter().filter(move |e| e.begun_ns > after && e.begun_ns < before)
    }

    /// Whether enough came behind it and none overtook it.
    fn is_in_step(&self, slow: &Exchange, least_ns: u64) -> bool {
        let within_ns = slow.took_ns.saturating_sub(least_ns);
        let mut followers = 0;
        for follower in self.followers(slow, within_ns) {
            if slow.is_overtaken_by(follower) {
                return false;
            }
            followers += 1;
        }
        followers >= FOLLOWERS
    }

    /// Whether it is far from all that are certain, and these lie closer together than chance would have it.
    fn is_far(&self, slow: &Exchange) -> bool {
        let times = || self.certain.iter().map(|e| e.took_ns);
        let (Some(least), Some(most)) = (times().min(), times().max()) else { return false };
        // Of one whose second SYN was there first the first one is that much later at least.
        let far_ns = match slow.is_to_first {
            Some(false) => REPEAT_NS,
            _ => slow.took_ns.saturating_sub(least),
        };
        let spread_ns = (most - least).max(SAME_NS) as f64;
        // So many values spread evenly over a second, behind which none is certain, lie all within this part of it.
        let (count, part) = (self.certain.len() as f64, spread_ns / REPEAT_NS.min(far_ns) as f64);
        let is_wide = most - least > SEEN_NS || spread_ns * FAR > far_ns as f64;
        !is_wide && count * part.powf(count - 1.0) < CHANCE
    }

    /// Whether it was held back by far more than any that is certain, where these come so close behind each other that it would be seen.
    fn is_alone(&self, slow: &Exchange, behind_ns: u64) -> bool {
        let (after, before) = (slow.begun_ns, slow.begun_ns.saturating_add(REPEAT_NS));
        let behind = self.certain.iter().filter(|e| (after..before).contains(&e.begun_ns));
        let held_back_ns = self.held_back_ns.max(SAME_NS);
        let is_wide = held_back_ns > SEEN_NS || held_back_ns as f64 * FAR > behind_ns as f64;
        if is_wide || behind.count() < 2 * FOLLOWERS {
            return false;
        }
        let part = held_back_ns as f64 / REPEAT_NS.min(behind_ns) as f64;
        // Two values spread evenly over a second differ by no more than this part of it.
        let within = 1.0 - (1.0 - part).powi(2) / 2.0;
        within.powf(self.certain.len() as f64) < CHANCE
    }
}

fn remember(exchanges: &mut VecDeque<Exchange>, exchange: Exchange) {
    if exchanges.len() == REMEMBERED {
        exchanges.pop_front();
    }
    exchanges.push_back(exchange);
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_stats::Rng;

    const MS: u64 = 1_000_000;

    /// A connect each so many milliseconds that took so long; those of more than a second were sent again. Whether the timestamp says that
    /// it was the first SYN that was answered. What is known of each at the end; none of those that were not sent again.
    fn path(every_ms: u64, times: &[(u64, Option<bool>)]) -> Vec<Option<First>> {
        let mut retries = Retries::default();
        let exchange = |(n, (took, is_to_first)): (u64, &(u64, Option<bool>))| Exchange {
            begun_ns: n * every_ms * MS,
            took_ns: took * MS,
            is_to_first: *is_to_first,
        };
        let all: Vec<Exchange> = (0..).zip(times).map(exchange).collect();
        let mut by_end = all.clone();
        by_end.sort_unstable_by_key(Exchange::ended_ns);
        for exchange in by_end {
            retries.answered(exchange);
            if exchange.took_ns < REPEAT_NS {
                retries.certain(exchange);
            }
        }
        let mut again: Vec<_> = all.iter().filter(|e| e.took_ns >= REPEAT_NS).collect();
        again.sort_unstable_by_key(|e| e.took_ns);
        for exchange in again {
            if retries.is_answer(exchange) {
                retries.certain(*exchange);
            }
        }
        all.iter().map(|e| (e.took_ns >= REPEAT_NS).then(|| retries.judge(e))).collect()
    }

    fn count(fates: &[Option<First>], wanted: First) -> usize {
        fates.iter().filter(|fate| **fate == Some(wanted)).count()
    }

    #[test]
    fn a_queue_that_fills_and_lets_nothing_overtake_loses_nothing() {
        for stamp in [Some(true), None] {
            let times: Vec<_> = (0..80u64).map(|n| (20 + n * 90, stamp)).collect();
            let fates = path(100, &times);
            assert_eq!(count(&fates, First::Lost), 0, "{fates:?}");
            // Of those behind which nothing more came nobody can know.
            let unsure = count(&fates, First::Unsure);
            assert!(count(&fates, First::Answered) > 60 && unsure <= 5, "{fates:?}");
        }
    }

    #[test]
    fn what_later_connects_were_answered_before_is_lost_where_nothing_overtakes() {
        let mut times = [(40, Some(true)); 30];
        times[7].0 = 1040;
        // As where the times vary by some milliseconds, and one overtakes another.
        times[3].0 = 145;
        // The last has none behind it.
        times[29].0 = 1041;
        let fates = path(100, &times);
        assert_eq!((fates[7], fates[29]), (Some(First::Lost), Some(First::Unsure)));
        // Of three nobody knows how far the path lets them overtake.
        assert_eq!(
            path(100, &[(40, Some(true)), (1040, Some(true)), (300, Some(true))])[1],
            Some(First::Unsure)
        );
    }

    #[test]
    fn a_second_syn_that_was_there_first_means_a_loss_unless_the_path_may_have_held_the_first_back()
    {
        let with = |spread: u64| {
            let mut times: Vec<_> =
                (0..60u64).map(|n| (40 + n * 37 % (spread + 1), Some(true))).collect();
            times[20] = (1040, Some(false));
            path(1000, &times)[20]
        };
        assert_eq!(
            [with(0), with(400), with(800)].map(Option::unwrap),
            [First::Lost, First::Lost, First::Unsure]
        );
        assert_eq!(
            path(1000, &[(1040, Some(false))]),
            [Some(First::Unsure)],
            "nothing else is known"
        );
    }

    #[test]
    fn a_path_of_three_seconds_answers_and_what_came_a_second_later_still_is_lost() {
        for stamp in [Some(true), None] {
            let mut times = [(3000, stamp); 40];
            times[11].0 = 4000;
            let fates = path(100, &times);
            assert_eq!((fates[11], count(&fates, First::Answered)), (Some(First::Lost), 39));
        }
        let few = path(1000, &[(3000, Some(true)); 3]);
        assert_eq!(
            count(&few, First::Unsure),
            3,
            "all three may have been lost on a path of two seconds"
        );
    }

    /// Delays spread evenly over 1.4 s or more, by the interval, the number of connects and the seed; nothing is lost.
    #[test]
    fn where_answers_overtake_each_other_by_a_second_none_is_said_to_be_lost() {
        let (mut lost, mut all) = (0, 0);
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let range_ms = [1100, 1400, 1800, 3000, 9000][seed as usize % 5];
            for (every_ms, connects) in [(40, 300), (100, 100), (200, 100), (200, 10), (1000, 60)] {
                let times: Vec<_> =
                    (0..connects).map(|_| (10 + rng.below(range_ms), Some(true))).collect();
                lost += count(&path(every_ms, &times), First::Lost);
                all += connects;
            }
        }
        assert!(all > 100_000 && lost <= 2, "{lost} of {all}");
    }

    /// A fifth of the SYNs is lost. What is certain is never more than was lost, and what may be never less.
    #[test]
    fn the_true_loss_lies_between_what_is_certain_and_what_may_be() {
        for (range_ms, is_exact) in [(5, true), (300, true), (800, false), (1800, false)] {
            let mut rng = Rng::new(range_ms);
            let mut truth = 0;
            let mut time = |_| {
                let delay = 600 + rng.below(range_ms);
                let is_lost = rng.below(5) == 0;
                truth += usize::from(is_lost);
                match is_lost {
                    true => (1000 + 600 + rng.below(range_ms), Some(false)),
                    false => (delay, Some(true)),
                }
            };
            let times: Vec<_> = (0..500).map(&mut time).collect();
            let fates = path(40, &times);
            let (sure, may_be) = (count(&fates, First::Lost), count(&fates, First::Unsure));
            assert!(sure <= truth && truth <= sure + may_be, "{sure} {truth} {may_be}");
            assert_eq!(may_be == 0, is_exact, "{range_ms} ms: {sure} {truth} {may_be}");
        }
    }
}
