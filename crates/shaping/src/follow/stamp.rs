//! STAMP to a far end, or pings, for as long as a line is followed: each answer at once, since the rate waits for it.
//!
//! ```text
//!   sent: number, time ──► under way ──► answer: delay each way, by the far end's clock
//!                              └─ none within the patience: lost
//! ```
//!
//! Times of our own are of the monotonic clock: our wall clock may be set. The far end's may be set too; then both ways change, and the round trip
//! does not. A ping tells the round trip, and nothing of its way.

use quell_sys::clock::monotonic_ns;
use quell_sys::secret;
use quell_sys::socket::errors::path_errors;
use quell_sys::socket::{EchoSocket, Inbox, Udp};
use quell_wire::icmp;
use quell_wire::stamp::{ReflectorPacket, SenderPacket, WITH_PRESENCE};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// How long an answer may take.
pub const PATIENCE_NS: u64 = 2_000_000_000;

/// Between two pings: whom they ask was not asked whether he may be.
const PING_NS: u64 = 40_000_000;
/// A ping's payload, and room for its answer with an IPv4 header before it.
const PING_SIZE: usize = 48;
const PING_ROOM: usize = 128;

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
enum Asks {
    Stamp(Udp),
    Ping(EchoSocket),
}

#[derive(Debug)]
pub struct ProbeSession {
    asks: Asks,
    ssid: u16,
    packet: Vec<u8>,
    next: u32,
    inbox: Inbox,
    under_way: VecDeque<SentProbe>,
    /// When the last answer came, at first when the session began; and when the latest probe left that was answered.
    pub heard_ns: u64,
    answered_ns: u64,
}

impl AsFd for ProbeSession {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.asks {
            Asks::Stamp(socket) => socket.as_fd(),
            Asks::Ping(socket) => socket.as_fd(),
        }
    }
}

impl ProbeSession {
    pub fn stamp(to: SocketAddr) -> Result<Self, String> {
        let socket = Udp::connected(to, 0).map_err(|e| e.to_string())?;
        Self::new(Asks::Stamp(socket), WITH_PRESENCE)
    }

    pub fn ping(to: SocketAddr) -> Result<Self, String> {
        let identifier = secret::number().map_err(|e| e.to_string())? as u16;
        let socket = EchoSocket::open(to.ip(), 0, identifier).map_err(|e| e.to_string())?;
        Self::new(Asks::Ping(socket), PING_ROOM)
    }

    fn new(asks: Asks, room: usize) -> Result<Self, String> {
        Ok(Self {
            asks,
            ssid: secret::number().map_err(|e| e.to_string())? as u16,
            packet: SenderPacket::template(WITH_PRESENCE),
            // A reflector that copies our numbers is none that counts from 0.
            next: 1 << 30,
            inbox: Inbox::new(16, room),
            under_way: VecDeque::new(),
            heard_ns: monotonic_ns(),
            answered_ns: 0,
        })
    }

    /// Sends one. What this host refuses to send is no probe.
    pub fn send(&mut self, sent_ns: u64) {
        let seq = self.next;
        let is_sent = match &self.asks {
            Asks::Stamp(socket) => {
                SenderPacket { seq, sent_ns, ssid: self.ssid }.write(&mut self.packet);
                socket.send(&self.packet).is_ok()
            }
            Asks::Ping(_)
                if self.under_way.back().is_some_and(|last| sent_ns < last.sent_ns + PING_NS) =>
            {
                return;
            }
            Asks::Ping(socket) => {
                let (identifier, ssid) = (socket.identifier(), self.ssid.into());
                let ping = icmp::request(socket.is_ipv6(), identifier, ssid, seq.into(), PING_SIZE);
                socket.send(&ping).is_ok()
            }
        };
        if is_sent {
            self.next = self.next.wrapping_add(1);
            self.under_way.push_back(SentProbe { seq, sent_ns });
        }
    }

    /// What came since.
    pub fn answers(&mut self) -> Vec<ProbeAnswer> {
        let mut answers = Vec::new();
        // That nobody listens there the silence tells; left in the queue, an error would wake this process for ever.
        let fd = match &self.asks {
            Asks::Stamp(socket) => socket.as_fd(),
            Asks::Ping(socket) => socket.as_fd(),
        };
        path_errors(fd);
        let got = self.inbox.receive(fd).unwrap_or(0);
        let seen_ns = monotonic_ns();
        for (_, bytes) in self.inbox.iter().take(got) {
            let Some((at, delay_ns)) = self.read(bytes, seen_ns) else { continue };
            let Some(sent) = self.under_way.remove(at) else { continue };
            self.heard_ns = seen_ns;
            self.answered_ns = self.answered_ns.max(sent.sent_ns);
            answers.push(ProbeAnswer { sent, seen_ns, delay_ns });
        }
        answers
    }

    /// Which of those under way an answer answers, and the delays that it tells.
    fn read(&self, bytes: &[u8], seen_ns: u64) -> Option<(usize, [i64; 2])> {
        let of = |seq: u32| self.under_way.iter().position(|sent| sent.seq == seq);
        match &self.asks {
            Asks::Stamp(_) => {
                let packet = ReflectorPacket::read(bytes)?;
                let at = of(packet.sender_seq)?;
                let sent_ns = self.under_way[at].sent_ns;
                let up = packet.received_ns as i64 - sent_ns as i64;
                let down = seen_ns as i64 - packet.sent_ns as i64;
                let is_ours = packet.ssid == self.ssid && SenderPacket::is_timed_in(sent_ns, bytes);
                is_ours.then_some((at, [up, down]))
            }
            Asks::Ping(socket) => {
                let echo = icmp::reply(socket.is_ipv6(), socket.message(bytes)?)?;
                let at = of(u32::try_from(echo.whole_number()?).ok()?)?;
                let is_ours = echo.identifier == socket.identifier()
                    && echo.payload.starts_with(&u64::from(self.ssid).to_be_bytes());
                is_ours.then_some((at, [(seen_ns - self.under_way[at].sent_ns) as i64; 2]))
            }
        }
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
            ProbeSession::stamp(far_end.local_addr().expect("it is bound")).expect("a session");
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
