//! STAMP to a far end for as long as a line is followed: each answer at once, since the rate waits for it.
//!
//! ```text
//!   sent: number, time ──► under way ──► answer: delay each way, by the far end's clock
//!                              └─ none within the patience: lost
//! ```
//!
//! Times of our own are of the monotonic clock: our wall clock may be set. The far end's may be set too; then both ways change, and the round trip
//! does not.

use quell_sys::clock::monotonic_ns;
use quell_sys::secret;
use quell_sys::socket::errors::path_errors;
use quell_sys::socket::{Inbox, Udp};
use quell_wire::stamp::{ReflectorPacket, SenderPacket, WITH_PRESENCE};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// How long an answer may take.
pub const PATIENCE_NS: u64 = 2_000_000_000;

/// A probe that is under way: its number, and when it left.
#[derive(Debug, Clone, Copy)]
pub struct SentProbe {
    pub seq: u32,
    pub sent_ns: u64,
}

#[derive(Debug)]
pub struct ProbeAnswer {
    pub sent: SentProbe,
    pub seen_ns: u64,
    /// Up and down, each from a zero of its own.
    pub delay_ns: [i64; 2],
}

#[derive(Debug)]
pub struct StampSession {
    socket: Udp,
    ssid: u16,
    packet: Vec<u8>,
    next: u32,
    inbox: Inbox,
    under_way: VecDeque<SentProbe>,
    /// When the last answer came, at first when the session began; and when the latest probe left that was answered.
    pub heard_ns: u64,
    answered_ns: u64,
}

impl AsFd for StampSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl StampSession {
    pub fn open(to: SocketAddr) -> Result<Self, String> {
        Ok(Self {
            socket: Udp::connected(to, 0).map_err(|e| e.to_string())?,
            ssid: secret::number().map_err(|e| e.to_string())? as u16,
            packet: SenderPacket::template(WITH_PRESENCE),
            // A reflector that copies our numbers is none that counts from 0.
            next: 1 << 30,
            inbox: Inbox::new(16, WITH_PRESENCE),
            under_way: VecDeque::new(),
            heard_ns: monotonic_ns(),
            answered_ns: 0,
        })
    }

    /// Sends one. What this host refuses to send is no probe.
    pub fn send(&mut self, sent_ns: u64) {
        let seq = self.next;
        SenderPacket { seq, sent_ns, ssid: self.ssid }.write(&mut self.packet);
        if self.socket.send(&self.packet).is_ok() {
            self.next = self.next.wrapping_add(1);
            self.under_way.push_back(SentProbe { seq, sent_ns });
        }
    }

    /// What came since.
    pub fn answers(&mut self) -> Vec<ProbeAnswer> {
        let mut answers = Vec::new();
        // That nobody listens there the silence tells; left in the queue, an error would wake this process for ever.
        path_errors(self.socket.as_fd());
        let got = self.inbox.receive(self.socket.as_fd()).unwrap_or(0);
        let seen_ns = monotonic_ns();
        for (_, bytes) in self.inbox.iter().take(got) {
            let Some(packet) = ReflectorPacket::read(bytes) else { continue };
            let Some(at) = self.under_way.iter().position(|sent| sent.seq == packet.sender_seq)
            else {
                continue;
            };
            let sent = self.under_way[at];
            if packet.ssid != self.ssid || !SenderPacket::is_timed_in(sent.sent_ns, bytes) {
                continue;
            }
            self.under_way.remove(at);
            self.heard_ns = seen_ns;
            self.answered_ns = self.answered_ns.max(sent.sent_ns);
            let up = packet.received_ns as i64 - sent.sent_ns as i64;
            let down = seen_ns as i64 - packet.sent_ns as i64;
            answers.push(ProbeAnswer { sent, seen_ns, delay_ns: [up, down] });
        }
        answers
    }

    /// Those whose answer is not awaited any more.
    pub fn lost(&mut self, now_ns: u64) -> Vec<SentProbe> {
        let mut lost = Vec::new();
        while let Some(sent) =
            self.under_way.pop_front_if(|sent| now_ns - sent.sent_ns > PATIENCE_NS)
        {
            lost.push(sent);
        }
        lost
    }

    /// The oldest that is awaited: what left before one that was answered is lost, or nearly so.
    pub fn awaited(&self) -> Option<SentProbe> {
        self.under_way.iter().find(|sent| sent.sent_ns > self.answered_ns).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_probe_that_was_lost_is_not_awaited_once_a_later_one_is_answered() {
        let far_end = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let mut session =
            StampSession::open(far_end.local_addr().expect("it is bound")).expect("a session");
        let base = monotonic_ns();
        (0..2).for_each(|n| session.send(base + n));
        assert_eq!(session.awaited().map(|sent| sent.sent_ns), Some(base));
        let mut bytes = [0; 1500];
        for answered in [false, true] {
            let (length, from) = far_end.recv_from(&mut bytes).expect("a probe");
            if answered {
                assert!(ReflectorPacket::reflect(&mut bytes[..length], 0, 1, 2, 64));
                far_end.send_to(&bytes[..length], from).expect("it is sent");
            }
        }
        assert_eq!(session.answers().len(), 1);
        assert!(session.awaited().is_none());
        session.send(base + 2);
        assert_eq!(session.awaited().map(|sent| sent.sent_ns), Some(base + 2));
    }
}
