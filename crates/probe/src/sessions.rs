//! A reflector's counts: how many packets of each session it received (RFC 8762, section 4.1, stateful mode). Pure.

use std::collections::HashMap;
use std::net::SocketAddr;

/// Sessions that are kept; beyond, the one that was silent longest is forgotten.
const MOST: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct Session {
    received: u32,
    /// Which packet of all it was that came last.
    touched: u64,
}

/// The sessions that a reflector knows.
#[derive(Debug, Default)]
pub struct Sessions {
    sessions: HashMap<(SocketAddr, u16), Session>,
    packets: u64,
}

impl Sessions {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet of a session came: how many came before. Wraps after 2^32.
    pub fn number(&mut self, from: SocketAddr, ssid: u16) -> u32 {
        self.packets += 1;
        let key = (from, ssid);
        if self.sessions.len() >= MOST && !self.sessions.contains_key(&key) {
            self.forget_one();
        }
        let session = self.sessions.entry(key).or_insert(Session { received: 0, touched: 0 });
        session.touched = self.packets;
        let number = session.received;
        session.received = number.wrapping_add(1);
        number
    }

    fn forget_one(&mut self) {
        let oldest = self.sessions.iter().min_by_key(|(_, s)| s.touched).map(|(key, _)| *key);
        if let Some(key) = oldest {
            self.sessions.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_has_its_own_count() {
        let mut sessions = Sessions::new();
        let (a, b) = ("10.0.0.1:5".parse().unwrap(), "10.0.0.1:6".parse().unwrap());
        let numbers = [(a, 1), (a, 1), (b, 1), (a, 2), (a, 1)].map(|(f, s)| sessions.number(f, s));
        assert_eq!(numbers, [0, 1, 0, 0, 2]);
    }

    #[test]
    fn a_crowd_of_strangers_takes_bounded_memory_and_does_not_displace_the_busy() {
        let mut sessions = Sessions::new();
        let busy = "10.0.0.1:5".parse().unwrap();
        for n in 0..10_000u32 {
            assert_eq!(sessions.number(busy, 0), n);
            sessions.number(SocketAddr::new([10, 1, (n >> 8) as u8, n as u8].into(), 9), 0);
        }
        assert!(sessions.sessions.len() <= MOST);
    }
}
