//! What the server sends and takes in all, held over any time, and shared by those who want it.
//!
//! ```text
//!   a stream, a call ──► its test's rate ──► its client's rate ──► the server's rate ──► its turn      all let it through, or it waits
//!                         (Share)             (Governor)                                 (Turns)
//! ```
//!
//! A rate's account is a single time: until when what went through would take at that rate. It may lie ahead of the clock by [`BURST_NS`]. So in
//! any time `t` at most `rate × (t + BURST_NS)` and one piece go through, whoever asks and however many tests come one after another.
//!
//! Nothing of a rate is set aside. Whoever wants to move bytes gets turns as many as the others who want to: each network, in it each client,
//! of a client each test, of a test each stream ([`Turns`]). So a newcomer has a share at once, and one who moves nothing takes nothing.
//!
//! Datagrams that come are the exception, for nobody can hold them back: they are written down when they are there, the others wait for that, and
//! a test of them begins only where its rate fits in ([`Governor::admits`]).
//!
//! One host may have all clients of an IPv6 /56 or /48: those networks have a rate of their own, two and four times a client's.
//!
//! Counted is payload: what is handed to the kernel's sockets and taken from them. Headers and what TCP sends again are not.

use crate::lock::lock;
use crate::places::{Full, Limits, TIERS, client, network, parts, wide};
use crate::reflections::Reflections;
use crate::turns::{self, Path, Turns};
use quell_load::bulk::Gate;
use quell_sys::SysError;
use quell_sys::socket::option::set;
use quell_sys::socket::stream::TcpSocket;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Mutex;

/// How far what goes through may be ahead of the rate, in nanoseconds.
pub const BURST_NS: u64 = 20_000_000;

/// While what went through is so far ahead of the rate, nothing of it is lost if nobody moves.
pub const EARLY_NS: u64 = BURST_NS / 4;

/// Most bytes in one piece, where anything is limited. Only a datagram may be larger.
pub const PIECE: usize = 16 << 10;

/// Least bytes in one piece: what a small segment carries.
const LEAST_PIECE: usize = 512;

/// Who waits asks again no sooner than this, so that many who wait for the same cost little, in nanoseconds.
const RETRY_NS: u64 = 500_000;

/// One rate's account.
#[derive(Debug, Clone)]
struct Account {
    /// Bits a second.
    rate: u64,
    /// When all that went through is paid for.
    paid_ns: u64,
}

impl Account {
    fn new(rate: u64) -> Self {
        Self { rate: rate.max(1), paid_ns: 0 }
    }

    /// When a piece may go through.
    fn opens(&self) -> u64 {
        self.paid_ns.saturating_sub(BURST_NS)
    }

