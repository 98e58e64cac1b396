//! UDP sockets that measure.

use super::ends;
use super::inbox::connect;
use super::option::{observe, set, set_tos, tell_class_and_ttl};
use super::way::Way;
use crate::SysError;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, SockFlag, SockType, SockaddrLike, SockaddrStorage};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

#[derive(Debug)]
pub struct Udp {
    pub(super) socket: Arc<UdpSocket>,
    ipv6: bool,
}

impl Udp {
    /// One that sends to `to` with this TOS byte, and is told of nothing that comes back.
    pub fn sending(to: SocketAddr, tos: u8) -> Result<Self, SysError> {
        let any: IpAddr =
            if to.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let udp = Self::bound(SocketAddr::new(any, 0))?;
        set_tos(udp.as_fd(), udp.ipv6, tos)?;
        connect(udp.as_fd(), to)?;
        Ok(udp)
    }

    /// One that sends to `to` with this TOS byte, and gets answers and ICMP errors from there.
    pub fn connected(to: SocketAddr, tos: u8) -> Result<Self, SysError> {
        Self::connected_by(to, tos, &Way::default())
    }

    pub fn connected_by(to: SocketAddr, tos: u8, way: &Way) -> Result<Self, SysError> {
        let udp = Self::unbound(to.is_ipv6())?;
        way.apply(udp.as_fd(), udp.ipv6)?;
        observe(udp.as_fd(), udp.ipv6)?;
        set_tos(udp.as_fd(), udp.ipv6, tos)?;
        connect(udp.as_fd(), to)?;
        Ok(udp)
    }

    /// One that listens, and is told the TOS byte, the TTL and the own address of what comes.
    ///
    /// Errors with `EADDRINUSE` when another socket has the port, `EADDRNOTAVAIL` when the address is not this host's.
    pub fn listening(bind: SocketAddr) -> Result<Self, SysError> {
        let udp = Self::bound(bind)?;
        udp.tell_all()?;
        Ok(udp)
    }

    /// A socket that is bound, and connected if it shall be, from elsewhere.
    pub(super) fn adopt(socket: UdpSocket, ipv6: bool) -> Self {
        Self { socket: socket.into(), ipv6 }
    }

