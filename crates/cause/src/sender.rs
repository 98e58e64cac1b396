//! What a sender of TCP waited for. The facts are parts of the time that count, most by its kernel's own clocks; the rule is one function.
//!
//! ```text
//!   large segments sent again and again, none arrived, pings did        mtu-black-hole
//!   the rate asked for or allowed was reached                           rate-limit
//!   packets waited in a host's own queue at more than half of the looks own-queue
//!   the thread that moves the data was on a CPU for 95 % of the time    cpu
//!   no queue on the path, and more than two thirds of the time          sender-idle, receiver-window, send-buffer
//!   a queue stood on the path, and the ends held little back            path-queue
//!   losses at a flat round trip, and a steady rate of arrival           policer
//!
//!   round trip beyond the idle one   two segments' time at the rate that arrived ┊ a quarter, or nine of ten pings wait too
//!   no queue                                                                     ┊ perhaps a window's own bursts            ┊ a queue
//!   else                                                                unknown
//! ```

use crate::calls::{Diagnosis, Endpoint};
use crate::{Cause, MOST};
use quell_finding::Evidence;
use serde::Serialize;

/// More of the time than this leaves no other cause.
const NEARLY_ALL: f64 = 0.9;
/// A thread that sleeps for less than the rest waits for nothing but its CPU.
const BUSY: f64 = 0.95;
/// Of a rate that was asked for or allowed, this part is all of it but headers and how a flow begins.
const REACHED: f64 = 0.95;
/// By this part of the idle round trip it grows where more stands on the path than a window's own bursts.
const GROWN: f64 = 0.25;
/// Fewer losses than these tell of nothing.
pub(crate) const LOSSES: u64 = 10;
/// A policer drops this part of the segments at least.
const POLICED: f64 = 0.005;
/// A policer's rate stays: its standard deviation is no more than this part of it.
const STEADY: f64 = 0.1;
/// So often large segments are sent again, while nine of ten pings are answered, where their size is why they do not arrive.
const VANISHED: u64 = 3;

/// Facts about the sender of a flow: parts of the time from 0 to 1, round trips in milliseconds, rates in bits a second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SenderFacts {
    /// All that was written had been acknowledged: the time that is not `tcpi_busy_time`.
    pub idle_share: f64,
    /// The receiver's window was full: `tcpi_rwnd_limited`.
    pub window_share: f64,
    /// The send buffer was full: `tcpi_sndbuf_limited`, or the looks at which nothing else kept it from sending.
    pub buffer_share: f64,
    /// Looks at which packets of the flow waited in a queue of the sender's own host.
    pub sender_queue_share: Option<f64>,
    /// Looks at which packets waited in a queue of the receiver's host: what came in, or what acknowledges it.
    pub receiver_queue_share: Option<f64>,
    /// The thread that writes the data was on a CPU or waited for one.
    pub sender_cpu_share: Option<f64>,
    pub receiver_cpu_share: Option<f64>,
    /// The receiver read nothing, since the rate that it allows was used up.
    pub receiver_limited_share: Option<f64>,
    pub allowed_bits_per_second: Option<f64>,
    pub reached_bits_per_second: f64,
    /// Standard deviation of that rate over the parts of the test, as a part of it.
    pub rate_deviation: Option<f64>,
    pub retransmits: Option<u64>,
    /// The time that a full segment takes at the rate that arrived.
    pub segment_ms: Option<f64>,
    /// Packets that queues and filters of the sender's own host dropped.
    pub sender_drops: Option<u64>,
    /// The same of the receiver's host, of what came in.
    pub receiver_drops: Option<u64>,
    /// The round trip without the flow: the least one that TCP saw, or the median of the pings before it, whichever is longer.
    pub idle_rtt_ms: Option<f64>,
    /// Three of four of TCP's smoothed round trips were at least this.
    pub low_rtt_ms: Option<f64>,
    pub median_rtt_ms: Option<f64>,
    /// Nine of ten pings beside the flow took at least this.
    pub low_ping_ms: Option<f64>,
    pub arrived_bytes: u64,
    pub pings: u64,
    pub pings_answered: u64,
    /// The server's results, or this end's, did not get through, though small words did.
    pub results_vanished: bool,
}

