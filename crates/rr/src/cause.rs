//! Which calls stalled, and why. Pure: from calls and counters. What a person is told of it: verdict.rs.
//!
//! No time makes a call a stall: a long path and a path that varies make calls long, too. Each stall has evidence:
//!
//! ```text
//!   segments sent again that the other end had not got yet, and
//!     a timer of the sender's host ran out             the retransmission timer: a packet was lost (whose: see again.rs)
//!   less than a full segment unsent behind an unacknowledged one, right after the last write (Nagle's rule here, see nagle.rs), and
//!     that ACK took longer than the path in any call, by what an     the server delayed that ACK
//!     ACK is delayed at least, and the server's host counts one
//!     or, call after call, longer than the rest of the call, which
//!     holds a whole round trip as well
//!   this host delayed its ACK of a part of the reply, the rest came a round trip after that, and comes sooner by
//!     that delay where the ACK is sent at once (see control.rs)    the server held it
//!     or nothing, where the server says that it set TCP_NODELAY or wrote its reply at once
//! ```
//!
//! Beside stalls: a server that answers before it has the request, one that itself takes most of the time, and Nagle's rule where no ACK is
//! delayed: it costs a round trip.

use crate::again::{Lost, Needless, without_needless};
use crate::client::Call;
use crate::control::{ControlCalls, Controls, LEAST_DELAY_MS, Verdict};
use crate::nagle::{Nagle, Wait};
use serde::Serialize;

/// Calls from which on even the fastest one tells of more than chance: 1 in 21 that a handshake is faster than all of them.
const ENOUGH_CALLS: usize = 20;

/// What calls waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The server answered before it had the request: these calls are none.
    Early,
    /// This end held a small segment (Nagle) until the server, which delayed it, acknowledged the one before.
    NagleAndDelayedAck,
    /// The server held its reply until this end, which delayed it, acknowledged something.
    DelayedAckHere,
    /// A packet of this end was lost, and it waited for its retransmission timer.
    Retransmission,
    /// A packet of the server was lost, and a retransmission timer was waited for.
    RetransmissionThere,
    /// A packet was lost and a retransmission timer was waited for; nothing tells which way the packet went.
    RetransmissionSomewhere,
    /// The server itself took most of the time, as it says.
    Server,
    /// Nothing that TCP tells of, and more than the path took for the handshake: the server, most likely.
    Slow,
    /// One of the ends held a small segment (Nagle), or may have; whether for an ACK that was delayed, or whether that cost time at all, nothing
    /// tells. Or nothing tells whether the server's answer was lost, so that a retransmission timer was waited for, or late.
    Unknown,
    /// This end held a small segment (Nagle) for a round trip; nobody delayed the ACK.
    Nagle,
}

