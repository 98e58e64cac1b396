//! What raw sockets see of the packets that ICMP errors quote: their marks.

use super::super::{HopAnswer, News};
use super::under::who;
use super::{Driver, MOST_BATCHES, Meaning, Tos};
use quell_wire::icmp_error;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// What a raw socket saw of a packet of ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuotedMark {
    number: u64,
    meaning: Meaning,
    from: IpAddr,
    tos: Tos,
    left: u8,
}

impl Driver<'_> {
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
                let number = self.flows.iter().find_map(|flow| flow.recognise(&error, self.next));
                let Some((number, from)) = number.zip(arrival.from) else { continue };
                let (meaning, from) = (error.meaning, from.ip());
                // That is told by a router before the hop that was asked, and by the error queue.
                if meaning == Meaning::TooBig {
                    continue;
                }
                let (tos, left) = (Tos::from_byte(quoted.tos), quoted.ttl);
                found.push(QuotedMark { number, meaning, from, tos, left });
            }
        }
        found
    }

    pub(super) fn marked(&mut self, mark: &QuotedMark) {
        if who(Some(mark.meaning)).is_none() {
            return;
        }
        let QuotedMark { number, from, tos, left, meaning } = *mark;
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
