//! Who uses the server now, and whether one more may: places and streams, by network and in total. Pure.
//!
//! ```text
//!   half-open ──► at rest ◄──► at work
//!                 agreeing,    bytes move        one at work keeps what it has
//!                 between      (or moved just
//!                 calls        now)              one at rest gives it to a newcomer who finds the server full: the one that has
//!                                                been at rest for the longest, of the network that has the most
//! ```
//!
//! Nothing is held by those who do nothing with it, and only while nobody else asks for it. One whose bytes have not moved for its
//! patience is at rest again, however far its test has come.
//!
//! A client is an IPv4 address, or the /64 of an IPv6 address: one who has one address of a /64 has all of them. Whoever has a /56 or a
//! /48 has many of those; they may have two and four times as much. No network has more than half of the server: an IPv6 /48, an IPv4 /24.

use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
    /// What the server may send to one client and take from it; two and four times that to and from an IPv6 /56 and /48.
    pub rate_of_one: Option<u64>,
    /// What it may send and take in all.
    pub rate: Option<u64>,
    /// Longest time of a test in nanoseconds, from when its data begins to flow, and of a connection of calls.
    pub time_ns: u64,
    /// Longest time from connecting to being known, and of each step until a test runs, in nanoseconds.
    pub handshake_ns: u64,
    /// CPU time that all handshakes of TLS may take together, in nanoseconds a second.
    pub handshakes_cpu_ns: u64,
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
            // A fifth of a CPU: some 500 handshakes a second.
            handshakes_cpu_ns: 200_000_000,
        }
    }
}

impl Limits {
    /// What one client may have at most, in bits a second; none where nothing limits it.
    pub fn rate_of_client(&self) -> Option<u64> {
        [self.rate_of_one, self.rate].into_iter().flatten().min()
    }

    /// Most unknown connections with those that were sent away and are about to end.
    pub fn crowd(&self) -> usize {
        self.half_open.max(1) + self.half_open / 8
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
    /// Too little is left for datagrams that nobody can hold back.
    #[error("other tests use the rate that the server may have for datagrams that come")]
    Rate,
    /// The same of this client's.
    #[error("other tests of this client use the rate that it may have for datagrams that come")]
    RateOfOne,
    /// The system has none left for it.
    #[error("the server has no descriptor left")]
    Descriptors,
    /// Its place was given to another meanwhile.
    #[error("nothing moved, and its place was given to another")]
    SentAway,
    /// It ends after one session, and that is over.
    #[error("the server was to end after one test, and takes no other")]
    Over,
}

/// The networks that an address is in, the narrowest first: the first is the client.
pub const TIERS: usize = 3;

/// The client that an address belongs to.
pub fn client(ip: IpAddr) -> IpAddr {
    network(ip, 0)
}

/// The network of a tier that an address is in: an IPv6 /64, /56 and /48; an IPv4 address, its /24 and its /16.
pub fn network(ip: IpAddr, tier: usize) -> IpAddr {
    let bits = 8 * tier as u32;
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let host = 64 + bits;
            IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> host << host))
        }
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() >> bits << bits)),
    }
}

/// An IPv4 /24 or an IPv6 /48.
pub fn wide(ip: IpAddr) -> IpAddr {
    network(ip, if ip.is_ipv4() { 1 } else { TIERS - 1 })
}

/// How many times a client's part the network of a tier may have where one host may have all of it; none where its addresses are different
/// people's as often as not.
pub fn parts(ip: IpAddr, tier: usize) -> Option<usize> {
    (tier == 0 || ip.to_canonical().is_ipv6()).then_some(1 << tier)
}

/// What the networks of a tier may have where one client may have so much of all; none where they have no limit of their own. Addresses of
/// an IPv4 /24 or /16 are different people's as often as not: together a /24 may have half, and a /16 all.
fn most(ip: IpAddr, of_one: usize, all: usize, tier: usize) -> Option<usize> {
    let half = (all / 2).max(of_one);
    match (parts(ip, tier), tier) {
        (_, 0) => Some(of_one),
        (Some(parts), _) => Some(of_one.saturating_mul(parts).min(half)),
        (None, 1) => Some(half),
        (None, _) => None,
    }
}

