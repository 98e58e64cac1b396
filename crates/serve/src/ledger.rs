//! Who uses the server now, and whether one more may: places, streams and rates, by network and in total. Pure.
//!
//! ```text
//!   knocking ──► preparing ──► running        the first two are half-open: they take a place and do nothing with it yet
//!       └─────────────┴── are sent away for one who comes while all is taken: the one that has been silent
//!                         for the longest, of the network that has the most of them
//! ```
//!
//! A client is an IPv4 address, or the /64 of an IPv6 address: one who has one address of a /64 has all of them. Whoever has a /56 or a
//! /48 has many of those; they may have two and four times as much, and no more than half of the server. Addresses of an IPv4 /24 or /16
//! are different people's as often as not: such networks have no limit of their own, but of two that only wait the larger gives way.

use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What clients may use. Rates are in bits per second of payload. A client is an IPv4 address or an IPv6 /64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Tests and connections of calls at once.
    pub sessions: usize,
    /// Those of one client.
    pub sessions_of_one: usize,
    /// Streams of one test, each way.
    pub streams: u32,
    /// Streams of all tests together, both ways.
    pub streams_of_all: usize,
    /// Those of one client.
    pub streams_of_one: usize,
    /// Connections of which nobody knows yet what they are.
    pub half_open: usize,
    /// Those of one client.
    pub half_open_of_one: usize,
    /// What the server may send to one client and take from it.
    pub rate_of_one: Option<u64>,
    /// What it may send and take in all.
    pub rate: Option<u64>,
    /// Longest time of a session in nanoseconds, counted from its first byte.
    pub time_ns: u64,
    /// Longest time from connecting to being known, and of each step until a test runs, in nanoseconds.
    pub handshake_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 32,
            sessions_of_one: 8,
            streams: 128,
            streams_of_all: 1024,
            streams_of_one: 256,
            half_open: 512,
            // One test's streams may all come at once.
            half_open_of_one: 256,
            rate_of_one: None,
            rate: None,
            time_ns: 3_600_000_000_000,
            handshake_ns: 5_000_000_000,
        }
    }
}

/// Why one more may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Full {
    /// All places are taken.
    #[error("the server has as many sessions as it may")]
    Sessions,
    /// All places of this client, or of the network it is in, are taken.
    #[error("this client's network has as many sessions as it may")]
    SessionsOfOne,
    /// All streams are in use.
    #[error("the server has as many streams as it may")]
    Streams,
    /// Those of this client, or of the network it is in.
    #[error("this client's network has as many streams as it may")]
    StreamsOfOne,
    /// What is left of the server's rate is too little.
    #[error("other tests use the rate that the server may have")]
    Rate,
    /// What is left of this client's rate is too little.
    #[error("other tests of this client use the rate that it may have")]
    RateOfOne,
    /// Its place was given to another meanwhile.
    #[error("it took too long to begin, and its place was given to another")]
    SentAway,
}

/// The networks that an address is in, the narrowest first: the first is the client.
const TIERS: usize = 3;

/// The client that an address belongs to.
pub fn client(ip: IpAddr) -> IpAddr {
    network(ip, 0)
}

/// An IPv6 /64, /56 and /48; an IPv4 address, its /24 and its /16.
fn network(ip: IpAddr, tier: usize) -> IpAddr {
    let bits = 8 * tier as u32;
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let host = 64 + bits;
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> host << host))
        }
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() >> bits << bits)),
    }
}

/// Whether two addresses share what a tier may have: of IPv4 each address has its own.
fn share(one: IpAddr, other: IpAddr, tier: usize) -> bool {
    same(one, other, if one.is_ipv4() { 0 } else { tier })
}

/// What the networks of a tier may have where one client may have so much of all.
fn most(of_one: usize, all: usize, tier: usize) -> usize {
    (of_one << tier).min((all / 2).max(of_one))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody knows what it wants.
    Knocking,
    /// A session that is being agreed on, and when its client last did its part.
    Preparing(u64),
    /// A session.
    Running,
}

#[derive(Debug)]
struct Place<H> {
    ip: IpAddr,
    phase: Phase,
    streams: usize,
    rate: u64,
    handle: H,
}

impl<H> Place<H> {
    fn knocks(&self) -> bool {
        self.phase == Phase::Knocking
    }

    fn prepares(&self) -> bool {
        matches!(self.phase, Phase::Preparing(_))
    }

    /// When its client last did its part, where that is known.
    fn heard_ns(&self) -> u64 {
        if let Phase::Preparing(heard) = self.phase { heard } else { 0 }
    }
}

