//! Attempts to connect: many at once, each given up as soon as it is known how it ended.
//!
//! ```text
//!   us     SYN ──────────────────► them        begin(id)
//!   us     ◄───────────── SYN+ACK  them        Open: somebody listens
//!   us     RST ──────────────────► them        at once: they keep nothing, nor do we
//!
//!   us     ◄───────────────── RST  them        Refused: the host answers, and nobody listens
//! ```
//!
//! All sockets are in one epoll(7) descriptor, so that one wait is for all of them.

use super::ends;
use super::handshake::Handshake;
use super::option::get;
use super::stream::{StreamOptions, TcpSocket};
use super::way::Way;
use crate::SysError;
use crate::clock::monotonic_ns;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// Ends that are taken in one call.
const BATCH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The other end accepted. The connection was reset since.
    Open,
    /// The other end answered that nobody listens (RST).
    Refused,
    /// An error came back from the path, or this host's stack gave it up.
    Failed(Errno),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedAttempt {
    pub id: u64,
    pub end: AttemptEnd,
    /// When this program found out: nanoseconds of the monotonic clock.
    pub seen_ns: u64,
    /// The kernel's own measure from the SYN to its answer, in nanoseconds, exact to a microsecond. There is one for what is
    /// [`AttemptEnd::Open`] only.
    pub rtt_ns: Option<u64>,
    pub repeated: u32,
    /// When the first SYN was sent: nanoseconds of the monotonic clock.
    pub begun_ns: u64,
}

impl EndedAttempt {
    /// Whether it was the first SYN that was answered; none where nobody knows.
    pub fn is_answer_to_first(&self) -> Option<bool> {
        let passed_ns = self.seen_ns.saturating_sub(self.begun_ns);
        Handshake { repeated: self.repeated, rtt_ns: self.rtt_ns, ..Handshake::default() }
            .is_answer_to_first(passed_ns)
    }
}

#[derive(Debug)]
struct Attempt {
    socket: TcpSocket,
    begun_ns: u64,
    /// The kernel knew the end at once, as it does on the loopback interface, and then.
    at_once: Option<(Errno, u64)>,
}

#[derive(Debug)]
pub struct Attempts {
    epoll: Epoll,
    to: SocketAddr,
    tos: u8,
    way: Way,
    open: BTreeMap<u64, Attempt>,
}

impl Attempts {
    /// None yet. Errors when an option can't be set or this way can't be gone, which is tried with a socket that sends nothing.
    pub fn new(to: SocketAddr, tos: u8, way: Way) -> Result<Self, SysError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| SysError::new("make an epoll descriptor", errno))?;
        let attempts = Self { epoll, to, tos, way, open: BTreeMap::new() };
        attempts.socket()?;
        Ok(attempts)
    }

    fn socket(&self) -> Result<TcpSocket, SysError> {
        let options = StreamOptions { tos: self.tos, ..StreamOptions::default() };
        let socket = TcpSocket::new(self.to.is_ipv6(), &options)?;
        self.way.apply(socket.as_fd(), self.to.is_ipv6())?;
        Ok(socket)
    }

    /// Begins an attempt; `id` comes back with its end. An error is the kernel's refusal to send anything.
    pub fn begin(&mut self, id: u64) -> Result<(), Errno> {
        let socket = self.socket().map_err(|error| error.errno)?;
        let begun_ns = monotonic_ns();
        let at_once = match ends::connect(socket.as_fd(), self.to) {
            Ok(()) | Err(Errno::EINPROGRESS) => None,
            Err(answer @ (Errno::ECONNREFUSED | Errno::ECONNRESET)) => {
                Some((answer, monotonic_ns()))
            }
            Err(errno) => return Err(errno),
        };
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLOUT, id))?;
        self.open.insert(id, Attempt { socket, begun_ns, at_once });
        Ok(())
    }

    /// The attempts that ended since, without waiting; whether there may be more.
    pub fn ended(&mut self, ended: &mut Vec<EndedAttempt>) -> bool {
        let mut events = [EpollEvent::empty(); BATCH];
        // It is interrupted by no signal when it does not wait, and can't fail else.
        let got = self.epoll.wait(&mut events, EpollTimeout::ZERO).unwrap_or(0);
        let seen_ns = monotonic_ns();
        for event in &events[..got] {
            if let Some(attempt) = self.open.remove(&event.data()) {
                ended.push(attempt.end(event.data(), seen_ns));
            }
        }
        got == BATCH
    }

    /// Gives up all attempts with a lower `id`, and tells which.
    pub fn give_up_before(&mut self, id: u64) -> Vec<u64> {
        let kept = self.open.split_off(&id);
        std::mem::replace(&mut self.open, kept).into_keys().collect()
    }
}

