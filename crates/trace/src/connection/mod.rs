//! A TCP connection, as a machine that is moved by its packets.
//!
//! ```text
//!   packet ──► End that sent it:  sender (flight, sent again, out of order), window, hold (Nagle)
//!          └─► other End:         what the ACK tells its sender, hold and rtts
//! ```
//!
//! Each end takes a bounded amount of memory, however long the connection lasts.

mod around;
mod end;
mod hold;
mod nearly;
mod needless;
mod opening;
mod order;
mod rtt;
mod sender;
mod seq;
mod window;

pub use end::EndSummary;
pub use rtt::{RttPoint, RttSummary};

use crate::looks::Look;
use crate::packet::Packet;
use crate::remark::{Cause, Held, Need, Remark, Side};
use crate::stretches::Stretches;
use crate::time::{Time, millis, millis_or_null};
use end::End;
use hold::{Acked, Late, Sent, Wait};
use nearly::nearly;
use needless::{Known, Repeat};
use opening::Openings;
use quell_units::Span;
use sender::{Again, Kind, Paths};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use window::Filled;

/// Zero windows that are shorter are no stalls.
const SHORTEST_ZERO: Span = Span::from_millis(1);

/// A window that was full more seldom, or on a connection that had data under way for less, limits nothing that somebody would notice.
const FULL_TIMES: u64 = 5;
const FULL_FOR: Span = Span::from_millis(200);
/// It was full for one part of so many at least. Of a capture in the middle of the path this is less than at the sender: what is on its way to
/// there is not seen.
const FULL_PART: u64 = 3;

/// Where no router is seen on the whole path, and it takes no longer than this there and back, both ends are on one machine or as good as that: no
/// cable lets a queue stand there that holds an ACK up by 10 ms.
const AS_ONE: Span = Span::from_micros(20);

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
pub struct Tally {
    /// How often.
    pub count: u64,
    /// For how long in all; what overlaps counts once.
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

/// What a connection was.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Who opened it, or was seen first.
    pub client: SocketAddr,
    /// The other one.
    pub server: SocketAddr,
    /// Its opening was captured.
    pub opened: bool,
    /// When its first and last packet passed.
    pub times: (Time, Time),
    /// How it ended.
    pub ending: Ending,
    /// How it was opened.
    pub handshake: Handshake,
    /// What the client sent.
    pub up: EndSummary,
    /// What the server sent.
    pub down: EndSummary,
    /// All that was marked, counted.
    pub tallies: BTreeMap<Cause, Tally>,
    /// The first marks, in order of time.
    pub marks: Vec<Remark>,
    /// Packets that belonged to no sense of it.
    pub strange: u64,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    begin: Time,
    latest: Time,
    up: End,
    down: End,
    openings: Openings,
    handshake: Handshake,
    ending: Ending,
    tallies: BTreeMap<Cause, Tally>,
    /// When somebody waited, by cause.
    waits: BTreeMap<Cause, Stretches>,
    marks: Vec<Remark>,
    most_marks: usize,
    strange: u64,
}

impl Connection {
    /// A connection that begins with this packet; no more than `most_marks` are kept.
    pub(crate) fn new(now: Time, packet: &Packet, most_marks: usize) -> Self {
        let flags = packet.segment.flags;
        let (client, server) = match flags.syn() && flags.ack() {
            true => (packet.to, packet.from),
            false => (packet.from, packet.to),
        };
        Connection {
            client,
            server,
            begin: now,
            latest: now,
            up: End::default(),
            down: End::default(),
            openings: Openings::default(),
            handshake: Handshake::default(),
            ending: Ending::Open,
            tallies: BTreeMap::new(),
            waits: BTreeMap::new(),
            marks: Vec::new(),
            most_marks,
            strange: 0,
        }
    }

    /// Whether it may still go on.
    pub(crate) fn is_open(&self) -> bool {
        self.ending == Ending::Open
    }

