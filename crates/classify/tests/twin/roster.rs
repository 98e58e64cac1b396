//! The roster's programs without a kernel. The same in C is `../../src/bpf/roster.c`, where it is described.

use super::parse::{Packet, headers_of};
use quell_classify::roster::{Roster, Side};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const SECOND: u64 = 1_000_000_000;
const LIVELY: u64 = 64;

/// A subscriber, by the minor of its class.
#[derive(Debug, Clone, Copy, Default)]
struct TwinSubscriber {
    last: u64,
    told: Option<u64>,
    has_class: bool,
    since: u64,
    got: u64,
}

/// The roster's programs in plain Rust.
#[derive(Debug, Clone, Default)]
pub struct RosterTwin {
    roster: Roster,
    got_counts: bool,
    states: BTreeMap<u16, TwinSubscriber>,
}

impl RosterTwin {
    /// With these prefixes; `got_counts` says whether packets to somebody say that he is there.
    pub fn new(roster: Roster, got_counts: bool) -> Self {
        RosterTwin { roster, got_counts, states: BTreeMap::new() }
    }

    /// The class of a packet that comes `now`, 0 where it is nobody's, and whether user space is told of its subscriber.
    pub fn classify(&mut self, side: Side, packet: &Packet<'_>, now: u64) -> (u32, bool) {
        let Some((headers, is_v4)) = headers_of(packet) else { return (0, false) };
        let address = if side == Side::From { headers.src } else { headers.dst };
        let address: IpAddr = match is_v4 {
            true => Ipv4Addr::from_bits(address.low as u32).into(),
            false => {
                Ipv6Addr::from_bits((u128::from(address.high) << 64) | u128::from(address.low))
                    .into()
            }
        };
        let Some(class) = self.roster.class_of(address) else { return (0, false) };
        let state = self.states.entry(class.minor).or_default();
        let counts = side == Side::From || self.got_counts;
        if !counts {
            if now - state.since >= 60 * SECOND {
                (state.since, state.got) = (now, 0);
            }
            state.got += 1;
        }
        if (counts || state.got >= LIVELY) && now - state.last >= SECOND {
            state.last = now;
        }
        let due = state.told.is_none_or(|told| now - told >= SECOND);
        let tells = counts && !state.has_class && due;
        if tells {
            state.told = Some(now);
        }
        (class.to_u32(), tells)
    }

    /// Notes that a subscriber has its class, or has none any more.
    pub fn mark(&mut self, minor: u16, has_class: bool) {
        let state = self.states.entry(minor).or_default();
        (state.has_class, state.told) = (has_class, None);
    }

    /// When a subscriber was last heard.
    pub fn last(&self, minor: u16) -> Option<u64> {
        self.states.get(&minor).map(|state| state.last).filter(|last| *last != 0)
    }
}
