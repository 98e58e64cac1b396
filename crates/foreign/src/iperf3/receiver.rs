//! What iperf3's end tells of the receiver of datagrams: its own seconds and its own sum. The line of each stream has the sender's seconds, and what
//! was sent.

use super::part::IntervalPart;
use quell_model::{MeasuredDatagrams, MeasuredFlow};
use serde::Deserialize;

/// A sum over streams.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ReceiverSum {
    start: Option<f64>,
    end: Option<f64>,
    bytes: Option<f64>,
    packets: Option<i64>,
}

pub(super) struct Receiver {
    pub seconds: f64,
    /// What it got, as a part of what was sent and not lost: what is under way in the end is neither.
    part: f64,
}

/// Datagrams sent and lost, and bytes of those that were not lost; none where the file does not tell them.
fn sums(udp: &IntervalPart) -> Option<(i64, i64, f64)> {
    let (sent, lost) = udp.datagrams()?;
    let arrived = if sent > 0 { udp.bytes * (sent - lost) as f64 / sent as f64 } else { 0.0 };
    Some((sent, lost, arrived))
}

impl Receiver {
    /// None where the sums are not of the streams that were sent from here, as older versions write none, or can't be.
    pub fn of<'a>(
        streams: impl Iterator<Item = &'a IntervalPart>,
        sum_sent: &ReceiverSum,
        sum: &ReceiverSum,
    ) -> Option<Self> {
        let (mut sent, mut arrived) = (0_i64, 0.0);
        for udp in streams {
            let (stream_sent, _, stream_arrived) = sums(udp)?;
            sent = sent.checked_add(stream_sent)?;
            arrived += stream_arrived;
        }
        let seconds = sum.end? - sum.start.unwrap_or(0.0);
        let part = sum.bytes? / arrived;
        // Both directions at once have a sum of each; this is that of what these sent.
        let is_theirs = sum_sent.packets == Some(sent) && sum.packets? <= sent;
        let can_be = (0.0..=1.0 + 1e-9).contains(&part) && seconds > 0.0 && seconds < 1e9;
        (is_theirs && can_be).then_some(Self { seconds, part })
    }

    pub fn measured(&self, udp: &IntervalPart) -> Option<MeasuredFlow> {
        let (sent, lost, bytes) = sums(udp)?;
        let arrived = ((sent - lost) as f64 * self.part).round() as u64;
        let (sent, lost) = (sent.cast_unsigned(), lost.cast_unsigned());
        let datagrams = MeasuredDatagrams { sent, arrived, lost, jitter_ms: udp.jitter_ms };
        Some(MeasuredFlow {
            seconds: Some(self.seconds),
            received_bytes: Some((bytes * self.part).round() as u64),
            retransmits: None,
            datagrams: Some(datagrams),
        })
    }
}