/// How long another of the same client must have been at rest to give way to it: before that, the newcomer is the one too many.
const OWN_NS: u64 = 1_000_000_000;

/// A /16 is many people's: it is no heavier than others while it has so little of what is scarce, as a part of it.
const LIGHT: usize = 8;

/// Who has been at rest for so long gives way to anybody.
const LONG_NS: u64 = 5_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nobody knows what it wants.
    HalfOpen,
    /// A session that does nothing, and since when: it is being agreed on, or is between two calls.
    Resting(u64),
    /// A session, when its bytes moved last, and for how long they may stand still before it is at rest.
    Working(u64, u64),
}

#[derive(Debug)]
struct Place<H> {
    ip: IpAddr,
    phase: Phase,
    streams: usize,
    handle: H,
}

impl<H> Place<H> {
    fn is_half_open(&self) -> bool {
        self.phase == Phase::HalfOpen
    }

    /// Since when it has been at rest; none where it is not.
    fn rests(&self, now_ns: u64) -> Option<u64> {
        match self.phase {
            Phase::HalfOpen => None,
            Phase::Resting(since) => Some(since),
            Phase::Working(moved, patience) => {
                (now_ns.saturating_sub(moved) >= patience).then_some(moved)
            }
        }
    }
}

/// What is used. Each place has a handle by which whoever has it can be sent away.
#[derive(Debug)]
pub struct PlaceTable<H> {
    /// By number, and so by age.
    places: BTreeMap<u64, Place<H>>,
    next: u64,
    half_opens: Crowd,
}

impl<H> Default for PlaceTable<H> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), next: 0, half_opens: Crowd::default() }
    }
}

/// What can be told of a connection of which nothing is known yet.
pub trait Silence {
    /// Whether it has not said a word. One that has, and was not read yet, is about to be known: it is no silent one, however many of its network come at once.
    fn is_silent(&self) -> bool;
}

/// A new place, and whom to send away for it.
pub type Placed<H> = (u64, Vec<H>);

/// How many connections of which nothing is known each network has: counted as they come and go, for they may come by the thousand.
#[derive(Debug, Default)]
struct Crowd {
    all: usize,
    of: HashMap<(usize, IpAddr), usize>,
}

impl Crowd {
    fn add(&mut self, ip: IpAddr) {
        self.all += 1;
        for tier in 0..TIERS {
            *self.of.entry((tier, network(ip, tier))).or_default() += 1;
        }
    }

    fn remove(&mut self, ip: IpAddr) {
        self.all -= 1;
        for tier in 0..TIERS {
            let key = (tier, network(ip, tier));
            if let Some(of) = self.of.get_mut(&key) {
                *of -= 1;
                if *of == 0 {
                    self.of.remove(&key);
                }
            }
        }
    }

    fn of(&self, ip: IpAddr, tier: usize) -> usize {
        self.of.get(&(tier, network(ip, tier))).copied().unwrap_or(0)
    }
}

/// So many of a full crowd go at once, as a part of it: who is silent has to be asked of the kernel, and of all of them.
const AT_ONCE: usize = 16;

/// One that could give way.
#[derive(Debug, Clone, Copy)]
struct Rester {
    number: u64,
    ip: IpAddr,
    since_ns: u64,
    /// How much of what is scarce it has.
    has: usize,
}

impl<H: Silence> PlaceTable<H> {
    /// One more connection of which nothing is known. Where there are too many, the oldest of the network that has the most goes; of very many
    /// some go, so that the next find room.
    pub fn half_open(&mut self, limits: &Limits, ip: IpAddr, handle: H) -> Placed<H> {
        let ip = ip.to_canonical();
        let number = self.enter(ip, Phase::HalfOpen, handle);
        let (all, of_one) = (limits.half_open.max(1), limits.half_open_of_one.max(1));
        let crowded = (0..TIERS).find_map(|tier| {
            let most = most(ip, of_one, all, tier)?;
            (self.half_opens.of(ip, tier) > most).then_some((tier, most))
        });
        let goes = match crowded {
            Some((tier, most)) => {
                let within = self.half_opens(|half_open| same(half_open, ip, tier));
                Silents::new(&within).longest_of_heaviest((most / AT_ONCE).max(1))
            }
            None if self.half_opens.all > all => {
                let silent = self.half_opens(|_| true);
                Silents::new(&silent).longest_of_heaviest((all / AT_ONCE).max(1))
            }
            None => Vec::new(),
        };
        (number, goes.into_iter().filter_map(|goes| self.leave(goes)).collect())
    }

