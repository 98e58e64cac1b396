//! What the server sends and takes in all, held over any time.
//!
//! ```text
//!   a stream, a call ──► its test's share ──► its client's rate ──► the server's rate      all three let it through, or it waits
//!                         (Share)              (Governor)
//! ```
//!
//! A rate's account is a single time: until when what went through would take at that rate. It may lie ahead of the clock by [`BURST_NS`]. So in
//! any time `t` at most `rate × (t + BURST_NS)` and one piece go through, whoever asks and however many tests come one after another.
//!
//! Counted is payload: what is handed to the kernel's sockets and taken from them. Headers and what TCP sends again are not.

use crate::ledger::{Limits, client};
use quell_load::bulk::Gate;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far what goes through may be ahead of the rate, in nanoseconds.
pub const BURST_NS: u64 = 20_000_000;

/// Most bytes in one piece, where anything is limited. Only a datagram may be larger.
pub const PIECE: usize = 16 << 10;

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

/// The rates of the server and of each client.
#[derive(Debug)]
pub struct Governor {
    accounts: Mutex<Accounts>,
}

#[derive(Debug)]
struct Accounts {
    all: Option<Account>,
    of_one: Option<u64>,
    clients: HashMap<IpAddr, Account>,
    /// Of all, what may be reflected.
    reflected: Option<Account>,
}

/// Reflected packets have no test that sets a rate aside for them: so much of the server's rate, as a divisor.
const REFLECTED: u64 = 20;

impl Governor {
    /// By these limits.
    pub fn new(limits: &Limits) -> Self {
        let accounts = Accounts {
            all: limits.rate.map(Account::new),
            of_one: limits.rate_of_one,
            clients: HashMap::new(),
            reflected: limits.rate.map(|rate| Account::new(rate / REFLECTED)),
        };
        Self { accounts: Mutex::new(accounts) }
    }

    /// Lets a piece through, or says when to ask again.
    pub fn pass(&self, ip: IpAddr, bytes: usize, now: u64) -> Result<(), u64> {
        let mut accounts = lock(&self.accounts);
        let ip = client(ip);
        let of_one = accounts.clients.get(&ip).map_or(0, Account::opens);
        let opens = accounts.all.as_ref().map_or(0, Account::opens).max(of_one);
        if opens > now {
            return Err(opens.max(now.saturating_add(RETRY_NS)));
        }
        accounts.charge(ip, bytes, now);
        Ok(())
    }

    /// Writes down what went through without asking.
    pub fn charge(&self, ip: IpAddr, bytes: usize, now: u64) {
        lock(&self.accounts).charge(client(ip), bytes, now);
    }

    /// Whether a packet of this size may be reflected now.
    pub fn reflects(&self, ip: IpAddr, bytes: usize, now: u64) -> bool {
        let mut accounts = lock(&self.accounts);
        let Some(reflected) = &mut accounts.reflected else { return true };
        if reflected.opens() > now {
            return false;
        }
        reflected.charge(bytes, now);
        accounts.charge(client(ip), bytes, now);
        true
    }
}

impl Accounts {
    fn charge(&mut self, ip: IpAddr, bytes: usize, now: u64) {
        if let Some(all) = &mut self.all {
            all.charge(bytes, now);
        }
        if let Some(rate) = self.of_one {
            if !self.clients.contains_key(&ip) {
                // Those that have paid begin anew when they come again.
                self.clients.retain(|_, account| account.paid_ns > now);
            }
            self.clients.entry(ip).or_insert_with(|| Account::new(rate)).charge(bytes, now);
        }
    }
}

/// What one test or connection of calls has of the rates; unlimited where nothing is.
#[derive(Debug)]
pub struct Share<'a> {
    governor: &'a Governor,
    ip: IpAddr,
    own: Option<Mutex<Account>>,
}

impl<'a> Share<'a> {
    /// Of this client, with this rate set aside for it.
    pub fn new(governor: &'a Governor, ip: IpAddr, rate: Option<u64>) -> Self {
        Self { governor, ip, own: rate.map(|rate| Mutex::new(Account::new(rate))) }
    }

    /// Writes down datagrams that came: nobody can hold them back.
    pub fn came(&self, bytes: u64, now: u64) {
        if self.own.is_some() {
            self.governor.charge(self.ip, usize::try_from(bytes).unwrap_or(usize::MAX), now);
        }
    }
}

impl Gate for Share<'_> {
    fn most(&self) -> Option<usize> {
        self.own.as_ref().map(|_| PIECE)
    }

    fn pass(&self, bytes: usize, now: u64) -> Result<(), u64> {
        let Some(own) = &self.own else { return Ok(()) };
        let mut own = lock(own);
        if own.opens() > now {
            return Err(own.opens().max(now.saturating_add(RETRY_NS)));
        }
        self.governor.pass(self.ip, bytes, now)?;
        own.charge(bytes, now);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
                let share = Share::new(&governor, ip(1), Some(RATE));
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

    #[test]
    fn a_test_gets_no_more_than_was_set_aside_for_it() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let mut shares = [Share::new(&governor, ip(1), Some(RATE / 10))];
        holds(&greedy(&mut shares, 0, &[64]), RATE / 10, 64);
    }

    #[test]
    fn reflected_packets_have_a_part_of_the_rate_and_are_counted() {
        let limits = Limits { rate: Some(RATE), ..Limits::default() };
        let governor = Governor::new(&limits);
        let share = Share::new(&governor, ip(1), Some(RATE));
        let mut reflected = Vec::new();
        let bytes: Vec<u64> = (0..300)
            .map(|ms| {
                let many = (0..100).filter(|_| governor.reflects(ip(2), 100, ms * MS)).count();
                reflected.push(many as u64 * 100);
                let mut sum = many as u64 * 100;
                while share.pass(PIECE, ms * MS).is_ok() {
                    sum += PIECE as u64;
                }
                sum
            })
            .collect();
        holds(&reflected, RATE / REFLECTED, 100);
        // A reflected packet may go where a piece of a test went last.
        holds(&bytes, RATE, PIECE + 20_000);
        let open = Governor::new(&Limits::default());
        assert!((0..1000).all(|_| open.reflects(ip(1), 65_000, 0)), "no limit, no loss");
    }

    #[test]
    fn where_nothing_is_limited_nobody_waits() {
        let governor = Governor::new(&Limits::default());
        let share = Share::new(&governor, ip(1), None);
        assert_eq!(share.most(), None);
        assert!((0..1000).all(|_| share.pass(usize::MAX, 0).is_ok()));
    }
}
