//! Whether Nagle's rule held the end of requests, what that cost, and whether the ACK that was waited for was delayed. Pure.
//!
//! ```text
//!   behind one segment       ── 1 ──►  ◄── ACK of 1 ──  ── 2 ──►            the line is idle for that ACK's way back: it costs
//!   behind several           ── 1 2 3 4 ──►  ◄── ACK of 2 ──  ── 5 ──►      the line may carry 3 and 4 until then: it may cost nothing
//!     the same with          ── 1 2 3 4 5 ──►                               what this takes less is what it cost
//!     TCP_NODELAY
//! ```
//!
//! Behind several, only that comparison tells, and it is made by the order of the times alone (control.rs). Whether the ACK that was waited for was
//! among those that the server's host says it delayed is told in the same way: by calls in which the server sends its ACKs at once. Of a server
//! that says nothing, what it cost beyond another whole call was the delay of an ACK.
//!
//! That host counts the ACKs of all its connections. So behind one segment too its count only supports what the times tell: a delayed ACK comes later
//! than the path has it by its timer at least.
//!
//! ```text
//!   at the server    first part ── the ACK's delay ── round trip ── rest ─ reply      the two are told: what is between the parts, and the
//!   the same call    ── a round trip, of the first part and of the reply              rest of the call, which is a round trip of the path
//! ```

use crate::client::Call;
use crate::control::{LEAST_DELAY_MS, LOOKS, MOST_COMPARED, Verdict, verdict};

/// Chance of being wrong that is put up with when only the times of a size's calls tell.
const CHANCE: f64 = 0.05;

/// What is less of a call than this share, nobody asks for.
const LEAST_SHARE: f64 = 0.02;

/// Why this end's last segment left late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It did, and waited for an ACK that was delayed.
    Delayed,
    /// It did, and nobody delayed the ACK.
    Prompt,
    /// It did; whether the ACK was delayed, nothing tells.
    Unknown,
    /// It did not leave the line idle.
    None,
    /// Whether it left the line idle, nothing tells.
    UnknownCost,
}

/// What a wait behind several segments cost, or the delay of an ACK.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Cost {
    /// Without it calls take so many milliseconds less.
    Ms(f64),
    /// They take as long.
    Nothing,
    /// The times leave both open, or nobody tried.
    #[default]
    Unknown,
}

impl Cost {
    fn ms(self) -> Option<f64> {
        match self {
            Self::Ms(ms) => Some(ms),
            Self::Nothing | Self::Unknown => None,
        }
    }
}

impl Call {
    /// Whether Nagle's rule held the end of the request: less than a full segment, though the window had room for it.
    pub(crate) fn was_nagled(&self) -> bool {
        let small = self.held > 0 && (self.mss == 0 || self.held < self.mss);
        !self.held_never
            && small
            && self.unacked > 0
            && (self.window == 0 || self.unacked < self.window)
    }

    /// Whether that was behind several segments, in a call whose time tells.
    fn was_nagled_behind_several(&self) -> bool {
        self.was_nagled() && self.unacked > 1 && self.took_ms().is_some()
    }

    /// How long it took without the server's own time, if nothing was sent again.
    fn took_ms(&self) -> Option<f64> {
        let own_ns = self.word.map_or(0, |word| word.own_ns);
        let took_ns = self.latency_ns.filter(|_| self.retransmits == 0)?;
        Some(took_ns.saturating_sub(own_ns) as f64 / 1e6)
    }

    /// Whether the server's host delayed ACKs in it, if it says.
    fn acks_delayed_there(&self) -> Option<bool> {
        Some(self.word?.delayed_acks? > 0)
    }

    /// Whether the held segment waited longer for its ACK than the rest of the call took, which is a round trip too, by what an ACK is
    /// delayed at least.
    fn waited_beyond(&self) -> bool {
        let took_ms = self.latency_ns.unwrap_or(0) as f64 / 1e6;
        took_ms - 2.0 * f64::from(self.last_sent_ms) >= LEAST_DELAY_MS
    }