    fn charge(&mut self, bytes: usize, now: u64) {
        let cost = bytes as u128 * 8_000_000_000 / u128::from(self.rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.paid_ns = self.paid_ns.max(now).saturating_add(cost);
    }
}

/// How long a share's datagrams are counted before their rate is known.
const KNOWN_NS: u64 = 2_000_000_000;

/// Of the server's rate, what datagrams that come may have: the rest is for those that can wait, so that they have some in any case.
const DATAGRAMS: (u64, u64) = (9, 10);

/// Reflected packets take no turns, and are shared in their own way: so much of the server's rate, as a divisor.
const REFLECTED: u64 = 20;

/// Small answers go before all else while a client's rate is no further ahead than this.
const ANSWERS_NS: u64 = 3 * BURST_NS;

/// So many accounts of clients are kept without a look at whether they have paid.
const LEAST_MANY: usize = 256;

/// The rates of the server and of each client.
#[derive(Debug)]
pub struct Governor {
    accounts: Mutex<Accounts>,
}

#[derive(Debug)]
struct Accounts {
    all: Option<Account>,
    of_one: Option<u64>,
    /// Of each client, and of the networks it is in that have a rate.
    clients: HashMap<Owner, Account>,
    /// Where there are so many, those that have paid are taken out.
    many: usize,
    /// Of all, what may be reflected.
    reflected: Option<Reflections>,
    /// Where the server has a rate.
    turns: Option<Turns>,
    datagrams: BTreeMap<u64, Datagrams>,
    /// Tests of which this end sends streams, by their network, client and number.
    sending: BTreeSet<(IpAddr, IpAddr, u64)>,
    next: u64,
}

/// A client, or a network that may be one host's, by its tier.
type Owner = (usize, IpAddr);

/// Who has a rate that an address uses, each with how many times a client's.
fn owners(ip: IpAddr) -> impl Iterator<Item = (Owner, u64)> {
    (0..TIERS).filter_map(move |tier| Some(((tier, network(ip, tier)), parts(ip, tier)? as u64)))
}

/// Datagrams of one test that come.
#[derive(Debug)]
struct Datagrams {
    ip: IpAddr,
    /// What it said that it would send, in bits a second.
    asked: u64,
    /// What it does send, once that is known.
    known: Option<u64>,
    since_ns: u64,
    bytes: u64,
}

impl Datagrams {
    fn came(&mut self, bytes: u64, now: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let lasted = now.saturating_sub(self.since_ns);
        if lasted >= KNOWN_NS {
            let bits = u128::from(self.bytes) * 8_000_000_000 / u128::from(lasted);
            self.known = Some(u64::try_from(bits).unwrap_or(u64::MAX));
            (self.since_ns, self.bytes) = (now, 0);
        }
    }

    /// What it needs: what it sends and a quarter more, at most what it said.
    fn needs(&self) -> u64 {
        self.known.map_or(self.asked, |known| (known + known / 4).min(self.asked))
    }
}

impl Governor {
    /// By these limits.
    pub fn new(limits: &Limits) -> Self {
        let accounts = Accounts {
            all: limits.rate.map(Account::new),
            of_one: limits.rate_of_one,
            clients: HashMap::new(),
            many: LEAST_MANY,
            reflected: limits
                .rate
                .map(|rate| Reflections::new(rate / REFLECTED, BURST_NS * REFLECTED)),
            turns: limits.rate.map(Turns::new),
            datagrams: BTreeMap::new(),
            sending: BTreeSet::new(),
            next: 0,
        };
        Self { accounts: Mutex::new(accounts) }
    }

    /// Whether datagrams may come at this rate, or where none in particular is asked for, at which; none where nothing is limited. Counted is
    /// what others send and not what they asked for, and who asks for no more than its part is let in: see [`Share::is_too_much`].
    pub fn admits(&self, ip: IpAddr, asked: Option<u64>) -> Result<Option<u64>, Full> {
        let accounts = lock(&self.accounts);
        let of_one = owners(ip).filter_map(|(owner, parts)| {
            Some((accounts.of_one?.saturating_mul(parts), Some(owner), Full::RateOfOne))
        });
        let all = accounts.all.as_ref().map(|all| (datagrams_of(all.rate), None, Full::Rate));
        let mut got = asked;
        for (limit, of, full) in of_one.chain(all) {
            let among = accounts
                .datagrams
                .values()
                .filter(|other| of.is_none_or(|(tier, whole)| network(other.ip, tier) == whole));
            let used = among.map(Datagrams::needs).fold(0, u64::saturating_add);
            let part = if of.is_some() { 0 } else { limit / accounts.networks_with(ip) };
            let most = limit.saturating_sub(used).max(part);
            // A test that would take whatever there is shall not be told that a trickle is what the network carries.
            if most < asked.unwrap_or(limit / 10).max(1) {
                return Err(full);
            }
            got = Some(got.unwrap_or(most).min(most));
        }
        Ok(if accounts.is_limited() { got } else { None })
    }

    /// Whether there is no limit for what is reflected.
    pub fn reflects_all(&self) -> bool {
        lock(&self.accounts).reflected.is_none()
    }

