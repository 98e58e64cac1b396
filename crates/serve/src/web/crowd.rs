//! Connections over TLS: how many there may be, who gives way to one more, and that what many had is given back.
//!
//! ```text
//!   one more ──► a place ──► at rest: shakes hands, asks, is answered ◄──► at work: data of a test moves
//!                  │                  gives way to others                        keeps its place
//!                  └─ none at rest, and none to give: it is told to try again
//! ```
//!
//! What TLS and HTTP/2 keep of one is several times what a plain connection takes: half a record, half a head, requests whose answers nobody
//! takes. None of that is counted byte by byte. Each part has a bound ([`super::secure`]), and so has the number of all.

use crate::hub::Handle;
use crate::places::{Full, Limits, PlaceTable};
use quell_sys::clock::monotonic_ns;
use quell_sys::memory;
use quell_sys::socket::stream::TcpSocket;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::lock::lock;

/// Connections over TLS at once: ten clients of the draft with all that it lets them have.
const MOST: usize = 160;
/// Those of one client: what the draft lets it have each way, and its probes.
const MOST_OF_ONE: usize = 64;
/// So many at least are more than nothing to the allocator.
const MANY: usize = 16;

/// All of them.
pub struct Crowd {
    limits: Limits,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    table: PlaceTable<Handle>,
    /// Those that hold memory: some may have lost their place, and have not seen that.
    open: usize,
    /// The most of them since memory was given back.
    most: usize,
}

impl Crowd {
    /// Nobody is there yet. Where few unknown connections may be, few of these may.
    pub fn new(limits: &Limits) -> Self {
        let sessions = MOST.min(limits.half_open / 2).max(2);
        let limits =
            Limits { sessions, sessions_of_one: MOST_OF_ONE.min(sessions), ..limits.clone() };
        Self { limits, places: Mutex::default() }
    }

    /// One more, until the member is dropped. Another may have to go for it.
    pub fn enter(&self, ip: IpAddr, stream: &TcpSocket) -> Result<Member<'_>, Full> {
        let handle = Handle::new(stream, false).ok_or(Full::Descriptors)?;
        let mut places = lock(&self.places);
        // Who lost its place ends as soon as its thread has a CPU.
        if places.open >= self.limits.sessions + (self.limits.sessions / 4).max(2) {
            return Err(Full::Sessions);
        }
        let (number, gone) = places.table.begin(&self.limits, ip, monotonic_ns(), handle)?;
        gone.iter().for_each(Handle::send_away);
        places.open += 1;
        places.most = places.most.max(places.open);
        Ok(Member { crowd: self, number })
    }
}

/// One of them. It is dropped after all that it holds.
pub struct Member<'c> {
    crowd: &'c Crowd,
    number: u64,
}

impl Member<'_> {
    /// Data of a test moved: it keeps its place until none has for so long. Errors when somebody else has it.
    pub fn moved(&self, patience_ns: u64) -> Result<(), Full> {
        lock(&self.crowd.places).table.moved(self.number, monotonic_ns(), patience_ns)
    }

    /// It asked for something.
    pub fn heard(&self) {
        lock(&self.crowd.places).table.heard(self.number, monotonic_ns());
    }

    /// It has nothing to move.
    pub fn rests(&self) {
        lock(&self.crowd.places).table.rests(self.number, monotonic_ns());
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut places = lock(&self.crowd.places);
        drop(places.table.leave(self.number));
        places.open -= 1;
        // Of many, most are gone: as often as their number halves.
        let many_went = places.most >= MANY && places.open <= places.most / 2;
        if many_went {
            places.most = places.open;
        }
        drop(places);
        if many_went {
            memory::give_back();
        }
    }
}

#[cfg(test)]
mod stories {
    use super::*;
    use quell_sys::socket::stream::StreamOptions;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn one_at_work_keeps_its_place_and_one_at_rest_gives_it_to_another_network() {
        let crowd = Crowd::new(&Limits { half_open: 4, ..Limits::default() });
        let stream = TcpSocket::new(false, &StreamOptions::default()).unwrap();
        let enter = |ip: IpAddr| crowd.enter(ip, &stream);
        let held = [enter(IP).unwrap(), enter(IP).unwrap()];
        assert!(held.iter().all(|member| member.moved(u64::MAX).is_ok()));
        let elsewhere = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(enter(elsewhere).map(drop), Err(Full::Sessions), "both carry data");
        held[0].rests();
        let third = enter(elsewhere).unwrap_or_else(|full| panic!("one is at rest: {full}"));
        assert_eq!(held[0].moved(1), Err(Full::SentAway));
        drop(held);
        assert_eq!(enter(IP).map(drop), Ok(()));
        drop(third);
    }
}
