//! A stream whose full segments never arrive where small packets do: a path MTU black hole (RFC 2923, section 2.1).

use crate::LaneOutcome;
use quell_model::{EchoSample, EchoStatus};
use serde::Serialize;

/// Times that the kernel sent again before silence says something.
const AGAIN: u64 = 3;
/// Pings that must have had an answer meanwhile.
const ANSWERED: usize = 10;

/// Full segments that were sent in vain, beside small packets that were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Vanishing {
    /// Payload of each in bytes.
    #[serde(rename = "segment_bytes")]
    pub segment: u64,
    /// How often the kernel sent some of them again; not one was acknowledged.
    pub sent_again: u64,
    /// Pings that were answered meanwhile.
    pub pings_answered: usize,
    /// Of so many.
    pub pings: usize,
}

impl Vanishing {
    /// Of streams that this end sent and of which the receiver told nothing else, and the pings beside them. What made a stream known is small and was acknowledged; of what came behind it nothing
    /// was, though it was sent again and again; and nearly all pings had their answer, so that the path loses none of their size.
    pub fn of(lanes: &[&LaneOutcome], pings: &[EchoSample]) -> Option<Self> {
        let in_vain = |lane: &&LaneOutcome| {
            let moment = &lane.mark.moment;
            lane.sends && lane.moved.0 > 0 && moment.bytes == 0 && lane.omitted.moment.bytes == 0
        };
        if lanes.is_empty() || !lanes.iter().all(in_vain) {
            return None;
        }
        let again =
            |lane: &&LaneOutcome| lane.mark.moment.retransmits + lane.omitted.moment.retransmits;
        let segment = lanes.iter().map(|lane| lane.mark.moment.segment).min()?;
        // The tail of a piece is small: what waits to be acknowledged has to be full segments.
        let full = lanes.iter().all(|l| {
            again(l) >= AGAIN && l.mark.moment.in_flight + l.mark.moment.unsent >= segment
        });
        let answered = pings.iter().filter(|ping| ping.status == EchoStatus::Ok).count();
        let most = answered >= ANSWERED && answered * 10 >= pings.len() * 9;
        (segment > 0 && full && most).then(|| Self {
            segment,
            sent_again: lanes.iter().map(again).sum(),
            pings_answered: answered,
            pings: pings.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneCounts;
    use quell_wire::iperf3::Moment;

    fn lane(acked: u64, retransmits: u64) -> LaneOutcome {
        let moment = Moment {
            bytes: acked,
            retransmits,
            segment: 1448,
            in_flight: 1448,
            unsent: 300_000,
            ..Moment::default()
        };
        let mark = LaneCounts { moment, ..LaneCounts::default() };
        LaneOutcome {
            moved: (400_000, 0),
            ..LaneOutcome::example(true, LaneCounts::default(), mark)
        }
    }

    fn pings(answered: usize, all: usize) -> Vec<EchoSample> {
        let status = |n| if n < answered { EchoStatus::Ok } else { EchoStatus::Lost };
        (0..all).map(|n| EchoSample::new(n as i64 * 50_000_000, n as u64, 56, status(n))).collect()
    }

    #[test]
    fn only_segments_that_never_arrive_beside_pings_that_do_vanish_for_their_size() {
        let seen = |lane: &LaneOutcome, pings: &[EchoSample]| Vanishing::of(&[lane], pings);
        let found = seen(&lane(0, 5), &pings(200, 200)).expect("a black hole");
        assert_eq!((found.segment, found.sent_again, found.pings_answered), (1448, 5, 200));
        assert_eq!(seen(&lane(1448, 5), &pings(200, 200)), None, "one arrived");
        assert_eq!(seen(&lane(0, 2), &pings(200, 200)), None, "not yet");
        assert_eq!(seen(&lane(0, 5), &pings(80, 200)), None, "the path is down for all sizes");
        assert_eq!(seen(&lane(0, 5), &[]), None, "nobody knows");
    }
}
