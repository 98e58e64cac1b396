//! Whether a packet was recorded before: a router's capture on all its devices sees each come and go, a mirror port often too.
//!
//! ```text
//!   in    64 hops left   A ──►┌────────┐
//!                             │ router │          the same packet: same ends, numbers, flags, timestamps, identification;
//!   out   63 hops left        └────────┘──► A     fewer hops left, or sooner than any sender sends it again
//! ```
//!
//! What a sender sends again has another identification or a later timestamp. Where it has neither (answers to SYNs by Linux, IPv6) the time tells,
//! and the router that took a hop.

use crate::packet::TcpPacket;
use crate::time::Time;
use quell_units::Span;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// Packets that are remembered: those of a deep queue, each way.
const MOST: usize = 16_384;

/// Nobody sends a SYN or its answer again as soon as this: the first timer is a second (RFC 6298, 2.1).
const OPENS_AGAIN: Span = Span::from_millis(500);

/// Nor anything else that names neither its place nor its time: the least timer of Linux.
const SENT_AGAIN: Span = Span::from_millis(200);

/// What two sightings of one packet have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct PacketPrint {
    ends: (SocketAddr, SocketAddr),
    id: Option<u16>,
    seq: u32,
    ack: Option<u32>,
    flags: u8,
    window: u16,
    length: u32,
    stamps: Option<(u32, u32)>,
    sack: [(u32, u32); 4],
}

impl PacketPrint {
    fn of(packet: &TcpPacket) -> Self {
        let segment = &packet.segment;
        let mut sack = [(0, 0); 4];
        sack.iter_mut().zip(segment.options.sack()).for_each(|(place, block)| *place = *block);
        PacketPrint {
            ends: (packet.from, packet.to),
            id: packet.identification.filter(|id| *id != 0),
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags.0,
            window: segment.window,
            length: segment.length,
            stamps: segment.options.timestamps,
            sack,
        }
    }
}

/// A packet that passed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighting {
    time: Time,
    /// In which packet of the capture.
    pub(crate) number: u64,
    hops: u8,
}

impl Sighting {
    /// Whether one that is the same in all is this packet, seen once more.
    pub(crate) fn is_of(&self, now: Time, packet: &TcpPacket) -> bool {
        let age = now.since(self.time);
        if packet.segment.flags.syn() {
            return age < OPENS_AGAIN;
        }
        let numbered = packet.identification.is_some_and(|id| id != 0);
        let named = numbered || packet.segment.options.timestamps.is_some();
        match packet.hops_left < self.hops {
            true => named || age < SENT_AGAIN,
            // By two devices, or a mirror port.
            false => numbered && age < SENT_AGAIN,
        }
    }
}

/// The last packets of a capture.
#[derive(Debug, Default)]
pub(crate) struct Sightings {
    first: HashMap<PacketPrint, Sighting>,
    order: VecDeque<(PacketPrint, u64)>,
}

impl Sightings {
    /// A packet passes: the look at one before that is the same in all.
    pub(crate) fn before(
        &mut self,
        now: Time,
        number: u64,
        packet: &TcpPacket,
    ) -> Option<Sighting> {
        let print = PacketPrint::of(packet);
        let before = self.first.get(&print).copied();
        let is_seen_again = before.is_some_and(|before| before.is_of(now, packet));
        if is_seen_again && !packet.segment.flags.syn() {
            return before;
        }
        self.first.insert(print, Sighting { time: now, number, hops: packet.hops_left });
        self.order.push_back((print, number));
        if self.order.len() > MOST
            && let Some((oldest, number)) = self.order.pop_front()
            && self.first.get(&oldest).is_some_and(|look| look.number == number)
        {
            self.first.remove(&oldest);
        }
        before
    }
}
