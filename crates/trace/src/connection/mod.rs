//! A TCP connection, as a machine that is moved by its packets.
//!
//! ```text
//!   packet ──► end that sent it:  data stream (flight, sent again, out of order), window
//!          └─► other end:         what the ACK tells its stream: round trips, segments held until then
//! ```
//!
//! Each end takes a bounded amount of memory, however long the connection lasts.

mod data_stream;
mod held;
mod rtt;
mod window;

pub use rtt::{RttPoint, RttSummary};

use crate::moment::{ConnectionEnd, TcpEvent, TcpMoment};
use crate::packet::{Segment, TcpPacket};
use crate::sighting::Sighting;
use crate::time::{Time, millis, millis_or_null};
use data_stream::{DataStream, SegmentKind, SentAgain, Trigger};
use held::{HeldSegments, NewSegment};
use quell_cause::capture::CaptureFacts;
use quell_units::Span;
use rtt::Rtts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use window::{Window, ZeroWindow};

/// Zero windows that are shorter are no stalls: fast senders fill a buffer for microseconds at a time.
const SHORTEST_ZERO: Span = Span::from_millis(1);

/// A segment that is shorter is small, where nobody told the MSS: the least that an IPv6 path takes, less headers.
const SURELY_FULL: u32 = 1208;

/// What the timestamp option takes of each segment, padded.
const TIMESTAMPS: u32 = 12;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Both ends said FIN.
    Closed,
    /// One end broke it off.
    Reset,
    /// It was still there when the capture ended, or was too quiet to be kept.
    Open,
}

/// How often something happened, and how long was waited for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct EventCount {
    pub count: u64,
    #[serde(rename = "waited_ms", serialize_with = "millis")]
    pub waited: Span,
}

/// The three packets of an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Handshake {
    /// From SYN to its answer.
    #[serde(rename = "to_server_ms", serialize_with = "millis_or_null")]
    pub to_server: Option<Span>,
    /// From the answer to the client's ACK.
    #[serde(rename = "to_client_ms", serialize_with = "millis_or_null")]
    pub to_client: Option<Span>,
}

impl Handshake {
    /// The whole path's round trip.
    pub fn rtt(&self) -> Option<Span> {
        self.to_server.zip(self.to_client).map(|(server, client)| server + client)
    }
}

/// What one end sent.
#[derive(Debug, Clone, Default, Serialize)]
pub struct EndSummary {
    /// Packets, copies left out.
    pub packets: u64,
    /// Packets with data.
    pub segments: u64,
    /// Data, each byte once.
    pub bytes: u64,
    pub bytes_again: u64,
    /// Segments that came behind later ones.
    pub out_of_order: u64,
    /// Duplicate ACKs that it was sent.
    pub duplicate_acks: u64,
    /// Segments that the other end had twice (DSACK).
    pub needless: u64,
    pub keep_alives: u64,
    /// Probes of a window that was zero.
    pub probes: u64,
    pub resets: u64,
    /// Packets that the capture holds more than once.
    pub captured_twice: u64,
    /// Bytes that were acknowledged, but are not in the capture.
    pub missed_bytes: u64,
    /// Largest segment that it takes.
    pub mss: Option<u16>,
    /// Shift of its windows; none if it has none or its SYN was not captured.
    pub window_scale: Option<u8>,
    pub sack_permitted: bool,
    /// Largest window that it told, in bytes; not scaled if its SYN was not captured.
    pub largest_window: u64,
    pub zero_windows: u64,
    #[serde(rename = "zero_window_ms", serialize_with = "millis")]
    pub zero_window: Span,
    /// Round-trip times of what it sent, from the capture to the other end and back.
    pub rtt: RttSummary,
    pub facts: CaptureFacts,
}

/// What a connection was.
#[derive(Debug, Clone)]
pub struct ConnectionSummary {
    /// Who opened it, or was seen first.
    pub client: SocketAddr,
    pub server: SocketAddr,
    /// Its opening was captured.
    pub opened: bool,
    /// When its first and last packet passed.
    pub times: (Time, Time),
    pub ending: Ending,
    pub handshake: Handshake,
    /// What the client sent, and the server.
    pub ends: [EndSummary; 2],
    pub events: BTreeMap<TcpEvent, EventCount>,
    pub moments: Vec<TcpMoment>,
    /// Packets whose numbers belong to no sense of it.
    pub strange: u64,
}

