//! What iperf3 tells of a stream, in one line of its JSON, and what its end tells of the receiver of datagrams.

use crate::imported::ImpossibleValues;
use crate::json::{Integer, Number};
use quell_model::{MeasuredDatagrams, MeasuredFlow};
use serde::Deserialize;
use serde_json::Value;

/// Most datagrams and the like that are believed.
pub(super) const MOST: i64 = 1 << 40;

/// Where 32 bits begin anew: a number a little below is one below zero.
const WRAP: i64 = 1 << 32;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct IntervalPart {
    pub socket: Integer,
    start: Number,
    end: Number,
    bytes: Number,
    retransmits: Integer,
    snd_cwnd: Integer,
    rtt: Integer,
    packets: Integer,
    lost_packets: Integer,
    jitter_ms: Number,
    pub out_of_order: Integer,
    omitted: Value,
    sender: Value,
}

/// The same, as far as it can be.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub start: f64,
    pub end: f64,
    pub bytes: Option<f64>,
    pub retransmits: Option<i64>,
    /// The congestion window in bytes, and the round trip: none where the kernel does not tell them.
    pub cwnd: Option<i64>,
    pub rtt_us: Option<i64>,
    pub packets: Option<i64>,
    /// In an interval, lost ones that came late are taken back: below zero.
    pub lost: Option<i64>,
    pub jitter_ms: Option<f64>,
}

impl IntervalPart {
    pub fn omitted(&self) -> bool {
        self.omitted == Value::Bool(true)
    }

    pub fn sender(&self) -> Option<bool> {
        self.sender.as_bool()
    }

    /// None where its times can't be. `omits`: the test has an omitted time (-O), at whose end iperf3 counts anew: an interval may then begin behind
    /// its end.
    pub fn counted(
        &self,
        omits: bool,
        impossible: &mut ImpossibleValues,
        place: impl Fn() -> String,
    ) -> Option<Counted> {
        let longest = crate::bounds::MOST_SECONDS;
        let missing = Some(f64::NAN);
        let start = impossible.check(self.start.0.or(missing), 0.0..=longest, "start", &place)?;
        let least = if omits { 0.0 } else { start };
        let end = impossible.check(self.end.0.or(missing), least..=longest, "end", &place)?;
        let mut count = |value: Integer, least: i64, what: &str| {
            let most = if what.ends_with("packets") { MOST } else { i32::MAX.into() };
            let wrapped = |n: &i64| (WRAP - (1 << 16)..WRAP).contains(n);
            let value = value.0.map(|n| if wrapped(&n) { n - WRAP } else { n });
            impossible.check(value, least..=most, what, &place)
        };
        // -1 is what iperf3 writes where the kernel does not tell a round trip or a window.
        let told = |value: Integer| Integer(value.0.filter(|value| *value != -1));
        let retransmits = count(self.retransmits, 0, "retransmits");
        let cwnd = count(told(self.snd_cwnd), 0, "snd_cwnd");
        let rtt_us = count(told(self.rtt), 0, "rtt");
        let packets = count(self.packets, 0, "packets");
        let lost = count(self.lost_packets, -MOST, "lost_packets");
        count(self.out_of_order, 0, "out_of_order");
        let bytes = impossible.check(self.bytes.0.or(missing), 0.0..=9e15, "bytes", &place);
        let jitter_ms = impossible.check(self.jitter_ms.0, 0.0..=1e6, "jitter_ms", &place);
        Some(Counted { start, end, bytes, retransmits, cwnd, rtt_us, packets, lost, jitter_ms })
    }
}

impl Counted {
    /// Datagrams sent and lost; none where the file does not tell them, or tells what can't be.
    pub fn datagrams(&self) -> Option<(i64, i64)> {
        let (sent, lost) = (self.packets?, self.lost?);
        (0..=sent).contains(&lost).then_some((sent, lost))
    }

    /// Bytes of those that were not lost.
    fn arrived(&self) -> Option<f64> {
        let (sent, lost) = self.datagrams()?;
        let bytes = self.bytes?;
        Some(if sent > 0 { bytes * (sent - lost) as f64 / sent as f64 } else { 0.0 })
    }
}

/// A sum over streams.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ReceiverSum {
    start: Number,
    end: Number,
    bytes: Number,
    packets: Integer,
}

/// What the end tells of the receiver of datagrams that were sent from here: its own seconds and its own sum. The line of each stream has the
/// sender's seconds, and what was sent.
pub(super) struct Receiver {
    /// The sum is there, and has nothing: the receiver never told.
    is_empty: bool,
    /// There is no sum, as older versions write none.
    is_missing: bool,
    /// Its seconds, and what it got as a part of what was sent and not lost: what is under way in the end is neither.
    sum: Option<(f64, f64)>,
}

impl Receiver {
    pub fn of<'a>(
        streams: impl Iterator<Item = &'a Counted>,
        sum_sent: Option<&ReceiverSum>,
        sum: Option<&ReceiverSum>,
    ) -> Self {
        let is_empty = sum.is_some_and(|sum| {
            sum.bytes.0.unwrap_or(0.0) == 0.0 && sum.packets.0.unwrap_or(0) == 0
        });
        let part = || {
            let sum = sum?;
            let (mut sent, mut arrived) = (0_i64, 0.0);
            for udp in streams {
                sent = sent.checked_add(udp.datagrams()?.0)?;
                arrived += udp.arrived()?;
            }
            let seconds = sum.end.0? - sum.start.0.unwrap_or(0.0);
            let part = sum.bytes.0? / arrived;
            // Both directions at once have a sum of each; this is that of what these sent.
            let is_theirs = sum_sent?.packets.0 == Some(sent) && sum.packets.0? <= sent;
            let can_be = (0.0..=1.0 + 1e-9).contains(&part) && seconds > 0.0 && seconds < 1e9;
            (is_theirs && can_be).then_some((seconds, part))
        };
        Self { is_empty, is_missing: sum.is_none(), sum: part() }
    }

    /// Whether the zeros of a stream that was sent from here stand for nothing: the receiver told nothing, and a jitter of exactly 0 nobody measured.
    pub fn is_silent(&self, udp: &Counted) -> bool {
        let zeros = udp.lost == Some(0) && udp.jitter_ms.unwrap_or(0.0) == 0.0;
        zeros && (self.is_empty || self.is_missing) && udp.packets != Some(0)
    }

    pub fn measured(&self, udp: &Counted) -> Option<MeasuredFlow> {
        let (seconds, part) = self.sum?;
        let ((sent, lost), bytes) = udp.datagrams().zip(udp.arrived())?;
        let arrived = ((sent - lost) as f64 * part).round() as u64;
        let (sent, lost) = (sent.cast_unsigned(), lost.cast_unsigned());
        let datagrams = MeasuredDatagrams { sent, arrived, lost, jitter_ms: udp.jitter_ms };
        Some(MeasuredFlow {
            seconds: Some(seconds),
            received_bytes: Some((bytes * part).round() as u64),
            retransmits: None,
            datagrams: Some(datagrams),
        })
    }
}
