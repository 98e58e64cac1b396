//! Which packets may be reflected where a rate is limited: shared by those who ask, as turns are. Pure.
//!
//! Reflected packets can't wait, so what is kept is a queue that each *would* stand in:
//!
//! ```text
//!   room ──┬── of a network ──┬── of a client      each may fill as much as it leaves free beside all the others
//!          └── of a network ──┴── of a client      all empty at the rate, the networks at the same pace, in each its clients
//! ```
//!
//! One alone fills half and has the whole rate. A second finds as much free as the first one has, and from then on both empty at half the rate:
//! whoever asks for less than its part is answered, however much the others ask for.

use crate::places::{client, wide};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Least bytes of room, so that packets of a usual size fit at any rate.
const LEAST_ROOM: f64 = 12_000.0;
/// Clients in the queue at once: each packet looks at all of them.
const MOST: usize = 1024;

/// What was reflected and is not paid for.
#[derive(Debug)]
pub struct Reflections {
    /// In bytes a nanosecond.
    rate: f64,
    room: f64,
    at_ns: u64,
    networks: BTreeMap<IpAddr, BTreeMap<IpAddr, f64>>,
}

impl Reflections {
    /// At so many bits a second, with room for what that is in so long.
    pub fn new(rate: u64, room_ns: u64) -> Self {
        let rate = rate.max(1) as f64 / 8e9;
        let room = (rate * room_ns as f64).max(LEAST_ROOM);
        Self { rate, room, at_ns: 0, networks: BTreeMap::new() }
    }

    /// Whether a packet of so many bytes may be reflected now.
    pub fn may(&mut self, ip: IpAddr, bytes: usize, now: u64) -> bool {
        self.empty(now);
        let (ip, bytes) = (client(ip), bytes as f64);
        let network = wide(ip);
        let of_all: f64 = self.networks.values().map(of_network).sum();
        let clients = self.networks.get(&network);
        let of_one = clients.and_then(|clients| clients.get(&ip)).copied();
        let of_network = clients.map_or(0.0, of_network);
        // Half of what the others leave, for its network and in that for it.
        let may_network = (self.room - (of_all - of_network)) / 2.0;
        let others = of_network - of_one.unwrap_or(0.0);
        let may_one = (may_network - others) / 2.0;
        let full = of_one.is_none() && self.clients() >= MOST;
        if full || of_network + bytes > may_network || of_one.unwrap_or(0.0) + bytes > may_one {
            return false;
        }
        *self.networks.entry(network).or_default().entry(ip).or_default() += bytes;
        true
    }

    fn clients(&self) -> usize {
        self.networks.values().map(BTreeMap::len).sum()
    }

    /// Takes out what the rate has paid for since the last time.
    fn empty(&mut self, now: u64) {
        let paid = now.saturating_sub(self.at_ns) as f64 * self.rate;
        self.at_ns = self.at_ns.max(now);
        let of_networks: Vec<f64> = self.networks.values().map(of_network).collect();
        let parts = fair(&of_networks, paid);
        for (clients, paid) in self.networks.values_mut().zip(parts) {
            let of_clients: Vec<f64> = clients.values().copied().collect();
            for (queued, paid) in clients.values_mut().zip(fair(&of_clients, paid)) {
                *queued -= paid;
            }
            // Less than a byte is a rest of the arithmetic.
            clients.retain(|_, queued| *queued >= 1.0);
        }
        self.networks.retain(|_, clients| !clients.is_empty());
    }
}

fn of_network(clients: &BTreeMap<IpAddr, f64>) -> f64 {
    clients.values().sum()
}

/// What each gets of so much, where all get the same but nobody more than it has.
fn fair(queues: &[f64], much: f64) -> Vec<f64> {
    let mut by_size: Vec<usize> = (0..queues.len()).collect();
    by_size.sort_unstable_by(|one, other| queues[*one].total_cmp(&queues[*other]));
    let (mut left, mut got) = (much, vec![0.0; queues.len()]);
    for (place, index) in by_size.iter().enumerate() {
        got[*index] = queues[*index].min(left / (queues.len() - place) as f64);
        left -= got[*index];
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Of a client's pings of 64 bytes, one each 10 ms for four seconds, how many are answered while strangers ask for so many bytes each so
    /// many ms, and how many bytes the strangers get.
    fn beside(client: &str, strangers: &[&str], bytes: usize, each_ms: u64) -> (usize, usize) {
        let mut reflections = Reflections::new(500_000, 400 * MS);
        let (mut answered, mut strange) = (0, 0);
        for ms in 0..4000 {
            for stranger in strangers {
                if ms % each_ms == 0 && reflections.may(ip(stranger), bytes, ms * MS) {
                    strange += bytes;
                }
            }
            if ms % 10 == 0 {
                answered += usize::from(reflections.may(ip(client), 64, ms * MS));
            }
        }
        (answered, strange)
    }

    #[test]
    fn a_stranger_with_large_or_many_packets_takes_no_answer_from_a_client_within_its_part() {
        for (bytes, each_ms) in [(1400, 20), (60_000, 200), (1400, 1), (44, 1)] {
            let (answered, strange) = beside("192.0.2.1", &["198.51.100.1"], bytes, each_ms);
            assert_eq!(answered, 400, "{bytes} bytes each {each_ms} ms");
            assert!(strange <= 250_000 + 25_000, "{strange} bytes in 4 s of 500 kbit/s");
        }
        let neighbours = beside("192.0.2.1", &["192.0.2.9"], 1400, 1);
        assert_eq!(neighbours.0, 400, "in one network each client has its part too");
        let crowd = ["198.51.100.1", "203.0.113.1", "2001:db8::1", "2001:db8:1::1"];
        assert_eq!(beside("192.0.2.1", &crowd, 1400, 20).0, 400, "so have five networks");
    }

    #[test]
    fn addresses_of_one_network_get_the_part_of_one() {
        let many: Vec<String> = (1..=40).map(|n| format!("198.51.100.{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(beside("192.0.2.1", &many, 300, 5).0, 400);
    }

    #[test]
    fn who_is_alone_has_the_whole_rate_and_not_more() {
        let (_, alone) = beside("192.0.2.1", &["198.51.100.1"], 1000, 1);
        assert!((215_000..=250_000).contains(&alone), "{alone} of 250,000 less 25,600 for pings");
    }

    #[test]
    fn a_flood_of_forged_addresses_takes_bounded_memory() {
        let mut reflections = Reflections::new(1_000_000_000, 400 * MS);
        let forged = (0..20_000u32).map(|n| IpAddr::from((0x0b00_0000 + (n << 8)).to_be_bytes()));
        let answered = forged.filter(|ip| reflections.may(*ip, 44, 0)).count();
        assert_eq!(answered, MOST);
        assert_eq!(reflections.clients(), MOST);
        assert!(reflections.may(ip("192.0.2.1"), 44, 1000 * MS), "it empties");
        assert_eq!(reflections.clients(), 1);
    }
}
