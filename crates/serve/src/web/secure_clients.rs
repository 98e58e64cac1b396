//! Connections over TLS: how many there may be, who gives way to one more, and that what many had is given back.
//!
//! ```text
//!   one more ──► a place ──► idle for 5 s: gives way to others
//!                  └─ none, and nobody is idle: it is told to try again
//! ```
//!
//! What TLS and HTTP/2 keep of one is several times what a plain connection takes: half a record, half a head, requests whose answers nobody
//! takes. None of that is counted byte by byte. Each part has a bound ([`super::http2`]), and so has the number of all.

use crate::hub::Handle;
use crate::limits::{Clients, Full, Limits, WEB, lock};
use quell_sys::clock::monotonic_ns;
use quell_sys::memory;
use quell_sys::socket::stream::TcpSocket;
use std::net::IpAddr;
use std::sync::Mutex;

pub struct SecureCrowd {
    limits: Limits,
    places: Mutex<SecureClients>,
}

#[derive(Default)]
struct SecureClients {
    clients: Clients<Handle>,
    /// Those that hold memory: some may have lost their place, and have not seen that.
    open: usize,
    /// The most of them since memory was given back.
    most: usize,
}

impl SecureCrowd {
    /// Nobody is there yet. Where few unknown connections may be, few of these may.
    pub fn new(limits: &Limits) -> Self {
        let sessions = WEB.secure.min(limits.half_open / 2).max(2);
        let limits =
            Limits { sessions, sessions_of_one: WEB.secure_of_one.min(sessions), ..limits.clone() };
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
        let (number, gone) = places.clients.begin(&self.limits, ip, monotonic_ns(), handle)?;
        gone.iter().for_each(Handle::send_away);
        places.open += 1;
        places.most = places.most.max(places.open);
        Ok(Member { crowd: self, number })
    }
}

/// One of them. It is dropped after all that it holds.
pub struct Member<'c> {
    crowd: &'c SecureCrowd,
    number: u64,
}

impl Member<'_> {
    /// It asked for something, or its data moved. Errors when somebody else has its place.
    pub fn active(&self) -> Result<(), Full> {
        lock(&self.crowd.places).clients.active(self.number, monotonic_ns())
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        let mut places = lock(&self.crowd.places);
        drop(places.clients.leave(self.number));
        places.open -= 1;
        // Of many, most are gone: as often as their number halves.
        let many_went = places.most >= WEB.many && places.open <= places.most / 2;
        if many_went {
            places.most = places.open;
        }
        drop(places);
        if many_went {
            memory::give_back();
        }
    }
}