    /// Whether a packet of this size may be reflected now, to one who is known to be there or to somebody.
    pub fn reflects(&self, ip: IpAddr, is_known: bool, bytes: usize, now: u64) -> bool {
        let mut accounts = lock(&self.accounts);
        let Some(reflected) = &mut accounts.reflected else { return true };
        if !reflected.may(ip, is_known, bytes, now) {
            return false;
        }
        accounts.charge(client(ip), bytes, now);
        true
    }
}

/// What datagrams may have of the server's rate.
fn datagrams_of(rate: u64) -> u64 {
    rate / DATAGRAMS.1 * DATAGRAMS.0
}

impl Accounts {
    fn is_limited(&self) -> bool {
        self.all.is_some() || self.of_one.is_some()
    }

    /// Enters a test that is sent to; among how many the rate is shared so that it has its part: networks, clients of its own, and tests of its client. Others'
    /// streams don't count: who has many of them does not make another's pieces small.
    fn sends(&mut self, ip: IpAddr, test: u64) -> usize {
        self.sending.insert((wide(ip), ip, test));
        let networks: BTreeSet<_> = self.sending.iter().map(|(network, ..)| network).collect();
        let beside = self.sending.iter().filter(|(network, ..)| *network == wide(ip));
        let clients: BTreeSet<_> = beside.map(|(_, client, _)| client).collect();
        let tests = self.sending.iter().filter(|(_, client, _)| *client == ip).count();
        networks.len() * clients.len() * tests
    }

    /// Networks that send datagrams, this one with them.
    fn networks_with(&self, ip: IpAddr) -> u64 {
        let others = self.datagrams.values().map(|other| wide(client(other.ip)));
        let mut all: Vec<_> = others.chain([wide(client(ip))]).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as u64
    }

    fn pass(&mut self, ip: IpAddr, path: &Path, bytes: usize, now: u64) -> Result<(), u64> {
        let ip = client(ip);
        let again = now.saturating_add(RETRY_NS);
        let of_one = owners(ip).filter_map(|(owner, _)| self.clients.get(&owner));
        let of_one = of_one.map(Account::opens).max().unwrap_or(0);
        if of_one > now {
            return Err(of_one.max(again));
        }
        if let (Some(all), Some(turns)) = (&self.all, &mut self.turns) {
            let opens = all.opens();
            let is_early = all.paid_ns > now.saturating_add(EARLY_NS);
            if opens > now || !turns.may(path, bytes, now, is_early) {
                return Err(turns.wait(path, bytes, now, opens.max(again)));
            }
            turns.moved(path, bytes, now);
        }
        self.charge(ip, bytes, now);
        Ok(())
    }

    /// Lets an answer through before all else, where there are few of them; they share with what is reflected.
    fn answers(&mut self, ip: IpAddr, bytes: usize, now: u64) -> bool {
        let of_one = owners(ip).filter_map(|(owner, _)| self.clients.get(&owner));
        let is_behind = of_one.map(|account| account.paid_ns).max() > Some(now + ANSWERS_NS);
        if is_behind || self.reflected.as_mut().is_some_and(|of| !of.may(ip, true, bytes, now)) {
            return false;
        }
        self.charge(ip, bytes, now);
        true
    }

    fn charge(&mut self, ip: IpAddr, bytes: usize, now: u64) {
        if let Some(all) = &mut self.all {
            all.charge(bytes, now);
        }
        let Some(rate) = self.of_one else { return };
        if self.clients.len() >= self.many {
            // Those that have paid begin anew when they come again. Not for each newcomer: there may be one with each packet.
            self.clients.retain(|_, account| account.paid_ns > now);
            self.many = (2 * self.clients.len()).max(LEAST_MANY);
        }
        for (owner, parts) in owners(ip) {
            let account = self.clients.entry(owner);
            let account = account.or_insert_with(|| Account::new(rate.saturating_mul(parts)));
            account.charge(bytes, now);
        }
    }
}

/// What one test or connection of calls has of the rates; unlimited where nothing is.
#[derive(Debug)]
pub struct Share<'a> {
    governor: &'a Governor,
    ip: IpAddr,
    number: u64,
    limited: bool,
    piece: usize,
    own: Option<Mutex<Account>>,
}

