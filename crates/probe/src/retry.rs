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
//! - a connect that none of the next overtook, none of five or more, took as long as the path did then: a loss would have held it alone,
//!   unless the second SYN took as long as the path did right before or after: then a burst may have hit all of them;
//! - one that was overtaken, by others or by its own second SYN, is lost where the path does not hold one exchange back by so much: where
//!   it took at least twice as far from the least as those around it, and so many are certain that this is no chance; and where neither
//!   right before nor right after it the path was as slow as the answer.
//!
//! No endpoint can rule out that the second SYN overtook the first. A loss is told all the same where no connect sent right before or right
//! after was as slow: what is assumed is that a path does not hold back one connect by a second and none beside it, nor as few in a row as
//! single losses would hit. Where the delay falls by a second, those sent just before were slow, and nobody can know; nor of longer rows:
//! an outage and a slow path of less than a second look alike.
//!
//! All else nobody can know. A connect is judged when no answer would be waited for any more, or at the end, by all that was seen until
//! then.

use std::collections::VecDeque;

/// The kernel sends a SYN again after so long (`TCP_TIMEOUT_INIT`, include/net/tcp.h), and a server its answer.
pub(crate) const REPEAT_NS: u64 = 1_000_000_000;
/// Connects that are remembered: more than begin until one is judged.
const REMEMBERED: usize = 8192;
/// The least of so many answers is one to a first SYN, although each of them came after the SYN was sent again: else all were lost.
const FEW: u64 = 8;
/// Connects behind another, none of which overtook it, that are not all lost with it.
const FOLLOWERS: usize = 5;
/// Chance of a verdict that would be wrong, where delays spread evenly over a range as wide as the exchange's that is judged.
const CHANCE: f64 = 1e-4;
/// What is certain right before and right after a connect: so many tell how slow the path was.
const NEAREST: usize = 3;
/// So many tell how far its delays vary.
const AROUND: usize = 16;
/// A second SYN's round trip is that of the path where it differs from it by this part of what the first SYN's would.
const NEARLY: u64 = 8;
/// So many in a row may be lost where nothing else is.
const IN_A_ROW: u64 = 2;
/// Longer rows are single losses where these make so many of them.
const ROWS: f64 = 0.05;
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
    /// Whether the answer may be to the first SYN, as far as its timestamp says.
    pub fn may_be_to_first(&self) -> bool {
        self.is_to_first != Some(false)
    }

    fn ended_ns(&self) -> u64 {
        self.begun_ns.saturating_add(self.took_ns)
    }

    fn is_overtaken_by(&self, quick: &Self) -> bool {
        quick.begun_ns > self.begun_ns && quick.ended_ns() < self.ended_ns()
    }
}

/// The least and the most time that some took.
#[derive(Debug, Clone, Copy)]
struct Range {
    least_ns: u64,
    most_ns: u64,
}

impl Range {
    fn of<'a>(exchanges: impl Iterator<Item = &'a Exchange>) -> Option<Self> {
        let widen = |range: Option<Self>, e: &Exchange| {
            let Self { least_ns, most_ns } =
                range.unwrap_or(Self { least_ns: e.took_ns, most_ns: 0 });
            Some(Self { least_ns: least_ns.min(e.took_ns), most_ns: most_ns.max(e.took_ns) })
        };
        exchanges.fold(None, widen)
    }

    fn spread_ns(self) -> u64 {
        self.most_ns - self.least_ns
    }

    /// How far a time lies outside.
    fn outside_ns(self, ns: u64) -> u64 {
        ns.saturating_sub(self.most_ns).max(self.least_ns.saturating_sub(ns))
    }
}

/// What the connects of one stream tell about each other.
#[derive(Debug, Default)]
pub struct Retries {
    least_ns: Option<u64>,
    /// The least of all that may be to a first SYN, and how many these are.
    least_of_all: Option<(u64, u64)>,
    /// As they were begun.
    certain: VecDeque<Exchange>,
    /// These and those that are not.
    answered: VecDeque<Exchange>,
}

impl Retries {
    /// A connect was answered.
    pub fn answered(&mut self, exchange: Exchange) {
        remember(&mut self.answered, exchange);
        if exchange.may_be_to_first() {
            let (least, count) = self.least_of_all.unwrap_or((u64::MAX, 0));
            self.least_of_all = Some((least.min(exchange.took_ns), count + 1));
        }
    }

