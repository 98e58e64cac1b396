//! Handshakes of TLS: how much of a CPU they may take together, and whose they are.
//!
//! ```text
//!   a first message ──► as much CPU time as the last ones took ──► finds room beside the others? ──► keys, a signature
//!                                                                          └─ no: broken off, before anything is calculated
//! ```
//!
//! A client needs no more than a message that it once recorded to have the server calculate for ten times as long as a connection costs else.
//! CPU time is shared as what is reflected is ([`Reflections`], a microsecond for a byte): networks have the same, in each its clients, and where there
//! is a secret those who did not prove it have the part of one network together.
//!
//! Who finds no room is refused and does not wait: a handshake that waited would be told as the network's.

use crate::lock::lock;
use crate::reflections::Reflections;
use std::net::IpAddr;
use std::sync::Mutex;

/// What no handshake takes less than, in microseconds: so much is charged for a first message that is broken, too.
const LEAST_US: f64 = 200.0;
/// What none is charged for more than.
const MOST_US: f64 = 20_000.0;
/// How much of what is charged the last one is.
const WEIGHT: f64 = 1.0 / 16.0;
/// For how long what is not used is kept: clients open several connections at once, and then none. One alone may use a quarter of it at once.
const ROOM_NS: u64 = 2_000_000_000;

/// What handshakes may take.
#[derive(Debug)]
pub struct Handshakes {
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    time: Reflections,
    /// What one takes, in microseconds.
    one_us: f64,
}

impl Handshakes {
    /// They may take so many nanoseconds of CPU time in a second.
    pub fn new(cpu_ns: u64) -> Self {
        let time = Reflections::new(cpu_ns / 1000 * 8, ROOM_NS);
        Self { taken: Mutex::new(Taken { time, one_us: LEAST_US }) }
    }

    /// Whether one of this client may begin, which has proven that it knows the secret, or there is none.
    pub fn may(&self, ip: IpAddr, trusted: bool, now: u64) -> bool {
        let mut taken = lock(&self.taken);
        let us = taken.one_us as usize;
        taken.time.may(ip, trusted, us, now)
    }

    /// One took so much CPU time, however it ended.
    pub fn took(&self, cpu_ns: u64) {
        let mut taken = lock(&self.taken);
        let us = (cpu_ns as f64 / 1000.0).clamp(LEAST_US, MOST_US);
        taken.one_us += (us - taken.one_us) * WEIGHT;
    }
}

#[cfg(test)]
mod stories {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// How many of this client may begin in ten seconds, who tries so often in each.
    fn let_in(all: &Handshakes, ip: [u8; 4], trusted: bool, often: u64) -> u64 {
        let at = |n: u64| SECOND + n * SECOND / often;
        (0..10 * often).filter(|n| all.may(ip.into(), trusted, at(*n))).count() as u64
    }

    #[test]
    fn one_alone_has_a_burst_and_then_a_fifth_of_a_cpu() {
        let all = Handshakes::new(SECOND / 5);
        (0..200).for_each(|_| all.took(1_000_000));
        let begun = let_in(&all, [10, 0, 0, 1], true, 5_000);
        assert!((2000..=2110).contains(&begun), "{begun} of a millisecond each");
    }

    #[test]
    fn what_one_costs_is_learned_and_broken_ones_are_not_free() {
        let all = Handshakes::new(SECOND / 5);
        (0..200).for_each(|_| all.took(0));
        let broken = let_in(&all, [10, 0, 0, 1], true, 20_000);
        assert!((10_000..=10_510).contains(&broken), "{broken} of 200 µs each");
        (0..200).for_each(|_| all.took(u64::MAX));
        assert!(lock(&all.taken).one_us <= MOST_US);
    }

    #[test]
    fn who_asks_for_little_has_it_beside_one_who_asks_for_all() {
        let all = Handshakes::new(SECOND / 5);
        (0..200).for_each(|_| all.took(1_000_000));
        let (mut greedy, mut modest) = (0, 0);
        // One tries 5000 times a second, the other 50 times.
        for n in 0..50_000 {
            let now = SECOND + n * 200_000;
            greedy += u64::from(all.may([10, 0, 0, 1].into(), true, now));
            if n % 100 == 0 {
                modest += u64::from(all.may([10, 0, 1, 1].into(), true, now));
            }
        }
        assert_eq!(modest, 500);
        assert!((1300..1700).contains(&greedy), "{greedy}");
    }

    #[test]
    fn all_who_did_not_prove_the_secret_have_the_part_of_one_network() {
        let all = Handshakes::new(SECOND / 5);
        (0..200).for_each(|_| all.took(1_000_000));
        let (mut strange, mut trusted) = (0, 0);
        for n in 0..50_000u64 {
            let now = SECOND + n * 200_000;
            strange += u64::from(all.may([10, 0, (n % 50) as u8, 1].into(), false, now));
            // It wants half of all.
            if n % 50 == 0 {
                trusted += u64::from(all.may([10, 1, 1, 1].into(), true, now));
            }
        }
        assert!(trusted >= 950, "{trusted} of 1000, beside {strange} of strangers");
    }
}