impl<'a> Share<'a> {
    /// Of this client, which asked for this rate, if for one.
    pub fn new(governor: &'a Governor, ip: IpAddr, asked: Option<u64>) -> Self {
        let mut accounts = lock(&governor.accounts);
        accounts.next += 1;
        let limited = accounts.is_limited();
        let own = asked.filter(|_| limited).map(|rate| Mutex::new(Account::new(rate)));
        Self { governor, ip, number: accounts.next, limited, piece: PIECE, own }
    }

    /// Of so many streams over TCP that this end sends: in none of their sockets waits more than its part of a burst, or a client that
    /// stops reading and begins again would get all of it at once.
    #[must_use]
    pub fn of_streams(mut self, streams: usize) -> Self {
        let mut accounts = lock(&self.governor.accounts);
        let rate = [accounts.all.as_ref().map(|all| all.rate), accounts.of_one];
        if let Some(rate) = rate.into_iter().flatten().min().filter(|_| streams > 0) {
            let burst = u128::from(rate) * u128::from(BURST_NS) / 8_000_000_000;
            let among = accounts.sends(client(self.ip), self.number);
            let part = burst / (among * streams) as u128;
            self.piece = usize::try_from(part).unwrap_or(PIECE).clamp(LEAST_PIECE, PIECE);
        }
        drop(accounts);
        self
    }

    /// Of so many streams over TCP that come to this end: a piece of each is read before it is paid for, and all of those are to be a burst at most.
    #[must_use]
    pub fn of_incoming(mut self, streams: usize) -> Self {
        let accounts = lock(&self.governor.accounts);
        let rate = [accounts.all.as_ref().map(|all| all.rate), accounts.of_one];
        if let Some(rate) = rate.into_iter().flatten().min().filter(|_| streams > 0) {
            let burst = u128::from(rate) * u128::from(BURST_NS) / 8_000_000_000;
            let part = usize::try_from(burst / streams as u128).unwrap_or(PIECE);
            self.piece = self.piece.min(part.max(LEAST_PIECE));
        }
        drop(accounts);
        self
    }

    /// Of one that gets datagrams at this rate, from now on.
    pub fn takes_datagrams(&self, asked: u64, now: u64) {
        let datagrams = Datagrams { ip: self.ip, asked, known: None, since_ns: now, bytes: 0 };
        lock(&self.governor.accounts).datagrams.insert(self.number, datagrams);
    }

    /// Writes down datagrams that came: nobody can hold them back.
    pub fn came(&self, bytes: u64, now: u64) {
        if !self.limited {
            return;
        }
        let mut accounts = lock(&self.governor.accounts);
        let many = usize::try_from(bytes).unwrap_or(usize::MAX);
        accounts.charge(client(self.ip), many, now);
        if let Some(turns) = accounts.turns.as_mut().filter(|_| bytes > 0) {
            turns.moved(&turns::path(self.ip, self.number, 0), many, now);
        }
        if let Some(datagrams) = accounts.datagrams.get_mut(&self.number) {
            datagrams.came(bytes, now);
        }
    }

