//! Which packets may be reflected where a rate is limited: shared by those who ask, as turns are. Pure.
//!
//! Reflected packets can't wait, so what is kept is a queue that each *would* stand in:
//!
//! ```text
//!          ┌── of a network ──┬── of a client      each may fill as much as it leaves free beside all the others
//!   room ──┼── of a network ──┴── of a client      all empty at the rate, the networks at the same pace, in each its clients
//!          └── of strangers ──┬── of a network …   as if all of them were one network
//!                             └── of a network …
//! ```
//!
//! One alone fills half and has the whole rate. A second finds as much free as the first one has, and from then on both empty at half the rate:
//! whoever asks for less than its part is answered, however much the others ask for.
//!
//! Anybody can forge addresses, and each would be a network that asks for little. So who has not shown that answers reach it is a stranger, and all
//! strangers together have the part of one network. Those who are known leave them no room, and they take at most half of it from those. Among
//! strangers a packet that finds any room free goes in: where forged ones fill it again and again, a larger one would never find as much as it needs.
//!
//! Packets come by ten thousands a second, and as many forged networks may stand in the queue as it keeps: one packet costs as much whether
//! nobody else is there or a thousand are ([`Level`]).

mod level;

use crate::places::{client, wide};
use level::Level;
use std::net::IpAddr;

/// Least bytes of room, so that packets of a usual size fit at any rate.
const LEAST_ROOM: f64 = 12_000.0;
/// Clients in the queue at once.
const MOST: usize = 1024;
/// Where there are so many, it is looked so often whose queues are empty meanwhile.
const SWEEP_NS: u64 = 10_000_000;

/// What was reflected and is not paid for.
#[derive(Debug)]
pub struct Reflections {
    /// In bytes a nanosecond.
    rate: f64,
    room: f64,
    at_ns: u64,
    /// The known networks, and all strangers together as one of them.
    known: Networks,
    strangers: Networks,
}

/// A network, or all strangers.
type Network = Option<IpAddr>;

const STRANGERS: Network = None;

/// Networks, each with its clients, and what of each is not paid for.
#[derive(Debug, Default)]
struct Networks {
    networks: Level<Network, Level<IpAddr, ()>>,
    /// Clients of all of them, with those that were paid for since their network was looked at.
    clients: usize,
    swept_ns: u64,
}

/// What is queued of a client and of its network.
#[derive(Debug, Clone, Copy)]
struct Queued {
    of_client: Option<f64>,
    of_network: f64,
}

impl Reflections {
    /// At so many bits a second, with room for what that is in so long.
    pub fn new(rate: u64, room_ns: u64) -> Self {
        let rate = rate.max(1) as f64 / 8e9;
        let room = (rate * room_ns as f64).max(LEAST_ROOM);
        Self { rate, room, at_ns: 0, known: Networks::default(), strangers: Networks::default() }
    }

    /// Whether a packet of so many bytes may be reflected now, to one who is known to be there or to somebody.
    pub fn may(&mut self, ip: IpAddr, is_known: bool, bytes: usize, now: u64) -> bool {
        self.empty(now);
        let (ip, bytes) = (client(ip), bytes as f64);
        let strange = self.strangers.networks.queued();
        let known = (self.known.networks.queued() - strange).max(0.0);
        let (room, all, networks) = match is_known {
            true => (self.room - strange.min(self.room / 2.0), known, &mut self.known),
            false => (self.room, known + strange, &mut self.strangers),
        };
        let Queued { of_client, of_network } = networks.of(ip);
        // Half of what the others leave, for its network and in that for it.
        let may_network = (room - (all - of_network)) / 2.0;
        let others = of_network - of_client.unwrap_or(0.0);
        let may_one = (may_network - others) / 2.0;
        let of_one = of_client.unwrap_or(0.0);
        let fits = match is_known {
            true => of_network + bytes <= may_network && of_one + bytes <= may_one,
            // What fits where nobody else is.
            false => bytes <= self.room / 4.0 && of_network < may_network && of_one < may_one,
        };
        if !fits || (of_client.is_none() && !networks.has_place(now)) {
            return false;
        }
        networks.enter(ip, bytes);
        if !is_known {
            self.known.networks.add(STRANGERS, bytes);
        }
        true
    }

    /// Takes out what the rate has paid for since the last time.
    fn empty(&mut self, now: u64) {
        let paid = now.saturating_sub(self.at_ns) as f64 * self.rate;
        self.at_ns = self.at_ns.max(now);
        self.known.pay(paid);
        match self.known.networks.of(STRANGERS) {
            Some(left) => self.strangers.pay(self.strangers.networks.queued() - left),
            None if self.strangers.clients > 0 => self.strangers = Networks::default(),
            None => {}
        }
    }
}

impl Networks {
    fn of(&mut self, ip: IpAddr) -> Queued {
        let network = Some(wide(ip));
        self.look_at(network);
        let clients = self.networks.get(network);
        Queued {
            of_client: clients.and_then(|clients| clients.of(ip)),
            of_network: self.networks.of(network).unwrap_or(0.0),
        }
    }

    /// Whether there is a place for one more client.
    fn has_place(&mut self, now: u64) -> bool {
        if self.clients >= MOST && now.saturating_sub(self.swept_ns) >= SWEEP_NS {
            self.swept_ns = now;
            self.networks.names().into_iter().for_each(|network| self.look_at(network));
        }
        self.clients < MOST
    }

    /// Pays the clients of a network what it was paid since it was looked at.
    fn look_at(&mut self, network: Network) {
        let left = self.networks.of(network).unwrap_or(0.0);
        let Some(clients) = self.networks.get_mut(network) else { return };
        let paid = clients.queued() - left;
        self.clients -= clients.pay(paid).len();
    }

    /// Its network was looked at.
    fn enter(&mut self, ip: IpAddr, bytes: f64) {
        let network = Some(wide(ip));
        let clients = self.networks.add(network, bytes);
        self.clients += usize::from(clients.of(ip).is_none());
        clients.add(ip, bytes);
    }

    fn pay(&mut self, much: f64) {
        let gone = self.networks.pay(much);
        self.clients -= gone.iter().map(Level::len).sum::<usize>();
    }
}

#[cfg(test)]
mod tests;
