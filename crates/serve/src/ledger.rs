//! Who uses the server now, and whether one more may: counts and rates, per client address and in total. Pure.

use serde::Serialize;
use std::collections::HashMap;
use std::net::IpAddr;

/// What clients may use. Rates are in bits per second of payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Tests and connections of calls at once.
    pub sessions: usize,
    /// Those of one address.
    pub sessions_of_one: usize,
    /// Streams of one test, each way.
    pub streams: u32,
    /// Connections of which nobody knows yet what they are.
    pub half_open: usize,
    /// Those of one address.
    pub half_open_of_one: usize,
    /// What the tests of one address may send and receive together.
    pub rate_of_one: Option<u64>,
    /// What all tests may.
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
            half_open: 256,
            half_open_of_one: 64,
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
    /// All places of this address are taken.
    #[error("this address has as many sessions as it may")]
    SessionsOfOne,
    /// What is left of the server's rate is too little.
    #[error("other tests use the rate that the server may have")]
    Rate,
    /// What is left of this address' rate is too little.
    #[error("other tests of this address use the rate that it may have")]
    RateOfOne,
}

/// What is used.
#[derive(Debug, Default)]
pub struct Ledger {
    all: Used,
    of: HashMap<IpAddr, Used>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    sessions: usize,
    half_open: usize,
    rate: u64,
}

impl Ledger {
    /// One more connection of which nothing is known; whether it may be.
    pub fn knock(&mut self, limits: &Limits, ip: IpAddr) -> bool {
        let of = self.of.get(&ip).copied().unwrap_or_default();
        let room = self.all.half_open < limits.half_open && of.half_open < limits.half_open_of_one;
        if room {
            self.change(ip, |used| used.half_open += 1);
        }
        room
    }

    /// It is known now, or gone.
    pub fn known(&mut self, ip: IpAddr) {
        self.change(ip, |used| used.half_open = used.half_open.saturating_sub(1));
    }

    /// One more session.
    pub fn begin(&mut self, limits: &Limits, ip: IpAddr) -> Result<(), Full> {
        let of = self.of.get(&ip).copied().unwrap_or_default();
        if self.all.sessions >= limits.sessions {
            return Err(Full::Sessions);
        }
        if of.sessions >= limits.sessions_of_one {
            return Err(Full::SessionsOfOne);
        }
        self.change(ip, |used| used.sessions += 1);
        Ok(())
    }

    /// It ended.
    pub fn end(&mut self, ip: IpAddr) {
        self.change(ip, |used| used.sessions = used.sessions.saturating_sub(1));
    }

    /// Sets aside the rate that a test asks for, or where it asks for none in particular, all that is left. Gives what it may use; none
    /// where nothing is limited.
    pub fn reserve(
        &mut self,
        limits: &Limits,
        ip: IpAddr,
        asked: Option<u64>,
    ) -> Result<Option<u64>, Full> {
        let of = self.of.get(&ip).copied().unwrap_or_default();
        let mut got = asked;
        let ways = [
            (limits.rate_of_one, of.rate, Full::RateOfOne),
            (limits.rate, self.all.rate, Full::Rate),
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
        self.change(ip, |used| used.rate = used.rate.saturating_add(got.unwrap_or(0)));
        Ok(got)
    }

    /// Gives back what was set aside.
    pub fn release(&mut self, ip: IpAddr, rate: Option<u64>) {
        self.change(ip, |used| used.rate = used.rate.saturating_sub(rate.unwrap_or(0)));
    }

    /// Sessions now.
    #[cfg(test)]
    pub fn sessions(&self) -> usize {
        self.all.sessions
    }

    fn change(&mut self, ip: IpAddr, change: impl Fn(&mut Used)) {
        change(&mut self.all);
        let of = self.of.entry(ip).or_default();
        change(of);
        if *of == Used::default() {
            self.of.remove(&ip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    #[test]
    fn one_address_can_not_take_all_places() {
        let limits = Limits { sessions: 3, sessions_of_one: 2, ..Limits::default() };
        let mut ledger = Ledger::default();
        let begin = |ledger: &mut Ledger, ip| ledger.begin(&limits, ip);
        assert_eq!([0, 1].map(|_| begin(&mut ledger, ONE)), [Ok(()), Ok(())]);
        assert_eq!(begin(&mut ledger, ONE), Err(Full::SessionsOfOne));
        assert_eq!(begin(&mut ledger, OTHER), Ok(()));
        assert_eq!(begin(&mut ledger, OTHER), Err(Full::Sessions));
        ledger.end(ONE);
        assert_eq!(begin(&mut ledger, OTHER), Ok(()));
        [ONE, OTHER, OTHER].into_iter().for_each(|ip| ledger.end(ip));
        assert!(ledger.of.is_empty(), "addresses are forgotten when they are gone");
    }

    #[test]
    fn half_handshakes_are_bounded_and_do_not_take_the_places_of_sessions() {
        let limits = Limits { half_open: 3, half_open_of_one: 2, ..Limits::default() };
        let mut ledger = Ledger::default();
        let knocks = [ONE, ONE, ONE, OTHER, OTHER].map(|ip| ledger.knock(&limits, ip));
        assert_eq!(knocks, [true, true, false, true, false]);
        assert_eq!(ledger.begin(&limits, OTHER), Ok(()));
        ledger.known(ONE);
        assert!(ledger.knock(&limits, OTHER));
    }

    #[test]
    fn rates_are_shared_and_a_trickle_is_not_given_for_a_measurement() {
        let limits = Limits { rate: Some(1000), rate_of_one: Some(600), ..Limits::default() };
        let mut ledger = Ledger::default();
        assert_eq!(ledger.reserve(&limits, ONE, Some(500)), Ok(Some(500)));
        assert_eq!(ledger.reserve(&limits, ONE, Some(101)), Err(Full::RateOfOne));
        assert_eq!(ledger.reserve(&limits, OTHER, None), Ok(Some(500)), "what is left of all");
        assert_eq!(ledger.reserve(&limits, OTHER, None), Err(Full::Rate));
        ledger.release(OTHER, Some(500));
        assert_eq!(ledger.reserve(&limits, OTHER, Some(1)), Ok(Some(1)));
        assert_eq!(Ledger::default().reserve(&Limits::default(), ONE, None), Ok(None));
    }
}
