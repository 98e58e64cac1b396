//! Which calls stalled, why, where the cliff between sizes is, and what to change. Pure: from calls and counters.
//!
//! ```text
//!   a call stalled      latency > 3 round trips + 5 ms
//!     segments sent again in it                 the retransmission timer: a packet was lost
//!     bytes unsent behind an unacknowledged     Nagle's rule here, a delayed ACK there
//!       segment, after the last write
//!     neither, but delayed ACKs of this host    the server held its reply for our ACK
//!     neither                                   the server, or the path, was slow
//! ```

use crate::client::Call;
use crate::counters::Counters;
use serde::Serialize;

/// Beyond three round trips, how much later a reply comes in a stall, in nanoseconds: the least delayed ACK takes 40 ms (10 ms where
/// `tcp_rto_min_us` was lowered to that).
const STALL_NS: u64 = 5_000_000;

/// Neighbouring sizes are a cliff when calls of one take this many times as long.
const CLIFF: f64 = 3.0;

/// And this many milliseconds longer, as in a stall: on a busy machine less differs by such factors for no reason.
const CLIFF_MS: f64 = STALL_NS as f64 / 1e6;

/// What calls waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// This end held a small segment (Nagle) until the server, which delayed it, acknowledged the one before.
    NagleAndDelayedAck,
    /// The server held its reply until this end, which delayed it, acknowledged something.
    DelayedAckHere,
    /// A packet was lost and this end waited for its retransmission timer.
    Retransmission,
    /// Nothing that TCP tells of: the server or the path took that long.
    Slow,
}

/// The stalls of the calls of one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stalls {
    /// How many calls stalled.
    pub count: u64,
    /// Those of them with bytes unsent behind an unacknowledged segment after the last write.
    pub held: u64,
    /// Those of them in which segments were sent again.
    pub retransmitted: u64,
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
    /// The round-trip time in microseconds that "stalled" is relative to.
    pub rtt_us: Option<u32>,
}

impl Stalls {
    /// Those among calls of one size.
    pub fn of(calls: &[Call]) -> Self {
        // The handshake's round trip is among the kernel's, so that this is right also where every call stalls.
        let rtt_us = calls.iter().filter_map(|c| c.min_rtt_us).min();
        let rtt_ns = u64::from(rtt_us.unwrap_or(0)) * 1000;
        let limit_ns = rtt_ns.saturating_mul(3).saturating_add(STALL_NS);
        let stalled: Vec<&Call> =
            calls.iter().filter(|c| c.latency_ns.is_some_and(|l| l > limit_ns)).collect();
        let held = |c: &&&Call| c.retransmits == 0 && c.held > 0 && c.unacked > 0;
        let most = |of: fn(&Call) -> u32| stalled.iter().map(|c| of(c)).max().unwrap_or(0);
        let times: Vec<f64> =
            stalled.iter().filter_map(|c| Some(c.latency_ns? as f64 / 1e6)).collect();
        Self {
            count: stalled.len() as u64,
            held: stalled.iter().filter(held).count() as u64,
            retransmitted: stalled.iter().filter(|c| c.retransmits > 0).count() as u64,
            median_ms: quell_stats::median(&times).unwrap_or(0.0),
            held_bytes: most(|c| c.held),
            unacked: most(|c| c.unacked),
            last_ack_ms: most(|c| c.last_ack_ms),
            ato_us: most(|c| c.ato_us),
            rtt_us,
        }
    }

    /// What most of them waited for, by what this host counted meanwhile; none where nothing stalled.
    pub fn cause(&self, counted: Option<Counters>) -> Option<Cause> {
        let neither = self.count.saturating_sub(self.held + self.retransmitted);
        let delayed = counted.is_some_and(|c| c.delayed_acks >= neither.max(1));
        Some(match self.count {
            0 => return None,
            _ if self.retransmitted >= self.held.max(neither) => Cause::Retransmission,
            _ if self.held >= neither => Cause::NagleAndDelayedAck,
            _ if delayed => Cause::DelayedAckHere,
            _ => Cause::Slow,
        })
    }
}

/// What a person is told about the calls of one size that stalled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What they waited for.
    pub cause: Cause,
    /// Which side waited, and for what.
    pub who: String,
    /// What shows it.
    pub evidence: String,
    /// What to change.
    pub change: String,
}

impl Finding {
    /// About the stalls among `calls` calls; none where none stalled.
    pub fn of(stalls: &Stalls, calls: u64, counted: Option<Counters>) -> Option<Self> {
        let cause = stalls.cause(counted)?;
        let (who, change) = match cause {
            Cause::NagleAndDelayedAck => (
                "this end held its last segment (Nagle) and waited for the ACK of the server, which delayed it",
                "here: TCP_NODELAY (--fix nodelay), or one write instead of several (--fix one-write); or at \
                 the server: TCP_QUICKACK set again after each receive (--fix quickack), or `ip route change … \
                 quickack 1`",
            ),
            Cause::DelayedAckHere => (
                "the server held its reply (Nagle) and waited for the ACK of this end, which delayed it",
                "at the server: TCP_NODELAY, or one write of the whole reply; or here: TCP_QUICKACK set again \
                 after each receive (--fix quickack), or `ip route change … quickack 1`",
            ),
            Cause::Retransmission => (
                "this end lost packets and waited for its retransmission timer, or the tail-loss probe before it",
                "find where packets are lost (`quell trace` tells by which end, counters of interfaces and \
                 queues where); no socket option mends it",
            ),
            Cause::Slow => (
                "this end had sent everything and waited for the reply",
                "look at the server itself, or with `quell trace` whether replies are lost on the way back: TCP held \
                 nothing back here",
            ),
        };
        Some(Self {
            cause,
            who: who.into(),
            change: change.into(),
            evidence: evidence(stalls, calls, counted),
        })
    }
}

