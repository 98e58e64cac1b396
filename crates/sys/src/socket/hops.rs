//! Packets that live for a number of hops only, and what is said about them.
//!
//! ```text
//!   we ── ttl 2 ──► router ──► router          time exceeded, from the second router, quoting our packet
//!                                │
//!   error queue (IP_RECVERR) ◄───┤  who, type, code, TTL, stamp, what followed the quoted header      any user
//!   raw ICMP socket          ◄───┘  the whole message: also the quoted IP header, with its TOS byte    CAP_NET_RAW
//! ```

use super::datagram::Udp;
use super::echo;
use super::ends;
use super::handshake::Handshake;
use super::inbox::connect;
use super::option::{get, observe, set, set_bytes, set_tos, set_ttl};
use super::way::{Way, any, bind};
use crate::SysError;
use nix::errno::Errno;
use nix::sys::socket::{SockFlag, SockType};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// `IP_RECVERR_RFC4884`, linux/in.h, since Linux 5.9.
const IP_RECVERR_RFC4884: libc::c_int = 26;
/// `IPV6_RECVERR_RFC4884`, linux/in6.h.
const IPV6_RECVERR_RFC4884: libc::c_int = 31;

/// Types of ICMP errors: unreachable, time exceeded, parameter problem (RFC 792).
const ERRORS_V4: [u8; 3] = [3, 11, 12];
/// Unreachable, too big, time exceeded, parameter problem (RFC 4443).
const ERRORS_V6: [u8; 4] = [1, 2, 3, 4];

/// Asks for all that the error queue can tell, and forbids fragments; packets may be larger than a path MTU that this host has learned
/// (`IP_PMTUDISC_PROBE`, ip(7)), but not than its own device's.
pub fn trace(fd: BorrowedFd<'_>, ipv6: bool) -> Result<(), SysError> {
    let what = "probing of the path's MTU";
    if ipv6 {
        let level = libc::IPPROTO_IPV6;
        set(fd, level, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE, what)?;
        set(fd, level, libc::IPV6_RECVHOPLIMIT, 1, "reports of hop limits")?;
        // Older kernels can't: then nothing is said of labels.
        let _ = set(fd, level, IPV6_RECVERR_RFC4884, 1, "reports of ICMP extensions");
        set(fd, level, libc::IPV6_DONTFRAG, 1, "no fragments")
    } else {
        let level = libc::IPPROTO_IP;
        set(fd, level, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE, what)?;
        let _ = set(fd, level, IP_RECVERR_RFC4884, 1, "reports of ICMP extensions");
        set(fd, level, libc::IP_RECVTTL, 1, "reports of TTLs")
    }
}

/// A UDP socket to `to`, from this own port or, where that is 0, from any.
///
/// Errors with `EADDRINUSE` when another socket has the port.
pub fn udp(to: SocketAddr, way: &Way, port: u16) -> Result<Udp, SysError> {
    if port == 0 {
        return Udp::connected_by(to, 0, way);
    }
    let ipv6 = to.is_ipv6();
    let socket = super::datagram::open(ipv6)?;
    way.leave_by(socket.as_fd())?;
    bind(socket.as_fd(), ipv6, SocketAddr::new(way.source.unwrap_or(any(ipv6)), port))?;
    observe(socket.as_fd(), ipv6)?;
    connect(socket.as_fd(), to)?;
    Ok(Udp::adopt(socket, ipv6))
}

/// All ICMP errors that come to this host, whole. Needs CAP_NET_RAW.
#[derive(Debug)]
pub struct IcmpErrors {
    fd: OwnedFd,
    ipv6: bool,
}

impl IcmpErrors {
    /// Begins to listen. Errors with `EPERM` without the right to.
    pub fn open(ipv6: bool) -> Result<Self, SysError> {
        let fd = echo::open(ipv6, SockType::Raw)
            .map_err(|errno| SysError::new("open a raw socket for ICMP errors", errno))?;
        let types: &[u8] = if ipv6 { &ERRORS_V6 } else { &ERRORS_V4 };
        echo::let_through(fd.as_fd(), ipv6, types)?;
        Ok(Self { fd, ipv6 })
    }

    pub fn message<'a>(&self, received: &'a [u8]) -> Option<&'a [u8]> {
        echo::icmp_message(received, !self.ipv6)
    }
}