/// The stalls of the calls of one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// How many calls stalled: `held`, `held_there` and those with `retransmitted`.
    pub count: u64,
    /// Those in which this end held its last segment for an ACK that was delayed.
    pub held: u64,
    /// Those in which the server held its reply for an ACK that this end delayed.
    pub held_there: u64,
    /// Those in which this end sent segments again that were lost.
    pub retransmitted: u64,
    /// Those in which the server did.
    pub retransmitted_there: u64,
    /// Those in which one of them did, and nothing tells which.
    pub retransmitted_somewhere: u64,
    /// Calls, no stalls, in which this end held its last segment for an ACK that nobody delayed, and took longer for that.
    pub nagled: u64,
    /// Calls, no stalls, in which this end held its last segment for an ACK of which nothing tells whether it was delayed.
    pub unknown: u64,
    /// Calls, no stalls, in which this end held its last segment, and nothing tells whether they took longer for that: the line may have carried
    /// the segments before it until then.
    pub unknown_cost: u64,
    /// Calls, no stalls, of which nothing tells whether the server held its reply for an ACK that this end delayed.
    pub unknown_there: u64,
    /// Calls, no stalls, of which nothing tells whether a packet was lost, so that a retransmission timer was waited for, or late.
    pub unknown_timer: u64,
    /// Calls, no stalls, in which segments were sent again of which none was lost.
    pub needless: u64,
    /// Those of them in which no timer ran out: packets overtook each other, and TCP took those behind for lost.
    pub needless_overtaken: u64,
    /// Those of them in which a timer ran out: an ACK or the reply came later than it lasts, or was lost on the way back.
    pub needless_timer: u64,
    /// Calls, no stalls, in which segments were sent again without a timer, and nothing tells whether that was needed: as many came twice, which the path
    /// may have doubled.
    pub perhaps_needless: u64,
    /// Whether the path doubles packets on the way to the server: more came twice than had been sent again.
    pub path_doubles: bool,
    /// The same of the way from it.
    pub path_doubles_there: bool,
    /// Calls after them in which this end sent its ACKs at once, to tell.
    pub controls: usize,
    /// Calls after them in which this end had `TCP_NODELAY` set, to tell.
    pub nodelay_controls: usize,
    /// How much less those took, in milliseconds, where this end held its last segment behind several others and that cost time.
    pub nagle_ms: Option<f64>,
    /// Calls after them in which the server sent its ACKs at once, to tell.
    pub quickack_controls: usize,
    /// How much less those took, in milliseconds, where an ACK that the server delayed cost time.
    pub delay_ms: Option<f64>,
    /// Replies that were there before the request had arrived.
    pub early: u64,
    /// The median time of the stalled calls in milliseconds; 0 where there are none.
    pub median_ms: f64,
    /// Most bytes held in one of them.
    pub held_bytes: u32,
    /// Most segments unacknowledged in one of them.
    pub unacked: u32,
    /// Greatest time since the last acknowledgement when the reply was there, in milliseconds.
    pub last_ack_ms: u32,
    /// Greatest timeout for acknowledgements of this end, in microseconds.
    pub ato_us: u32,
    /// The least round-trip time in microseconds that the kernel saw; none where a call was faster.
    pub rtt_us: Option<u32>,
    /// The ACKs that the server's host says it delayed in them; none where it says nothing.
    pub delayed_there: Option<u64>,
    /// The median of what the server says that it took itself, in milliseconds.
    pub server_ms: Option<f64>,
    /// The median of the longest time between two parts of a reply, in milliseconds.
    #[serde(skip)]
    pub(crate) gap_ms: Option<f64>,
    /// The median time of the calls that stalled, or else of those that may have; none where there are neither.
    #[serde(skip)]
    pub(crate) waited_ms: Option<f64>,
    /// Nothing of TCP's explains why even the fastest call took so much longer than the handshake.
    #[serde(skip)]
    pub(crate) slow: Option<(f64, f64)>,
    /// The server itself took most of the time of most calls.
    #[serde(skip)]
    pub(crate) by_server: Option<(f64, f64)>,
}

/// What the facts of one call make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing was held, nothing sent again.
    Plain,
    /// What was sent again was only late.
    Needless(Needless),
    Held,
    HeldThere,
    Nagled,
    Lost(Lost),
    Unknown,
    UnknownCost,
    UnknownThere,
}

impl Call {
    fn ms(&self) -> Option<f64> {
        Some(self.latency_ns? as f64 / 1e6)
    }

    /// The longest time between two parts of the reply, in milliseconds.
    pub(crate) fn gap_ms(&self) -> f64 {
        self.gap_ns as f64 / 1e6
    }

    /// From the first part of the reply to its last, in milliseconds.
    pub(crate) fn gathering_ms(&self) -> f64 {
        self.gathering_ns as f64 / 1e6
    }

    /// Whether the server may have held its reply for an ACK of this end: one was delayed, and nothing came until a round trip later.
    pub(crate) fn may_be_held_there(&self) -> bool {
        let rtt_ms = f64::from(self.min_rtt_us.unwrap_or(0)) / 1000.0;
        self.latency_ns.is_some()
            && self.retransmits == 0
            && self.delayed_acks > 0
            && self.gap_ms() >= LEAST_DELAY_MS + rtt_ms * 0.9
            && !self.word.is_some_and(|word| word.held_never)
    }

