//! What raw sockets see of the packets that ICMP errors quote: their marks, and answers to SYNs that were given up.

use super::super::repeats::{is_first, owner};
use super::super::sockets::{Came, Known, Left, What};
use super::super::{HopAnswer, News};
use super::{Driver, MOST_BATCHES, Meaning, Tos};
use quell_sys::clock::monotonic_ns;
use quell_wire::hop_probe::QuotedSyn;
use quell_wire::icmp_error;
use std::net::IpAddr;
use std::os::fd::AsFd;

/// What a raw socket saw of a packet of ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuotedMark {
    which: Which,
    meaning: Meaning,
    /// Who quotes it.
    from: IpAddr,
    /// TOS byte and TTL as they came there.
    tos: Tos,
    left: u8,
    /// When that arrived, in nanoseconds of the wall clock.
    stamp_ns: Option<u64>,
}

/// Which packet was quoted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    Number(u64),
    /// A SYN of this flow.
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
                // What is too big is told by a router before the hop that was asked.
                let is_other = error.quoted.destination != self.spec.to.ip();
                if is_other || error.meaning == Meaning::TooBig {
                    continue;
                }
                let known =
                    self.flows.iter().enumerate().find_map(|(index, flow)| {
                        Some((index, flow.recognise(&error, self.next)?))
                    });
                let which = match known {
                    Some((_, Known::Number(number))) => Some(Which::Number(number)),
                    Some((index, Known::Syn(quoted))) => Some(Which::Syn(index, quoted)),
                    Some((_, Known::Length(length))) => {
                        let asked = self.asked.map(|asked| asked.number).filter(|asked| {
                            self.under.get(asked).is_some_and(|under| under.size == length)
                        });
                        asked.map(Which::Number)
                    }
                    None => None,
                };
                if let Some((which, from)) = which.zip(arrival.from) {
                    found.push(QuotedMark {
                        which,
                        meaning: error.meaning,
                        from: from.ip(),
                        tos: Tos::from_byte(error.quoted.tos),
                        left: error.quoted.ttl,
                        stamp_ns: arrival.stamp_ns,
                    });
                }
            }
        }
        found
    }

    /// The packet that a raw socket saw quoted; none where it may be one or another.
    pub(super) fn which(&self, mark: &QuotedMark) -> Option<u64> {
        let (index, quoted) = match mark.which {
            Which::Number(number) => return Some(number),
            Which::Syn(index, quoted) => (index, quoted),
        };
        match self.flows[index].known(quoted, monotonic_ns())? {
            Left::Number(number) => Some(number),
            Left::At(left_ns) => {
                let own = self.under.iter().filter(|(_, u)| usize::from(u.flow) == index);
                owner(own.map(|(number, under)| (*number, under.sent_ns)), left_ns)
            }
        }
    }

    /// Of a SYN that was given up only a raw socket sees the answer.
    pub(super) fn came_late(&mut self, number: u64, mark: &QuotedMark) {
        let Which::Syn(index, quoted) = mark.which else { return };
        let Some(under) = self.under.get(&number).filter(|u| !u.is_open && !u.is_answered) else {
            return;
        };
        let Some(Left::At(left_ns)) = self.flows[index].known(quoted, monotonic_ns()) else {
            return;
        };
        if is_first(left_ns, under.sent_ns) {
            let what = What::Error(mark.meaning);
            let (from, stamp_ns) = (Some(mark.from), mark.stamp_ns);
            let came = Came { number: Some(number), from, what, stamp_ns, ..Came::answer() };
            self.understand(index, came);
        }
    }

    pub(super) fn marked(&mut self, number: u64, mark: &QuotedMark) {
        if !self.is_of_hop(mark.from, Some(mark.meaning)) {
            return;
        }
        let Some(under) = self.under.get(&number).copied() else { return };
        let QuotedMark { from, tos, left, .. } = *mark;
        // What came to the end with more than one hop left would have come with less.
        if from == self.spec.to.ip() && under.seq.is_some() && (2..=under.ttl).contains(&left) {
            self.rounds.came_with_more(under.flow, under.ttl - (left - 1));
            self.tell_ends();
        }
        (self.emit)(News::Answer(HopAnswer {
            flow: if usize::from(under.flow) < self.ends.len() { under.flow } else { 0 },
            ttl: under.ttl,
            from,
            said: Some(Meaning::Expired),
            back_ttl: None,
            marks: Some((under.tos, tos)),
            labels: Vec::new(),
        }));
    }
}
