//! One end of a connection: what it sent, what it can receive, and what was told about both.

use super::hold::{Hold, Stamp};
use super::needless::Repeats;
use super::rtt::{RttSummary, Rtts};
use super::sender::Sender;
use super::window::Window;
use crate::packet::{Packet, Segment};
use crate::stretches::Stretches;
use crate::time::{Time, millis};
use quell_units::Span;
use serde::Serialize;
use std::collections::VecDeque;

/// Packets in a row in which copies are looked for.
const COPIES: usize = 4;

/// A segment that is shorter is small, where nobody told the MSS: the least that an IPv6 path takes, less headers.
const SURELY_FULL: u32 = 1208;

/// Hops that senders begin with: Linux and the BSDs, Windows, routers.
const FIRST_HOPS: [u8; 3] = [64, 128, 255];

/// What the timestamp option takes of each segment, padded.
const TIMESTAMPS: u32 = 12;

/// One end.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) sender: Sender,
    pub(super) window: Window,
    pub(super) hold: Hold,
    pub(super) rtts: Rtts,
    pub(super) repeats: Repeats,
    pub(super) data: u64,
    /// When the last of its segments with data passed, be it sent again.
    pub(super) passed: Option<Time>,
    pub(super) bytes_again: u64,
    pub(super) out_of_order: u64,
    pub(super) duplicate_acks: u64,
    pub(super) keep_alives: u64,
    pub(super) probes: u64,
    pub(super) resets: u64,
    pub(super) spurious: u64,
    /// Waits of its segments for ACKs that were late alone: the end of the connection tells by whom.
    pub(super) alone: (u64, Stretches),
    pub(super) fin: bool,
    pub(super) fin_acked: bool,
    packets: u64,
    segments: u64,
    pub(super) copies: u64,
    mss: Option<u16>,
    /// The other end's MSS is in its own `End`; this is the largest payload that was seen.
    largest: u32,
    stamped: bool,
    /// Its packets passed no router before they were captured.
    next: Option<bool>,
    /// They passed one.
    routed: bool,
    sack_permitted: bool,
    prints: VecDeque<Print>,
    /// The newest timestamp that it sent.
    stamp: Option<u32>,
}

/// What tells two captures of one packet from two packets.
type Print = (u16, u32, Option<u32>, u8, u32);

/// What one end sent.
#[derive(Debug, Clone, Serialize)]
pub struct EndSummary {
    /// Packets, copies left out.
    pub packets: u64,
    /// Packets with data.
    pub segments: u64,
    /// Data, each byte once.
    pub bytes: u64,
    /// Data that was sent again.
    pub bytes_again: u64,
    /// Segments that came behind later ones.
    pub out_of_order: u64,
    /// Duplicate ACKs that it was sent.
    pub duplicate_acks: u64,
    /// Retransmissions that the other end did not need.
    pub spurious: u64,
    /// Keep-alives.
    pub keep_alives: u64,
    /// Probes of a window that was zero.
    pub probes: u64,
    /// Resets.
    pub resets: u64,
    /// Packets that the capture holds more than once.
    pub captured_twice: u64,
    /// Bytes that were acknowledged, but are not in the capture.
    pub missed_bytes: u64,
    /// Largest segment that it takes.
    pub mss: Option<u16>,
    /// Shift of its windows; `None` if it has none or its SYN was not captured.
    pub window_scale: Option<u8>,
    /// Whether it takes selective acknowledgements.
    pub sack_permitted: bool,
    /// Largest window that it told, in bytes; not scaled if its SYN was not captured.
    pub largest_window: u64,
    /// How often its window was zero.
    pub zero_windows: u64,
    /// For how long in all.
    #[serde(rename = "zero_window_ms", serialize_with = "millis")]
    pub zero_window: Span,
    /// Round-trip times of what it sent, from the capture to the other end and back.
    pub rtt: RttSummary,
}