/// What is used. Each place has a handle by which whoever has it can be sent away.
#[derive(Debug)]
pub struct Ledger<H> {
    /// By number, and so by age.
    places: BTreeMap<u64, Place<H>>,
    next: u64,
}

impl<H> Default for Ledger<H> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), next: 0 }
    }
}

/// A new place, and whom to send away for it.
pub type Placed<H> = (u64, Option<H>);

impl<H> Ledger<H> {
    /// One more connection of which nothing is known. Where there are too many, the oldest of the network that has the most goes.
    pub fn knock(&mut self, limits: &Limits, ip: IpAddr, handle: H) -> Placed<H> {
        let number = self.enter(ip, Phase::Knocking, handle);
        let (all, of_one) = (limits.half_open.max(1), limits.half_open_of_one.max(1));
        let crowded = (0..TIERS).find(|tier| {
            self.count(|p| p.knocks() && share(p.ip, ip, *tier)) > most(of_one, all, *tier)
        });
        let goes = match crowded {
            Some(tier) => self.crowd(|p| p.knocks() && share(p.ip, ip, tier), Place::knocks),
            None if self.count(Place::knocks) > all => self.crowd(Place::knocks, Place::knocks),
            None => None,
        };
        (number, goes.and_then(|goes| self.leave(goes)))
    }

    /// One more session, in preparation. Where all places are taken, one that only prepares goes: the one that has been silent for the
    /// longest, of the network that has most such. Nobody takes the place of one whose network has fewer than the newcomer's.
    pub fn begin(
        &mut self,
        limits: &Limits,
        ip: IpAddr,
        now_ns: u64,
        handle: H,
    ) -> Result<Placed<H>, Full> {
        let session = |p: &Place<H>| !p.knocks();
        for tier in 0..TIERS {
            let of = self.count(|p| session(p) && share(p.ip, ip, tier));
            if of >= most(limits.sessions_of_one, limits.sessions, tier) {
                return Err(Full::SessionsOfOne);
            }
        }
        let mut gone = None;
        if self.count(session) >= limits.sessions {
            let goes = self.crowd(Place::prepares, Place::prepares);
            let goes = goes.filter(|goes| self.gives_way(*goes, ip)).ok_or(Full::Sessions)?;
            gone = self.leave(goes);
        }
        Ok((self.enter(ip, Phase::Preparing(now_ns), handle), gone))
    }

    /// Whether one that prepares gives its place to a newcomer: where their networks part, its own has more that prepare.
    fn gives_way(&self, goes: u64, newcomer: IpAddr) -> bool {
        let Some(ip) = self.places.get(&goes).map(|p| p.ip) else { return false };
        let parts = (0..TIERS).rev().find(|tier| !same(ip, newcomer, *tier));
        parts.is_none_or(|tier| {
            let of = |ip| self.count(|p| p.prepares() && same(p.ip, ip, tier));
            of(ip) > of(newcomer)
        })
    }

    /// The client of a session in preparation has done its part.
    pub fn heard(&mut self, number: u64, now_ns: u64) {
        if let Some(place) = self.places.get_mut(&number).filter(|p| p.prepares()) {
            place.phase = Phase::Preparing(now_ns);
        }
    }

    /// A session has so many streams.
    pub fn streams(&mut self, limits: &Limits, number: u64, streams: usize) -> Result<(), Full> {
        let ip = self.places.get(&number).ok_or(Full::SentAway)?.ip;
        let used = |of: &dyn Fn(&Place<H>) -> bool| -> usize {
            self.places.values().filter(|p| of(p)).map(|p| p.streams).sum()
        };
        if used(&|_| true) + streams > limits.streams_of_all {
            return Err(Full::Streams);
        }
        for tier in 0..TIERS {
            let of = used(&|p| share(p.ip, ip, tier));
            if of + streams > most(limits.streams_of_one, limits.streams_of_all, tier) {
                return Err(Full::StreamsOfOne);
            }
        }
        self.places.entry(number).and_modify(|p| p.streams = streams);
        Ok(())
    }

    /// A session is under way: nobody takes its place any more. Errors when somebody has.
    pub fn run(&mut self, number: u64) -> Result<(), Full> {
        self.places.get_mut(&number).map(|p| p.phase = Phase::Running).ok_or(Full::SentAway)
    }

    /// Whether it still has its place.
    pub fn has(&self, number: u64) -> bool {
        self.places.contains_key(&number)
    }

    /// It is over, whatever it was.
    pub fn leave(&mut self, number: u64) -> Option<H> {
        self.places.remove(&number).map(|place| place.handle)
    }