    /// Whether more datagrams come than the server may take, and this test's network is one of those that send more than their part.
    pub fn is_too_much(&self, behind_ns: u64, now: u64) -> bool {
        let accounts = lock(&self.governor.accounts);
        let Some(all) = &accounts.all else { return false };
        if all.paid_ns.saturating_sub(now) <= behind_ns {
            return false;
        }
        let of = wide(client(self.ip));
        let own = accounts.datagrams.values().filter(|other| wide(client(other.ip)) == of);
        let needs = own.map(Datagrams::needs).fold(0, u64::saturating_add);
        needs > datagrams_of(all.rate) / accounts.networks_with(self.ip)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut accounts = lock(&self.governor.accounts);
        accounts.datagrams.remove(&self.number);
        let ip = client(self.ip);
        accounts.sending.remove(&(wide(ip), ip, self.number));
        if let Some(turns) = &mut accounts.turns {
            turns.leave(&turns::path(self.ip, self.number, 0));
        }
    }
}

impl Share<'_> {
    /// Lets so many bytes of one of its streams through, or says when to ask again: streams of a test take turns too.
    pub fn pass_of(&self, stream: u64, bytes: usize, now: u64) -> Result<(), u64> {
        if !self.limited {
            return Ok(());
        }
        let mut own = self.own.as_ref().map(lock);
        if let Some(own) = &own
            && own.opens() > now
        {
            return Err(own.opens().max(now.saturating_add(RETRY_NS)));
        }
        let path = turns::path(self.ip, self.number, stream);
        lock(&self.governor.accounts).pass(self.ip, &path, bytes, now)?;
        if let Some(own) = &mut own {
            own.charge(bytes, now);
        }
        Ok(())
    }
}

impl Share<'_> {
    /// Lets an answer of so many bytes through, no more than a piece, or says when to ask again. A probe's is not to wait behind the load that it is beside:
    /// it goes at once, as long as its client has few of them; those of one who asks for ever more wait for their turn, as all else.
    pub fn pass_answer(&self, bytes: usize, now: u64) -> Result<(), u64> {
        if !self.limited || lock(&self.governor.accounts).answers(client(self.ip), bytes, now) {
            return Ok(());
        }
        self.pass_of(0, bytes, now)
    }
}

impl Gate for Share<'_> {
    fn most(&self) -> Option<usize> {
        self.limited.then_some(self.piece)
    }

    fn pass(&self, bytes: usize, now: u64) -> Result<(), u64> {
        self.pass_of(0, bytes, now)
    }
}