fn evidence(stalls: &Stalls, calls: u64, counted: Option<Counters>) -> String {
    let mut said = format!("{} of {calls} calls took {:.1} ms", stalls.count, stalls.median_ms);
    if let Some(rtt) = stalls.rtt_us {
        said += &format!(" (a round trip takes {:.3} ms)", f64::from(rtt) / 1000.0);
    }
    if stalls.held > 0 {
        said += &format!(
            "; in {} of them {} bytes were unsent behind {} unacknowledged segment{} right after the last write",
            stalls.held,
            stalls.held_bytes,
            stalls.unacked,
            if stalls.unacked == 1 { "" } else { "s" },
        );
    }
    if stalls.retransmitted > 0 {
        said += &format!("; in {} of them segments were sent again", stalls.retransmitted);
    }
    if let Some(counted) = counted {
        said += &format!(
            "; on this host DelayedACKs rose by {} and TCPTimeouts by {}",
            counted.delayed_acks, counted.timeouts
        );
    }
    said += &format!("; ato here {} ms", f64::from(stalls.ato_us) / 1000.0);
    said
}

/// Two neighbouring sizes whose calls take very different times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cliff {
    /// The size whose calls take long.
    pub slow: u32,
    /// Its neighbour.
    pub fast: u32,
    /// How many times as long.
    pub factor: f64,
}

/// The cliffs among median times of calls in milliseconds, by size.
pub fn cliffs(medians: &[(u32, f64)]) -> Vec<Cliff> {
    let mut sorted = medians.to_vec();
    sorted.sort_unstable_by_key(|(size, _)| *size);
    let cliff = |pair: &[(u32, f64)]| {
        let &[a, b] = pair else { return None };
        let (slow, fast) = if a.1 > b.1 { (a, b) } else { (b, a) };
        let factor = slow.1 / fast.1.max(1e-6);
        (factor >= CLIFF && slow.1 - fast.1 >= CLIFF_MS).then_some(Cliff {
            slow: slow.0,
            fast: fast.0,
            factor,
        })
    };
    sorted.windows(2).filter_map(cliff).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(latency_ms: f64) -> Call {
        Call {
            start_ns: 0,
            latency_ns: Some((latency_ms * 1e6) as u64),
            held: 0,
            unacked: 1,
            last_ack_ms: 0,
            ato_us: 40_000,
            min_rtt_us: Some(100),
            retransmits: 0,
            lost: None,
        }
    }

    fn cause(calls: &[Call], delayed_acks: u64) -> Option<Cause> {
        Stalls::of(calls).cause(Some(Counters { delayed_acks, timeouts: 0 }))
    }

    #[test]
    fn the_cliff_of_the_mailing_list_post_lies_between_723_and_724_bytes() {
        // 47.68 and 279.62 calls a second.
        let found = cliffs(&[(724, 3.58), (722, 21.0), (725, 3.6), (723, 20.97)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].slow, found[0].fast), (723, 724));
        assert!((found[0].factor - 5.86).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_slope_and_noise_of_microseconds_are_no_cliffs() {
        assert_eq!(cliffs(&[(1, 1.0), (2, 2.9), (3, 8.0), (4, 20.0)]), []);
        assert_eq!(cliffs(&[(64, 0.02), (65, 0.3)]), []);
        assert_eq!(cliffs(&[(64, 0.02)]), []);
        assert_eq!(cliffs(&[]), []);
    }

    #[test]
    fn bytes_held_behind_an_unacknowledged_segment_are_nagle_and_a_delayed_ack() {
        let calls = vec![Call { held: 64, ..call(44.0) }; 59];
        assert_eq!(cause(&calls, 118), Some(Cause::NagleAndDelayedAck));
        let stalls = Stalls::of(&calls);
        assert_eq!((stalls.count, stalls.held, stalls.median_ms), (59, 59, 44.0));
        let finding = Finding::of(&stalls, 60, Some(Counters { delayed_acks: 118, timeouts: 0 }));
        let finding = finding.expect("they stalled");
        for part in ["59 of 60 calls took 44.0 ms", "64 bytes", "1 unacknowledged segment ", "118"]
        {
            assert!(finding.evidence.contains(part), "{part} in {}", finding.evidence);
        }
        for part in ["TCP_NODELAY", "one write", "TCP_QUICKACK", "quickack 1"] {
            assert!(finding.change.contains(part), "{part} in {}", finding.change);
        }
    }

    #[test]
    fn what_was_held_in_calls_that_did_not_stall_means_nothing() {
        let calls = vec![Call { held: 64, ..call(0.2) }; 60];
        assert_eq!(cause(&calls, 0), None);
        assert_eq!(Finding::of(&Stalls::of(&calls), 60, None), None);
    }

    #[test]
    fn a_long_path_is_no_stall() {
        let calls = vec![Call { min_rtt_us: Some(50_000), held: 64, ..call(100.0) }; 10];
        assert_eq!(cause(&calls, 0), None);
    }

    #[test]
    fn segments_sent_again_are_the_retransmission_timer_even_if_bytes_were_held() {
        let calls = vec![Call { held: 64, retransmits: 1, ..call(204.0) }; 3];
        assert_eq!(cause(&calls, 3), Some(Cause::Retransmission));
    }

    #[test]
    fn delayed_acks_of_this_host_without_anything_held_are_ours() {
        let calls = vec![call(41.0); 10];
        assert_eq!(cause(&calls, 10), Some(Cause::DelayedAckHere));
        assert_eq!(cause(&calls, 0), Some(Cause::Slow));
        assert_eq!(Stalls::of(&calls).cause(None), Some(Cause::Slow));
    }
}