    fn kind(&self, nagle: &Nagle, controls: &Controls) -> Kind {
        if self.latency_ns.is_none() {
            return Kind::Plain;
        }
        match (self.lost(), self.needless()) {
            (Some(lost), _) => return Kind::Lost(lost),
            (None, Some(why)) => return Kind::Needless(why),
            (None, None) if self.retransmits > 0 => return Kind::Plain,
            (None, None) => {}
        }
        let wait = if self.was_nagled() { nagle.wait(self) } else { Wait::None };
        match wait {
            Wait::Delayed => return Kind::Held,
            Wait::Prompt => return Kind::Nagled,
            Wait::Unknown => return Kind::Unknown,
            Wait::UnknownCost => return Kind::UnknownCost,
            Wait::None => {}
        }
        match controls.verdict {
            _ if !self.may_be_held_there() => Kind::Plain,
            Verdict::Sooner if controls.explain(self) => Kind::HeldThere,
            Verdict::Unknown => Kind::UnknownThere,
            Verdict::Sooner | Verdict::Same => Kind::Plain,
        }
    }
}

impl Stalls {
    /// Those among calls of one size, beside control calls. `handshake_ns` is what the connection's handshake took, where calls are not
    /// connections.
    pub fn of(calls: &[Call], controls: &ControlCalls, handshake_ns: Option<u64>) -> Self {
        let calls = &*without_needless(calls);
        let nagle = Nagle::of(
            calls,
            &without_needless(&controls.no_delay),
            &without_needless(&controls.at_once_there),
        );
        let controls = Controls::of(calls, &without_needless(&controls.at_once));
        let kinds: Vec<(Kind, &Call)> =
            calls.iter().map(|c| (c.kind(&nagle, &controls), c)).collect();
        let of = |wanted: Kind| kinds.iter().filter(|(kind, _)| *kind == wanted).count() as u64;
        let lost = |wanted: Lost| of(Kind::Lost(wanted));
        let needless = |wanted: Needless| of(Kind::Needless(wanted));
        let (overtaken, timer) = (needless(Needless::Overtaken), needless(Needless::Timer));
        let is_stall = |kind: Kind| match kind {
            Kind::Lost(lost) => lost != Lost::Perhaps,
            kind => matches!(kind, Kind::Held | Kind::HeldThere),
        };
        let stalled: Vec<&Call> =
            kinds.iter().filter(|(kind, _)| is_stall(*kind)).map(|(_, call)| *call).collect();
        let most = |of: fn(&Call) -> u32| stalled.iter().map(|c| of(c)).max().unwrap_or(0);
        let nagled = kinds
            .iter()
            .filter(|(kind, _)| matches!(kind, Kind::Held | Kind::Nagled | Kind::UnknownCost));
        let nagled: Vec<&Call> = nagled.map(|(_, call)| *call).collect();
        let held_most = |of: fn(&Call) -> u32| nagled.iter().map(|c| of(c)).max().unwrap_or(0);
        let may_be = |kind: Kind| {
            let acks = matches!(kind, Kind::Unknown | Kind::UnknownCost | Kind::UnknownThere);
            acks || kind == Kind::Lost(Lost::Perhaps)
        };
        let doubtful: Vec<f64> =
            kinds.iter().filter(|(kind, _)| may_be(*kind)).filter_map(|(_, c)| c.ms()).collect();
        let times: Vec<f64> = stalled.iter().filter_map(|c| c.ms()).collect();
        let own = |c: &Call| Some(c.word?.own_ns as f64 / 1e6);
        let told: Vec<f64> = calls.iter().filter_map(own).collect();
        let server_ms = quell_stats::median(&told);
        let all: Vec<f64> = calls.iter().filter_map(Call::ms).collect();
        let typical = quell_stats::median(&all);
        let whole = calls.iter().filter(|c| c.latency_ns.is_some() && c.retransmits == 0);
        let gaps: Vec<f64> = whole.map(Call::gap_ms).collect();
        let by_server = server_ms.zip(typical).filter(|(own, all)| *own > *all / 2.0);
        let delayed = |c: &&Call| c.word.and_then(|w| w.delayed_acks).map(u64::from);
        Self {
            count: stalled.len() as u64,
            held: of(Kind::Held),
            held_there: of(Kind::HeldThere),
            retransmitted: lost(Lost::Here),
            retransmitted_there: lost(Lost::There),
            retransmitted_somewhere: lost(Lost::Somewhere),
            nagled: of(Kind::Nagled),
            unknown: of(Kind::Unknown),
            unknown_cost: of(Kind::UnknownCost),
            unknown_there: of(Kind::UnknownThere),
            unknown_timer: lost(Lost::Perhaps),
            needless: overtaken + timer + needless(Needless::Unknown),
            needless_overtaken: overtaken,
            needless_timer: timer,
            perhaps_needless: needless(Needless::Perhaps),
            path_doubles: calls.iter().any(|call| call.copied),
            path_doubles_there: calls.iter().any(|call| call.copied_there),
            controls: controls.calls,
            nodelay_controls: nagle.controls,
            nagle_ms: nagle.cost_ms(),
            quickack_controls: nagle.controls_there,
            delay_ms: nagle.delay_ms(),
            early: calls.iter().filter(|c| c.early).count() as u64,
            median_ms: quell_stats::median(&times).unwrap_or(0.0),
            held_bytes: held_most(|c| c.held),
            unacked: held_most(|c| c.unacked),
            last_ack_ms: most(|c| c.last_ack_ms),
            ato_us: most(|c| c.ato_us),
            rtt_us: least_rtt_us(calls, &all),
            gap_ms: quell_stats::median(&gaps),
            waited_ms: quell_stats::median(&times).or_else(|| quell_stats::median(&doubtful)),
            delayed_there: stalled.iter().filter_map(delayed).reduce(|a, b| a + b),
            server_ms,
            slow: slow(calls, &all, handshake_ns),
            by_server,
        }
    }