    /// How long the server waited between the parts of the request, and what the rest of the call took without the server's own time, in
    /// milliseconds, where it says so and nothing was sent again.
    fn told_ms(&self) -> Option<(f64, f64)> {
        let word = self.word.filter(|word| word.delayed_acks.is_some())?;
        let between_ms = word.gathering_ns as f64 / 1e6;
        let connecting_ms = self.connecting_ns as f64 / 1e6;
        Some((between_ms, (self.took_ms()? - connecting_ms - between_ms).max(0.0)))
    }

    /// Whether its parts came so soon one after the other that no ACK between them was delayed: a round trip and less than such a delay.
    fn is_prompt_there(&self) -> bool {
        let rtt_ms = f64::from(self.min_rtt_us.unwrap_or(0)) / 1000.0;
        // A path without a delay has a round trip of a tick, as kernels say.
        let between = |(between_ms, rest_ms): (f64, f64)| between_ms - rtt_ms.min(rest_ms);
        self.told_ms().is_some_and(|told| between(told) < LEAST_DELAY_MS)
    }
}

/// What the calls of one size and those again with `TCP_NODELAY` tell of Nagle's rule.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Nagle {
    /// The times of all calls of this size behind one segment tell that ACKs were delayed.
    acks_were_late: bool,
    /// So do those of the calls in which the server's host delayed ACKs, as it says: what it waited between their parts is longer than their rest.
    told_were_late: bool,
    /// The longest round trip that the rest of any call took, in milliseconds.
    longest_ms: f64,
    /// What waits behind several segments cost: in calls in which the server's host delayed ACKs, in which it did not, in which nobody knows.
    costs: [(Option<bool>, Cost); 3],
    /// The same of all of them.
    cost_of_all: Cost,
    /// How many calls were made again with `TCP_NODELAY`.
    pub(crate) controls: usize,
    /// Their median.
    control_ms: f64,
    /// What the delay of ACKs cost of those calls in which the server's host says that it delayed some.
    delay: Cost,
    /// How many calls were made again with the server's ACKs at once.
    pub(crate) controls_there: usize,
}

impl Nagle {
    /// `no_delay`: the same calls again, with `TCP_NODELAY`; `there`: again, with the server's ACKs at once.
    pub(crate) fn of(calls: &[Call], no_delay: &[Call], there: &[Call]) -> Self {
        let with: Vec<f64> = no_delay.iter().filter_map(Call::took_ms).collect();
        let held_if = |is_alike: &dyn Fn(&Call) -> bool| {
            let several = calls.iter().filter(|c| c.was_nagled_behind_several() && is_alike(c));
            let mut held: Vec<f64> = several.filter_map(Call::took_ms).collect();
            held.drain(..held.len().saturating_sub(MOST_COMPARED));
            held
        };
        let held = |delayed: Option<bool>| held_if(&|call| call.acks_delayed_there() == delayed);
        // Over another connection: held by the same rule, and not by its window, which begins anew.
        let there = there.iter().filter(|c| c.was_nagled_behind_several());
        let prompt: Vec<f64> = there.filter_map(Call::took_ms).collect();
        Self {
            acks_were_late: acks_were_late(calls),
            told_were_late: told_were_late(calls),
            longest_ms: calls
                .iter()
                .filter_map(|call| call.told_ms())
                .map(|(_, rest_ms)| rest_ms)
                .fold(0.0, f64::max),
            costs: [Some(true), Some(false), None].map(|told| (told, cost(&held(told), &with))),
            cost_of_all: cost(&held_if(&|_| true), &with),
            controls: with.len(),
            control_ms: quell_stats::median(&with).unwrap_or(0.0),
            delay: cost(&held(Some(true)), &prompt),
            controls_there: prompt.len(),
        }
    }

    /// Whether more calls with `TCP_NODELAY` would tell more of these.
    pub(crate) fn cost_is_open(&self, calls: &[Call]) -> bool {
        let open = |call: &Call| self.cost_of(call) == Cost::Unknown;
        calls.iter().any(|call| call.was_nagled_behind_several() && open(call))
    }

    /// Whether more calls with the server's ACKs at once would.
    pub(crate) fn delay_is_open(&self, calls: &[Call]) -> bool {
        self.delay == Cost::Unknown && calls.iter().any(|call| self.may_be_delayed(call))
    }

