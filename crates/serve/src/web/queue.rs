//! Who of those that wait measures next: networks by turns, and in each its clients. Pure.
//!
//! ```text
//!   waiting   a1 a2 a3 a3' b1 c1        a, b, c: networks; 1, 2, 3: their clients, in the order in which they came
//!   measuring a1
//!   next      b1 c1 a2 a3 a1 a3'        who has fewer that measure or stand before it, then who came first
//! ```
//!
//! So an address, or a network, that asks for many turns stands behind all others that ask for one.

use crate::places::{client, wide};
use std::collections::HashMap;
use std::net::IpAddr;

/// Pages that may wait for their turn.
const MOST_WAITING: usize = 256;
/// Those of one network: an IPv4 /24, an IPv6 /48.
const MOST_WAITING_OF_NETWORK: usize = 64;
/// Those of one client.
const MOST_WAITING_OF_ONE: usize = 2;

/// Whether one more may wait.
pub fn may_wait(waiting: impl Iterator<Item = IpAddr>, ip: IpAddr) -> bool {
    let (mut all, mut network, mut one) = (0, 0, 0);
    for other in waiting {
        all += 1;
        network += usize::from(wide(client(other)) == wide(client(ip)));
        one += usize::from(client(other) == client(ip));
    }
    all < MOST_WAITING && network < MOST_WAITING_OF_NETWORK && one < MOST_WAITING_OF_ONE
}

/// Those that wait, the next first. They are given as they came, each with its number.
pub fn order(
    waiting: impl Iterator<Item = (u64, IpAddr)>,
    measuring: impl Iterator<Item = IpAddr>,
) -> Vec<u64> {
    let (mut of_client, mut of_network) = (HashMap::new(), HashMap::new());
    let count = |of: &mut HashMap<IpAddr, usize>, ip| {
        let so_far = of.entry(ip).or_default();
        *so_far += 1;
        *so_far - 1
    };
    for ip in measuring {
        count(&mut of_client, client(ip));
        count(&mut of_network, wide(client(ip)));
    }
    let mut all: Vec<_> =
        waiting.map(|(n, ip)| (count(&mut of_client, client(ip)), n, ip)).collect();
    all.sort_unstable();
    let mut network = |(_, n, ip)| (count(&mut of_network, wide(client(ip))), n);
    let mut all: Vec<_> = all.into_iter().enumerate().map(|(at, one)| (network(one), at)).collect();
    all.sort_unstable_by_key(|((before, _), at)| (*before, *at));
    all.into_iter().map(|((_, number), _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn next(waiting: &[&str], measuring: &[&str]) -> Vec<u64> {
        order((0..).zip(waiting.iter().map(|text| ip(text))), measuring.iter().map(|text| ip(text)))
    }

    #[test]
    fn who_came_first_is_next_where_each_is_of_a_network_of_its_own() {
        assert_eq!(next(&["10.0.0.1", "10.0.1.1", "10.0.2.1"], &[]), [0, 1, 2]);
        assert_eq!(next(&["10.0.0.1", "10.0.1.1"], &["10.0.7.1"]), [0, 1]);
        assert_eq!(next(&[], &["10.0.7.1"]), [] as [u64; 0]);
    }

    #[test]
    fn an_address_that_asks_for_many_turns_stands_behind_one_that_asks_for_one() {
        assert_eq!(next(&["10.0.0.1", "10.0.0.1", "10.0.1.1"], &[]), [0, 2, 1]);
        // All that measure are its own.
        assert_eq!(next(&["10.0.0.1", "10.0.0.1", "10.0.1.1"], &["10.0.0.1"; 4]), [2, 0, 1]);
        // Two of one network, of which one measures.
        assert_eq!(next(&["10.0.0.1", "10.0.0.2"], &["10.0.0.1"]), [1, 0]);
        // Other addresses of its network are no way around that.
        let many = ["fd00:0:0:1::1", "fd00:0:0:2::1", "fd00:0:0:3::1", "fd00:0:1::1"];
        assert_eq!(next(&many, &[]), [0, 3, 1, 2]);
    }

    #[test]
    fn few_of_an_address_and_a_quarter_of_a_network_wait() {
        assert!(may_wait([ip("10.0.0.1")].into_iter(), ip("10.0.0.1")));
        assert!(!may_wait([ip("10.0.0.1"); 2].into_iter(), ip("10.0.0.1")));
        assert!(may_wait([ip("10.0.0.1"); 2].into_iter(), ip("10.0.0.2")));
        let network = |n: u8| (0..n).map(|n| IpAddr::from([10, 0, 0, n]));
        assert!(may_wait(network(63), ip("10.0.0.200")));
        assert!(!may_wait(network(64), ip("10.0.0.200")));
        assert!(may_wait(network(64), ip("10.0.1.200")));
        let all = (0..=255).map(|n| IpAddr::from([10, 1, n, 1]));
        assert!(!may_wait(all, ip("10.0.0.1")));
    }
}