    /// One more session, at rest until its bytes move. Where all places are taken, one at rest goes.
    pub fn begin(
        &mut self,
        limits: &Limits,
        ip: IpAddr,
        now_ns: u64,
        handle: H,
    ) -> Result<(u64, Vec<H>), Full> {
        let ip = ip.to_canonical();
        let (one, all) = (limits.sessions_of_one, limits.sessions);
        let full = (Full::SessionsOfOne, Full::Sessions);
        let gone =
            self.make_room(ip, now_ns, (1, one, all), full, |p| usize::from(!p.is_half_open()))?;
        Ok((self.enter(ip, Phase::Resting(now_ns), handle), gone))
    }

    /// A session wants so many streams. Where too few are left, those at rest go with theirs.
    pub fn streams(
        &mut self,
        limits: &Limits,
        number: u64,
        now_ns: u64,
        streams: usize,
    ) -> Result<Vec<H>, Full> {
        let place = self.places.get_mut(&number).ok_or(Full::SentAway)?;
        place.streams = 0;
        let ip = place.ip;
        let (one, all) = (limits.streams_of_one, limits.streams_of_all);
        let full = (Full::StreamsOfOne, Full::Streams);
        let gone = self.make_room(ip, now_ns, (streams, one, all), full, |p| p.streams)?;
        self.places.entry(number).and_modify(|p| p.streams = streams);
        Ok(gone)
    }

    /// Whom to send away where the system has nothing left for one more: a connection that has said nothing, else a session at rest.
    pub fn relieve(&mut self, now_ns: u64) -> Option<H> {
        let silent = Silents::new(&self.half_opens(|_| true)).longest_of_heaviest(1);
        let goes = silent
            .first()
            .copied()
            .or_else(|| longest_of_heaviest(&self.resters(now_ns, |_| 1), 0))?;
        self.leave(goes)
    }

    /// The client of a session at rest has done its part.
    pub fn heard(&mut self, number: u64, now_ns: u64) {
        if let Some(place) = self.places.get_mut(&number)
            && matches!(place.phase, Phase::Resting(_))
        {
            place.phase = Phase::Resting(now_ns);
        }
    }

    /// Bytes of a session moved: nobody takes its place until none have for so long. Errors when somebody has.
    pub fn moved(&mut self, number: u64, now_ns: u64, patience_ns: u64) -> Result<(), Full> {
        let place = self.places.get_mut(&number).ok_or(Full::SentAway)?;
        place.phase = Phase::Working(now_ns, patience_ns);
        Ok(())
    }

    /// A session has nothing to do at the moment.
    pub fn rests(&mut self, number: u64, now_ns: u64) {
        self.places.entry(number).and_modify(|p| p.phase = Phase::Resting(now_ns));
    }

    /// How many have a place, of those that have said what they want.
    pub fn begun(&self) -> usize {
        self.count(|place| !place.is_half_open())
    }

    /// Whether there is a session that has not been at rest for so long.
    pub fn is_under_way(&self, now_ns: u64, long_ns: u64) -> bool {
        let rests = |since: u64| now_ns.saturating_sub(since) >= long_ns;
        let mut sessions = self.places.values().filter(|place| !place.is_half_open());
        sessions.any(|place| !place.rests(now_ns).is_some_and(rests))
    }

    /// Whether it still has its place.
    pub fn has(&self, number: u64) -> bool {
        self.places.contains_key(&number)
    }