/// One end: what it sent, and what it can receive.
#[derive(Debug, Default)]
struct EndState {
    stream: DataStream,
    window: Window,
    held: HeldSegments,
    rtts: Rtts,
    /// Of answers that carried data: nobody delays these.
    answers: Rtts,
    told: EndSummary,
    fin: bool,
    fin_acked: bool,
    largest: u32,
    stamped: bool,
    /// Its SYN or answer to one: its sequence number, when it passed last, and in which packet.
    opening: Option<(u32, Time, u64)>,
}

impl EndState {
    /// Takes what every packet tells.
    fn heard(&mut self, segment: &Segment) {
        self.told.packets += 1;
        self.told.segments += u64::from(segment.length > 0);
        self.largest = self.largest.max(segment.length);
        self.stamped |= segment.options.timestamps.is_some();
        if segment.flags.syn() {
            self.told.mss = segment.options.mss;
            self.window.scale = segment.options.scale;
            self.told.sack_permitted = segment.options.sack_permitted;
        }
    }

    /// The most that it can send in a segment.
    fn full_segment(&self, peer_mss: Option<u16>) -> u32 {
        let options = if self.stamped { TIMESTAMPS } else { 0 };
        match peer_mss {
            Some(mss) => u32::from(mss).saturating_sub(options),
            None => self.largest.max(SURELY_FULL),
        }
    }

