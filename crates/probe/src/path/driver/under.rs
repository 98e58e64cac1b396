//! A packet under way, and what an answer to it tells.

use super::super::rounds::AnsweredBy;
use crate::stream_socket::CLOCKS_APART_NS;
use quell_units::Tos;
use quell_wire::icmp_error::Meaning;
use std::net::IpAddr;

#[derive(Debug, Clone, Copy)]
pub(super) struct PacketUnderWay {
    pub flow: u16,
    pub ttl: u8,
    /// Its number among those to that hop; none of the survey's.
    pub seq: Option<u64>,
    pub sent_ns: u64,
    /// How often the wall clock had been set by then.
    pub steps: u64,
    pub tos: Tos,
    /// Whether others wait for what becomes of it.
    pub is_open: bool,
    pub is_answered: bool,
    /// The first hop that answered it, whether that was told, and whether it was told what it quotes.
    pub by: Option<IpAddr>,
    pub is_told: bool,
    pub is_marked: bool,
}

impl PacketUnderWay {
    /// Whether this is the first answer, which alone tells the packet's way. What comes again may come from anywhere.
    pub fn is_first_of(&mut self, from: IpAddr) -> bool {
        *self.by.get_or_insert(from) == from
    }
}

/// Whether what came at this time came before the packet was sent, and so can't be about it. Where the wall clock was set since, that says nothing.
pub(super) fn is_before(came_ns: Option<u64>, under: &PacketUnderWay, steps: u64) -> bool {
    let is_before = |came_ns| came_ns + CLOCKS_APART_NS < under.sent_ns;
    under.steps == steps && came_ns.is_some_and(is_before)
}

/// Who gave such an answer, if it is of the hop that was asked. That a packet is too big, or wrong otherwise, any router before it may say: of each hop
/// behind itself, be there one or not. Of a TTL that is over, and of a way that ends, routers tell, whatever address they have: the end's too, as one
/// that hands a host's packets on to it (NAT).
pub(super) fn who(said: Option<Meaning>) -> Option<AnsweredBy> {
    match said {
        None | Some(Meaning::NoPort) => Some(AnsweredBy::End),
        Some(Meaning::Unreachable(_)) => Some(AnsweredBy::Stop),
        Some(Meaning::Expired) => Some(AnsweredBy::Router),
        Some(Meaning::TooBig | Meaning::Other) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(sent_ns: u64) -> PacketUnderWay {
        PacketUnderWay {
            flow: 0,
            ttl: 1,
            seq: Some(0),
            sent_ns,
            steps: 0,
            tos: Tos::default(),
            is_open: true,
            is_answered: false,
            by: None,
            is_told: false,
            is_marked: false,
        }
    }

    #[test]
    fn what_came_before_a_packet_was_sent_is_not_about_it() {
        let sent_ns = 1_000_000_000;
        let under = under(sent_ns);
        assert!(is_before(Some(sent_ns - 1_000_000), &under, 0));
        assert!(
            !is_before(Some(sent_ns - 1_000), &under, 0),
            "clocks are read one after the other"
        );
        assert!(!is_before(Some(sent_ns + 1), &under, 0));
        assert!(!is_before(Some(sent_ns - 1_000_000), &under, 1), "the clock was set");
        assert!(!is_before(None, &under, 0));
    }

    #[test]
    fn only_who_answers_first_tells_the_way_of_a_packet() {
        let mut under = under(1_000_000_000);
        let [first, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        assert!(under.is_first_of(first) && under.is_first_of(first));
        assert!(!under.is_first_of(other));
    }

    #[test]
    fn that_a_way_ends_is_no_arrival_whoever_says_so() {
        assert_eq!(who(None), Some(AnsweredBy::End));
        assert_eq!(who(Some(Meaning::NoPort)), Some(AnsweredBy::End));
        assert_eq!(who(Some(Meaning::Unreachable(13))), Some(AnsweredBy::Stop));
        assert_eq!(who(Some(Meaning::Expired)), Some(AnsweredBy::Router));
        assert_eq!(who(Some(Meaning::TooBig)), None);
    }
}