    /// It is over, whatever it was.
    pub fn leave(&mut self, number: u64) -> Option<H> {
        let place = self.places.remove(&number)?;
        if place.is_half_open() {
            self.half_opens.remove(place.ip);
        }
        Some(place.handle)
    }

    /// Makes room for so many more where one client may have so many of all: whom to send away for it. Nobody goes where that would not
    /// be enough.
    fn make_room(
        &mut self,
        ip: IpAddr,
        now_ns: u64,
        (more, of_one, all): (usize, usize, usize),
        full: (Full, Full),
        has: impl Fn(&Place<H>) -> usize,
    ) -> Result<Vec<H>, Full> {
        let mut left = self.resters(now_ns, &has);
        let mut go = Vec::new();
        // The narrowest first: whoever goes for the client's own sake goes for all.
        for tier in 0..=TIERS {
            let within = |other| tier == TIERS || same(other, ip, tier);
            let most = if tier == TIERS { Some(all) } else { most(ip, of_one, all, tier) };
            let Some(most) = most else { continue };
            let gone = |number: &u64| go.iter().any(|goes: &Rester| goes.number == *number);
            let used: usize = self
                .places
                .iter()
                .filter(|(number, place)| within(place.ip) && !gone(number))
                .map(|(_, place)| has(place))
                .sum();
            let mut lacks = (used + more).saturating_sub(most);
            while lacks > 0 {
                let among: Vec<_> = left.iter().filter(|r| within(r.ip)).copied().collect();
                let refused = if tier == TIERS { full.1 } else { full.0 };
                let goes = yields(&among, ip, now_ns, (more, all / LIGHT)).ok_or(refused)?;
                left.retain(|rester| rester.number != goes.number);
                go.push(goes);
                lacks = lacks.saturating_sub(goes.has);
            }
        }
        Ok(go.iter().filter_map(|goes| self.leave(goes.number)).collect())
    }

    /// The unknown connections that may go: the silent ones, or all where none is silent.
    fn half_opens(&self, of: impl Fn(IpAddr) -> bool) -> Vec<Rester> {
        let half_opens = self.places.iter().filter(|(_, p)| p.is_half_open() && of(p.ip));
        let rester = |(number, place): (&u64, &Place<H>)| {
            let rester = Rester { number: *number, ip: place.ip, since_ns: 0, has: 1 };
            (rester, place.handle.is_silent())
        };
        let half_opens: Vec<_> = half_opens.map(rester).collect();
        let all = !half_opens.iter().any(|(_, silent)| *silent);
        let half_opens = half_opens.into_iter().filter(|(_, silent)| all || *silent);
        half_opens.map(|(rester, _)| rester).collect()
    }

    /// The sessions at rest that have some of what is scarce.
    fn resters(&self, now_ns: u64, has: impl Fn(&Place<H>) -> usize) -> Vec<Rester> {
        let resters = self.places.iter().filter_map(|(number, place)| {
            let since_ns = place.rests(now_ns)?;
            Some(Rester { number: *number, ip: place.ip, since_ns, has: has(place) })
        });
        resters.filter(|rester| rester.has > 0).collect()
    }

    fn enter(&mut self, ip: IpAddr, phase: Phase, handle: H) -> u64 {
        self.next += 1;
        let place = Place { ip, phase, streams: 0, handle };
        if place.is_half_open() {
            self.half_opens.add(ip);
        }
        self.places.insert(self.next, place);
        self.next
    }

    fn count(&self, of: impl Fn(&Place<H>) -> bool) -> usize {
        self.places.values().filter(|p| of(p)).count()
    }
}

