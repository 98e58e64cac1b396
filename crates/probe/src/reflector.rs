//! A stateful STAMP session-reflector (RFC 8762, section 4.3): answers each packet at once, with its own count of the session, the
//! time of receiving (by the kernel's stamp) and of sending, and the TTL.
//!
//! The answer goes out from the address that was asked, with the TOS byte that the packet came with, so that both ways are of one
//! class; CE, which a queue on the way sets, goes back as ECT(0). It has the size of the packet: an answer is never larger than the
//! question, so that a reflector is of no use to an attacker.

use crate::ProbeError;
use crate::sessions::Sessions;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::{Inbox, Udp};
use quell_sys::wait::{Bell, came, readable, wait};
use quell_sys::wall::realtime_ns;
use quell_wire::stamp::{ReflectorPacket, SenderPacket};
use std::net::SocketAddr;
use std::os::fd::AsFd;

const BATCH: usize = 8;
const LARGEST: usize = 65_535;

#[derive(Debug)]
pub struct Reflector {
    socket: Udp,
    sessions: Sessions,
    inbox: Inbox,
}

impl Reflector {
    /// Listens. Errors when the port is in use.
    pub fn prepare(bind: SocketAddr) -> Result<Self, ProbeError> {
        Ok(Self {
            socket: Udp::listening(bind)?,
            sessions: Sessions::new(),
            inbox: Inbox::new(BATCH, LARGEST),
        })
    }

    pub fn local(&self) -> Result<SocketAddr, ProbeError> {
        Ok(self.socket.local()?)
    }

    pub fn run(mut self, stop: &Bell) -> Result<(), ProbeError> {
        loop {
            let mut fds = [readable(stop), readable(&self.socket)];
            wait(&mut fds)?;
            if came(&fds[0]) {
                return Ok(());
            }
            self.answer();
        }
    }

    fn answer(&mut self) {
        // An error here is about an answer whose asker is gone: nobody needs to know.
        let got = self.inbox.receive(self.socket.as_fd()).unwrap_or(0);
        for n in 0..got {
            let Some((arrival, bytes)) = self.inbox.datagram_mut(n) else { continue };
            let Some(from) = arrival.from else { continue };
            let Some(packet) = SenderPacket::read(bytes) else { continue };
            // What there is no room to count is answered in the stateless mode: with the sender's number.
            let counted = self.sessions.number(from, packet.ssid, monotonic_ns());
            let seq = counted.unwrap_or(packet.seq);
            let now = realtime_ns();
            let received = arrival.stamp_ns.unwrap_or(now);
            let ttl = arrival.ttl.unwrap_or(0);
            ReflectorPacket::reflect(bytes, seq, received, now, ttl);
            let tos = answer_tos(arrival.tos.unwrap_or(0));
            // What can't be sent is a loss on the way back, which the asker finds out by the count.
            let _ = self.socket.reply(bytes, from, arrival.to, tos);
        }
    }
}

/// The TOS byte of an answer: CE becomes ECT(0).
pub fn answer_tos(tos: u8) -> u8 {
    if tos & 3 == 3 { tos & !1 } else { tos }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_class_of_the_question_but_no_congestion_mark() {
        assert_eq!(answer_tos(0xb8), 0xb8);
        assert_eq!(answer_tos(0xba), 0xba);
        assert_eq!(answer_tos(0xbb), 0xba);
    }
}