    /// Sets aside the rate that a test asks for, or where it asks for none in particular, all that is left. Gives what it may use; none
    /// where nothing is limited.
    pub fn reserve(
        &mut self,
        limits: &Limits,
        number: u64,
        asked: Option<u64>,
    ) -> Result<Option<u64>, Full> {
        let ip = self.places.get(&number).ok_or(Full::SentAway)?.ip;
        let sum = |of: &dyn Fn(&Place<H>) -> bool| {
            let rates = self.places.values().filter(|p| of(p)).map(|p| p.rate);
            rates.fold(0, u64::saturating_add)
        };
        let mut got = asked;
        let ways = [
            (limits.rate_of_one, sum(&|p| same(p.ip, ip, 0)), Full::RateOfOne),
            (limits.rate, sum(&|_| true), Full::Rate),
        ];
        let mut limited = false;
        for (limit, used, full) in ways {
            let Some(limit) = limit else { continue };
            limited = true;
            let left = limit.saturating_sub(used);
            // A test that would take whatever there is shall not be told that a trickle is what the network carries.
            let least = asked.unwrap_or(limit / 10).max(1);
            if left < least {
                return Err(full);
            }
            got = Some(got.unwrap_or(left).min(left));
        }
        if !limited {
            return Ok(None);
        }
        self.places.entry(number).and_modify(|p| p.rate = got.unwrap_or(0));
        Ok(got)
    }

    fn enter(&mut self, ip: IpAddr, phase: Phase, handle: H) -> u64 {
        self.next += 1;
        let place = Place { ip: ip.to_canonical(), phase, streams: 0, rate: 0, handle };
        self.places.insert(self.next, place);
        self.next
    }

    fn count(&self, of: impl Fn(&Place<H>) -> bool) -> usize {
        self.places.values().filter(|p| of(p)).count()
    }

    /// Of the `goers` the one that has been silent for the longest, then the oldest, of the network that has the most places that `weigh`:
    /// the /48 (or /16), in that the /56 (or /24), in that the client.
    fn crowd(
        &self,
        goers: impl Fn(&Place<H>) -> bool,
        weigh: impl Fn(&Place<H>) -> bool,
    ) -> Option<u64> {
        let goers = self.places.iter().filter(|(_, p)| goers(p));
        let mut left: Vec<(u64, u64, IpAddr)> =
            goers.map(|(number, p)| (p.heard_ns(), *number, p.ip)).collect();
        left.sort_unstable();
        for tier in (0..TIERS).rev() {
            let mut weights: HashMap<IpAddr, usize> = HashMap::new();
            for place in self.places.values().filter(|p| weigh(p)) {
                *weights.entry(network(place.ip, tier)).or_default() += 1;
            }
            let weight = |ip: IpAddr| weights.get(&network(ip, tier)).copied().unwrap_or(0);
            // The first of the heaviest.
            let heaviest = left.iter().rev().max_by_key(|(.., ip)| weight(*ip))?.2;
            left.retain(|(.., ip)| same(*ip, heaviest, tier));
        }
        left.first().map(|(_, number, _)| *number)
    }
}