    /// Asks for stamp, TOS byte, TTL and own address of what comes.
    pub(super) fn tell_all(&self) -> Result<(), SysError> {
        let fd = self.as_fd();
        set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "kernel receive timestamps")?;
        if self.ipv6 {
            set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1, "reports of own addresses")?;
        } else {
            set(fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1, "reports of own addresses")?;
        }
        tell_class_and_ttl(fd, self.ipv6)
    }

    /// Connecting binds it, to the address that the routes choose.
    fn unbound(ipv6: bool) -> Result<Self, SysError> {
        Ok(Self { socket: open(ipv6)?.into(), ipv6 })
    }

    fn bound(bind: SocketAddr) -> Result<Self, SysError> {
        let socket = UdpSocket::bind(bind).map_err(|e| {
            let error = SysError::io(format!("listen on UDP {bind}"), &e);
            match error.errno {
                Errno::EADDRINUSE => error.advise("another program has this port: see `ss -ulnp`"),
                Errno::EADDRNOTAVAIL => error.advise("the address is not one of this host's"),
                _ => error,
            }
        })?;
        Ok(Self { socket: socket.into(), ipv6: bind.is_ipv6() })
    }

    pub fn local(&self) -> Result<SocketAddr, SysError> {
        self.socket.local_addr().map_err(|e| SysError::io("read a socket's own address", &e))
    }

    pub fn peer(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    /// Sends to the connected end; `EAGAIN` when there is no room now.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Errno> {
        send(self.as_fd(), bytes, MsgFlags::MSG_DONTWAIT)
    }

    /// Answers a datagram that came from `to`, from the own address that it was sent to, with this TOS byte.
    pub fn reply(
        &self,
        bytes: &[u8],
        to: SocketAddr,
        from: Option<IpAddr>,
        tos: u8,
    ) -> Result<(), Errno> {
        let name = SockaddrStorage::from(to);
        let mut vector =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut control = Control::new();
        match from {
            // struct in_pktinfo: interface (any), address to send from, unused.
            Some(IpAddr::V4(ip)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&ip.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            Some(IpAddr::V6(ip)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&ip.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        let tos = libc::c_int::from(tos).to_ne_bytes();
        if to.ip().to_canonical().is_ipv6() {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &tos);
        } else {
            control.push(libc::IPPROTO_IP, libc::IP_TOS, &tos);
        }
        // SAFETY: all zeros is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = name.as_ptr().cast_mut().cast();
        header.msg_namelen = name.len();
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.words.as_mut_ptr().cast();
        header.msg_controllen = control.used as _;
        // SAFETY: the header points to buffers of the lengths it says; the kernel only reads them.
        let sent = unsafe {
            libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT)
        };
        Errno::result(sent).map(drop)
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A UDP socket that has no address yet.
pub(super) fn open(ipv6: bool) -> Result<UdpSocket, SysError> {
    let opened = ends::open(ipv6, SockType::Datagram, SockFlag::empty(), None);
    opened.map(UdpSocket::from).map_err(|errno| SysError::new("open a UDP socket", errno))
}

/// Sends a datagram on a connected socket; `flags` as for send(2), `MSG_DONTWAIT` to be refused instead of waiting for room.
///
/// An error of an earlier packet that nobody has taken yet would be returned in place of sending (`sock_alloc_send_pskb`,
/// net/core/sock.c); trying once more tells the two apart. `ENOBUFS` is never such an error: a queue of this host dropped the
/// packet.
pub(super) fn send(fd: BorrowedFd<'_>, bytes: &[u8], flags: MsgFlags) -> Result<(), Errno> {
    let flags = flags | MsgFlags::MSG_NOSIGNAL;
    let once = || nix::sys::socket::send(fd.as_raw_fd(), bytes, flags).map(drop);
    match once() {
        Err(Errno::ENOBUFS) => Err(Errno::ENOBUFS),
        Err(_) => once(),
        Ok(()) => Ok(()),
    }
}

/// Ancillary messages to send.
struct Control {
    words: [u64; 16],
    used: usize,
}

impl Control {
    fn new() -> Self {
        Self { words: [0; 16], used: 0 }
    }

    /// Messages beyond the room for three of the largest kind are never made.
    fn push(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
        // SAFETY: CMSG_SPACE and CMSG_LEN only calculate.
        let (space, length) = unsafe {
            (libc::CMSG_SPACE(data.len() as u32) as usize, libc::CMSG_LEN(data.len() as u32))
        };
        if self.used + space > size_of_val(&self.words) {
            return;
        }
        // SAFETY: there is room for the header and the data at `used`, which is a multiple of 8 as CMSG_SPACE is.
        unsafe {
            let message =
                self.words.as_mut_ptr().cast::<u8>().add(self.used).cast::<libc::cmsghdr>();
            (*message).cmsg_level = level;
            (*message).cmsg_type = kind;
            (*message).cmsg_len = length as _;
            std::ptr::copy_nonoverlapping(data.as_ptr(), libc::CMSG_DATA(message), data.len());
        }
        self.used += space;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::errors::path_errors;
    use crate::socket::inbox::Inbox;
    use crate::wait::{readable, wait};
    use crate::wall::realtime_ns;

    fn pair(loopback: &str) -> (Udp, Udp) {
        let server = Udp::listening(loopback.parse().unwrap()).unwrap();
        let client = Udp::connected(server.local().unwrap(), 0xb8).unwrap();
        (server, client)
    }

    #[test]
    fn the_kernel_tells_stamp_tos_ttl_and_own_address_of_a_datagram_both_ways() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let (server, client) = pair(loopback);
            let before = realtime_ns();
            client.send(b"there").unwrap();
            let mut inbox = Inbox::new(4, 100);
            wait(&mut [readable(&server)]).unwrap();
            assert_eq!(inbox.receive(server.as_fd()), Ok(1));
            let (arrival, bytes) = inbox.iter().next().map(|(a, b)| (*a, b.to_vec())).unwrap();
            assert_eq!(bytes, b"there");
            assert_eq!(arrival.tos, Some(0xb8));
            assert_eq!(arrival.ttl, Some(64));
            assert_eq!(arrival.to, Some(server.local().unwrap().ip()));
            let stamp = arrival.stamp_ns.expect("a kernel stamp");
            assert!((before..=realtime_ns()).contains(&stamp), "{before} {stamp}");

            server.reply(b"back", arrival.from.unwrap(), arrival.to, 0x10).unwrap();
            wait(&mut [readable(&client)]).unwrap();
            assert_eq!(inbox.receive(client.as_fd()), Ok(1));
            let (arrival, bytes) = inbox.iter().next().unwrap();
            assert_eq!(bytes, b"back");
            assert!(arrival.stamp_ns.is_some());
        }
    }

    #[test]
    fn ipv4_through_a_socket_of_both_families_has_its_tos_and_ttl_both_ways() {
        let both = Udp::listening("[::]:0".parse().unwrap()).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], both.local().unwrap().port()));
        let v4 = Udp::listening("127.0.0.1:0".parse().unwrap()).unwrap();
        v4.reply(b"there", to, None, 0xb8).unwrap();
        let mut inbox = Inbox::new(1, 100);
        wait(&mut [readable(&both)]).unwrap();
        assert_eq!(inbox.receive(both.as_fd()), Ok(1));
        let arrival = *inbox.iter().next().unwrap().0;
        assert_eq!((arrival.tos, arrival.ttl), (Some(0xb8), Some(64)));
        both.reply(b"back", arrival.from.unwrap(), arrival.to, 0x10).unwrap();
        wait(&mut [readable(&v4)]).unwrap();
        assert_eq!(inbox.receive(v4.as_fd()), Ok(1));
        assert_eq!(inbox.iter().next().unwrap().0.tos, Some(0x10));
        // And where it is connected.
        set_tos(both.as_fd(), true, 0x20).unwrap();
        connect(both.as_fd(), arrival.from.unwrap()).unwrap();
        both.send(b"again").unwrap();
        wait(&mut [readable(&v4)]).unwrap();
        assert_eq!(inbox.receive(v4.as_fd()), Ok(1));
        assert_eq!(inbox.iter().next().unwrap().0.tos, Some(0x20));
    }

    #[test]
    fn many_datagrams_come_in_one_call_in_order() {
        // A busy kernel may hand them over one by one.
        let in_two_calls = || {
            let (server, client) = pair("127.0.0.1:0");
            for n in 0..5u8 {
                client.send(&[n]).unwrap();
            }
            let mut inbox = Inbox::new(3, 10);
            let (mut calls, mut came) = (0, Vec::new());
            while came.len() < 5 {
                wait(&mut [readable(&server)]).unwrap();
                assert!(inbox.receive(server.as_fd()).unwrap() <= 3);
                came.extend(inbox.iter().map(|(_, bytes)| bytes[0]));
                calls += 1;
            }
            assert_eq!(came, [0, 1, 2, 3, 4]);
            assert_eq!(inbox.receive(server.as_fd()), Ok(0));
            calls == 2
        };
        assert!((0..50).any(|_| in_two_calls()));
    }

    #[test]
    fn a_port_where_nobody_listens_is_told_with_the_packet_that_found_it() {
        // A port that was free a moment ago may be another test's by now; port 1 is nobody's.
        let client = Udp::connected("127.0.0.1:1".parse().unwrap(), 0xb8).unwrap();
        client.send(b"which one?").unwrap();
        // An error is something to read.
        wait(&mut [readable(&client)]).unwrap();
        let errors = path_errors(client.as_fd());
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].errno, Errno::ECONNREFUSED);
        assert!(errors[0].from_path);
        assert_eq!(errors[0].quoted, b"which one?");
        // The pending error does not swallow the next packet.
        client.send(b"another").unwrap();
        wait(&mut [readable(&client)]).unwrap();
        assert_eq!(path_errors(client.as_fd()).len(), 1);
    }

    #[test]
    fn a_port_in_use_is_said_with_what_to_do() {
        let (server, _client) = pair("127.0.0.1:0");
        let error = Udp::listening(server.local().unwrap()).unwrap_err().to_string();
        assert!(error.contains("EADDRINUSE") && error.contains("ss -ulnp"), "{error}");
    }
}
