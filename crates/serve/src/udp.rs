//! The UDP port: who opens a stream of a test, and who wants packets reflected.
//!
//! ```text
//!    4 bytes, iperf3's hello ──► a test of that address waits for a stream? ──► a socket of its own, and 4 bytes back
//!   20 bytes, with a token ────► the test of that address and token does? ────► the same, and 20 bytes back
//!   44 bytes or more, STAMP ───► the same size back (RFC 8762)
//!   anything else ─────────────► nothing
//! ```
//!
//! A test with a token takes no hello without it: anybody can forge an address, and would take its streams' places.
//!
//! An answer is never answered, so that one forged datagram can't set two servers on each other: a reflected packet is no sender's packet (it
//! says when it was received where a sender's is zero), and a stream is greeted a few times at most.
//!
//! What the socket has no room for was lost on no way, and nobody knows whose it was. So each session is told of it as of what was left unanswered.
//!
//! No answer is larger than its question, so that forged addresses gain nothing: only one who has a TCP connection to the server, and so
//! has proven an address, gets more, and gets it there.

use crate::hub::Hub;
use crate::limits::{SERVER, lock};
use crate::waiting::Opened;
use quell_probe::sessions::Sessions;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk::fill;
use quell_sys::socket::inbox::{Arrival, Inbox};
use quell_sys::socket::shared::{SharedUdp, Stray};
use quell_sys::wait::{came, readable, wait};
use quell_sys::wall::realtime_ns;
use quell_wire::iperf3::{Greeting, HELLO, Hello};
use quell_wire::stamp::{Presence, ReflectorPacket, SenderPacket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

/// Serves the port until the server ends.
pub fn run(hub: &Hub<'_>, port: &SharedUdp) -> Result<(), SysError> {
    let mut inbox = Inbox::new(SERVER.batch, SERVER.datagram);
    let mut server_port = ServerPort { hub, port, sessions: Sessions::new() };
    loop {
        let mut fds = [readable(hub.stop), readable(port.socket())];
        wait(&mut fds)?;
        if came(&fds[0]) {
            return Ok(());
        }
        // An error here is about an answer whose asker is gone: nobody needs to know.
        let got = inbox.receive(port.socket().as_fd()).unwrap_or(0);
        // Behind that: what found no room before one of these came is among it.
        server_port.dropped(fill(port.socket().as_fd()).map_or(0, |fill| fill.drops));
        for n in 0..got {
            let Some((arrival, bytes)) = inbox.datagram_mut(n) else { continue };
            if server_port.take(&arrival, bytes) {
                hub.reflected.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

struct ServerPort<'a> {
    hub: &'a Hub<'a>,
    port: &'a SharedUdp,
    sessions: Sessions,
}

impl ServerPort<'_> {
    /// The socket had no room for so many datagrams, in all.
    fn dropped(&mut self, in_all: u32) {
        self.sessions.dropped(in_all, monotonic_ns());
    }

    /// Takes one datagram; whether it was reflected.
    fn take(&mut self, arrival: &Arrival, bytes: &mut [u8]) -> bool {
        if let Some(greeting) = Greeting::read(bytes) {
            self.greet(arrival, bytes, greeting);
            return false;
        }
        self.reflect(arrival, bytes)
    }

    /// A client opens a stream.
    fn greet(&mut self, arrival: &Arrival, bytes: &[u8], greeting: Greeting) {
        for mut stray in self.open(arrival, bytes, greeting) {
            match Greeting::read(&stray.bytes) {
                // Once only: what strays while that one's socket is made is lost, as on any network.
                Some(greeting) => drop(self.open(&stray.arrival, &stray.bytes, greeting)),
                None => drop(self.reflect(&stray.arrival, &mut stray.bytes)),
            }
        }
    }

    /// Opens a stream, if a test waits for it; what strayed into its socket while it was made.
    fn open(&self, arrival: &Arrival, bytes: &[u8], greeting: Greeting) -> Vec<Stray> {
        let Some(from) = arrival.from else { return Vec::new() };
        // Nobody waits: no answer, and not a word either, or anybody could fill the log under forged addresses.
        let waiting = self.hub.waiting_at(from.ip().to_canonical(), greeting.token);
        // One that came again while the first waited here: its stream has a socket, which hears the next.
        let waiting = waiting.filter(|waiting| !waiting.knows(from));
        let Some(waiting) = waiting else { return Vec::new() };
        match self.port.branch(from, arrival.to) {
            Ok((socket, strays)) => {
                // Sent here as later data is; a reply that is lost is sent again when the hello comes again.
                let _ = socket.send(&reply(bytes));
                // Another stream may have taken the last place: then nobody holds this socket, and it closes.
                let _ = waiting.add(Opened::Udp(socket), Some(from));
                strays
            }
            Err(error) => {
                self.hub.refuse(from, format!("no socket for its UDP stream: {error}"));
                waiting.fail(error);
                Vec::new()
            }
        }
    }

    /// Answers a STAMP packet with one of the same size.
    fn reflect(&mut self, arrival: &Arrival, bytes: &mut [u8]) -> bool {
        let Some(from) = arrival.from else { return false };
        let Some(packet) = SenderPacket::read(bytes) else { return false };
        if !self.hub.serves(from.ip(), false) {
            return false;
        }
        let at = monotonic_ns();
        // What there is no room to count is answered in the stateless mode: with the sender's number.
        let number = self.sessions.number_behind(packet.seq, (from, packet.ssid), at);
        let seq = number.unwrap_or(packet.seq);
        let mut rates = lock(&self.hub.rates);
        if !rates.prompt(from.ip(), bytes.len(), at) {
            // It came, and there is no answer to be lost: a count would say that it was lost on the way back.
            self.sessions.left_unanswered(from, packet.ssid);
            return false;
        }
        let unanswered = match !rates.is_limited() && self.sessions.none_dropped() {
            true => Some(0),
            false => self.sessions.unanswered(from, packet.ssid),
        };
        drop(rates);
        let now = realtime_ns();
        let received = arrival.stamp_ns.unwrap_or(now);
        ReflectorPacket::reflect(bytes, seq, received, now, arrival.ttl.unwrap_or(0));
        Presence { mark: 0, unanswered }.tell(bytes);
        let tos = quell_probe::reflector::answer_tos(arrival.tos.unwrap_or(0));
        // What can't be sent is a loss on the way back, which the asker finds out by the count.
        self.port.socket().reply(bytes, from, arrival.to, tos).is_ok()
    }
}

/// What a hello is answered with, as many bytes as it has. A client tells the server's byte order from it, and by the token behind it that it is the
/// server's.
pub fn reply(hello: &[u8]) -> Vec<u8> {
    const OLD: [u8; 4] = 123_456_789u32.to_le_bytes();
    const OLD_ANSWER: [u8; 4] = 987_654_321u32.to_le_bytes();
    let (hello, token) = hello.split_at(hello.len().min(HELLO));
    let answer = match hello == OLD {
        true => OLD_ANSWER,
        // Of a machine with the other byte order the two look exchanged, and the answer has to be as well.
        false if hello == Hello::Server.bytes() => Hello::Client.bytes(),
        false => Hello::Server.bytes(),
    };
    [&answer[..], token].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_hello_has_its_answer() {
        assert_eq!(reply(b"9876"), b"6789");
        assert_eq!(reply(b"6789"), b"9876");
        assert_eq!(reply(b"9876 and a token"), b"6789 and a token");
        assert_eq!(reply(&123_456_789u32.to_le_bytes()), 987_654_321u32.to_le_bytes());
    }
}
