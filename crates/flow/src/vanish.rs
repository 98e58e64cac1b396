//! A stream whose full segments never arrive where small packets do: a path MTU black hole (RFC 2923, section 2.1).

use crate::LaneOutcome;
use quell_model::{EchoSample, EchoStatus};
use quell_wire::iperf3::{Moment, PartStream};
use serde::Serialize;

/// Times that the kernel sent again before silence says something.
pub(crate) const AGAIN: u64 = 3;
/// Pings that must have had an answer meanwhile.
const ANSWERED: usize = 10;

/// Full segments that were sent in vain, beside small packets that were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Vanishing {
    /// Payload of each in bytes.
    #[serde(rename = "segment_bytes")]
    pub segment: u64,
    /// How often the kernel sent some of them again; not one was acknowledged. None where the server sent them, and could not tell.
    pub sent_again: Option<u64>,
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
        let full = |lane: &&LaneOutcome| is_full(&lane.mark.moment);
        let segment = lanes.iter().map(|lane| lane.mark.moment.segment).min()?;
        let all = lanes.iter().all(|lane| again(lane) >= AGAIN && full(lane));
        beside(pings).filter(|_| all).map(|(pings_answered, pings)| Self {
            segment,
            sent_again: Some(lanes.iter().map(again).sum()),
            pings_answered,
            pings,
        })
    }

    /// The same of streams that the server sent: not one byte of them came. It tells of its segments in its results; these vanish as well where they
    /// are large, so that it is heard that they are to come, and they don't; or this end's do, for which it waits (`results_vanished`).
    pub fn of_theirs(
        lanes: &[&LaneOutcome],
        told: &[Option<&PartStream>],
        results_vanished: bool,
        pings: &[EchoSample],
    ) -> Option<Self> {
        let came = |lane: &&LaneOutcome| {
            lane.sends || lane.mark.moment.bytes > 0 || lane.omitted.moment.bytes > 0
        };
        if lanes.is_empty() || lanes.iter().any(came) {
            return None;
        }
        let last = |part: &Option<&PartStream>| part.and_then(|part| part.moments.last().copied());
        let theirs: Option<Vec<Moment>> = told.iter().map(last).collect();
        let (segment, sent_again) = match theirs {
            Some(theirs) if !theirs.is_empty() => {
                let in_vain =
                    |m: &Moment| m.acked < m.segment && m.retransmits >= AGAIN && is_full(m);
                let again = theirs.iter().map(|moment| moment.retransmits).sum();
                let segment = theirs.iter().map(|moment| moment.segment).min()?;
                theirs.iter().all(in_vain).then_some((segment, Some(again)))?
            }
            // Both ends of a connection agree on its segments, but for options.
            _ if results_vanished => (lanes.iter().filter_map(|lane| lane.mss).min()?.into(), None),
            _ => return None,
        };
        let (pings_answered, pings) = beside(pings)?;
        Some(Self { segment, sent_again, pings_answered, pings })
    }
}

/// Whether what waits to be acknowledged has to be full segments: the tail of a piece is small.
fn is_full(moment: &Moment) -> bool {
    moment.segment > 0 && moment.in_flight + moment.unsent >= moment.segment
}

/// How many pings were answered, of how many, where these are nearly all.
fn beside(pings: &[EchoSample]) -> Option<(usize, usize)> {
    let answered = pings.iter().filter(|ping| ping.status == EchoStatus::Ok).count();
    (answered >= ANSWERED && answered * 10 >= pings.len() * 9).then_some((answered, pings.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneCounts;

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
        assert_eq!((found.segment, found.sent_again, found.pings_answered), (1448, Some(5), 200));
        assert_eq!(seen(&lane(1448, 5), &pings(200, 200)), None, "one arrived");
        assert_eq!(seen(&lane(0, 2), &pings(200, 200)), None, "not yet");
        assert_eq!(seen(&lane(0, 5), &pings(80, 200)), None, "the path is down for all sizes");
        assert_eq!(seen(&lane(0, 5), &[]), None, "nobody knows");
    }

    #[test]
    fn what_the_server_sends_vanishes_where_it_says_so_or_where_even_its_results_do() {
        let here = LaneOutcome {
            mss: Some(1448),
            ..LaneOutcome::example(false, LaneCounts::default(), LaneCounts::default())
        };
        let pings = pings(100, 100);
        let told = |acked, retransmits| PartStream {
            moments: vec![Moment {
                acked,
                retransmits,
                segment: 1400,
                unsent: 9000,
                ..Moment::default()
            }],
            ..PartStream::default()
        };
        let seen = |part: Option<&PartStream>, vanished| {
            Vanishing::of_theirs(&[&here], &[part], vanished, &pings)
        };
        let found = seen(Some(&told(0, 5)), false).expect("it says so");
        assert_eq!((found.segment, found.sent_again), (1400, Some(5)));
        assert_eq!(seen(Some(&told(1400, 5)), false), None, "one arrived, and its ACK");
        assert_eq!(seen(Some(&told(0, 2)), true), None, "not yet");
        let found = seen(None, true).expect("small words came and large ones did not");
        assert_eq!((found.segment, found.sent_again), (1448, None));
        assert_eq!(seen(None, false), None, "the server is gone");
        let mark = LaneCounts {
            moment: Moment { bytes: 1, ..Moment::default() },
            ..LaneCounts::default()
        };
        let came = LaneOutcome { mark, ..here.clone() };
        assert_eq!(Vanishing::of_theirs(&[&came], &[None], true, &pings), None, "something came");
    }
}