    fn may_be_delayed(&self, call: &Call) -> bool {
        call.was_nagled_behind_several()
            && call.acks_delayed_there() == Some(true)
            && self.cost_of(call).ms().is_some()
    }

    /// What waits behind several segments cost at most, in milliseconds.
    pub(crate) fn cost_ms(&self) -> Option<f64> {
        self.costs.iter().filter_map(|(_, cost)| cost.ms()).reduce(f64::max)
    }

    /// What the delay of ACKs cost of them, in milliseconds.
    pub(crate) fn delay_ms(&self) -> Option<f64> {
        self.delay.ms()
    }

    /// Of calls like this one; of too few of them that tell nothing by themselves, what all do if that is nothing.
    fn cost_of(&self, call: &Call) -> Cost {
        let delayed = call.acks_delayed_there();
        let of = self.costs.iter().find(|(of, _)| *of == delayed);
        match (of.map_or(Cost::Unknown, |(_, cost)| *cost), self.cost_of_all) {
            (Cost::Unknown, Cost::Nothing) => Cost::Nothing,
            (cost, _) => cost,
        }
    }

    /// Whether the path took in no call of this size as long as the ACK did in this one, or in so many that it is no chance. The server's host
    /// counts ACKs that it delayed in it, of this connection or another.
    fn is_late(&self, call: &Call) -> bool {
        let is_alone = call.word.and_then(|word| word.delayed_acks) == Some(1);
        let beyond = |(between_ms, _)| between_ms - self.longest_ms >= LEAST_DELAY_MS;
        let forced = is_alone && call.told_ms().is_some_and(beyond);
        forced || self.told_were_late
    }

    /// Of a call that [`Call::was_nagled`].
    pub(crate) fn wait(&self, call: &Call) -> Wait {
        let delayed = call.acks_delayed_there();
        if call.unacked <= 1 {
            return match delayed {
                Some(true) if call.is_prompt_there() => Wait::Prompt,
                Some(true) if self.is_late(call) => Wait::Delayed,
                Some(true) => Wait::Unknown,
                None if call.waited_beyond() && self.acks_were_late => Wait::Delayed,
                None if call.waited_beyond() => Wait::Unknown,
                Some(false) | None => Wait::Prompt,
            };
        }
        let rtt_ms = f64::from(call.min_rtt_us.unwrap_or(0)) / 1000.0;
        match (self.cost_of(call), delayed) {
            (Cost::Nothing, _) => Wait::None,
            (Cost::Unknown, _) => Wait::UnknownCost,
            (Cost::Ms(_), Some(false)) => Wait::Prompt,
            // The delay may have been that of another ACK.
            (Cost::Ms(_), Some(true)) => match self.delay {
                Cost::Ms(_) => Wait::Delayed,
                Cost::Nothing => Wait::Prompt,
                Cost::Unknown => Wait::Unknown,
            },
            // A whole call is a round trip and more, however much the path varies.
            (Cost::Ms(ms), None) if ms >= self.control_ms + LEAST_DELAY_MS => Wait::Delayed,
            (Cost::Ms(ms), None) if ms < rtt_ms + LEAST_DELAY_MS => Wait::Prompt,
            (Cost::Ms(_), None) => Wait::Unknown,
        }
    }
}

/// By how much calls without Nagle's rule are sooner than those that it held.
fn cost(held: &[f64], with: &[f64]) -> Cost {
    let least_ms = quell_stats::median(held).unwrap_or(0.0) * LEAST_SHARE;
    let Some((_, chance)) = LOOKS.iter().rev().find(|(calls, _)| with.len() >= *calls) else {
        return Cost::Unknown;
    };
    match verdict(held, with, least_ms, *chance) {
        (Verdict::Sooner, ms) => Cost::Ms(ms),
        (Verdict::Same, _) => Cost::Nothing,
        (Verdict::Unknown, _) => Cost::Unknown,
    }
}