    /// Whether a packet opens another connection between the same ends.
    pub(crate) fn is_succeeded_by(&self, packet: &Packet) -> bool {
        let flags = packet.segment.flags;
        let known = match (flags.ack(), packet.from == self.client) {
            (false, true) => self.openings.syn,
            (true, false) => self.openings.answer,
            (false, false) => None,
            (true, true) => return flags.syn(),
        };
        let over = self.ending != Ending::Open;
        flags.syn()
            && match known {
                Some(known) => known.seq != packet.segment.seq,
                // A SYN of the end that so far answered; or the first that is captured, late, of one that goes on.
                None => over || !flags.ack(),
            }
    }

    /// Packets of it that were there before.
    pub(crate) fn copies(&self) -> u64 {
        self.up.copies + self.down.copies
    }

    /// Whether this packet is one that passed at that look, seen once more. An answer behind another SYN is that one's.
    fn is_second_look(&self, now: Time, packet: &Packet, before: &Look) -> bool {
        let answers = packet.segment.flags.syn() && packet.from != self.client;
        let asked_again = self.openings.syn.is_some_and(|syn| syn.packet > before.number);
        before.is_of(now, packet) && !(answers && asked_again)
    }

    /// Takes a packet of this connection; `before` is the last look at one that was the same in all.
    pub(crate) fn packet(&mut self, now: Time, number: u64, packet: &Packet, before: Option<Look>) {
        let side = if packet.from == self.client { Side::Client } else { Side::Server };
        self.latest = self.latest.max(now);
        let segment = &packet.segment;
        if before.is_some_and(|before| self.is_second_look(now, packet, &before)) {
            self.end(side).copies += 1;
            return;
        }
        if self.end(side).is_copy(packet) {
            return;
        }
        self.end(side).heard(packet);
        self.place();
        if segment.flags.rst() {
            self.reset(now, number, side);
            return;
        }
        if segment.flags.syn() {
            self.syn(now, number, side, packet);
        }
        if let Some(ack) = segment.ack {
            self.ack(now, number, side, ack, packet);
        }
        if segment.extent() > 0 && !segment.flags.syn() {
            self.data(now, number, side, packet);
        } else if segment.ack.is_some() {
            let probing = self.end(side.other()).window.is_zero();
            if self.end(side).sender.is_behind(segment) {
                if probing {
                    self.end(side).probes += 1;
                    self.end(side.other()).window.probed(number);
                } else {
                    self.end(side).keep_alives += 1;
                }
            }
        }
        self.settle_waits(side.other(), false);
        // Without the opening windows have no scale, and would seem small.
        if self.openings.answer.is_some() {
            for side in [Side::Client, Side::Server] {
                let own = self.end(side);
                let (extent, segment) = (own.sender.extent(), own.largest_segment());
                self.end(side.other()).window.filled.seen(now, number, extent, segment);
            }
        }
        if self.up.fin_acked && self.down.fin_acked && self.ending == Ending::Open {
            self.ending = Ending::Closed;
        }
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.up,
            Side::Server => &mut self.down,
        }
    }

    /// Whether the capture was made where one of the ends is.
    fn place(&mut self) {
        let one_machine = self.client.ip() == self.server.ip() || self.client.ip().is_loopback();
        let (up, down) = (self.up.is_next(), self.down.is_next());
        // With no router on the whole path, a queue may be on either side of the capture.
        self.up.hold.stands_there(one_machine || down && !up);
        self.down.hold.stands_there(one_machine || up && !down);
    }

    /// Whether nothing between the capture and this end can have taken long: it is the same machine, or routers are on the other side alone.
    fn is_next_to(&mut self, side: Side) -> bool {
        self.end(side).is_next() && !self.end(side.other()).is_next()
    }

    fn reset(&mut self, now: Time, number: u64, side: Side) {
        // A reset after the end, or a second one, is tidying up.
        if self.ending == Ending::Open {
            self.ending = Ending::Reset;
            let refused = side == Side::Server
                && self.openings.syn.is_some()
                && self.openings.answer.is_none();
            let cause = if refused { Cause::Refused } else { Cause::Reset };
            let packets = [Some(number), None, None];
            self.mark(Remark { packets, ..blank(now, side, cause) });
        }
        self.end(side).resets += 1;
        self.up.hold.disturbed();
        self.down.hold.disturbed();
    }

    fn syn(&mut self, now: Time, number: u64, side: Side, packet: &Packet) {
        let segment = &packet.segment;
        let path = self.handshake.to_server;
        let is_first = match side {
            Side::Client => self.openings.syn.is_none(),
            Side::Server => self.openings.answer.is_none(),
        };
        if let Some(again) = self.openings.passed((now, number), side, segment, path) {
            let place = self.marks.len();
            self.mark(Remark {
                packets: again.packets,
                need: again.need,
                waited: again.waited,
                ..blank(again.time, side, again.cause)
            });
            if self.marks.len() > place {
                self.openings.kept(&again, place);
            }
        } else {
            let paths = Paths { whole: self.handshake.rtt(), ..Paths::default() };
            self.end(side).sender.sent(now, number, packet, 0, paths);
        }
        if let (Side::Server, Some((_, echo))) = (side, segment.options.timestamps) {
            for place in self.openings.arrived(echo) {
                if let Some(mark) = self.marks.get_mut(place)
                    && mark.need == Need::Needed
                {
                    mark.need = Need::FirstArrived;
                }
            }
        }
        if let (Side::Server, Some(syn), true) = (side, self.openings.syn, is_first)
            && syn.times == 1
        {
            let took = now.since(syn.time);
            self.handshake.to_server = Some(took);
            self.up.hold.opened(took);
        }
        // Scaling holds only if both want it (RFC 7323, 2.2).
        if side == Side::Server
            && (self.up.window.scale.is_none() || self.down.window.scale.is_none())
        {
            self.up.window.scale = None;
            self.down.window.scale = None;
        }
    }

    /// What an ACK of `side` tells the other end's sender.
    fn ack(&mut self, now: Time, number: u64, side: Side, ack: u32, packet: &Packet) {
        let segment = &packet.segment;
        if let (Side::Client, Some(answer), None) =
            (side, self.openings.answer, self.handshake.to_client)
            && !segment.flags.syn()
            && answer.times == 1
            && ack == answer.seq.wrapping_add(1)
        {
            let took = now.since(answer.time);
            self.handshake.to_client = Some(took);
            self.down.hold.opened(took);
        }
        if side == Side::Client && !segment.flags.syn() {
            self.openings.acknowledged(now, number, ack);
        }
        let begin = self.begin;
        let path = self.end(side.other()).least_path();
        let stamp = self.end(side).stamped(segment);
        let echo = segment.options.timestamps.map(|(_, echo)| echo);
        let sender = &self.end(side.other()).sender;
        let (progress, heard) = (sender.progress(ack), sender.acked_to());
        let own = self.end(side);
        let bare = segment.extent() == 0
            && (own.window.is_same(segment.window) || !segment.options.sack().is_empty());
        let opened = if own.window.is_newer(segment.seq, progress > 0, progress < 0) {
            let at = (segment.seq, heard + progress);
            own.window.told(now, number, at, segment.window, !segment.flags.syn())
        } else {
            None
        };
        let was_full = own.window.filled.is_full();
        let mss = own.mss();
        let was_zero = own.window.is_zero();
        if let Some((zero, waited)) = opened {
            self.zero_window(side, zero, Some(number), waited, false);
        }

        let other = self.end(side.other());
        let (acked, arrived) = (other.sender.acked_to(), other.sender.arrived());
        let told = other.sender.acknowledged(now, ack, segment, bare);
        other.duplicate_acks += u64::from(told.duplicate);
        if told.new {
            // The answer to a SYN is the handshake's business.
            if let Some(took) = told.took.filter(|_| !segment.flags.syn() && other.data > 0) {
                other.rtts.add(begin, now, took.time);
            }
            let carried = segment.extent() > 0;
            let took = told.took;
            let unread = was_full || progress >= 2 * i64::from(other.full_segment(mss));
            let reach = (acked, other.sender.acked_to());
            let (time, packet, all) = (now, number, told.all);
            let full = 2 * i64::from(other.full_segment(mss));
            // What filled a gap came after all that lay behind it, and that had been acknowledged as it came.
            let waited = other.passed.map(|last| now.since(last));
            let waited = took.zip(waited).map(|(took, since)| took.time.min(since));
            let late = waited.filter(|waited| !carried && all && *waited >= hold::DELAYED);
            let late = late.filter(|_| progress >= full && !was_full);
            other.hold.acked(Acked { time, packet, all, reach, carried, stamp, took, unread });
            other.fin_acked |= other.fin && told.all;
            if let Some(waited) = late
                && self.is_next_to(side)
            {
                self.mark(Remark {
                    waited: Some(waited),
                    length: u32::try_from(progress).unwrap_or(u32::MAX),
                    packets: [Some(number), None, None],
                    ..blank(now.before(waited), side.other(), Cause::LateAck)
                });
            }
        }
        let other = self.end(side.other());
        if was_zero || told.duplicate {
            other.hold.disturbed();
        }
        // What passed less than the path's time ago did not bring this about.
        let known = Known { latest: now.before(nearly(path)), arrived, echo };
        if told.new {
            let other = self.end(side.other());
            let twice = told.twice.is_some() && !told.by_stamp;
            other.repeats.acknowledged((acked, other.sender.acked_to()), twice, known);
        }
        if let Some((start, end)) = told.twice {
            let other = self.end(side.other());
            let (count, needs) = match told.by_stamp {
                true => other.repeats.forestalled(start, end, echo),
                false => other.repeats.twice(start, end, known),
            };
            other.spurious += count;
            for (place, need) in needs {
                if let Some(mark) = self.marks.get_mut(place) {
                    mark.need = need;
                }
            }
        }
    }

    /// A segment of `side` with data or FIN.
    fn data(&mut self, now: Time, number: u64, side: Side, packet: &Packet) {
        let segment = &packet.segment;
        let turn = self.end(side.other()).least_path();
        let least = self.handshake.rtt().into_iter().chain(self.least_rtt()).min();
        let paths = Paths { whole: self.path_rtt(), least, turn };
        let probing = self.end(side.other()).window.is_zero();
        let peer_mss = self.end(side.other()).mss();
        // The other end's program may answer this: what it sends next was not held.
        self.end(side.other()).hold.spoken_to();
        let own = self.end(side);
        own.passed = Some(now);
        let small = own.is_small(segment, peer_mss);
        let full = own.full_segment(peer_mss);
        match own.sender.sent(now, number, packet, full, paths) {
            Kind::New { end } => {
                own.data += u64::from(segment.length);
                own.fin |= segment.flags.fin();
                let acked = own.sender.acked_to();
                let (length, fin) = (segment.length, segment.flags.fin());
                let echo = segment.options.timestamps.map(|(_, echo)| echo);
                let time = now;
                let sent =
                    Sent { time, packet: number, length, end, fin, small, acked, turn, echo };
                own.hold.sent(sent);
            }
            Kind::OutOfOrder => {
                own.data += u64::from(segment.length);
                own.out_of_order += 1;
                own.fin |= segment.flags.fin();
                let packets = [Some(number), None, None];
                let length = segment.length;
                self.mark(Remark { packets, length, ..blank(now, side, Cause::OutOfOrder) });
            }
            Kind::Filler { fresh } => {
                own.data += fresh;
                own.fin |= segment.flags.fin();
                own.hold.disturbed();
                let packets = [Some(number), None, None];
                let (length, cause) = (segment.length, Cause::PerhapsOutOfOrder);
                self.mark(Remark { packets, length, ..blank(now, side, cause) });
            }
            Kind::Late { start, end, overtaken_by } => {
                own.out_of_order += 1;
                own.fin |= segment.flags.fin();
                let mark = own.repeats.overtook(start, end);
                // A DSACK is of this one.
                own.repeats.remember(Repeat { was_sent: false, ..repeat(now, start, end) });
                if let Some(mark) = mark.and_then(|mark| self.marks.get_mut(mark)) {
                    mark.packets[0] = Some(number);
                    mark.is_missing = false;
                }
                let packets = [Some(number), Some(overtaken_by), None];
                let length = segment.length;
                self.mark(Remark { packets, length, ..blank(now, side, Cause::OutOfOrder) });
            }
            Kind::KeepAlive => own.keep_alives += 1,
            Kind::Copy { start, end } => {
                own.copies += 1;
                own.repeats.remember(Repeat { was_sent: false, ..repeat(now, start, end) });
            }
            Kind::Again(_) if probing => {
                own.probes += 1;
                self.end(side.other()).window.probed(number);
            }
            Kind::Again(again) => self.again(now, number, side, segment.length, &again),
            Kind::Strange => self.strange += 1,
        }
    }

    /// What the whole path takes, from the handshake or from what both directions showed.
    fn path_rtt(&self) -> Option<Span> {
        let median = || self.up.rtts.median().zip(self.down.rtts.median()).map(|(a, b)| a + b);
        self.handshake.rtt().or_else(median)
    }

    /// The least that the whole path took, from what both directions showed.
    fn least_rtt(&self) -> Option<Span> {
        self.up.least_path().zip(self.down.least_path()).map(|(up, down)| up + down)
    }

    fn again(&mut self, now: Time, number: u64, side: Side, length: u32, again: &Again) {
        let own = self.end(side);
        own.hold.disturbed();
        own.bytes_again += u64::from(length);
        own.data += again.fresh;
        let waited = again.before.map(|(time, _)| now.since(time));
        let by_timer = matches!(again.cause, Cause::Timeout | Cause::TimeoutOrProbe);
        let time = again.before.filter(|_| by_timer).map_or(now, |(time, _)| time);
        let before = again.before.map(|(_, packet)| packet);
        // In the order in which they were sent.
        let (packets, waited) = match again.overtook {
            true => ([Some(number), before, None], None),
            false => ([before, Some(number), None], waited),
        };
        let kept = self.marks.len();
        let is_missing = again.is_missing;
        self.mark(Remark { packets, waited, length, is_missing, ..blank(time, side, again.cause) });
        // A DSACK is of what was sent first.
        let mark = (self.marks.len() > kept && !again.overtook).then_some(kept);
        let own = self.end(side);
        own.repeats.remember(Repeat {
            stamp: again.stamps.0,
            stamp_before: again.stamps.1,
            first: again.first,
            earlier: again.earlier,
            mark,
            acked: again.end <= own.sender.acked_to(),
            was_sent: !again.overtook,
            ..repeat(now, again.start, again.end)
        });
    }

    fn held(&mut self, side: Side, wait: &Wait) {
        let cause = match wait.perhaps {
            true => Cause::PerhapsNagle,
            false if wait.late == Late::Delayed => Cause::DelayedAck,
            false => Cause::Nagle,
        };
        let held = Held {
            bytes: wait.held,
            fin: wait.fin,
            small: wait.small,
            after: wait.after,
            path: wait.path,
            perhaps_delayed: matches!(wait.late, Late::Unknown | Late::Alone),
            alone: wait.late == Late::Alone,
        };
        self.mark(Remark {
            waited: Some(wait.waited),
            length: wait.length,
            packets: [Some(wait.packet), Some(wait.ack), Some(wait.next)],
            held: Some(held),
            ..blank(wait.time, side, cause)
        });
    }

    fn settle_waits(&mut self, side: Side, over: bool) {
        for wait in self.end(side).hold.decided(over) {
            self.held(side, &wait);
        }
    }

    /// The window of `side` was zero: the other end waited.
    fn zero_window(
        &mut self,
        side: Side,
        zero: window::Zero,
        end: Option<u64>,
        waited: Span,
        open: bool,
    ) {
        // Fast senders fill a buffer for microseconds at a time; the end's counters have those, too.
        if waited < SHORTEST_ZERO && !open {
            return;
        }
        self.mark(Remark {
            waited: Some(waited),
            packets: [Some(zero.packet), end, zero.probe],
            open,
            ..blank(zero.since, side.other(), Cause::ZeroWindow)
        });
    }

    /// The window of `side` was full for much of the time in which the other end had something under way.
    fn full_window(&mut self, side: Side) {
        let window = &self.end(side).window;
        let Filled { first: Some((time, packet)), times, full, busy, .. } = window.filled else {
            return;
        };
        if times < FULL_TIMES || busy < FULL_FOR || full.nanos() < busy.nanos() / FULL_PART {
            return;
        }
        let bytes = |window| u32::try_from(window).unwrap_or(u32::MAX);
        let [least, length, most] = window.filled.spread().map(bytes);
        let mark = Remark {
            waited: Some(full),
            busy: Some(busy),
            length,
            windows: Some([least, most]),
            packets: [Some(packet), None, None],
            ..blank(time, side.other(), Cause::FullWindow)
        };
        // It is told of the whole connection, whatever else there is to tell.
        self.marks.truncate(self.most_marks.saturating_sub(1));
        self.mark(mark);
    }

    fn mark(&mut self, mark: Remark) {
        let (count, waits) = if mark.held.is_some_and(|held| held.alone) {
            let (count, waits) = &mut self.end(mark.side).alone;
            (count, waits)
        } else {
            let tally = self.tallies.entry(mark.cause).or_default();
            (&mut tally.count, self.waits.entry(mark.cause).or_default())
        };
        *count += 1;
        if let Some((begin, end)) = mark.stretch() {
            waits.add(begin, end);
        }
        if self.marks.len() < self.most_marks {
            self.marks.push(mark);
        }
    }

    /// All was seen, the least that the path takes too: who was late with the ACKs that were late alone.
    fn settle_alone(&mut self, side: Side) {
        let (count, waits) = std::mem::take(&mut self.end(side).alone);
        if count == 0 {
            return;
        }
        let delayed = self.is_as_one();
        let cause = if delayed { Cause::DelayedAck } else { Cause::Nagle };
        self.tallies.entry(cause).or_default().count += count;
        self.waits.entry(cause).or_default().join(&waits);
        let alone = |mark: &&mut Remark| mark.side == side && mark.held.is_some_and(|h| h.alone);
        for mark in self.marks.iter_mut().filter(alone) {
            mark.cause = cause;
            mark.held = mark.held.map(|held| Held { perhaps_delayed: !delayed, ..held });
        }
    }

    /// Whether the ends are so near each other that no path is between them.
    fn is_as_one(&self) -> bool {
        let rtt = self.handshake.rtt().into_iter().chain(self.least_rtt()).min();
        let routed = self.up.is_routed() || self.down.is_routed();
        !routed && rtt.is_some_and(|rtt| rtt <= AS_ONE)
    }

    /// There will be no more packets.
    pub(crate) fn finish(mut self) -> Summary {
        for side in [Side::Client, Side::Server] {
            let latest = self.latest;
            if let Some((zero, waited)) = self.end(side).window.end(latest) {
                self.zero_window(side, zero, None, waited, true);
            }
            self.settle_waits(side, true);
            self.settle_alone(side);
            self.end(side).sender.finish();
            self.full_window(side);
        }
        for (cause, tally) in &mut self.tallies {
            tally.waited = self.waits.get(cause).map(Stretches::total).unwrap_or_default();
        }
        let mut marks = self.marks;
        marks.sort_by_key(|mark| mark.time);
        Summary {
            client: self.client,
            server: self.server,
            opened: self.openings.syn.is_some() || self.openings.answer.is_some(),
            times: (self.begin, self.latest),
            ending: self.ending,
            handshake: self.handshake,
            up: self.up.summary(),
            down: self.down.summary(),
            tallies: self.tallies,
            marks,
            strange: self.strange,
        }
    }
}

fn blank(time: Time, side: Side, cause: Cause) -> Remark {
    Remark {
        time,
        side,
        cause,
        waited: None,
        length: 0,
        packets: [None; 3],
        held: None,
        need: Need::Needed,
        is_missing: false,
        open: false,
        busy: None,
        windows: None,
    }
}

/// A retransmission of which nothing else is known.
fn repeat(time: Time, start: i64, end: i64) -> Repeat {
    let (stamp, stamp_before, first, earlier, mark) = (None, None, None, 0, None);
    let (was_sent, acked) = (true, false);
    Repeat { start, end, time, stamp, stamp_before, first, earlier, mark, was_sent, acked }
}