    /// That its time is a round trip is certain.
    pub fn certain(&mut self, exchange: Exchange) {
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
        let spread_ns = Range::of(seen.iter()).map_or(0, Range::spread_ns);
        spread_ns.saturating_mul(7) / (seen.len() as u64).max(1)
    }

    /// Whether a connect whose SYN was sent again was answered by the first exchange, for certain.
    pub fn is_answer(&self, exchange: &Exchange) -> bool {
        let Some(least_ns) = self.least_ns().filter(|_| exchange.may_be_to_first()) else {
            return false;
        };
        let sooner_ns = (least_ns + REPEAT_NS).saturating_sub(exchange.took_ns);
        sooner_ns > 0 && self.below_ns() < sooner_ns
            || self.is_in_step(exchange, least_ns)
                && !self.is_far(exchange)
                && !self.is_second_usual(exchange)
    }

    /// What became of the first exchange of a connect whose SYN was sent again.
    pub fn judge(&self, exchange: &Exchange) -> First {
        if self.is_answer(exchange) {
            return First::Answered;
        }
        let is_overtaken = !exchange.may_be_to_first()
            || self.begun_behind(exchange, exchange.took_ns).any(|e| exchange.is_overtaken_by(e));
        let is_lost = is_overtaken
            && self.is_far(exchange)
            && self.was_quicker_around(exchange)
            && self.is_single(exchange);
        if is_lost { First::Lost } else { First::Unsure }
    }

    /// Those that were begun after it, and sooner than so long after it.
    fn begun_behind(&self, slow: &Exchange, within_ns: u64) -> impl Iterator<Item = &Exchange> {
        let (after, before) = (slow.begun_ns, slow.begun_ns.saturating_add(within_ns));
        let from = self.answered.partition_point(|e| e.begun_ns <= after);
        self.answered.range(from..).take_while(move |e| e.begun_ns < before)
    }

    /// Whether enough came behind it and none overtook it.
    fn is_in_step(&self, slow: &Exchange, least_ns: u64) -> bool {
        // Were its first exchange lost, the SYN that was answered was sent so long after it, or sooner.
        let within_ns = slow.took_ns.saturating_sub(least_ns);
        let mut followers = 0;
        for follower in self.begun_behind(slow, within_ns) {
            if slow.is_overtaken_by(follower) {
                return false;
            }
            followers += 1;
        }
        followers >= FOLLOWERS
    }

    /// What is certain of those that were begun last before it and first after it, the nearest first.
    fn around(
        &self,
        exchange: &Exchange,
        count: usize,
    ) -> [impl Iterator<Item = &Exchange> + use<'_>; 2] {
        let [before, after] = [
            self.certain.partition_point(|e| e.begun_ns < exchange.begun_ns),
            self.certain.partition_point(|e| e.begun_ns <= exchange.begun_ns),
        ];
        let last = before.saturating_sub(count)..before;
        let first = after..(after + count).min(self.certain.len());
        [last, first].map(|places| self.certain.range(places))
    }

    /// Whether one of its later SYNs would have taken as long as the path did right before or after.
    fn is_second_usual(&self, exchange: &Exchange) -> bool {
        self.around(exchange, NEAREST).into_iter().filter_map(Range::of).any(|range| {
            let near_ns = range.spread_ns().max(range.outside_ns(exchange.took_ns) / NEARLY);
            (1..=exchange.took_ns / REPEAT_NS)
                .any(|n| range.outside_ns(exchange.took_ns - n * REPEAT_NS) <= near_ns)
        })
    }

    /// Whether right before it, and right after it if there is something, the path was quicker than its answer, and would have been had it
    /// changed once more by as much as it did there.
    fn was_quicker_around(&self, exchange: &Exchange) -> bool {
        let [before, after] = self.around(exchange, NEAREST).map(Range::of);
        let is_quicker = |range: Range| range.most_ns + range.spread_ns() < exchange.took_ns;
        before.is_some_and(is_quicker) && after.is_none_or(is_quicker)
    }