impl SenderFacts {
    /// What it waited for, and at which of the ends that sends and that receives.
    pub fn cause(&self, [sender, receiver]: [Endpoint; 2]) -> Diagnosis {
        let at = |cause, end, sure| Diagnosis { cause, end, sure };
        let (sender, receiver) = (Some(sender), Some(receiver));
        if self.large_segments_vanish() {
            return at(Cause::MtuBlackHole, None, true);
        }
        if self.reached_share().is_some_and(|share| share >= REACHED) {
            return at(Cause::RateLimit, None, true);
        }
        if self.receiver_limited_share.is_some_and(|share| share > MOST) {
            return at(Cause::RateLimit, receiver, true);
        }
        let queues = [(self.sender_queue_share, sender), (self.receiver_queue_share, receiver)];
        for (share, end) in queues {
            if let Some(share) = share.filter(|share| *share > 0.5) {
                // Whose packets wait on their way in, no socket tells.
                return at(Cause::OwnQueue, end, end == sender && share > NEARLY_ALL);
            }
        }
        let threads = [(self.sender_cpu_share, sender), (self.receiver_cpu_share, receiver)];
        for (share, end) in threads {
            if share.is_some_and(|share| share >= BUSY) {
                return at(Cause::Cpu, end, true);
            }
        }
        let grown = self.queue_ms();
        let pair_ms = 2.0 * self.segment_ms.unwrap_or(0.0);
        let idle_ms = self.idle_rtt_ms.unwrap_or(0.0);
        let stands = grown.is_some_and(|ms| ms > pair_ms);
        // A window's bursts make a queue for a moment, which pings meet now and then.
        let meets = self.low_ping_ms.is_some_and(|ms| ms - idle_ms > pair_ms);
        let is_long = stands && (meets || grown.is_some_and(|ms| ms > GROWN * idle_ms));
        let shares = [
            (Cause::SenderIdle, self.idle_share, sender),
            (Cause::ReceiverWindow, self.window_share, receiver),
            (Cause::SendBuffer, self.buffer_share, sender),
        ];
        let most = shares.into_iter().find(|(_, share, _)| *share > MOST);
        // What has nothing to send makes no queue that stands.
        let is_plain = |cause| cause == Cause::SenderIdle || grown.is_some() && !is_long;
        if let Some((cause, share, end)) = most.filter(|(cause, ..)| is_plain(*cause)) {
            return at(cause, end, share > NEARLY_ALL);
        }
        let held_back = self.idle_share + self.window_share + self.buffer_share;
        if held_back > 1.0 - MOST {
            return at(Cause::Unknown, None, false);
        }
        let is_steady = self.rate_deviation.is_some_and(|deviation| deviation <= STEADY);
        let lost = self.retransmits.unwrap_or(0);
        if is_steady && self.sender_drops.is_some_and(|dropped| dropped >= LOSSES) {
            return at(Cause::Policer, sender, false);
        }
        if stands {
            return at(Cause::PathQueue, None, is_long && held_back < 1.0 - NEARLY_ALL);
        }
        if is_steady && grown.is_some() && lost >= LOSSES && self.lost_share() >= POLICED {
            let here = self.receiver_drops.is_some_and(|dropped| dropped * 2 >= lost);
            return at(Cause::Policer, receiver.filter(|_| here), false);
        }
        at(Cause::Unknown, None, false)
    }

    pub fn reached_share(&self) -> Option<f64> {
        let allowed = self.allowed_bits_per_second.filter(|bits| *bits > 0.0)?;
        Some(self.reached_bits_per_second / allowed)
    }

    /// By how much three of four round trips exceeded the idle one.
    pub fn queue_ms(&self) -> Option<f64> {
        Some((self.low_rtt_ms? - self.idle_rtt_ms?).max(0.0))
    }

    fn lost_share(&self) -> f64 {
        let segment_bytes = self.segment_ms.unwrap_or(0.0) * self.reached_bits_per_second / 8e3;
        let segments = self.arrived_bytes as f64 / segment_bytes.max(1.0);
        self.retransmits.unwrap_or(0) as f64 / segments.max(1.0)
    }