    /// What most of them waited for; none where nothing stalled and nothing else is wrong.
    pub fn cause(&self) -> Option<Cause> {
        let again = self.again();
        let most = self.held.max(self.held_there).max(again);
        Some(match self.count {
            _ if self.early > 0 => Cause::Early,
            1.. if again == most && self.retransmitted_somewhere * 2 > again => {
                Cause::RetransmissionSomewhere
            }
            1.. if again == most && self.retransmitted_there > self.retransmitted => {
                Cause::RetransmissionThere
            }
            1.. if again == most && self.retransmitted > 0 => Cause::Retransmission,
            1.. if again == most => Cause::RetransmissionSomewhere,
            1.. if self.held == most => Cause::NagleAndDelayedAck,
            1.. => Cause::DelayedAckHere,
            _ if self.by_server.is_some() => Cause::Server,
            _ if self.unknown + self.unknown_there > 0 => Cause::Unknown,
            _ if self.slow.is_some() => Cause::Slow,
            _ if self.unknown_timer > 0 => Cause::Unknown,
            _ if self.nagled > 0 => Cause::Nagle,
            _ if self.unknown_cost > 0 => Cause::Unknown,
            _ => return None,
        })
    }

    /// What stalled calls waited for, and how many of them.
    pub(crate) fn causes(&self) -> [(Cause, u64); 5] {
        [
            (Cause::NagleAndDelayedAck, self.held),
            (Cause::DelayedAckHere, self.held_there),
            (Cause::Retransmission, self.retransmitted),
            (Cause::RetransmissionThere, self.retransmitted_there),
            (Cause::RetransmissionSomewhere, self.retransmitted_somewhere),
        ]
    }

    pub(crate) fn is_stall(&self, cause: Cause) -> bool {
        self.causes().iter().any(|(stall, _)| *stall == cause)
    }

    /// The longest time between two parts of a reply in milliseconds, in the median, where an ACK of the first had time to reach the server
    /// and the next part to come: a round trip, give or take a tenth.
    pub fn round_trip_within_replies_ms(&self) -> Option<f64> {
        let rtt_ms = f64::from(self.rtt_us?) / 1000.0;
        self.gap_ms.filter(|gap| *gap >= rtt_ms * 0.9 && *gap > 0.0)
    }

