//! By which way packets leave: from which of the own addresses and ports, by which device, for how many hops, whole or not.

use super::ends;
use super::option::{set, set_bytes, set_ttl};
use crate::SysError;
use nix::errno::Errno;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// What decides it where the routes should not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// The own address that packets come from; none leaves it to the routes.
    pub source: Option<IpAddr>,
    /// The device by which they leave and by which answers have to come (`SO_BINDTODEVICE`, socket(7)).
    pub device: Option<String>,
    /// The own port; none leaves it to the kernel. ICMP has none.
    pub port: Option<u16>,
    /// For how many hops they live (TTL, hop limit); none leaves it to the system.
    pub ttl: Option<u8>,
    /// No router and not this host may cut them up (DF; `IP_PMTUDISC_DO`, ip(7)).
    pub whole: bool,
}

impl Way {
    /// Sets a socket that is neither bound nor connected yet on this way.
    ///
    /// Errors: no such device; an address of the other family, or that is not this host's.
    pub fn apply(&self, fd: BorrowedFd<'_>, ipv6: bool) -> Result<(), SysError> {
        self.leave_by(fd)?;
        if let Some(ttl) = self.ttl {
            set_ttl(fd, ipv6, ttl)?;
        }
        if self.whole {
            keep_whole(fd, ipv6)?;
        }
        match (self.source, self.port) {
            (None, None) => Ok(()),
            (source, port) => {
                if port.is_some() {
                    // A connection of an earlier test may still be remembered there.
                    set(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1, "reuse of the own port")?;
                }
                bind(fd, ipv6, SocketAddr::new(source.unwrap_or(any(ipv6)), port.unwrap_or(0)))
            }
        }
    }

    pub(super) fn leave_by(&self, fd: BorrowedFd<'_>) -> Result<(), SysError> {
        let Some(device) = &self.device else { return Ok(()) };
        let what = format!("the device to `{device}`");
        let name = device.as_bytes();
        let set = set_bytes(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name, &what);
        set.map_err(|error| match error.errno {
            Errno::ENODEV => error.advise("there is no such device: see `ip link`"),
            Errno::EPERM => error.advise("this kernel lets only root (CAP_NET_RAW) choose it"),
            _ => error,
        })
    }
}

/// Forbids that packets are cut up; what is larger than the path is known to carry is refused with `EMSGSIZE`.
pub fn keep_whole(fd: BorrowedFd<'_>, ipv6: bool) -> Result<(), SysError> {
    let what = "packets that are not to be cut up";
    match ipv6 {
        true => {
            let (level, mode) = (libc::IPPROTO_IPV6, libc::IPV6_PMTUDISC_DO);
            set(fd, level, libc::IPV6_MTU_DISCOVER, mode, what)?;
            set(fd, level, libc::IPV6_DONTFRAG, 1, what)
        }
        false => set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO, what),
    }
}

/// No address in particular.
pub(super) fn any(ipv6: bool) -> IpAddr {
    match ipv6 {
        true => std::net::Ipv6Addr::UNSPECIFIED.into(),
        false => std::net::Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Binds a socket to an own address.
pub(super) fn bind(fd: BorrowedFd<'_>, ipv6: bool, source: SocketAddr) -> Result<(), SysError> {
    let ip = source.ip();
    if source.is_ipv6() != ipv6 {
        let advice = match ipv6 {
            true => "the destination is an IPv6 address: take an own one of IPv6",
            false => "the destination is an IPv4 address: take an own one of IPv4",
        };
        let error = SysError::new(format!("send from {ip}"), Errno::EAFNOSUPPORT);
        return Err(error.advise(advice));
    }
    ends::bind(fd, source).map_err(|errno| {
        let port =
            if source.port() > 0 { format!(", port {}", source.port()) } else { String::new() };
        let error = SysError::new(format!("send from {ip}{port}"), errno);
        match errno {
            Errno::EADDRINUSE => error.advise(
                "another program has that port, or a connection that just ended: take another",
            ),
            Errno::EACCES => error.advise("ports below 1024 are root's: take another"),
            Errno::EADDRNOTAVAIL => {
                error.advise("the address is not one of this host's: see `ip address`")
            }
            _ => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::{EchoSocket, Udp};
    use std::os::fd::AsFd;

    fn from(source: &str) -> Way {
        Way { source: Some(source.parse().unwrap()), ..Way::default() }
    }

    #[test]
    fn packets_leave_from_the_address_that_was_asked_for() {
        let server = Udp::listening("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Udp::connected_by(server.local().unwrap(), 0, &from("127.0.0.7")).unwrap();
        assert_eq!(client.local().unwrap().ip(), "127.0.0.7".parse::<IpAddr>().unwrap());
        let by = Way { device: Some("lo".into()), ..from("127.0.0.7") };
        EchoSocket::open_by("127.0.0.1".parse().unwrap(), 0, 1, &by).unwrap();
    }

    #[test]
    fn a_way_that_can_t_be_says_what_is_wrong_with_it() {
        let to = "127.0.0.1:9".parse().unwrap();
        let refused = |way: Way| Udp::connected_by(to, 0, &way).unwrap_err().to_string();
        let foreign = refused(from("192.0.2.1"));
        assert!(foreign.contains("192.0.2.1") && foreign.contains("ip address"), "{foreign}");
        let family = refused(from("::1"));
        assert!(family.contains("::1") && family.contains("IPv4"), "{family}");
        let device = refused(Way { device: Some("nosuch0".into()), ..Way::default() });
        assert!(device.contains("nosuch0") && device.contains("ip link"), "{device}");
    }

    #[test]
    fn packets_leave_from_the_port_for_the_hops_and_as_whole_as_was_asked_for() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let server = Udp::listening(loopback.parse().unwrap()).unwrap();
            let to = server.local().unwrap();
            // One that is free at this moment.
            let port = Udp::connected(to, 0).unwrap().local().unwrap().port();
            let way = Way { port: Some(port), ttl: Some(7), whole: true, ..Way::default() };
            let client = Udp::connected_by(to, 0, &way).unwrap();
            assert_eq!(client.local().unwrap().port(), port);
            let ipv6 = to.is_ipv6();
            let of = |level, v4, v6| {
                super::super::option::get(client.as_fd(), level, if ipv6 { v6 } else { v4 })
            };
            let level = if ipv6 { libc::IPPROTO_IPV6 } else { libc::IPPROTO_IP };
            assert_eq!(of(level, libc::IP_TTL, libc::IPV6_UNICAST_HOPS).unwrap(), 7);
            assert_eq!(of(level, libc::IP_MTU_DISCOVER, libc::IPV6_MTU_DISCOVER).unwrap(), 2);
        }
    }
}