/// What is sent in small pieces is not to wait in a connection's socket for more.
pub fn at_once(stream: &TcpSocket) -> Result<(), SysError> {
    set(stream.as_fd(), libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 10_000_000;
    const MS: u64 = 1_000_000;

    fn ip(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    /// What goes through in each millisecond of 300 when all these ask for a piece whenever they may, in bytes.
    fn greedy(shares: &mut [Share<'_>], from: u64, pieces: &[usize]) -> Vec<u64> {
        (0..300)
            .map(|ms| {
                let now = from + ms * MS;
                let mut got = 0;
                for (n, share) in shares.iter().enumerate() {
                    let piece = pieces[n % pieces.len()];
                    while share.pass(piece, now).is_ok() {
                        got += piece as u64;
                    }
                }
                got
            })
            .collect()
    }

    /// Over every interval of these milliseconds.
    #[track_caller]
    fn holds(bytes: &[u64], rate: u64, piece: usize) {
        for from in 0..bytes.len() {
            let mut sum = 0;
            for (n, got) in bytes[from..].iter().enumerate() {
                sum += got;
                // One millisecond more: what goes through within one is taken for its beginning.
                let most = rate * (n as u64 * MS + BURST_NS) / 8_000_000_000 + piece as u64;
                assert!(sum <= most, "{sum} bytes, not {most}, in {n} ms from {from}");
            }
        }
    }

    #[test]
    fn the_sum_of_all_holds_the_rate_over_any_interval() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let mut shares: Vec<_> =
            (0..8).map(|n| Share::new(&governor, ip(n), Some(RATE / 4))).collect();
        let bytes = greedy(&mut shares, 7 * MS, &[PIECE, 65_507, 64]);
        holds(&bytes, RATE, 65_507);
        let all: u64 = bytes.iter().sum();
        assert!(all > RATE * 290 / 8000, "and it is used: {all}");
    }

    #[test]
    fn short_tests_one_after_another_get_no_more_than_one_long_one() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let bytes: Vec<u64> = (0..300)
            .map(|ms| {
                let share = Share::new(&governor, ip(1), None);
                let mut got = 0;
                while share.pass(PIECE, ms * MS).is_ok() {
                    got += PIECE as u64;
                }
                got
            })
            .collect();
        holds(&bytes, RATE, PIECE);
    }

    #[test]
    fn each_client_holds_its_own_rate_whatever_its_address_in_its_network() {
        let limits = Limits { rate_of_one: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let addresses = ["2001:db8::1", "2001:db8::2:0:0:1"].map(|a| a.parse().unwrap());
        let mut shares: Vec<_> =
            addresses.iter().map(|ip| Share::new(&governor, *ip, Some(RATE))).collect();
        holds(&greedy(&mut shares, 0, &[PIECE]), RATE, PIECE);
        let other = Share::new(&governor, ip(1), Some(RATE));
        assert_eq!(other.pass(PIECE, 300 * MS), Ok(()), "another has its own");
    }

    /// What hosts get together in a burst and 300 ms, in parts of what one client may have.
    fn parts_of(addresses: impl Iterator<Item = String>) -> f64 {
        let limits = Limits { rate_of_one: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let share = |ip: String| Share::new(&governor, ip.parse().unwrap(), None);
        let mut shares: Vec<_> = addresses.map(share).collect();
        let bytes: u64 = greedy(&mut shares, 7 * MS, &[1000]).iter().sum();
        let one = RATE * (300 * MS + BURST_NS) / 8_000_000_000;
        bytes as f64 / one as f64
    }

    #[test]
    fn one_host_with_a_network_of_clients_has_two_and_four_times_a_clients_rate() {
        let near = |got: f64, wanted: f64| (got - wanted).abs() < 0.05 * wanted;
        let of_56 = parts_of((0..8).map(|n| format!("2001:db8:0:{n:x}::1")));
        assert!(near(of_56, 2.0), "8 /64 of one /56 have two clients' rates, not {of_56}");
        let of_48 = parts_of((0..8).map(|n| format!("2001:db8:0:{n:x}00::1")));
        assert!(near(of_48, 4.0), "8 /56 of one /48 have four clients' rates, not {of_48}");
        let apart = parts_of((0..8).map(|n| format!("2001:db8:{n:x}::1")));
        assert!(near(apart, 8.0), "8 /48 are others, with {apart}");
        let neighbours = parts_of((1..=8).map(|n| format!("192.0.2.{n}")));
        assert!(near(neighbours, 8.0), "IPv4 addresses are others, with {neighbours}");
    }

    #[test]
    fn datagrams_to_a_network_of_clients_are_let_in_by_two_and_four_times_a_clients_rate() {
        let limits = Limits { rate_of_one: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let let_in = |ip: String| {
            let ip = ip.parse().unwrap();
            governor.admits(ip, Some(RATE)).ok().map(|_| {
                let share = Share::new(&governor, ip, Some(RATE));
                share.takes_datagrams(RATE, 0);
                share
            })
        };
        let of_56: Vec<_> = (0..8).filter_map(|n| let_in(format!("2001:db8:0:{n:x}::1"))).collect();
        let of_48: Vec<_> =
            (1..8).filter_map(|n| let_in(format!("2001:db8:0:{n:x}00::1"))).collect();
        assert_eq!((of_56.len(), of_48.len()), (2, 2), "the /48 has four");
        assert!(let_in("2001:db8:1::1".into()).is_some(), "another has its own");
    }

    #[test]
    fn answers_go_before_a_load_and_no_flood_of_them_is_faster_than_the_rates() {
        for limits in [
            Limits { rate: Some(RATE), ..Limits::default() },
            Limits { rate_of_one: Some(RATE), ..Limits::default() },
        ] {
            let governor = Governor::new(&limits);
            let [load, probe] = [ip(1), ip(1)].map(|ip| Share::new(&governor, ip, None));
            let (mut at_once, mut carried) = (0, 0);
            for ms in 0..1000 {
                while load.pass(1400, ms * MS).is_ok() {
                    carried += 1400;
                }
                if ms % 50 == 49 {
                    at_once += u32::from(probe.pass_answer(300, ms * MS).is_ok());
                }
            }
            assert_eq!(at_once, 20, "twenty probes a second, and none waited: {limits:?}");
            assert!(carried > RATE / 8 * 9 / 10, "the load has the rest: {carried}");
            // From 2 s on nothing but answers, as many as may.
            let flood: Vec<u64> = (2000..3000)
                .map(|ms| {
                    let mut got = 0;
                    while probe.pass_answer(500, ms * MS).is_ok() {
                        got += 500;
                    }
                    got
                })
                .collect();
            let sum: u64 = flood.iter().sum();
            let most = RATE * (1000 * MS + ANSWERS_NS + BURST_NS) / 8_000_000_000 + 500;
            assert!(sum <= most, "{sum} bytes, not {most}: {limits:?}");
        }
    }

    #[test]
    fn a_test_gets_no_more_than_it_asked_for() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let mut shares = [Share::new(&governor, ip(1), Some(RATE / 10))];
        holds(&greedy(&mut shares, 0, &[64]), RATE / 10, 64);
    }

    /// What each of these shares gets in a second when all ask for a piece as soon as they may, in bytes. The first asks first.
    fn each(shares: &[Share<'_>], from: u64) -> Vec<u64> {
        let mut got = vec![0; shares.len()];
        for now in (0..10_000).map(|n| from + n * MS / 10) {
            for (share, got) in shares.iter().zip(&mut got) {
                while share.pass(PIECE, now).is_ok() {
                    *got += PIECE as u64;
                }
            }
        }
        got
    }

    #[test]
    fn a_newcomer_has_its_part_at_once_and_who_asks_for_nothing_takes_nothing() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let addresses = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "198.51.100.1"];
        let mut shares: Vec<_> = addresses
            .map(|ip| Share::new(&governor, ip.parse().unwrap(), None))
            .into_iter()
            .collect();
        let part = |got: &[u64]| -> Vec<u64> {
            let all: u64 = got.iter().sum();
            assert!(all > RATE / 8 * 95 / 100, "the rate is used: {got:?}");
            got.iter().map(|got| (got * 100 + all / 2) / all).collect()
        };
        let first = part(&each(&shares[..1], 0));
        assert_eq!(first, [100], "who is alone has all");
        // A network each half, in it a client each half, of it a test each half; within what one may be ahead.
        let got = part(&each(&shares, 1000 * MS));
        for (got, wanted) in got.iter().zip([13, 13, 25, 50]) {
            assert!(got.abs_diff(wanted) <= 4, "{got} of 100, not {wanted}");
        }
        let last = shares.split_off(3);
        let got = part(&each(&shares, 2000 * MS));
        assert!(got[2].abs_diff(50) <= 4, "silent ones take nothing: {got:?}");
        let got = part(&each(&[shares.remove(0), last.into_iter().next().unwrap()], 3000 * MS));
        assert!(got[1].abs_diff(50) <= 4, "nobody saves up: {got:?}");
    }

    #[test]
    fn datagrams_that_come_are_let_in_by_what_the_others_send() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let (one, other) = (ip(1), [198, 51, 100, 1].into());
        assert_eq!(governor.admits(one, Some(RATE)), Err(Full::Rate), "a tenth is for the others");
        assert_eq!(governor.admits(one, None), Ok(Some(RATE / 10 * 9)));
        let share = Share::new(&governor, one, Some(RATE / 10 * 9));
        share.takes_datagrams(RATE / 10 * 9, 0);
        assert_eq!(governor.admits(other, Some(RATE / 2)), Err(Full::Rate));
        assert_eq!(governor.admits(other, Some(RATE / 3)), Ok(Some(RATE / 3)), "its part");
        assert_eq!(governor.admits(ip(2), Some(RATE / 3)), Ok(Some(RATE / 3)));
        // It sends a tenth of what it said.
        for now in (0..=KNOWN_NS).step_by(50 * MS as usize) {
            share.came(RATE / 8 / 20 / 10, now);
        }
        assert_eq!(governor.admits(other, Some(RATE / 2)), Ok(Some(RATE / 2)));
    }

    #[test]
    fn who_sends_more_datagrams_than_its_part_makes_room_where_it_is_too_much() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let large = Share::new(&governor, ip(1), Some(RATE / 10 * 9));
        large.takes_datagrams(RATE / 10 * 9, 0);
        let small = Share::new(&governor, [198, 51, 100, 1].into(), Some(RATE / 3));
        small.takes_datagrams(RATE / 3, 0);
        large.came(RATE / 8, 0);
        assert!(!large.is_too_much(2000 * MS, 0));
        assert!(large.is_too_much(200 * MS, 0));
        assert!(!small.is_too_much(200 * MS, 0));
    }

    #[test]
    fn reflected_packets_have_a_part_of_the_rate_and_are_counted() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let share = Share::new(&governor, ip(1), Some(RATE));
        let mut reflected = Vec::new();
        let bytes: Vec<u64> = (0..300)
            .map(|ms| {
                let many =
                    (0..100).filter(|_| governor.reflects(ip(2), false, 100, ms * MS)).count();
                reflected.push(many as u64 * 100);
                let mut sum = many as u64 * 100;
                while share.pass(PIECE, ms * MS).is_ok() {
                    sum += PIECE as u64;
                }
                sum
            })
            .collect();
        // Ahead of their part they are by as much as all may be.
        let burst = RATE * BURST_NS / 8_000_000_000;
        holds(&reflected, RATE / REFLECTED, burst as usize);
        // A reflected packet may go where a piece of a test went last.
        holds(&bytes, RATE, PIECE + 20_000);
        let open = Governor::new(&Limits::default());
        assert!((0..1000).all(|_| open.reflects(ip(1), false, 65_000, 0)), "no limit, no loss");
    }

    #[test]
    fn a_stranger_who_asks_for_more_than_is_reflected_takes_no_answer_from_another_network() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let stranger = [198, 51, 100, 1].into();
        let answered = (0..4000)
            .filter(|ms| {
                let now = ms * MS;
                // 560 kbit/s, a bit more than a twentieth of the rate.
                if ms % 20 == 0 {
                    governor.reflects(stranger, false, 1400, now);
                }
                ms % 100 == 5 && governor.reflects(ip(1), false, 64, now)
            })
            .count();
        assert_eq!(answered, 40);
    }

    #[test]
    fn many_streams_of_one_do_not_make_the_pieces_of_another_small() {
        let limits = Limits { rate: Some(10 * RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let of = |ip: &str, streams| {
            Share::new(&governor, ip.parse().unwrap(), None).of_streams(streams)
        };
        let shares = [of("11.1.0.1", 128), of("12.9.0.1", 1), of("11.1.0.2", 1)];
        let pieces = shares.each_ref().map(|share| share.piece);
        assert_eq!(pieces, [250_000 / 128, PIECE, PIECE], "{pieces:?}");
        drop(shares);
        assert_eq!(of("12.9.0.1", 20).piece, 250_000 / 20, "who is gone has no part");
    }

    #[test]
    fn where_nothing_is_limited_nobody_waits() {
        let governor = Governor::new(&Limits::default());
        let share = Share::new(&governor, ip(1), None);
        assert_eq!(share.most(), None);
        assert!((0..1000).all(|_| share.pass(usize::MAX, 0).is_ok()));
    }
}