    /// Whether so many in a row are of single losses as the others are.
    fn is_single(&self, exchange: &Exchange) -> bool {
        let [before, after] = self.around(exchange, 1).map(|mut side| side.next());
        let from =
            before.map_or(0, |e| self.answered.partition_point(|a| a.begun_ns <= e.begun_ns));
        let to = after.map_or(self.answered.len(), |e| {
            self.answered.partition_point(|a| a.begun_ns < e.begun_ns)
        });
        let row = (to - from) as u64;
        let all = self.answered.len() as u64;
        let since_ns = self.answered.front().map_or(0, |e| e.begun_ns);
        let certain = self.certain.len() - self.certain.partition_point(|e| e.begun_ns < since_ns);
        let others = all.saturating_sub(certain as u64).saturating_sub(row);
        let part = others as f64 / all.max(1) as f64;
        row <= IN_A_ROW || all as f64 * part.powf(row as f64) >= ROWS
    }

    /// Whether it is far from those around it that are certain, and these lie closer together than chance would have it.
    fn is_far(&self, slow: &Exchange) -> bool {
        let around = || self.around(slow, AROUND).into_iter().flatten();
        let Some(range) = Range::of(around()) else { return false };
        // Of one whose second SYN was there first the first one is that much later at least.
        let far_ns = match slow.is_to_first {
            Some(false) => REPEAT_NS,
            _ => slow.took_ns.saturating_sub(range.least_ns),
        };
        let spread_ns = range.spread_ns().max(SAME_NS) as f64;
        // So many values spread evenly over a second, behind which none is certain, lie all within this part of it.
        let (count, part) = (around().count() as f64, spread_ns / REPEAT_NS.min(far_ns) as f64);
        let is_wide = range.spread_ns() > SEEN_NS || spread_ns * FAR > far_ns as f64;
        !is_wide && count * part.powf(count - 1.0) < CHANCE
    }
}

