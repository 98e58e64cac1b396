//! Setting options of sockets.

use crate::SysError;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an integer option; `what` completes "could not set …".
pub fn set(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
    what: &str,
) -> Result<(), SysError> {
    set_bytes(fd, level, name, &value.to_ne_bytes(), &format!("{what} to {value}"))
}

/// Sets an option that is a text or a structure.
pub fn set_bytes(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &[u8],
    what: &str,
) -> Result<(), SysError> {
    // SAFETY: the pointer and the length are those of a live slice, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop).map_err(|errno| SysError::new(format!("set {what}"), errno))
}

/// Reads an option into `value`; how many bytes the kernel gave.
pub fn get_bytes(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut [u8],
) -> Result<usize, Errno> {
    let mut length = value.len() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of a live slice, of which the kernel writes at most the length.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length)
    };
    Errno::result(result).map(|_| (length as usize).min(value.len()))
}

/// Payload of the largest datagram that one packet carries to the other end of a connected socket, as far as the kernel has learned of its path
/// (ip(7), `IP_MTU`); of an ICMP echo as well, whose header is as long.
pub fn largest_datagram(fd: BorrowedFd<'_>, ipv6: bool) -> Option<u64> {
    let (level, name, headers) = match ipv6 {
        false => (libc::IPPROTO_IP, libc::IP_MTU, 28),
        true => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 48),
    };
    let mtu = get(fd, level, name).ok()?;
    u64::try_from(mtu).ok()?.checked_sub(headers)
}

/// Bytes in a connection's receive queue (`FIONREAD`, tcp(7)); 0 where the kernel does not tell.
pub fn waiting(fd: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    if result == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
}

pub fn get(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> Result<i32, Errno> {
    let mut value = [0; 4];
    get_bytes(fd, level, name, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}

/// For how many hops what is sent from now on lives.
pub fn set_ttl(fd: BorrowedFd<'_>, ipv6: bool, ttl: u8) -> Result<(), SysError> {
    match ipv6 {
        true => set(fd, libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, ttl.into(), "the hop limit"),
        false => set(fd, libc::IPPROTO_IP, libc::IP_TTL, ttl.into(), "the TTL"),
    }
}

/// Sets the TOS or traffic class byte of all that is sent, over IPv4 too where an IPv6 socket speaks both. TCP keeps the ECN bits for itself.
pub fn set_tos(fd: BorrowedFd<'_>, ipv6: bool, tos: u8) -> Result<(), SysError> {
    let over_ipv4 = set(fd, libc::IPPROTO_IP, libc::IP_TOS, tos.into(), "the TOS byte");
    if ipv6 {
        // A socket that speaks IPv6 alone refuses the other option.
        return set(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos.into(), "the traffic class");
    }
    over_ipv4
}

/// Asks for kernel receive stamps and for the errors that come back from the path.
pub fn observe(fd: BorrowedFd<'_>, ipv6: bool) -> Result<(), SysError> {
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "kernel receive timestamps")?;
    if ipv6 {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1, "reports of ICMPv6 errors")
    } else {
        set(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1, "reports of ICMP errors")
    }
}

/// Asks for the TOS byte and the TTL of what comes.
pub fn tell_class_and_ttl(fd: BorrowedFd<'_>, ipv6: bool) -> Result<(), SysError> {
    if ipv6 {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1, "reports of traffic classes")?;
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1, "reports of hop limits")?;
    }
    // Of IPv6 sockets too: what comes over IPv4 to one of both families has these.
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1, "reports of TOS bytes")?;
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 1, "reports of TTLs")
}

/// Asks for stamps of packets on their way out, which come through the error queue, and for the device's own where it has any. The
/// device is left as it is: one that does not stamp yet is not made to.
pub fn observe_departures(fd: BorrowedFd<'_>) -> Result<(), SysError> {
    let software = libc::SOF_TIMESTAMPING_TX_SCHED
        | libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE;
    let hardware = libc::SOF_TIMESTAMPING_TX_HARDWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        | libc::SOF_TIMESTAMPING_OPT_TX_SWHW;
    // The packets themselves need not come back.
    let manner = libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    let flags = (software | hardware | manner) as libc::c_int;
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags, "kernel transmit timestamps")
}

/// Asks for a receive buffer of `bytes`, beyond the system's limit where we may. What the kernel really gives, in bytes of
/// payload and bookkeeping together.
pub fn grow_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> usize {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    if set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, bytes, "the receive buffer").is_err() {
        // Without CAP_NET_ADMIN: as far as net.core.rmem_max lets us.
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes, "the receive buffer");
    }
    get(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).map_or(0, |got| got.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::socket::stream::{StreamOptions, TcpSocket, accept, listen};
    use crate::wait::{Bell, readable, wait};
    use std::net::SocketAddr;
    use std::os::fd::AsFd;

    #[test]
    fn an_ipv4_connection_to_a_socket_of_both_families_gets_its_class() {
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let to = SocketAddr::from(([127, 0, 0, 1], listener.local_addr().unwrap().port()));
        let client = TcpSocket::new(false, &StreamOptions::default()).unwrap();
        let soon = monotonic_ns() + 60_000_000_000;
        client.connect(to, soon, &Bell::new().unwrap()).unwrap();
        wait(&mut [readable(&listener)]).unwrap();
        let (server, peer) = accept(&listener).unwrap().unwrap();
        set_tos(server.as_fd(), peer.is_ipv6(), 0xb8).unwrap();
        assert_eq!(get(server.as_fd(), libc::IPPROTO_IP, libc::IP_TOS), Ok(0xb8));
    }
}