impl Attempt {
    fn end(self, id: u64, seen_ns: u64) -> EndedAttempt {
        let fd = self.socket.as_fd();
        let (errno, seen_ns) = self.at_once.unwrap_or_else(|| {
            let error = get(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
            (Errno::from_raw(error), seen_ns)
        });
        let end = match errno as i32 {
            // A reset that answers a SYN is a refusal (tcp_reset, net/ipv4/tcp_input.c); any other came after it was open.
            0 | libc::ECONNRESET | libc::EPIPE => AttemptEnd::Open,
            libc::ECONNREFUSED => AttemptEnd::Refused,
            _ => AttemptEnd::Failed(errno),
        };
        let Handshake { repeated, rtt_ns, .. } = Handshake::read(fd);
        let rtt_ns = rtt_ns.filter(|_| end == AttemptEnd::Open);
        // Their side is reset; ours leaves no TIME-WAIT.
        self.socket.reset();
        EndedAttempt { id, end, seen_ns, rtt_ns, repeated, begun_ns: self.begun_ns }
    }
}

impl AsFd for Attempts {
    /// Readable when attempts ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::{accept, listen};
    use super::*;
    use crate::wait::{readable, wait};

    fn outcome(attempts: &mut Attempts) -> EndedAttempt {
        wait(&mut [readable(attempts)]).unwrap();
        let mut ended = Vec::new();
        attempts.ended(&mut ended);
        assert_eq!(ended.len(), 1);
        ended[0]
    }

    #[test]
    fn an_open_port_and_one_where_nobody_listens_both_answer() {
        // A port that was free a moment ago may be another test's by now; port 1 is nobody's.
        for (loopback, nobody) in [("127.0.0.1:0", "127.0.0.1:1"), ("[::1]:0", "[::1]:1")] {
            let listener = listen(loopback.parse().unwrap()).unwrap();
            let to = listener.local_addr().unwrap();
            let mut attempts = Attempts::new(to, 0, Way::default()).unwrap();
            let before = monotonic_ns();
            attempts.begin(7).unwrap();
            let open = outcome(&mut attempts);
            assert_eq!((open.id, open.end, open.repeated), (7, AttemptEnd::Open, 0));
            assert!(open.rtt_ns.is_none_or(|rtt| rtt <= open.seen_ns - before + 1000));
            let mut attempts = Attempts::new(nobody.parse().unwrap(), 0, Way::default()).unwrap();
            attempts.begin(8).unwrap();
            let refused = outcome(&mut attempts);
            assert_eq!((refused.id, refused.end, refused.rtt_ns), (8, AttemptEnd::Refused, None));
        }
    }

    #[test]
    fn what_is_given_up_is_not_told_any_more() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let mut attempts = Attempts::new(to, 0, Way::default()).unwrap();
        for id in 0..4 {
            attempts.begin(id).unwrap();
        }
        attempts.give_up_before(3);
        assert_eq!(outcome(&mut attempts).id, 3);
    }

    #[test]
    fn an_attempt_leaves_no_connection_behind() {
        // An address of this test alone: what others left in TIME-WAIT can't have it.
        let listener = listen("127.77.9.1:0".parse().unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let mut attempts = Attempts::new(to, 0, Way::default()).unwrap();
        for id in 0..20 {
            attempts.begin(id).unwrap();
            assert_eq!(outcome(&mut attempts).end, AttemptEnd::Open, "{id}");
            drop(accept(&listener).unwrap());
        }
        // The listener itself is all that stays. On a busy machine the last reset is on its way for some time; a connection in TIME-WAIT
        // would be there for a minute.
        let ours = format!("01094D7F:{:04X}", to.port());
        let patience_ns = monotonic_ns() + 120_000_000_000;
        loop {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            if table.lines().filter(|line| line.contains(&ours)).count() == 1 {
                break;
            }
            assert!(monotonic_ns() < patience_ns, "{table}");
            std::thread::yield_now();
        }
    }
}
