//! What was found of one stream, for whoever keeps the test: the same figures as those of its direction, stream by stream.

use crate::fate::Fate;
use crate::findings::received_in;
use crate::{Findings, LaneOutcome, Outcome, Transport};
use quell_model::{MeasuredDatagrams, MeasuredFlow};

impl Findings {
    /// Of this stream; none where its direction was not measured.
    pub fn measured(&self, outcome: &Outcome, lane: &LaneOutcome) -> Option<MeasuredFlow> {
        let way = if lane.sends { &self.up } else { &self.down }.as_ref()?;
        let udp = outcome.plan.transport == Transport::Udp;
        let theirs = outcome.their_stream(lane.id);
        let received_bytes = match (lane.sends, theirs) {
            (false, _) => Some(lane.mark.moment.bytes),
            (true, Some(told)) if way.by_receiver => Some(told.bytes),
            // What was acknowledged arrived; of datagrams nobody else knows.
            (true, _) => Some(lane.mark.moment.bytes).filter(|_| !udp),
        };
        let retransmits = match lane.sends {
            true => Some(lane.mark.moment.retransmits),
            false => theirs.and_then(|told| u64::try_from(told.retransmits).ok()),
        };
        let fate = Fate::of(outcome, lane).filter(|_| udp && way.by_receiver);
        Some(MeasuredFlow {
            seconds: received_in(outcome, lane).and(way.seconds),
            received_bytes,
            retransmits: retransmits.filter(|_| !udp),
            datagrams: fate.filter(|fate| !fate.is_unknown()).map(|fate| MeasuredDatagrams {
                sent: fate.sent,
                arrived: fate.arrived,
                lost: fate.lost,
                jitter_ms: fate.jitter_ms,
            }),
        })
    }
}