    /// Calls that waited for a retransmission timer.
    fn again(&self) -> u64 {
        self.retransmitted + self.retransmitted_there + self.retransmitted_somewhere
    }
}

/// The least round trip in microseconds that the kernel saw. No call is faster, but for a path that takes 0 µs by its clock, of which it says
/// that it takes a tick (`tcp_update_rtt_min` in `tcp_ack_update_rtt`, net/ipv4/tcp_input.c): then nothing is known.
fn least_rtt_us(calls: &[Call], all_ms: &[f64]) -> Option<u32> {
    let least = calls.iter().filter_map(|c| c.min_rtt_us).min()?;
    let fastest_us = all_ms.iter().copied().reduce(f64::min)? * 1000.0;
    (f64::from(least) <= fastest_us).then_some(least)
}

/// The fastest call and the handshake in milliseconds, where the server says nothing of its time, a call is one segment each way, none
/// was held or sent again, and even the fastest one took twice the handshake: of so many, one would have been as fast as the path.
fn slow(calls: &[Call], all_ms: &[f64], handshake_ns: Option<u64>) -> Option<(f64, f64)> {
    let plain = |c: &Call| {
        c.word.is_none()
            && c.held == 0
            && c.retransmits == 0
            && c.unacked <= 1
            && c.gathering_ns < 1_000_000
    };
    let fastest = all_ms.iter().copied().min_by(f64::total_cmp)?;
    let handshake = handshake_ns? as f64 / 1e6;
    let told = all_ms.len() >= ENOUGH_CALLS && calls.iter().all(plain);
    (told && fastest >= 2.0 * handshake).then_some((fastest, handshake))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::verdict::finding;
    use crate::word::{Resent, Word};

    /// A call over a path of `rtt_ms` that holds nothing.
    fn call(latency_ms: f64, rtt_ms: f64) -> Call {
        Call {
            latency_ns: Some((latency_ms * 1e6) as u64),
            unacked: 1,
            mss: 1448,
            window: 10,
            last_sent_ms: latency_ms as u32,
            timers: Some(0),
            would_tell: true,
            would_tell_there: true,
            ato_us: 40_000,
            min_rtt_us: Some((rtt_ms * 1e3) as u32),
            ..Call::default()
        }
    }

    /// One whose second write waited for an ACK that took `ack_ms`.
    fn held(ack_ms: f64, rtt_ms: f64) -> Call {
        Call { held: 64, last_sent_ms: rtt_ms as u32, ..call(ack_ms + rtt_ms, rtt_ms) }
    }

    fn word(delayed: u32, own_ms: u64) -> Option<Word> {
        let own_ns = own_ms * 1_000_000;
        let delayed_acks = Some(delayed);
        Some(Word { own_ns, delayed_acks, dsack: true, ..Word::default() })
    }

    fn of(calls: &[Call]) -> Stalls {
        Stalls::of(calls, &ControlCalls::default(), None)
    }

    /// The same, with these calls again with `TCP_NODELAY`, and with the server's ACKs at once.
    fn of_nagled(calls: &[Call], no_delay: &[Call], at_once_there: &[Call]) -> Stalls {
        let (no_delay, at_once_there) = (no_delay.to_vec(), at_once_there.to_vec());
        let controls = ControlCalls { no_delay, at_once_there, ..ControlCalls::default() };
        Stalls::of(calls, &controls, None)
    }

    fn cause(calls: &[Call]) -> Option<Cause> {
        of(calls).cause()
    }

    #[test]
    fn a_stall_is_one_whatever_the_path_takes() {
        for rtt in [0.1, 5.0, 20.0, 60.0, 100.0, 200.0] {
            let calls = vec![held(rtt + 40.0, rtt); 30];
            let stalls = of(&calls);
            assert_eq!((stalls.count, stalls.held), (30, 30), "{rtt} ms");
            let gathering_ns = ((rtt + 40.0) * 1e6) as u64;
            let word = word(1, 0).map(|word| Word { gathering_ns, ..word });
            let told: Vec<Call> = calls.into_iter().map(|c| Call { word, ..c }).collect();
            assert_eq!(of(&told).count, 30, "{rtt} ms, told");
            assert_eq!(cause(&told[..1]), Some(Cause::NagleAndDelayedAck), "one is enough");
        }
    }

    #[test]
    fn no_round_trip_is_said_to_take_longer_than_a_call() {
        let rtt = |calls: &[Call]| of(calls).rtt_us;
        assert_eq!(rtt(&[call(10.0, 5.0), call(6.0, 5.0)]), Some(5000));
        assert_eq!(rtt(&[call(0.002, 10.0), call(60.0, 10.0)]), None);
    }

    #[test]
    fn a_path_that_varies_is_no_stall() {
        // From 5 to 65 ms; of the held ones, the ACK takes one of these times and the rest of the call another.
        let path = |i: u32| f64::from(i * 37 % 61) + 5.0;
        let plain: Vec<Call> = (0..30).map(|i| call(path(i), 5.0)).collect();
        assert_eq!(cause(&plain), None);
        let held: Vec<Call> = (0..30)
            .map(|i| Call { last_sent_ms: path(i + 7) as u32, ..held(path(i), path(i + 7)) })
            .collect();
        let stalls = of(&held);
        assert_eq!(stalls.count, 0);
        assert_eq!(stalls.cause(), Some(Cause::Unknown), "some may have been");
        let told: Vec<Call> = held.into_iter().map(|c| Call { word: word(0, 0), ..c }).collect();
        assert_eq!(cause(&told), Some(Cause::Nagle), "the server's host delayed nothing");
    }

    #[test]
    fn bytes_held_behind_an_unacknowledged_segment_are_nagle_and_a_delayed_ack() {
        let calls = vec![held(44.0, 0.1); 59];
        assert_eq!(cause(&calls), Some(Cause::NagleAndDelayedAck));
        let stalls = of(&calls);
        assert_eq!((stalls.count, stalls.held, stalls.median_ms), (59, 59, 44.1));
        let finding =
            finding(64, &stalls, 60, Some(Counters { delayed_acks: 118, ..Counters::default() }));
        let finding = finding.expect("they stalled");
        let (seen, change) =
            (quell_finding::seen(&finding), quell_finding::to_do(&finding).unwrap_or_default());
        for part in [
            "59 of 60 calls stalled and took 44.1 ms",
            "64 bytes",
            "1 unacknowledged segment ",
            "118",
        ] {
            assert!(seen.contains(part), "{part} in {seen}");
        }
        for part in ["TCP_NODELAY", "one write", "TCP_QUICKACK", "quickack 1"] {
            assert!(change.contains(part), "{part} in {change}");
        }
    }

    #[test]
    fn what_was_held_for_a_prompt_ack_or_by_a_window_is_no_stall() {
        for rtt in [0.1, 100.0] {
            let stalls = of(&vec![held(rtt, rtt); 60]);
            assert_eq!((stalls.count, stalls.nagled), (0, 60));
            assert_eq!(stalls.cause(), Some(Cause::Nagle), "it costs a round trip all the same");
        }
        let full = Call { held: 1448, ..held(150.0, 100.0) };
        assert_eq!(cause(&vec![full; 60]), None);
        let window = Call { unacked: 10, ..held(150.0, 100.0) };
        assert_eq!(cause(&vec![window; 60]), None);
        assert_eq!(finding(64, &of(&[]), 60, None), None);
    }

    #[test]
    fn a_segment_held_behind_several_others_waited_only_where_calls_without_nagles_rule_are_sooner()
    {
        let slow = Call { unacked: 5, word: word(1, 0), last_sent_ms: 1046, ..held(0.0, 1666.0) };
        let calls = vec![slow.clone(); 30];
        let nobody_tried = of(&calls);
        assert_eq!((nobody_tried.unknown_cost, nobody_tried.cause()), (30, Some(Cause::Unknown)));
        let says = finding(64, &nobody_tried, 30, None).unwrap().says;
        assert!(says.contains("whether the line carried those until then"), "{says}");
        let busy = of_nagled(&calls, &vec![slow; 5], &[]);
        assert_eq!((busy.nagled, busy.unknown_cost, busy.cause()), (0, 0, None));
        let fast = vec![Call { unacked: 3, word: word(1, 0), ..held(44.0, 0.1) }; 30];
        let prompt = Call { unacked: 3, word: word(0, 0), ..held(0.2, 0.1) };
        let stalls = of_nagled(&fast, &vec![call(0.2, 0.1); 5], &vec![prompt; 5]);
        assert_eq!((stalls.held, stalls.cause()), (30, Some(Cause::NagleAndDelayedAck)));
        let told = finding(64, &stalls, 30, None).unwrap();
        let seen = quell_finding::seen(&told);
        assert!(seen.contains("with TCP_NODELAY here 5 more calls took 43.9 ms less"), "{seen}");
        // As the lab had it with TCP_QUICKACK: of 385 ms the held segment left after 228, and nobody delayed an ACK.
        let prompt =
            Call { unacked: 5, word: word(0, 0), min_rtt_us: Some(140_000), ..held(228.0, 157.0) };
        let stalls = of_nagled(&vec![prompt; 20], &vec![call(350.0, 140.0); 5], &[]);
        assert_eq!((stalls.count, stalls.nagled, stalls.cause()), (0, 20, Some(Cause::Nagle)));
        let told = finding(3000, &stalls, 20, None).unwrap();
        let seen = quell_finding::seen(&told);
        assert!(seen.contains("with TCP_NODELAY here 5 more calls took 35.0 ms less"), "{seen}");
        assert!(seen.contains("behind 5 unacknowledged segments"), "{seen}");
    }

    #[test]
    fn segments_sent_again_are_the_retransmission_timer_even_if_bytes_were_held() {
        let again = Call { retransmits: 1, timers: Some(1), ..held(204.0, 1.0) };
        assert_eq!(cause(&vec![again.clone(); 3]), Some(Cause::RetransmissionSomewhere));
        let told = |segments| {
            let there = Some(Resent { segments, needless: 0, timers: Some(segments) });
            Call { there, ..again.clone() }
        };
        assert_eq!(cause(&vec![told(0); 3]), Some(Cause::Retransmission));
        let there = Call { retransmits: 0, ..told(1) };
        assert_eq!(cause(&[told(0), there.clone(), there]), Some(Cause::RetransmissionThere));
        let fast = vec![Call { retransmits: 1, ..call(90.0, 60.0) }; 3];
        assert_eq!(cause(&fast), None, "no timer ran out");
    }

    #[test]
    fn where_either_end_waited_both_are_named() {
        let again = |here: u32| Call {
            retransmits: here,
            timers: Some(u64::from(here)),
            there: Some(Resent { segments: 1 - here, needless: 0, timers: Some(1 - here) }),
            ..held(204.0, 1.0)
        };
        let stalls = of(&[again(1), again(0), again(0)]);
        let found = finding(64, &stalls, 3, None).unwrap();
        assert_eq!(
            (stalls.cause(), &*found.id),
            (Some(Cause::RetransmissionThere), "retransmission-there")
        );
        assert!(found.says.starts_with("packets of the server were lost"), "{}", found.says);
        assert!(found.says.contains("; in 1 of them this end lost packets"), "{}", found.says);
        assert_eq!(found.remedies.len(), 2, "of either cause: {:?}", found.remedies);
        let alone = of(&[again(0)]);
        assert!(!finding(64, &alone, 1, None).unwrap().says.contains("this end lost"));
    }

    #[test]
    fn segments_sent_again_that_the_server_had_got_stalled_nobody() {
        let again = |retransmits, needless| Call {
            retransmits,
            needless,
            timers: Some(1),
            ..call(60.0, 50.0)
        };
        // Many calls in which nothing came twice: the path doubles nothing.
        let quiet = vec![call(60.0, 50.0); 400];
        let late = [again(1, 1), again(1, 0), again(0, 1)];
        assert_eq!(cause(&[&quiet[..], &late].concat()), None);
        let stalls = of(&[again(1, 0), again(1, 0), again(0, 1), again(1, 0)]);
        assert_eq!(stalls.count, 2);
    }

    /// A call whose reply came in two parts, this long apart, while this end delayed an ACK.
    fn apart(gap_ms: f64, rtt_ms: f64) -> Call {
        let gap_ns = (gap_ms * 1e6) as u64;
        let late = call(gap_ms + rtt_ms, rtt_ms);
        Call { gathering_ns: gap_ns, gap_ns, delayed_acks: 1, ..late }
    }

    #[test]
    fn a_rest_of_a_reply_that_comes_sooner_when_the_ack_does_was_held_there() {
        for rtt in [1.0, 60.0, 200.0] {
            let late = apart(rtt + 40.0, rtt);
            let sooner = vec![Call { delayed_acks: 0, ..apart(rtt, rtt) }; 5];
            let told = |calls: &[Call], controls: &[Call]| {
                let controls =
                    ControlCalls { at_once: controls.to_vec(), ..ControlCalls::default() };
                let stalls = Stalls::of(calls, &controls, None);
                (stalls.held_there, stalls.cause())
            };
            let calls = vec![late.clone(); 10];
            assert_eq!(told(&calls, &sooner), (10, Some(Cause::DelayedAckHere)), "{rtt}");
            assert_eq!(told(&calls, &calls[..5]), (0, None), "{rtt}: it is as late anyway");
            assert_eq!(told(&calls, &[]), (0, Some(Cause::Unknown)), "{rtt}: nobody tried");
            let uncounted = vec![Call { delayed_acks: 0, ..late.clone() }; 10];
            assert_eq!(told(&uncounted, &sooner), (0, None), "nothing was delayed here");
            let steady = vec![Call { gap_ns: 29_000_000, ..late.clone() }; 10];
            assert_eq!(told(&steady, &sooner), (0, None), "bytes kept coming");
            let word = word(0, 0).map(|word| Word { held_never: true, ..word });
            let nodelay = vec![Call { word, ..late.clone() }; 10];
            assert_eq!(told(&nodelay, &sooner), (0, None), "the server says that it holds nothing");
            let more = [vec![late; 9], vec![apart(rtt + 400.0, rtt)]].concat();
            assert_eq!(told(&more, &sooner).0, 9, "no ACK is delayed for so long");
        }
    }

    #[test]
    fn a_server_that_answers_early_is_told_before_all_else() {
        let calls = vec![Call { early: true, ..held(44.0, 0.1) }; 3];
        assert_eq!(cause(&calls), Some(Cause::Early));
    }

    #[test]
    fn a_slow_server_is_named_where_it_says_so_and_else_where_the_handshake_was_faster() {
        let calls = vec![Call { word: word(0, 40), ..call(50.0, 5.0) }; 30];
        assert_eq!(cause(&calls), Some(Cause::Server));
        let calls = vec![Call { word: word(0, 20), ..call(50.0, 5.0) }; 30];
        assert_eq!(cause(&calls), None, "less than half of it");
        let silent = vec![call(50.0, 5.0); 30];
        assert_eq!(
            Stalls::of(&silent, &ControlCalls::default(), Some(5_000_000)).cause(),
            Some(Cause::Slow)
        );
        assert_eq!(Stalls::of(&silent, &ControlCalls::default(), Some(40_000_000)).cause(), None);
        assert_eq!(
            Stalls::of(&silent[..5], &ControlCalls::default(), Some(5_000_000)).cause(),
            None,
            "too few to tell"
        );
    }

    #[test]
    fn a_server_that_takes_most_of_the_time_does_not_hide_that_nagles_rule_held_something() {
        let calls = vec![Call { word: word(0, 100), ..held(20.0, 120.0) }; 20];
        let stalls = of(&calls);
        assert_eq!((stalls.cause(), stalls.nagled), (Some(Cause::Server), 20));
        let says = finding(64, &stalls, 20, None).unwrap().says;
        assert!(says.contains("; in 20 calls this end held its last segment (Nagle)"), "{says}");
    }
}
