//! Who waited on a TCP connection, by what the kernel of one end tells of it; `quell doctor` supplies the facts.

use crate::{Cause, MOST};

/// A round trip that takes so much longer than the least one, in microseconds, met a queue.
pub const QUEUE_US: u64 = 50_000;
/// Timeouts in a row, each twice as long as the one before, of segments that do not arrive.
const TIMEOUTS: u32 = 3;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ConnectionFacts {
    /// Share of the time in which there was nothing to send (all but `busy_time`), of a connection that moves data and answers nothing.
    pub idle_share: f64,
    /// Share of the time in which the other end's window was full (`rwnd_limited`).
    pub window_share: f64,
    /// Share of the time in which the send buffer was full (`sndbuf_limited`), or of the looks at which nothing else kept it from sending.
    pub buffer_share: f64,
    /// The receive buffer here held the other end up.
    pub receive_buffer_full: bool,
    /// This end only takes: what is said of round trips is so of what comes.
    pub receives: bool,
    /// Messages of this end that were answered in two segments or more, each 40 ms or more after the one before.
    pub split_answers: u64,
    /// ACKs that this host delayed meanwhile.
    pub acks_delayed: u64,
    /// Microseconds that a round trip takes more than the least one, while data is in flight.
    pub queueing_us: u64,
    /// Microseconds that eight segments take at its rate: so much waits on a slow line without any other traffic.
    pub eight_segments_us: u64,
    /// An own interface held packets in its queue at more than half of the looks.
    pub own_queue: bool,
    /// How often it was looked at, and in how many looks one segment was unacknowledged for longer than the path takes, less than another one was held
    /// back, and nothing was lost.
    pub looks: u32,
    /// See `looks`.
    pub held_back: u32,
    pub timeouts: u32,
    /// A full-sized segment waits, and less than one was ever acknowledged.
    pub large_unacknowledged: bool,
}

impl ConnectionFacts {
    /// Whether it is the other end that waited to send.
    pub fn is_sender_there(&self) -> bool {
        self.receive_buffer_full || self.receives || self.are_answers_held()
    }

    /// An answer's rest comes only upon the ACK of its beginning, which this host delays.
    fn are_answers_held(&self) -> bool {
        self.split_answers >= 10 && self.acks_delayed * 3 >= self.split_answers * 2
    }

    /// The one cause that explains the wait; none where nobody waited, or several causes took their part.
    pub fn cause(&self) -> Option<Cause> {
        let queue = self.queueing_us >= QUEUE_US
            && self.queueing_us >= self.eight_segments_us.min(1_000_000);
        Some(match self {
            f if f.timeouts >= TIMEOUTS && f.large_unacknowledged => Cause::MtuBlackHole,
            f if f.held_back >= 2 && f.held_back * 3 >= f.looks => Cause::DelayedAck,
            f if f.are_answers_held() => Cause::DelayedAck,
            f if f.receive_buffer_full => Cause::ReceiverWindow,
            // A queue of this host holds what it sends, not what comes.
            f if queue && f.own_queue && f.receives => return None,
            f if queue && f.own_queue => Cause::OwnQueue,
            _ if queue => Cause::PathQueue,
            f if f.window_share > MOST => Cause::ReceiverWindow,
            f if f.buffer_share > MOST => Cause::SendBuffer,
            f if f.idle_share > MOST => Cause::SenderIdle,
            _ => return None,
        })
    }
}

/// What one end's kernel counted of TCP; of connections that are open, without their SYNs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossFacts {
    /// Segments of data that were sent for the first time.
    pub sent: u64,
    pub again: u64,
    /// Timers that ran out: for a retransmission, or for a probe of the tail (RFC 8985, section 7).
    pub timers: u64,
}

impl LossFacts {
    /// How losses were met, where there are enough of them: one in a hundred of 1000 segments, one in ten of fewer, or 20 timers that ran out.
    pub fn cause(&self) -> Option<Cause> {
        let Self { sent, again, timers } = *self;
        let lossy = again >= 20 && again * 100 > sent;
        let mostly_timers = timers * 2 >= again;
        match lossy {
            true if mostly_timers => Some(Cause::RetransmissionTimeout),
            true => Some(Cause::FastRetransmit),
            false if timers >= 20 && mostly_timers && again * 1000 >= sent => {
                Some(Cause::RetransmissionTimeout)
            }
            false => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fact_that_stands_out_is_the_cause_and_shares_of_several_are_none() {
        let none = ConnectionFacts::default();
        for (facts, cause) in [
            (none, None),
            (ConnectionFacts { window_share: 0.5, buffer_share: 0.5, ..none }, None),
            (ConnectionFacts { window_share: 0.9, ..none }, Some(Cause::ReceiverWindow)),
            (ConnectionFacts { receive_buffer_full: true, ..none }, Some(Cause::ReceiverWindow)),
            (ConnectionFacts { buffer_share: 0.9, ..none }, Some(Cause::SendBuffer)),
            (ConnectionFacts { idle_share: 0.8, ..none }, Some(Cause::SenderIdle)),
            // A queue explains a full window: what stands in it is not acknowledged.
            (
                ConnectionFacts { queueing_us: 80_000, window_share: 0.9, ..none },
                Some(Cause::PathQueue),
            ),
            (
                ConnectionFacts { queueing_us: 80_000, own_queue: true, ..none },
                Some(Cause::OwnQueue),
            ),
            // Eight segments take 97 ms at 1 Mbit/s.
            (ConnectionFacts { queueing_us: 80_000, eight_segments_us: 97_000, ..none }, None),
            (ConnectionFacts { looks: 6, held_back: 2, ..none }, Some(Cause::DelayedAck)),
            (ConnectionFacts { looks: 7, held_back: 2, ..none }, None),
            (
                ConnectionFacts { split_answers: 60, acks_delayed: 59, ..none },
                Some(Cause::DelayedAck),
            ),
            (ConnectionFacts { split_answers: 60, acks_delayed: 30, ..none }, None),
            (
                ConnectionFacts { queueing_us: 80_000, own_queue: true, receives: true, ..none },
                None,
            ),
            (
                ConnectionFacts { timeouts: 3, large_unacknowledged: true, ..none },
                Some(Cause::MtuBlackHole),
            ),
            (ConnectionFacts { timeouts: 3, ..none }, None),
        ] {
            assert_eq!(facts.cause(), cause, "{facts:?}");
        }
    }

    #[test]
    fn losses_are_met_by_a_timer_or_at_once() {
        let cause = |sent, again, timers| LossFacts { sent, again, timers }.cause();
        assert_eq!(cause(100_000, 5000, 30), Some(Cause::FastRetransmit));
        assert_eq!(cause(150, 120, 90), Some(Cause::RetransmissionTimeout));
        assert_eq!(cause(100, 20, 0), Some(Cause::FastRetransmit));
        assert_eq!(cause(200, 26, 26), Some(Cause::RetransmissionTimeout), "probes of the tail");
        assert_eq!([cause(100_000, 900, 5), cause(100, 5, 5), cause(0, 0, 0)], [None; 3]);
        assert_eq!(cause(1_000_000, 30, 30), None, "three in a hundred thousand");
    }
}