impl End {
    /// Whether this packet was captured before; only IPv4 tells.
    pub(super) fn is_copy(&mut self, packet: &Packet) -> bool {
        let Some(id @ 1..) = packet.identification else { return false };
        let Segment { seq, ack, flags, length, .. } = packet.segment;
        let print = (id, seq, ack, flags.0, length);
        if self.prints.contains(&print) {
            self.copies += 1;
            return true;
        }
        if self.prints.len() >= COPIES {
            self.prints.pop_front();
        }
        self.prints.push_back(print);
        false
    }

    /// Takes what every packet tells.
    pub(super) fn heard(&mut self, packet: &Packet) {
        let segment = &packet.segment;
        // In a tunnel nobody counts the routers.
        let next = packet.tunnel.is_none() && FIRST_HOPS.contains(&packet.hops_left);
        self.next = Some(next && self.next != Some(false));
        self.routed |= packet.tunnel.is_none() && !next;
        self.packets += 1;
        self.segments += u64::from(segment.length > 0);
        self.largest = self.largest.max(segment.length);
        self.stamped |= segment.options.timestamps.is_some();
        if let Some(id @ 1..) = packet.identification {
            self.sender.counted(id);
        }
        if segment.flags.syn() {
            self.mss = segment.options.mss;
            self.window.scale = segment.options.scale;
            self.sack_permitted = segment.options.sack_permitted;
        }
    }

    /// Whether a segment of this end is less than it could send.
    pub(super) fn is_small(&self, segment: &Segment, peer_mss: Option<u16>) -> bool {
        segment.length < self.full_segment(peer_mss)
    }

    /// The most that it can send in a segment.
    pub(super) fn full_segment(&self, peer_mss: Option<u16>) -> u32 {
        let options = if self.stamped { TIMESTAMPS } else { 0 };
        match peer_mss {
            Some(mss) => u32::from(mss).saturating_sub(options),
            None => self.largest.max(SURELY_FULL),
        }
    }

    /// Whether no router is between it and the capture.
    pub(super) fn is_next(&self) -> bool {
        self.next == Some(true)
    }

    /// Whether a router is between it and the capture for certain.
    pub(super) fn is_routed(&self) -> bool {
        self.routed
    }

    /// The largest payload that it sent.
    pub(super) fn largest_segment(&self) -> u32 {
        self.largest
    }

    /// The MSS that it told.
    pub(super) fn mss(&self) -> Option<u16> {
        self.mss
    }

    /// The least time from its segments' passing to their ACKs'.
    pub(super) fn least_path(&self) -> Option<Span> {
        self.hold.path().into_iter().chain(self.rtts.least()).min()
    }

    /// The timestamp of a packet of this end, and whether it is the first with it.
    pub(super) fn stamped(&mut self, segment: &Segment) -> Option<Stamp> {
        let (value, _) = segment.options.timestamps?;
        let newer = |last: u32| value.wrapping_sub(last).cast_signed() > 0;
        let fresh = self.stamp.is_none_or(newer);
        if fresh {
            self.stamp = Some(value);
        }
        Some(Stamp { value, fresh })
    }

    /// What there is to tell.
    pub(super) fn summary(&self) -> EndSummary {
        EndSummary {
            packets: self.packets,
            segments: self.segments,
            bytes: self.data,
            bytes_again: self.bytes_again,
            out_of_order: self.out_of_order,
            duplicate_acks: self.duplicate_acks,
            spurious: self.spurious,
            keep_alives: self.keep_alives,
            probes: self.probes,
            resets: self.resets,
            captured_twice: self.copies,
            missed_bytes: self.sender.missed,
            mss: self.mss,
            window_scale: self.window.scale,
            sack_permitted: self.sack_permitted,
            largest_window: self.window.largest,
            zero_windows: self.window.times,
            zero_window: self.window.total,
            rtt: self.rtts.summary(),
        }
    }
}