    fn summary(mut self, opening: Option<Span>) -> EndSummary {
        self.stream.finish();
        let ms = |span: Span| span.as_millis_f64();
        let path = self.answers.quantile(1, 2).or(opening).or(self.rtts.least());
        let acks = &self.held.acks;
        let facts = &mut self.told.facts;
        facts.needless = self.told.needless;
        facts.sent = self.told.segments.saturating_sub(facts.sent_again);
        facts.held_ms = ms(self.held.waited);
        facts.held = acks.count();
        facts.held_ack_least_ms = acks.least().map_or(0.0, ms);
        facts.held_ack_ms = acks.quantile(1, 2).map_or(0.0, ms);
        facts.not_held = self.held.not_held;
        facts.path_ms = path.map(ms);
        facts.largest_arrived = self.stream.largest_arrived;
        facts.too_large = self.stream.too_large();
        facts.out_of_order = self.told.out_of_order;
        EndSummary {
            missed_bytes: self.stream.missed,
            window_scale: self.window.scale,
            largest_window: self.window.largest,
            zero_windows: self.window.times,
            zero_window: self.window.total,
            rtt: self.rtts.summary(),
            ..self.told
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    begin: Time,
    latest: Time,
    up: EndState,
    down: EndState,
    handshake: Handshake,
    ending: Ending,
    events: BTreeMap<TcpEvent, EventCount>,
    moments: Vec<TcpMoment>,
    most_moments: usize,
    strange: u64,
}

impl Connection {
    /// A connection that begins with this packet; no more than `most_moments` are kept.
    pub(crate) fn new(now: Time, packet: &TcpPacket, most_moments: usize) -> Self {
        let flags = packet.segment.flags;
        let (client, server) = match flags.syn() && flags.ack() {
            true => (packet.to, packet.from),
            false => (packet.from, packet.to),
        };
        Self {
            client,
            server,
            begin: now,
            latest: now,
            up: EndState::default(),
            down: EndState::default(),
            handshake: Handshake::default(),
            ending: Ending::Open,
            events: BTreeMap::new(),
            moments: Vec::new(),
            most_moments,
            strange: 0,
        }
    }

    /// Whether it may still go on.
    pub(crate) fn is_open(&self) -> bool {
        self.ending == Ending::Open
    }

    /// Whether a packet opens another connection between the same ends.
    pub(crate) fn is_succeeded_by(&self, packet: &TcpPacket) -> bool {
        let flags = packet.segment.flags;
        let known = match (flags.ack(), packet.from == self.client) {
            (false, true) => self.up.opening,
            (true, false) => self.down.opening,
            (false, false) => None,
            (true, true) => return flags.syn(),
        };
        flags.syn()
            && match known {
                Some((seq, ..)) => seq != packet.segment.seq,
                // A SYN of the end that so far answered; or the first that is captured, late, of one that goes on.
                None => self.ending != Ending::Open || !flags.ack(),
            }
    }

    /// Packets of it that were there before.
    pub(crate) fn copies(&self) -> u64 {
        self.up.told.captured_twice + self.down.told.captured_twice
    }

    /// Whether this packet is one that passed then, seen once more. An answer behind another SYN is that one's.
    fn is_seen_again(&self, now: Time, packet: &TcpPacket, before: &Sighting) -> bool {
        let answers = packet.segment.flags.syn() && packet.from != self.client;
        let asked_again = self.up.opening.is_some_and(|(.., syn)| syn > before.number);
        before.is_of(now, packet) && !(answers && asked_again)
    }

    /// Takes a packet of this connection; `before` is the last sighting of one that was the same in all.
    pub(crate) fn packet(
        &mut self,
        now: Time,
        number: u64,
        packet: &TcpPacket,
        before: Option<Sighting>,
    ) {
        let side = match packet.from == self.client {
            true => ConnectionEnd::Client,
            false => ConnectionEnd::Server,
        };
        self.latest = self.latest.max(now);
        let segment = &packet.segment;
        if before.is_some_and(|before| self.is_seen_again(now, packet, &before)) {
            self.end(side).told.captured_twice += 1;
            return;
        }
        self.end(side).heard(segment);
        if segment.flags.rst() {
            self.reset(now, number, side);
            return;
        }
        if segment.flags.syn() {
            self.syn(now, number, side, packet);
        }
        if let Some(ack) = segment.ack {
            self.ack(now, number, side, ack, segment);
        }
        if segment.extent() > 0 && !segment.flags.syn() {
            self.data(now, number, side, packet);
        } else if segment.ack.is_some() && self.end(side).stream.is_behind(segment) {
            match self.end(side.other()).window.is_zero() {
                true => self.probe(number, side),
                false => self.end(side).told.keep_alives += 1,
            }
        }
        // Without the opening windows have no scale, and would seem small.
        if self.down.opening.is_some() {
            for side in ConnectionEnd::BOTH {
                let own = self.end(side);
                let (extent, segment) = (own.stream.extent(), own.largest);
                self.end(side.other()).window.filled.seen(now, number, extent, segment);
            }
        }
        if self.up.fin_acked && self.down.fin_acked && self.ending == Ending::Open {
            self.ending = Ending::Closed;
        }
    }

    fn end(&mut self, side: ConnectionEnd) -> &mut EndState {
        match side {
            ConnectionEnd::Client => &mut self.up,
            ConnectionEnd::Server => &mut self.down,
        }
    }

    fn reset(&mut self, now: Time, number: u64, side: ConnectionEnd) {
        // A reset after the end, or a second one, is tidying up.
        if self.ending == Ending::Open {
            self.ending = Ending::Reset;
            let refused = side == ConnectionEnd::Server
                && self.up.opening.is_some()
                && self.down.opening.is_none();
            let event = if refused { TcpEvent::Refused } else { TcpEvent::Reset };
            self.happened(TcpMoment {
                packets: [Some(number), None, None],
                ..at(now, side, event)
            });
        }
        self.end(side).told.resets += 1;
    }

    fn syn(&mut self, now: Time, number: u64, side: ConnectionEnd, packet: &TcpPacket) {
        let segment = &packet.segment;
        let before = self.end(side).opening.replace((segment.seq, now, number));
        if let Some((_, time, first)) = before {
            let waited = now.since(time);
            // A SYN that comes twice is answered twice; and who had its answer waited for nothing.
            let by_timer = match side {
                ConnectionEnd::Client => self.down.opening.is_none(),
                ConnectionEnd::Server => {
                    self.up.opening.is_some_and(|(_, syn, _)| syn < time)
                        && !self.down.fin_acked
                        && self.handshake.to_client.is_none()
                }
            };
            if by_timer {
                let facts = &mut self.end(side).told.facts;
                facts.syns_again += 1;
                facts.syn_ms += waited.as_millis_f64();
            }
            self.happened(TcpMoment {
                waited: by_timer.then_some(waited),
                packets: [Some(first), Some(number), None],
                ..at(time, side, TcpEvent::SynAgain)
            });
            return;
        }
        self.end(side).stream.sent(now, number, packet, None, u32::MAX);
        if side == ConnectionEnd::Server {
            let sent_once = self.up.told.facts.syns_again == 0;
            let syn = self.up.opening.filter(|_| sent_once);
            self.handshake.to_server = syn.map(|(_, time, _)| now.since(time));
            // Scaling holds only if both want it (RFC 7323, 2.2).
            if self.up.window.scale.is_none() || self.down.window.scale.is_none() {
                self.up.window.scale = None;
                self.down.window.scale = None;
            }
        }
    }

    /// What an ACK of `side` tells the other end's stream.
    fn ack(&mut self, now: Time, number: u64, side: ConnectionEnd, ack: u32, segment: &Segment) {
        if let (ConnectionEnd::Client, Some((seq, time, _)), None) =
            (side, self.down.opening, self.handshake.to_client)
            && !segment.flags.syn()
            && self.down.told.facts.syns_again == 0
            && ack == seq.wrapping_add(1)
        {
            self.handshake.to_client = Some(now.since(time));
        }
        let begin = self.begin;
        let stream = &self.end(side.other()).stream;
        let (progress, (heard, _)) = (stream.progress(ack), stream.extent());
        let own = self.end(side);
        let bare = segment.extent() == 0
            && (own.window.is_same(segment.window) || !segment.options.sack().is_empty());
        let was_zero = own.window.is_zero();
        let opened = match own.window.is_newer(segment.seq, progress > 0, progress < 0) {
            true => {
                let place = (segment.seq, heard + progress);
                own.window.told(now, number, place, segment.window, !segment.flags.syn())
            }
            false => None,
        };
        if let Some((zero, waited)) = opened {
            self.zero_window(side, zero, Some(number), waited);
        }
        let alone = segment.extent() == 0;
        let other = self.end(side.other());
        let effect = other.stream.acknowledged(now, ack, segment, bare);
        other.told.duplicate_acks += u64::from(effect.duplicate);
        other.told.needless += u64::from(effect.twice);
        other.told.facts.answers_lost += u64::from(effect.twice && effect.first_answer);
        if effect.new {
            // The answer to a SYN is the handshake's business.
            if let Some(took) = effect.took.filter(|_| !segment.flags.syn() && other.told.bytes > 0)
            {
                other.rtts.add(begin, now, took);
                if !alone {
                    other.answers.add(begin, now, took);
                }
            }
            other.held.acked(now, number, effect.all, alone);
            other.fin_acked |= other.fin && effect.all;
        }
        if was_zero || effect.duplicate || effect.ahead {
            other.held.disturbed();
        }
    }

    /// A segment of `side` with data or FIN.
    fn data(&mut self, now: Time, number: u64, side: ConnectionEnd, packet: &TcpPacket) {
        let segment = &packet.segment;
        let (turn, path) = (self.path_to(side), self.path());
        let probing = self.end(side.other()).window.is_zero();
        let peer_mss = self.end(side.other()).told.mss;
        // The other end's program may answer this: what it sends next was not held.
        self.end(side.other()).held.disturbed();
        let own = self.end(side);
        let full = own.full_segment(peer_mss);
        let length = segment.length;
        let kind = own.stream.sent(now, number, packet, path, full);
        own.fin |= segment.flags.fin() && kind != SegmentKind::Strange;
        let moment = |event| TcpMoment {
            length,
            packets: [Some(number), None, None],
            ..at(now, side, event)
        };
        match kind {
            SegmentKind::New { end } => {
                own.told.bytes += u64::from(length);
                let (acked, _) = own.stream.extent();
                let wait = own.held.sent(NewSegment {
                    time: now,
                    packet: number,
                    end,
                    fin: segment.flags.fin(),
                    small: length > 0 && length < full,
                    acked,
                    turn: turn.unwrap_or_default(),
                });
                if let Some(wait) = wait {
                    self.happened(TcpMoment {
                        waited: Some(wait.waited),
                        length,
                        packets: wait.packets,
                        ..at(wait.begin, side, TcpEvent::Held)
                    });
                }
            }
            SegmentKind::OutOfOrder => {
                own.told.bytes += u64::from(length);
                own.told.out_of_order += 1;
                own.held.disturbed();
                self.happened(moment(TcpEvent::OutOfOrder));
            }
            SegmentKind::BehindItsAck => {
                own.told.bytes += u64::from(length);
                own.told.facts.acks_before_data += 1;
                own.fin_acked |= own.fin && !own.stream.flying();
                own.held.disturbed();
                self.happened(moment(TcpEvent::AckBeforeData));
            }
            SegmentKind::KeepAlive => own.told.keep_alives += 1,
            SegmentKind::Again(_) if probing => self.probe(number, side),
            SegmentKind::Again(again) => self.again(now, number, side, length, &again),
            SegmentKind::Strange => self.strange += 1,
        }
    }

    fn probe(&mut self, number: u64, side: ConnectionEnd) {
        self.end(side).told.probes += 1;
        self.end(side.other()).window.probed(number);
    }

    /// What the path takes at least from the capture to this end and back.
    fn path_to(&mut self, side: ConnectionEnd) -> Option<Span> {
        let opening = match side {
            ConnectionEnd::Client => self.handshake.to_client,
            ConnectionEnd::Server => self.handshake.to_server,
        };
        self.end(side.other()).rtts.least().into_iter().chain(opening).min()
    }

    /// What the whole path takes at least.
    fn path(&mut self) -> Option<Span> {
        let [client, server] = ConnectionEnd::BOTH.map(|side| self.path_to(side));
        client.zip(server).map(|(client, server)| client + server)
    }

    fn again(
        &mut self,
        now: Time,
        number: u64,
        side: ConnectionEnd,
        length: u32,
        again: &SentAgain,
    ) {
        let own = self.end(side);
        own.held.disturbed();
        own.told.bytes_again += u64::from(length);
        own.told.bytes += again.fresh;
        let facts = &mut own.told.facts;
        facts.sent_again += 1;
        let event = match again.trigger {
            Trigger::Timer => TcpEvent::Timer,
            Trigger::AfterTimer => TcpEvent::AfterTimer,
            Trigger::Gap => TcpEvent::FastRetransmit,
            Trigger::Unknown => TcpEvent::SentAgain,
        };
        let by_timer = again.trigger == Trigger::Timer;
        if by_timer {
            facts.timers += 1;
            facts.timer_ms += again.silence.as_millis_f64();
        }
        facts.fast += u64::from(again.trigger == Trigger::Gap);
        self.happened(TcpMoment {
            waited: by_timer.then_some(again.silence),
            length,
            packets: [again.before.map(|(_, packet)| packet), Some(number), None],
            ..at(if by_timer { now.before(again.silence) } else { now }, side, event)
        });
    }

    /// The window of `side` was zero: the other end waited.
    fn zero_window(
        &mut self,
        side: ConnectionEnd,
        zero: ZeroWindow,
        end: Option<u64>,
        waited: Span,
    ) {
        if waited < SHORTEST_ZERO {
            return;
        }
        let facts = &mut self.end(side.other()).told.facts;
        facts.zero_windows += 1;
        facts.zero_window_ms += waited.as_millis_f64();
        self.happened(TcpMoment {
            waited: Some(waited),
            packets: [Some(zero.packet), end, zero.probe],
            ..at(zero.since, side.other(), TcpEvent::ZeroWindow)
        });
    }

    /// The window of `side` was full for a part of the time in which the other end had something under way.
    fn full_window(&mut self, side: ConnectionEnd) {
        let filled = &self.end(side).window.filled;
        let Some((time, packet)) = filled.first else { return };
        let (times, full, busy) = (filled.times, filled.full, filled.busy);
        let [_, window, _] = filled.spread();
        let facts = &mut self.end(side.other()).told.facts;
        facts.full_windows = times;
        facts.full_window_ms = full.as_millis_f64();
        facts.busy_ms = busy.as_millis_f64();
        facts.window = window;
        if facts.is_window_limited() {
            // It is told of the whole connection, whatever else there is to tell.
            self.moments.truncate(self.most_moments.saturating_sub(1));
            self.happened(TcpMoment {
                waited: Some(full),
                length: u32::try_from(window).unwrap_or(u32::MAX),
                packets: [Some(packet), None, None],
                ..at(time, side.other(), TcpEvent::FullWindow)
            });
        }
    }

    fn happened(&mut self, moment: TcpMoment) {
        let counted = self.events.entry(moment.event).or_default();
        counted.count += 1;
        counted.waited += moment.waited.unwrap_or_default();
        if self.moments.len() < self.most_moments {
            self.moments.push(moment);
        }
    }

    /// There will be no more packets.
    pub(crate) fn finish(mut self) -> ConnectionSummary {
        for side in ConnectionEnd::BOTH {
            let latest = self.latest;
            if let Some((zero, waited)) = self.end(side).window.end(latest) {
                self.zero_window(side, zero, None, waited);
            }
            self.full_window(side);
        }
        let mut moments = self.moments;
        moments.sort_by_key(|moment| moment.time);
        ConnectionSummary {
            client: self.client,
            server: self.server,
            opened: self.up.opening.is_some() || self.down.opening.is_some(),
            times: (self.begin, self.latest),
            ending: self.ending,
            handshake: self.handshake,
            ends: [
                self.up.summary(self.handshake.to_server),
                self.down.summary(self.handshake.to_client),
            ],
            events: self.events,
            moments,
            strange: self.strange,
        }
    }
}

fn at(time: Time, side: ConnectionEnd, event: TcpEvent) -> TcpMoment {
    TcpMoment { time, side, event, waited: None, length: 0, packets: [None; 3] }
}