impl AsFd for IcmpErrors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A TCP SYN that lives for a number of hops; an open connection is reset as soon as it is known.
#[derive(Debug)]
pub struct Syn {
    fd: OwnedFd,
    /// The kernel refused at once, as it does over the loopback interface.
    at_once: Option<Errno>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynEnd {
    /// A SYN-ACK or a RST came: it reached the other end.
    Reached,
    /// An error came; the error queue tells whose.
    Failed(Errno),
}

impl Syn {
    /// Sends one from this port to `to`. While it is there no other from the same port to the same place can be.
    pub fn send(to: SocketAddr, port: u16, ttl: u8, tos: u8, way: &Way) -> Result<Self, SysError> {
        let ipv6 = to.is_ipv6();
        let fd = ends::open(ipv6, SockType::Stream, SockFlag::SOCK_NONBLOCK, None)
            .map_err(|errno| SysError::new("open a TCP socket", errno))?;
        set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1, "reuse of the own port")?;
        way.leave_by(fd.as_fd())?;
        bind(fd.as_fd(), ipv6, SocketAddr::new(way.source.unwrap_or(any(ipv6)), port))?;
        observe(fd.as_fd(), ipv6)?;
        trace(fd.as_fd(), ipv6)?;
        set_tos(fd.as_fd(), ipv6, tos)?;
        set_ttl(fd.as_fd(), ipv6, ttl)?;
        // On, for no seconds: closing it sends a RST.
        let linger = [1i32, 0].map(i32::to_ne_bytes).concat();
        set_bytes(fd.as_fd(), libc::SOL_SOCKET, libc::SO_LINGER, &linger, "resets at the end")?;
        let at_once = match ends::connect(fd.as_fd(), to) {
            Ok(()) | Err(Errno::EINPROGRESS) => None,
            Err(errno) => Some(errno),
        };
        Ok(Self { fd, at_once })
    }

    pub fn port(&self) -> Option<u16> {
        ends::own(self.as_fd()).ok().flatten().map(|own| own.port())
    }

    /// What became of it, once there is something to write or an error.
    pub fn end(&self) -> SynEnd {
        let errno = self.at_once.unwrap_or_else(|| {
            Errno::from_raw(get(self.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0))
        });
        match errno as i32 {
            0 | libc::ECONNRESET | libc::EPIPE => SynEnd::Reached,
            _ => SynEnd::Failed(errno),
        }
    }

    /// What the kernel tells of it and its answer.
    pub fn handshake(&self) -> Handshake {
        Handshake::read(self.as_fd())
    }

    /// Whether its end is known without waiting.
    pub fn ended_at_once(&self) -> bool {
        self.at_once.is_some()
    }
}

impl AsFd for Syn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::errors::path_errors;
    use crate::socket::stream::listen;
    use crate::wait::{readable, wait, writable};
    use crate::wall::realtime_ns;

    #[test]
    fn an_error_says_who_sent_it_of_which_kind_when_and_with_which_ttl() {
        // A port that was free a moment ago may be another test's by now; port 1 is nobody's.
        for (nobody, kind) in [("127.0.0.1:1", (3, 3)), ("[::1]:1", (1, 4))] {
            let to: SocketAddr = nobody.parse().unwrap();
            let client = Udp::connected(to, 0).unwrap();
            trace(client.as_fd(), to.is_ipv6()).unwrap();
            let before = realtime_ns();
            client.send(b"anybody?").unwrap();
            // An error is something to read.
            wait(&mut [readable(&client)]).unwrap();
            let errors = path_errors(client.as_fd());
            let report = errors[0].report;
            assert_eq!(report.from, Some(to.ip()));
            assert_eq!((report.kind, report.code), kind);
            assert_eq!((report.ttl, report.mtu, report.extension), (Some(64), 0, None));
            let stamp = report.stamp_ns.expect("a kernel stamp");
            assert!((before..=realtime_ns()).contains(&stamp));
        }
    }

    #[test]
    fn what_the_own_device_can_not_carry_is_told_with_what_it_can() {
        let server = Udp::listening("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Udp::connected(server.local().unwrap(), 0).unwrap();
        trace(client.as_fd(), false).unwrap();
        // The loopback device carries 65,536 bytes or less, as it is set; IPv4 at most 65,535.
        let sent = client.send(&vec![0; 65_507]);
        let told = path_errors(client.as_fd());
        let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        match mtu.trim().parse::<u32>().unwrap() {
            65_535.. => assert_eq!(sent, Ok(())),
            less => {
                assert_eq!(sent, Err(Errno::EMSGSIZE));
                assert_eq!((told[0].report.mtu, told[0].report.from), (less, None));
            }
        }
    }

    #[test]
    fn a_syn_reaches_open_and_closed_ports_from_the_same_port_again_and_again() {
        for loopback in ["127.77.9.2:0", "[::1]:0"] {
            let listener = listen(loopback.parse().unwrap()).unwrap();
            let to = listener.local_addr().unwrap();
            let first = Syn::send(to, 0, 64, 0, &Way::default()).unwrap();
            let port = first.port().unwrap();
            wait(&mut [writable(&first)]).unwrap();
            assert_eq!(first.end(), SynEnd::Reached);
            drop(first);
            for _ in 0..3 {
                let again = Syn::send(to, port, 64, 0, &Way::default()).unwrap();
                assert_eq!(again.port(), Some(port));
                wait(&mut [writable(&again)]).unwrap();
                assert_eq!(again.handshake().repeated, 0);
                assert_eq!(again.end(), SynEnd::Reached);
            }
            let nobody = SocketAddr::new(to.ip(), 1);
            let refused = Syn::send(nobody, port, 64, 0, &Way::default()).unwrap();
            wait(&mut [writable(&refused)]).unwrap();
            assert_eq!(refused.end(), SynEnd::Failed(Errno::ECONNREFUSED));
        }
    }
}