/// Whether in calls behind one segment in which the server's host delayed ACKs it waited longer between their parts than the rest of them took, more
/// than chance has it: both are one round trip if no ACK of theirs was delayed (rank sum test).
fn told_were_late(calls: &[Call]) -> bool {
    let held = calls.iter().filter(|c| c.was_nagled() && c.unacked <= 1);
    let delayed = held.filter(|c| c.acks_delayed_there() == Some(true));
    let told: Vec<(f64, f64)> = delayed.filter_map(Call::told_ms).collect();
    let last = &told[told.len().saturating_sub(MOST_COMPARED)..];
    let (between, rest): (Vec<f64>, Vec<f64>) = last.iter().copied().unzip();
    verdict(&between, &rest, LEAST_DELAY_MS, CHANCE).0 == Verdict::Sooner
}

/// Whether the waits of calls that held a segment behind one other are longer than the rest of those calls more often than chance has it: both
/// are one round trip if no ACK was delayed, so that either is the longer one as often (sign test).
fn acks_were_late(calls: &[Call]) -> bool {
    let held = calls.iter().filter(|c| c.was_nagled() && c.unacked <= 1 && c.retransmits == 0);
    let signs: Vec<bool> =
        held.filter(|c| c.latency_ns.is_some()).map(Call::waited_beyond).collect();
    let (all, late) = (signs.len(), signs.iter().filter(|late| **late).count());
    // The sum of the binomial coefficients from `late` on, over 2^all.
    let (mut term, mut chance) = (0.5_f64.powi(all.min(1000) as i32), 0.0);
    for k in 0..=all {
        if k >= late {
            chance += term;
        }
        term *= (all - k) as f64 / (k + 1) as f64;
    }
    all > 0 && all <= 1000 && chance <= CHANCE || all > 1000 && late * 10 > all * 6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::Word;

    /// A call behind so many segments, which took so long over a path of 125 ms.
    fn held(unacked: u32, took_ms: f64, delayed: Option<u32>) -> Call {
        let word = delayed.map(|delayed| Word {
            delayed_acks: Some(delayed),
            held_never: true,
            dsack: true,
            ..Word::default()
        });
        Call {
            latency_ns: Some((took_ms * 1e6) as u64),
            held: 104,
            mss: 1448,
            window: 10,
            min_rtt_us: Some(125_000),
            unacked,
            word,
            ..Call::default()
        }
    }

    /// What waits of calls that took `took_ms` are, where those with `TCP_NODELAY` took `with_ms`, and those with ACKs at once `there_ms`.
    fn wait_of(took_ms: f64, delayed: Option<u32>, with_ms: f64, there_ms: Option<f64>) -> Wait {
        let calls = vec![held(5, took_ms, delayed); 20];
        let controls = vec![held(5, with_ms, Some(0)); 5];
        let there: Vec<Call> = there_ms.map(|ms| vec![held(5, ms, Some(0)); 5]).unwrap_or_default();
        let nagle = Nagle::of(&calls, &controls, &there);
        let undecided = delayed.is_some_and(|n| n > 0) && with_ms < took_ms && there_ms.is_none();
        assert_eq!(nagle.delay_is_open(&calls), undecided);
        nagle.wait(&calls[0])
    }

    fn wait(took_ms: f64, delayed: Option<u32>, with_ms: f64) -> Wait {
        wait_of(took_ms, delayed, with_ms, None)
    }

    #[test]
    fn what_calls_behind_several_segments_take_longer_than_without_the_rule_is_what_it_cost() {
        assert_eq!(wait(385.0, Some(0), 350.0), Wait::Prompt);
        assert_eq!(wait(385.0, Some(0), 384.99), Wait::None, "the line was busy meanwhile");
        assert_eq!(wait(385.0, Some(0), 390.0), Wait::None);
        assert_eq!(wait(385.0, None, 350.0), Wait::Prompt, "a round trip explains it");
        assert_eq!(wait(385.0, None, 200.0), Wait::Unknown);
        assert_eq!(wait(485.0, None, 200.0), Wait::Delayed, "more than another whole call");
        let calls = vec![held(5, 385.0, Some(0)); 20];
        let nobody_tried = Nagle::of(&calls, &[], &[]);
        assert_eq!(nobody_tried.wait(&calls[0]), Wait::UnknownCost);
        assert!(nobody_tried.cost_is_open(&calls));
        let told = Nagle::of(&calls, &vec![held(5, 350.0, Some(0)); 5], &[]);
        assert!(!told.cost_is_open(&calls));
        assert!((told.cost_ms().unwrap() - 35.0).abs() < 1e-9);
    }

    #[test]
    fn a_delayed_ack_was_waited_for_where_calls_with_acks_at_once_are_sooner() {
        let there = |there_ms| wait_of(427.5, Some(1), 351.7, Some(there_ms));
        assert_eq!(there(384.6), Wait::Delayed);
        assert_eq!(there(427.5), Wait::Prompt, "the delay was that of another ACK");
        assert_eq!(wait(427.5, Some(1), 351.7), Wait::Unknown, "nobody tried");
        assert_eq!(wait(385.0, Some(1), 385.0), Wait::None, "busy until after that");
    }

    /// A call behind one segment over a path of 125 ms, whose parts came so long one after the other, and whose rest took so long.
    fn parts(between_ms: f64, rest_ms: f64, delayed: u32) -> Call {
        let call = held(1, between_ms + rest_ms, Some(delayed));
        let gathering_ns = (between_ms * 1e6) as u64;
        Call { word: call.word.map(|word| Word { gathering_ns, ..word }), ..call }
    }

    #[test]
    fn an_ack_that_the_servers_host_delayed_may_be_another_connections() {
        let wait = |calls: &[Call]| Nagle::of(calls, &[], &[]).wait(&calls[0]);
        assert_eq!(wait(&[parts(125.1, 125.1, 1)]), Wait::Prompt, "two round trips and no more");
        assert_eq!(wait(&[parts(154.0, 125.1, 3)]), Wait::Prompt);
        assert_eq!(wait(&[parts(166.0, 125.1, 1)]), Wait::Delayed, "one call is enough");
        assert_eq!(wait(&[parts(166.0, 125.1, 2)]), Wait::Unknown, "others' are in the count");
        // As long as the path took in another call.
        let varies = [parts(166.0, 125.1, 1), parts(125.1, 166.0, 1), parts(125.1, 130.0, 0)];
        assert_eq!(wait(&varies), Wait::Unknown);
        let mut late = vec![parts(166.0, 125.1, 2); 20];
        late.push(parts(126.0, 166.0, 0));
        assert_eq!(wait(&late), Wait::Delayed, "call after call that is no chance");
    }

    #[test]
    fn behind_one_segment_the_line_is_idle_until_its_ack() {
        let calls = vec![held(1, 385.0, Some(0)); 2];
        let nagle = Nagle::of(&calls, &[], &[]);
        assert_eq!(nagle.wait(&calls[0]), Wait::Prompt);
        assert!(!nagle.cost_is_open(&calls));
    }

    #[test]
    fn a_single_call_that_differs_does_not_leave_open_what_all_others_tell() {
        let mut calls = vec![held(5, 385.0, Some(0)); 19];
        calls.push(held(5, 386.0, Some(1)));
        let nagle = Nagle::of(&calls, &vec![held(5, 385.0, Some(0)); 5], &[]);
        assert_eq!(nagle.wait(&calls[19]), Wait::None);
        assert!(!nagle.cost_is_open(&calls));
    }

    #[test]
    fn calls_that_vary_leave_open_what_the_rule_cost() {
        let calls: Vec<Call> =
            (0..20).map(|i| held(5, 300.0 + f64::from(i * 37 % 101), Some(0))).collect();
        let controls: Vec<Call> =
            (0..30).map(|i| held(5, 295.0 + f64::from(i * 41 % 101), Some(0))).collect();
        assert_eq!(Nagle::of(&calls, &controls, &[]).wait(&calls[0]), Wait::UnknownCost);
        let sooner: Vec<Call> =
            (0..30).map(|i| held(5, 230.0 + f64::from(i * 41 % 101), Some(0))).collect();
        assert_eq!(Nagle::of(&calls, &sooner, &[]).wait(&calls[0]), Wait::Prompt);
    }

    #[test]
    fn nothing_is_held_by_nagle_where_its_rule_is_off_or_a_request_is_one_write() {
        let off = Call { held_never: true, ..held(5, 385.0, Some(0)) };
        assert!(!off.was_nagled(), "its own queue was full, or its sender paced");
    }
}