fn same(one: IpAddr, other: IpAddr, tier: usize) -> bool {
    network(one, tier) == network(other, tier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn one() -> IpAddr {
        ip("192.0.2.1")
    }

    fn other() -> IpAddr {
        ip("192.0.2.2")
    }

    type Book = Ledger<&'static str>;

    fn begin(ledger: &mut Book, limits: &Limits, ip: IpAddr) -> Result<u64, Full> {
        ledger.begin(limits, ip, 0, "").map(|(number, _)| {
            ledger.run(number).unwrap();
            number
        })
    }

    #[test]
    fn one_address_can_not_take_all_places() {
        let limits = Limits { sessions: 3, sessions_of_one: 2, ..Limits::default() };
        let mut ledger = Book::default();
        let first = begin(&mut ledger, &limits, one()).unwrap();
        begin(&mut ledger, &limits, one()).unwrap();
        assert_eq!(begin(&mut ledger, &limits, one()), Err(Full::SessionsOfOne));
        assert!(begin(&mut ledger, &limits, other()).is_ok());
        assert_eq!(begin(&mut ledger, &limits, other()), Err(Full::Sessions));
        ledger.leave(first);
        assert!(begin(&mut ledger, &limits, other()).is_ok());
    }

    #[test]
    fn one_host_with_all_addresses_of_its_network_is_one_client() {
        let limits = Limits::default();
        let mut ledger = Book::default();
        let mut takes = |ip: &dyn Fn(u32) -> String| {
            (0..100).filter(|n| begin(&mut ledger, &limits, self::ip(&ip(*n))).is_ok()).count()
        };
        assert_eq!(takes(&|n| format!("2001:db8::{n:x}")), 8, "a /64 is one client");
        assert_eq!(takes(&|n| format!("2001:db8:0:{n:x}::1")), 8, "a /56 has two clients' places");
        assert_eq!(takes(&|n| format!("2001:db8:0:{n:x}00::1")), 0, "and a /48 half of the server");
        assert_eq!(takes(&|n| format!("2001:db8:{n:x}::1")), 16, "others have the other half");
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address_that_it_stands_for() {
        assert_eq!(client(ip("::ffff:192.0.2.1")), one());
        assert_ne!(client(ip("::ffff:192.0.2.1")), client(ip("::ffff:192.0.2.2")));
        assert_eq!(client(ip("2001:db8::1")), client(ip("2001:db8::ffff:0:0:2")));
    }

    #[test]
    fn who_holds_the_most_half_handshakes_loses_the_oldest_and_a_newcomer_is_let_in() {
        let limits = Limits { half_open: 3, half_open_of_one: 2, ..Limits::default() };
        let mut ledger = Book::default();
        assert_eq!(ledger.knock(&limits, one(), "a").1, None);
        assert_eq!(ledger.knock(&limits, one(), "b").1, None);
        assert_eq!(ledger.knock(&limits, one(), "c").1, Some("a"), "its own oldest");
        let (newcomer, gone) = ledger.knock(&limits, other(), "d");
        assert_eq!(gone, None);
        assert_eq!(ledger.knock(&limits, ip("192.0.2.3"), "e").1, Some("b"));
        assert!(ledger.has(newcomer));
        assert!(begin(&mut ledger, &limits, other()).is_ok(), "sessions have places of their own");
    }

    #[test]
    fn half_handshakes_renewed_from_many_addresses_keep_nobody_out() {
        let limits = Limits::default();
        let mut ledger = Book::default();
        for n in 0..2_000 {
            ledger.knock(&limits, ip(&format!("192.0.2.{}", 1 + n % 6)), "hostile");
            if n % 50 == 0 && n > 600 {
                let (good, _) = ledger.knock(&limits, ip("198.51.100.1"), "good");
                for m in 0..40 {
                    ledger.knock(&limits, ip(&format!("2001:db8:0:{m:x}::1")), "hostile");
                }
                assert!(ledger.has(good));
                assert_eq!(ledger.leave(good), Some("good"));
            }
            assert!(ledger.places.len() <= limits.half_open);
        }
    }

    #[test]
    fn a_session_that_only_prepares_gives_its_place_to_one_who_has_fewer() {
        let limits = Limits { sessions: 4, sessions_of_one: 4, ..Limits::default() };
        let mut ledger = Book::default();
        let (running, _) = ledger.begin(&limits, one(), 0, "running").unwrap();
        ledger.run(running).unwrap();
        let (idle, _) = ledger.begin(&limits, one(), 0, "idle").unwrap();
        assert_eq!(begin(&mut ledger, &limits, other()).map(drop), Ok(()));
        ledger.begin(&limits, one(), 0, "also idle").unwrap();
        let third = ip("192.0.2.3");
        assert_eq!(ledger.begin(&limits, third, 1, "third").unwrap().1, Some("idle"));
        assert_eq!(ledger.run(idle), Err(Full::SentAway));
        assert_eq!(ledger.streams(&limits, idle, 1), Err(Full::SentAway));
        assert_eq!(ledger.reserve(&limits, idle, None), Err(Full::SentAway));
    }

    #[test]
    fn who_is_silent_the_longest_gives_its_place_to_a_newcomer_and_who_runs_keeps_it() {
        let limits = Limits { sessions: 2, ..Limits::default() };
        let mut ledger = Book::default();
        let (slow, _) = ledger.begin(&limits, one(), 0, "slow but talking").unwrap();
        ledger.begin(&limits, other(), 1, "silent").unwrap();
        ledger.heard(slow, 2);
        let third = ip("192.0.2.3");
        let (number, gone) = ledger.begin(&limits, third, 3, "third").unwrap();
        assert_eq!(gone, Some("silent"));
        [slow, number].into_iter().for_each(|number| ledger.run(number).unwrap());
        ledger.heard(slow, u64::MAX);
        let later = ledger.begin(&limits, other(), u64::MAX, "");
        assert_eq!(later.err(), Some(Full::Sessions), "one that runs is left alone");
    }

    /// Forty attackers, each with ever new half-agreed tests, 200 in a second of all; whoever else comes has 100 ms to agree.
    fn keeps_its_place_among(attackers: impl Fn(u64) -> String, good: &str) {
        let limits = Limits::default();
        let mut ledger = Book::default();
        let mut served = 0;
        for n in 0..1_000 {
            let now = n * 5_000_000;
            let _ = ledger.begin(&limits, ip(&attackers(n % 40)), now, "hostile");
            if n > 100 && n % 50 == 0 {
                let (number, _) = ledger.begin(&limits, ip(good), now, "good").unwrap();
                for m in n + 1..n + 20 {
                    let now = m * 5_000_000;
                    let _ = ledger.begin(&limits, ip(&attackers(m % 40)), now, "hostile");
                }
                assert_eq!(ledger.run(number), Ok(()), "it came when {n} had come");
                ledger.leave(number);
                served += 1;
            }
        }
        assert_eq!(served, 17);
    }

    #[test]
    fn half_agreed_tests_of_more_addresses_than_there_are_places_keep_nobody_out() {
        keeps_its_place_among(|n| format!("10.9.53.{}", n + 1), "198.51.100.1");
        keeps_its_place_among(|n| format!("10.9.{n}.1"), "198.51.100.1");
        keeps_its_place_among(|n| format!("10.{n}.53.1"), "198.51.100.1");
        keeps_its_place_among(|n| format!("10.9.53.{}", n + 1), "10.9.53.200");
        keeps_its_place_among(|n| format!("2001:db8:{n:x}::1"), "2001:db8:ffff::1");
    }

    #[test]
    fn a_larger_network_does_not_push_out_a_smaller_one() {
        let limits = Limits { sessions: 3, ..Limits::default() };
        let mut ledger = Book::default();
        ledger.begin(&limits, ip("198.51.100.1"), 0, "small").unwrap();
        ledger.begin(&limits, ip("10.9.1.1"), 1, "large").unwrap();
        ledger.begin(&limits, ip("10.9.2.1"), 2, "also large").unwrap();
        let newcomer = ledger.begin(&limits, ip("10.9.3.1"), 3, "").unwrap();
        assert_eq!(newcomer.1, Some("large"), "its own");
        let newcomer = ledger.begin(&limits, ip("203.0.113.1"), 4, "").unwrap();
        assert_eq!(newcomer.1, Some("also large"));
        // Where each network has as many, who is there stays.
        let limits = Limits { sessions: 2, ..Limits::default() };
        let mut ledger = Book::default();
        ledger.begin(&limits, ip("198.51.100.1"), 0, "small").unwrap();
        ledger.begin(&limits, ip("10.9.1.1"), 1, "as small").unwrap();
        assert_eq!(ledger.begin(&limits, ip("10.9.2.1"), 2, "").err(), Some(Full::Sessions));
    }

    #[test]
    fn streams_are_bounded_for_each_client_and_in_all() {
        let limits = Limits { sessions: 100, ..Limits::default() };
        let mut ledger = Book::default();
        let mut ask = |ip: &str, streams| {
            let number = begin(&mut ledger, &limits, self::ip(ip)).unwrap();
            ledger.streams(&limits, number, streams)
        };
        assert_eq!(
            [128, 128, 1].map(|n| ask("192.0.2.1", n)),
            [Ok(()), Ok(()), Err(Full::StreamsOfOne)]
        );
        for n in 2..5 {
            assert_eq!(ask(&format!("192.0.2.{n}"), 256), Ok(()));
        }
        assert_eq!(ask("192.0.2.9", 1), Err(Full::Streams));
    }

    #[test]
    fn rates_are_shared_and_a_trickle_is_not_given_for_a_measurement() {
        let limits = Limits { rate: Some(1000), rate_of_one: Some(600), ..Limits::default() };
        let mut ledger = Book::default();
        let mut ask = |ip, asked| {
            let number = begin(&mut ledger, &limits, ip).unwrap();
            (number, ledger.reserve(&limits, number, asked))
        };
        assert_eq!(ask(one(), Some(500)).1, Ok(Some(500)));
        assert_eq!(ask(one(), Some(101)).1, Err(Full::RateOfOne));
        let (all, got) = ask(other(), None);
        assert_eq!(got, Ok(Some(500)), "what is left of all");
        let (poor, got) = ask(other(), None);
        assert_eq!(got, Err(Full::Rate));
        ledger.leave(all);
        assert_eq!(ledger.reserve(&limits, poor, Some(1)), Ok(Some(1)));
        assert_eq!(ledger.reserve(&Limits::default(), poor, None), Ok(None));
    }
}
