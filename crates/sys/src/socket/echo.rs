//! Sockets for ICMP echo.
//!
//! ```text
//!   SOCK_DGRAM   any user whose group is in net.ipv4.ping_group_range; the kernel picks the identifier and gives us our replies only
//!   SOCK_RAW     needs CAP_NET_RAW; a filter in the kernel keeps other replies away
//! ```

use super::ends;
use super::inbox::connect;
use super::option::{observe, set_bytes, set_tos};
use super::way::Way;
use crate::SysError;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockFlag, SockProtocol, SockType};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `ICMP_FILTER`, linux/icmp.h, at level `SOL_RAW`.
const ICMP_FILTER: libc::c_int = 1;
const SOL_RAW: libc::c_int = 255;
/// `ICMPV6_FILTER`, linux/icmpv6.h.
const ICMPV6_FILTER: libc::c_int = 1;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REPLY_V6: u8 = 129;

#[derive(Debug)]
pub struct EchoSocket {
    fd: OwnedFd,
    raw: bool,
    ipv6: bool,
    identifier: u16,
}

impl EchoSocket {
    /// Opens one to `to` with this TOS byte; `identifier` is what a raw socket uses in its packets.
    ///
    /// Errors when this user may open neither kind, or there is no route.
    pub fn open(to: IpAddr, tos: u8, identifier: u16) -> Result<Self, SysError> {
        Self::open_by(to, tos, identifier, &Way::default())
    }

    pub fn open_by(to: IpAddr, tos: u8, identifier: u16, way: &Way) -> Result<Self, SysError> {
        let mut socket = match Self::ping(to.is_ipv6()) {
            Ok(socket) => socket,
            Err(_) => Self::raw(to.is_ipv6(), identifier)?,
        };
        observe(socket.as_fd(), socket.ipv6)?;
        set_tos(socket.as_fd(), socket.ipv6, tos)?;
        way.apply(socket.as_fd(), socket.ipv6)?;
        // A ping socket takes its identifier from the port it is bound to, which connecting does.
        connect(socket.as_fd(), SocketAddr::new(to, 0))?;
        if socket.raw {
            socket.filter()?;
        } else {
            socket.identifier = socket.bound_identifier()?;
        }
        Ok(socket)
    }

    fn ping(ipv6: bool) -> Result<Self, SysError> {
        let fd = open(ipv6, SockType::Datagram)
            .map_err(|errno| SysError::new("open a ping socket", errno))?;
        Ok(Self { fd, raw: false, ipv6, identifier: 0 })
    }

    fn raw(ipv6: bool, identifier: u16) -> Result<Self, SysError> {
        let fd = open(ipv6, SockType::Raw).map_err(|errno| {
            SysError::new("open a socket for ICMP echo", errno).advise(
                "neither a ping socket nor a raw one is allowed. Widen the groups that may (`sysctl net.ipv4.ping_group_range='0 \
         2147483647'`), give the program the right (`setcap cap_net_raw+ep $(which quell)`), or be root",
            )
        })?;
        Ok(Self { fd, raw: true, ipv6, identifier })
    }

    /// Lets only echo replies with our identifier through.
    fn filter(&self) -> Result<(), SysError> {
        let reply = if self.ipv6 { ECHO_REPLY_V6 } else { ECHO_REPLY_V4 };
        let_through(self.as_fd(), self.ipv6, &[reply])?;
        self.filter_identifier()
    }

    /// A classic BPF program: the packet's identifier is ours. IPv4 raw sockets see the IP header, IPv6 ones don't.
    fn filter_identifier(&self) -> Result<(), SysError> {
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let wanted = u32::from(self.identifier);
        let load = if self.ipv6 {
            vec![step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 4)]
        } else {
            vec![
                step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
                step(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 4),
            ]
        };
        let mut program = load;
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, wanted));
        program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX));
        program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, 0));
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: `filter` points to `len` instructions that live until after the call; the kernel copies them.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        };
        Errno::result(result)
            .map(drop)
            .map_err(|errno| SysError::new("set a filter for our identifier", errno))
    }

    fn bound_identifier(&self) -> Result<u16, SysError> {
        let own = ends::own(self.as_fd())
            .map_err(|errno| SysError::new("read a ping socket's identifier", errno))?;
        Ok(own.map_or(0, |own| own.port()))
    }

    pub fn is_ipv6(&self) -> bool {
        self.ipv6
    }

    pub fn identifier(&self) -> u16 {
        self.identifier
    }

    /// Sends an ICMP message; `EAGAIN` when there is no room now.
    pub fn send(&self, message: &[u8]) -> Result<(), Errno> {
        super::datagram::send(self.as_fd(), message, MsgFlags::MSG_DONTWAIT)
    }

    /// The ICMP message in what was received: without the IP header that an IPv4 raw socket gives too.
    pub fn message<'a>(&self, received: &'a [u8]) -> Option<&'a [u8]> {
        icmp_message(received, self.raw && !self.ipv6)
    }
}

impl AsFd for EchoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Lets only these types of messages through to a raw socket.
pub(super) fn let_through(fd: BorrowedFd<'_>, ipv6: bool, types: &[u8]) -> Result<(), SysError> {
    if ipv6 {
        // A set bit blocks a type (linux/icmpv6.h).
        let mut blocked = [u32::MAX; 8];
        for kind in types.iter().copied().map(usize::from) {
            blocked[kind / 32] &= !(1 << (kind % 32));
        }
        let bytes: Vec<u8> = blocked.iter().flat_map(|w| w.to_ne_bytes()).collect();
        return set_bytes(fd, libc::IPPROTO_ICMPV6, ICMPV6_FILTER, &bytes, "a type filter");
    }
    // The filter knows the types below 32 (linux/icmp.h), as all of use here are.
    let open = types.iter().filter(|kind| **kind < 32).fold(0u32, |open, kind| open | 1 << kind);
    set_bytes(fd, SOL_RAW, ICMP_FILTER, &(!open).to_ne_bytes(), "a type filter")
}

/// The ICMP message in what was received, which may have an IPv4 header before it.
pub(super) fn icmp_message(received: &[u8], has_header: bool) -> Option<&[u8]> {
    if !has_header {
        return Some(received);
    }
    let header = usize::from(received.first()? & 0xf) * 4;
    received.get(header..)
}

pub(super) fn open(ipv6: bool, kind: SockType) -> Result<OwnedFd, Errno> {
    let protocol = if ipv6 { SockProtocol::IcmpV6 } else { SockProtocol::Icmp };
    ends::open(ipv6, kind, SockFlag::empty(), Some(protocol))
}