/// Who of these gives way to a newcomer who wants so many more. Nobody does whose network has less than the newcomer's would have, but for
/// those that have been at rest for long: one who is just agreeing on a test shall come to its end.
fn yields(
    among: &[Rester],
    newcomer: IpAddr,
    now_ns: u64,
    (more, light): (usize, usize),
) -> Option<Rester> {
    let of = |goes: u64| among.iter().find(|rester| rester.number == goes).copied();
    let goes = of(longest_of_heaviest(among, light)?)?;
    let parts = (0..TIERS).rev().find(|tier| !same(goes.ip, newcomer, *tier));
    let rested = |rester: &Rester, ns| now_ns.saturating_sub(rester.since_ns) >= ns;
    let first = match parts {
        None => rested(&goes, OWN_NS) || among.iter().any(|other| !same(other.ip, newcomer, 0)),
        Some(tier) => {
            let weight = |ip: IpAddr| -> usize {
                among.iter().filter(|r| same(r.ip, ip, tier)).map(|r| r.has).sum()
            };
            as_heavy(goes.ip, tier, weight(goes.ip), light) >= weight(newcomer) + more
        }
    };
    if first {
        return Some(goes);
    }
    let long: Vec<_> = among.iter().filter(|r| rested(r, LONG_NS)).copied().collect();
    of(longest_of_heaviest(&long, light)?)
}

/// What a network of a tier that has so much counts as having, where so little is light.
fn as_heavy(ip: IpAddr, tier: usize, has: usize, light: usize) -> usize {
    if tier > 1 && parts(ip, tier).is_none() { has.max(light) } else { has }
}

/// Of these the one that has been at rest for the longest, then the oldest, of the network that has the most: the /48 (or /16), in that the
/// /56 (or /24), in that the client.
fn longest_of_heaviest(among: &[Rester], light: usize) -> Option<u64> {
    let mut left: Vec<&Rester> = among.iter().collect();
    left.sort_unstable_by_key(|rester| (rester.since_ns, rester.number));
    for tier in (0..TIERS).rev() {
        let mut weights: HashMap<IpAddr, usize> = HashMap::new();
        for rester in &left {
            *weights.entry(network(rester.ip, tier)).or_default() += rester.has;
        }
        let weight = |ip: IpAddr| {
            let has = weights.get(&network(ip, tier)).copied().unwrap_or(0);
            as_heavy(ip, tier, has, light)
        };
        // The first of the heaviest.
        let heaviest = left.iter().rev().max_by_key(|rester| weight(rester.ip))?.ip;
        left.retain(|rester| same(rester.ip, heaviest, tier));
    }
    left.first().map(|rester| rester.number)
}

/// Unknown connections by their networks, of which one after another goes.
#[derive(Debug, Default)]
struct Silents {
    many: usize,
    /// The number of the oldest.
    oldest: u64,
    networks: BTreeMap<IpAddr, Silents>,
    /// Of one client.
    numbers: BTreeSet<u64>,
}

impl Silents {
    /// Of those, by age.
    fn new(among: &[Rester]) -> Self {
        let mut all = Self::default();
        for rester in among {
            let mut at = all.enter(rester.number);
            for tier in (0..TIERS).rev() {
                let network = network(rester.ip, tier);
                at = at.networks.entry(network).or_default().enter(rester.number);
            }
            at.numbers.insert(rester.number);
        }
        all
    }

    fn enter(&mut self, number: u64) -> &mut Self {
        self.oldest = if self.many == 0 { number } else { self.oldest };
        self.many += 1;
        self
    }

    /// One after another, so many: each the oldest of the wide network, in that the network, in that the client that has the most by then.
    fn longest_of_heaviest(mut self, most: usize) -> Vec<u64> {
        (0..most).map_while(|_| self.next()).collect()
    }

    fn next(&mut self) -> Option<u64> {
        let left = self.networks.values_mut().filter(|of| of.many > 0);
        let heaviest = left.max_by_key(|of| (of.many, Reverse(of.oldest)));
        let number = match heaviest {
            Some(heaviest) => heaviest.next()?,
            None => self.numbers.pop_first()?,
        };
        self.many -= 1;
        if number == self.oldest {
            let networks = self.networks.values().filter(|of| of.many > 0);
            let oldest = networks.map(|of| of.oldest).min();
            self.oldest = oldest.or(self.numbers.first().copied()).unwrap_or(u64::MAX);
        }
        Some(number)
    }
}

fn same(one: IpAddr, other: IpAddr, tier: usize) -> bool {
    network(one, tier) == network(other, tier)
}

#[cfg(test)]
mod tests;