    fn large_segments_vanish(&self) -> bool {
        let again = self.retransmits.is_some_and(|again| again >= VANISHED);
        self.arrived_bytes == 0
            && (again || self.results_vanished)
            && self.pings_answered > 0
            && self.pings_answered * 10 >= self.pings * 9
    }

    /// The facts for programs and people, with where each was read.
    pub fn evidence(&self) -> Vec<Evidence> {
        const TCP: &str = "TCP_INFO of the sender";
        const CPU: &str = "/proc/PID/schedstat";
        const QUEUE: &str = "TCA_STATS of the queue";
        let share = |name: &str, share: f64, source| {
            let text = format!("{name} {:.0} %", share * 100.0);
            Evidence::number(name, share * 100.0, "%", source).in_words(text)
        };
        let mut all = vec![
            share("idle", self.idle_share, TCP),
            share("window full", self.window_share, TCP),
            share("send buffer full", self.buffer_share, TCP),
        ];
        let others = [
            ("sender's CPU", self.sender_cpu_share, CPU),
            ("receiver's CPU", self.receiver_cpu_share, CPU),
            ("sender's queue", self.sender_queue_share, QUEUE),
            ("receiver's queue", self.receiver_queue_share, QUEUE),
            ("receiver limited", self.receiver_limited_share, "the server"),
            ("rate reached", self.reached_share(), "calculated"),
        ];
        all.extend(
            others.into_iter().filter_map(|(name, part, from)| Some(share(name, part?, from))),
        );
        let rtt = |name, ms: Option<f64>| Some(Evidence::number(name, ms?, "ms", TCP));
        all.extend(rtt("idle round trip", self.idle_rtt_ms));
        all.extend(rtt("loaded", self.low_rtt_ms));
        all.extend(self.retransmits.map(|n| Evidence::count("sent again", n, TCP)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 20 ms without a queue, 8 Mbit/s.
    const FLAT: SenderFacts = SenderFacts {
        idle_rtt_ms: Some(20.0),
        low_rtt_ms: Some(20.3),
        segment_ms: Some(1.448),
        retransmits: Some(0),
        arrived_bytes: 10_000_000,
        reached_bits_per_second: 8e6,
        rate_deviation: Some(0.01),
        ..NOTHING
    };
    /// The same with 40 ms of queue.
    const FULL: SenderFacts = SenderFacts { low_rtt_ms: Some(61.0), ..FLAT };
    const NOTHING: SenderFacts = SenderFacts {
        idle_share: 0.0,
        window_share: 0.0,
        buffer_share: 0.0,
        sender_queue_share: None,
        receiver_queue_share: None,
        sender_cpu_share: None,
        receiver_cpu_share: None,
        receiver_limited_share: None,
        allowed_bits_per_second: None,
        reached_bits_per_second: 0.0,
        rate_deviation: None,
        retransmits: None,
        segment_ms: None,
        sender_drops: None,
        receiver_drops: None,
        idle_rtt_ms: None,
        low_rtt_ms: None,
        median_rtt_ms: None,
        low_ping_ms: None,
        arrived_bytes: 0,
        pings: 0,
        pings_answered: 0,
        results_vanished: false,
    };

    fn in_turn(window_share: f64, buffer_share: f64) -> SenderFacts {
        SenderFacts { window_share, buffer_share, ..FLAT }
    }

    fn window(share: f64) -> SenderFacts {
        in_turn(share, 0.0)
    }

    fn buffer(share: f64) -> SenderFacts {
        in_turn(0.0, share)
    }

    fn rtt(low_ms: f64, facts: SenderFacts) -> SenderFacts {
        SenderFacts { low_rtt_ms: Some(low_ms), ..facts }
    }

    fn own(share: f64) -> SenderFacts {
        SenderFacts { sender_queue_share: Some(share), ..FULL }
    }

    fn cpu(sender: f64, receiver: f64) -> SenderFacts {
        SenderFacts { sender_cpu_share: Some(sender), receiver_cpu_share: Some(receiver), ..FLAT }
    }

    fn allowed(bits: f64, facts: SenderFacts) -> SenderFacts {
        SenderFacts { allowed_bits_per_second: Some(bits), ..facts }
    }

    fn lost(segments: u64) -> SenderFacts {
        SenderFacts { retransmits: Some(segments), ..FLAT }
    }

    fn vanished(again: u64, pings_answered: u64) -> SenderFacts {
        SenderFacts { retransmits: Some(again), pings: 100, pings_answered, ..NOTHING }
    }

    #[test]
    fn each_cause_by_its_facts() {
        let (sender, receiver) = (Some(Endpoint::Here), Some(Endpoint::There));
        let table = [
            (NOTHING, Cause::Unknown, None, false, "nothing is known"),
            (SenderFacts { idle_share: 0.8, ..FLAT }, Cause::SenderIdle, sender, false, "stopped"),
            (
                SenderFacts { idle_share: 0.8, ..FULL },
                Cause::SenderIdle,
                sender,
                false,
                "in bursts",
            ),
            (window(0.97), Cause::ReceiverWindow, receiver, true, "64 kB of window"),
            (buffer(0.75), Cause::SendBuffer, sender, false, "64 kB of buffer"),
            (in_turn(0.45, 0.5), Cause::Unknown, None, false, "both in turn"),
            (in_turn(0.3, 0.3), Cause::Unknown, None, false, "both, and something else"),
            (rtt(24.0, window(0.97)), Cause::ReceiverWindow, receiver, true, "a window's bursts"),
            (
                SenderFacts { low_ping_ms: Some(23.9), ..rtt(24.0, window(0.97)) },
                Cause::Unknown,
                None,
                false,
                "a window a little larger than the path",
            ),
            (rtt(61.0, window(0.9)), Cause::Unknown, None, false, "a window and its queue"),
            (FULL, Cause::PathQueue, None, true, "drop-tail"),
            (rtt(61.0, window(0.2)), Cause::PathQueue, None, false, "drop-tail, and some window"),
            (rtt(23.4, lost(12)), Cause::PathQueue, None, false, "fq_codel"),
            (own(0.98), Cause::OwnQueue, sender, true, "own shaper"),
            (own(0.4), Cause::PathQueue, None, true, "a queue at times"),
            (
                SenderFacts { receiver_queue_share: Some(0.98), ..FULL },
                Cause::OwnQueue,
                receiver,
                false,
                "shaped on the way in",
            ),
            (cpu(0.97, 0.5), Cause::Cpu, sender, true, "busy writer"),
            (cpu(0.5, 0.99), Cause::Cpu, receiver, true, "busy reader"),
            (allowed(8.1e6, FLAT), Cause::RateLimit, None, true, "rate reached"),
            (allowed(10e6, FULL), Cause::PathQueue, None, true, "rate missed"),
            (
                SenderFacts { receiver_limited_share: Some(0.8), ..window(0.9) },
                Cause::RateLimit,
                receiver,
                true,
                "the server's rate",
            ),
            (lost(400), Cause::Policer, None, false, "policer"),
            (lost(20), Cause::Unknown, None, false, "few losses"),
            (FLAT, Cause::Unknown, None, false, "no losses"),
            (
                SenderFacts { rate_deviation: Some(0.4), ..lost(400) },
                Cause::Unknown,
                None,
                false,
                "a lossy line",
            ),
            (
                SenderFacts { sender_drops: Some(40), ..FLAT },
                Cause::Policer,
                sender,
                false,
                "own policer",
            ),
            (
                SenderFacts { receiver_drops: Some(390), ..lost(400) },
                Cause::Policer,
                receiver,
                false,
                "own policer of what comes in",
            ),
            (vanished(4, 98), Cause::MtuBlackHole, None, true, "black hole"),
            (vanished(4, 3), Cause::Unknown, None, false, "a dead path"),
            (
                SenderFacts { results_vanished: true, ..vanished(0, 98) },
                Cause::MtuBlackHole,
                None,
                true,
                "black hole of results",
            ),
        ];
        for (facts, cause, end, sure, story) in table {
            assert_eq!(
                facts.cause([Endpoint::Here, Endpoint::There]),
                Diagnosis { cause, end, sure },
                "{story}"
            );
        }
    }

    #[test]
    fn the_facts_are_told_with_where_they_were_read() {
        let told = window(0.93).evidence();
        assert_eq!(told[1].to_string(), "window full 93 %");
        assert_eq!(told[1].source, "TCP_INFO of the sender");
    }
}
