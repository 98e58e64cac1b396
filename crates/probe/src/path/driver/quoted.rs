//! What raw sockets see of the packets that ICMP errors quote: their marks, and answers to SYNs that were given up.

use super::super::sockets::{HopReply, QuotedPacket, ReplyKind, SynIdentity};
use super::super::{HopAnswer, News};
use super::under::who;
use super::{Driver, MOST_BATCHES, Meaning, Tos};
use crate::retry::{is_first, owner};
use quell_sys::clock::monotonic_ns;
use quell_wire::hop_probe::{Quote, QuotedSyn};
use quell_wire::icmp_error;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// What a raw socket saw of a packet of ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuotedMark {
    which: QuotedWhich,
    meaning: Meaning,
    from: IpAddr,
    /// TOS byte and TTL as they came there.
    tos: Tos,
    left: u8,
    /// When that arrived, in nanoseconds of the wall clock.
    stamp_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum QuotedWhich {
    Number(u64),
    Syn(usize, QuotedSyn),
}

impl Driver<'_> {
    /// What a raw socket saw of our packets.
    pub(super) fn marks(&mut self) -> Vec<QuotedMark> {
        let Some(raw) = &self.raw else { return Vec::new() };
        let ipv6 = self.spec.to.is_ipv6();
        let mut found = Vec::new();
        for _ in 0..MOST_BATCHES {
            let Ok(1..) = self.inbox.receive(raw.as_fd()) else { break };
            for (arrival, bytes) in self.inbox.iter() {
                let error = raw.message(bytes).and_then(|m| icmp_error::read(ipv6, m));
                let Some(error) = error else { continue };
                let quoted = error.quoted;
                if quoted.destination != self.spec.to.ip() {
                    continue;
                }
                let known =
                    self.flows.iter().enumerate().find_map(|(index, flow)| {
                        Some((index, flow.recognise(&error, self.next)?))
                    });
                let which = known.map(|(index, packet)| match packet {
                    QuotedPacket::Number(number) => QuotedWhich::Number(number),
                    QuotedPacket::Syn(quoted) => QuotedWhich::Syn(index, quoted),
                });
                let Some((which, from)) = which.zip(arrival.from) else { continue };
                let (meaning, from, stamp_ns) = (error.meaning, from.ip(), arrival.stamp_ns);
                // That is told by a router before the hop that was asked, and by the error queue.
                if meaning == Meaning::TooBig {
                    continue;
                }
                let (tos, left) = (Tos::from_byte(quoted.tos), quoted.ttl);
                found.push(QuotedMark { which, meaning, from, tos, left, stamp_ns });
            }
        }
        found
    }

    /// The packet that a raw socket saw quoted; none where it may be one or another.
    pub(super) fn which(&self, mark: &QuotedMark) -> Option<u64> {
        let (index, quoted) = match mark.which {
            QuotedWhich::Number(number) => return Some(number),
            QuotedWhich::Syn(index, quoted) => (index, quoted),
        };
        match self.flows[index].known(quoted, monotonic_ns())? {
            SynIdentity::Number(number) => Some(number),
            SynIdentity::At(left_ns) => {
                let own = self.under.iter().filter(|(_, u)| usize::from(u.flow) == index);
                owner(own.map(|(number, under)| (*number, under.sent_ns)), left_ns)
            }
        }
    }

    /// Of a SYN that was given up only a raw socket sees the answer.
    pub(super) fn came_late(&mut self, number: u64, mark: &QuotedMark) {
        let QuotedWhich::Syn(index, quoted) = mark.which else { return };
        let Some(under) = self.under.get(&number).filter(|u| !u.is_open && !u.is_answered) else {
            return;
        };
        let Some(SynIdentity::At(left_ns)) = self.flows[index].known(quoted, monotonic_ns()) else {
            return;
        };
        if is_first(left_ns, under.sent_ns) {
            let what = ReplyKind::Error(mark.meaning);
            let (from, stamp_ns) = (Some(mark.from), mark.stamp_ns);
            let about = Quote::Number(number);
            let came = HopReply { about, from, what, stamp_ns, ..HopReply::answer() };
            self.understand(index, came);
        }
    }

    pub(super) fn marked(&mut self, number: u64, mark: &QuotedMark) {
        if who(Some(mark.meaning)).is_none() {
            return;
        }
        let QuotedMark { from, tos, left, meaning, .. } = *mark;
        let Some(under) = self.under.get_mut(&number) else { return };
        if std::mem::replace(&mut under.is_marked, true) || !under.is_first_of(from) {
            return;
        }
        let under = *under;
        // What came to the end with more than one hop left would have come with less.
        let is_end = from == self.spec.to.ip() && meaning == Meaning::NoPort;
        if is_end && under.seq.is_some() && (2..=under.ttl).contains(&left) {
            self.rounds.came_with_more(under.flow, under.ttl - (left - 1));
            self.tell_ends();
        }
        (self.emit)(News::Answer(HopAnswer {
            flow: if usize::from(under.flow) < self.ends.len() { under.flow } else { 0 },
            ttl: under.ttl,
            from,
            said: Some(meaning),
            back_ttl: None,
            marks: Some((under.tos, tos)),
            labels: Vec::new(),
        }));
    }
}