/// Enters it in the order in which they were begun.
fn remember(exchanges: &mut VecDeque<Exchange>, exchange: Exchange) {
    let place = exchanges.partition_point(|e| e.begun_ns <= exchange.begun_ns);
    exchanges.insert(place, exchange);
    if exchanges.len() > REMEMBERED {
        exchanges.pop_front();
    }
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

    /// How a path treats a packet that is sent at this time: how long it takes, in milliseconds; none where it is lost.
    type Way<'a> = &'a dyn Fn(u64, &mut Rng) -> Option<u64>;

    /// The answers to a connect each so many milliseconds on such a path, as the kernels make them: SYNs and their answers are sent again each
    /// second until an answer came. Whether the first exchange was lost.
    fn connects(
        every_ms: u64,
        count: u64,
        is_open: bool,
        up: Way<'_>,
        down: Way<'_>,
        rng: &mut Rng,
    ) -> (Vec<(u64, Option<bool>)>, Vec<bool>) {
        let mut connect = |n: u64| {
            let begun = n * every_ms;
            let there: Vec<Option<u64>> =
                (0..8).map(|k| Some(k * 1000 + up(begun + k * 1000, rng)?)).collect();
            let mut back = |sent: u64| Some(sent + down(begun + sent, rng)?);
            let first_back = there[0].and_then(&mut back);
            let first_there = (0..8).filter_map(|k| Some((there[k]?, k))).min();
            let mut came: Vec<u64> =
                there[1..].iter().flatten().filter_map(|at| back(*at)).chain(first_back).collect();
            // A server that waits for the handshake to end sends its answer again.
            if let Some((at, _)) = first_there.filter(|_| is_open) {
                came.extend((1..6).filter_map(|k| back(at + k * 1000)));
            }
            let took = came.into_iter().min().unwrap_or(59_000);
            let is_to_first = if took < 1000 {
                Some(true)
            } else {
                first_there.map(|f| f.1 == 0).filter(|_| is_open)
            };
            ((took, is_to_first), first_back.is_none())
        };
        (0..count).map(&mut connect).unzip()
    }

    /// Delays that change at a moment, with and without losses: no verdict is wrong, and where nothing changes none is open but for the first.
    #[test]
    fn where_the_delay_falls_by_more_than_a_second_no_first_syn_that_was_overtaken_is_lost() {
        // From, to, until when it is the first, and by how much it varies either way; in milliseconds, and losses in percent.
        let stories: [(u64, u64, u64, u64, u64); 12] = [
            (1300, 50, 6000, 0, 0),
            (2500, 50, 6000, 0, 0),
            (1300, 50, 6000, 0, 12),
            (2600, 1100, 5000, 0, 0),
            (3300, 900, 4000, 20, 5),
            (100, 1300, 4000, 0, 12),
            (100, 1300, 4000, 30, 0),
            (1100, 100, 4000, 90, 0),
            (40, 40, 0, 0, 0),
            (1500, 1500, 0, 1000, 0),
            (1000, 1000, 0, 1000, 10),
            (600, 600, 0, 500, 20),
        ];
        let (mut wrong, mut judged) = (Vec::new(), 0);
        for seed in 0..24u64 {
            for (index, (from, to, until, vary, loss)) in stories.into_iter().enumerate() {
                let mut rng = Rng::new(seed * 100 + index as u64);
                let slow = |at: u64, rng: &mut Rng| {
                    let delay = if at < until { from } else { to };
                    let delay = delay.saturating_sub(vary) + rng.below(2 * vary + 1);
                    (rng.below(100) >= loss).then_some(delay)
                };
                let quick = |_: u64, _: &mut Rng| Some(100);
                let ways: [Way<'_>; 2] = [&slow, &quick];
                let (up, down) = (ways[seed as usize % 2], ways[1 - seed as usize % 2]);
                let every = [50, 200, 40, 1000][seed as usize / 2 % 4];
                let is_open = seed / 8 != 1;
                let (times, lost) = connects(every, 12_000 / every, is_open, up, down, &mut rng);
                let fates = path(every, &times);
                for (n, (fate, lost)) in fates.iter().zip(&lost).enumerate() {
                    let said = match fate {
                        Some(First::Lost) => true,
                        Some(First::Answered) => false,
                        _ => continue,
                    };
                    judged += 1;
                    if said != *lost {
                        wrong.push((seed, index, n, times[n].0, *fate));
                    }
                }
            }
        }
        let few: Vec<_> = wrong.iter().take(40).collect();
        assert!(judged > 5000 && wrong.len() <= 2, "{} of {judged}: {few:?}", wrong.len());
    }

    #[test]
    fn on_a_path_that_does_not_change_each_loss_but_that_of_the_first_is_known() {
        for (delay, loss) in [(20, 1), (20, 10), (150, 35), (1300, 10), (20, 20)] {
            for seed in 0..12 {
                let mut rng = Rng::new(seed);
                let way = move |_: u64, rng: &mut Rng| {
                    (rng.below(100) >= loss).then_some(delay + rng.below(3))
                };
                let sure = |_: u64, _: &mut Rng| Some(15);
                let (times, lost) = connects(100, 300, seed % 2 == 0, &way, &sure, &mut rng);
                let fates = path(100, &times);
                let truth = lost.iter().filter(|lost| **lost).count();
                let (sure, may_be) = (count(&fates, First::Lost), count(&fates, First::Unsure));
                assert!(sure <= truth && truth <= sure + may_be, "{sure} {truth} {may_be}");
                assert!(may_be <= 3 + truth / 20, "{delay} ms, {loss} %: {sure} {truth} {may_be}");
            }
        }
    }

    /// Nothing gets through for a second; or it takes 1.2 s longer for that second. Nobody can tell these from each other.
    #[test]
    fn an_outage_and_a_slow_second_are_not_told_from_each_other() {
        for is_outage in [true, false] {
            let way = |at: u64, _: &mut Rng| match (3000..4000).contains(&at) {
                true if is_outage => None,
                true => Some(1300),
                false => Some(100),
            };
            let sure = |_: u64, _: &mut Rng| Some(100);
            for is_open in [true, false] {
                for (up, down) in [(&way as Way<'_>, &sure as Way<'_>), (&sure, &way)] {
                    let mut rng = Rng::new(1);
                    let (times, _) = connects(50, 200, is_open, up, down, &mut rng);
                    let fates = path(50, &times);
                    let told = [First::Lost, First::Answered].map(|fate| count(&fates, fate));
                    assert_eq!((told, count(&fates, First::Unsure)), ([0, 0], 20), "{is_outage}");
                }
            }
        }
    }
}
