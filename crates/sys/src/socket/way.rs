//! By which way packets leave: from which of the own addresses, by which device.

use super::ends;
use super::option::set_bytes;
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
}

impl Way {
    /// Sets a socket that is neither bound nor connected yet on this way.
    ///
    /// Errors: no such device; an address of the other family, or that is not this host's.
    pub fn apply(&self, fd: BorrowedFd<'_>, ipv6: bool) -> Result<(), SysError> {
        self.leave_by(fd)?;
        match self.source {
            Some(source) => bind(fd, ipv6, SocketAddr::new(source, 0)),
            None => Ok(()),
        }
    }

    /// Only the device.
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
        let error = SysError::new(format!("send from {ip}"), errno);
        match errno {
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

    fn from(source: &str) -> Way {
        Way { source: Some(source.parse().unwrap()), device: None }
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
        let device = refused(Way { source: None, device: Some("nosuch0".into()) });
        assert!(device.contains("nosuch0") && device.contains("ip link"), "{device}");
    }
}
