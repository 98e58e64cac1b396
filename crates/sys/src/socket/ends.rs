//! Opening sockets, and the addresses of their two ends.

use nix::errno::Errno;
use nix::sys::socket::{
    self as kernel, AddressFamily, SockFlag, SockProtocol, SockType, SockaddrLike, SockaddrStorage,
};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// A socket of IPv6 or IPv4 that no program started from here inherits.
pub(super) fn open(
    ipv6: bool,
    kind: SockType,
    flags: SockFlag,
    protocol: Option<SockProtocol>,
) -> Result<OwnedFd, Errno> {
    let family = if ipv6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    kernel::socket(family, kind, flags | SockFlag::SOCK_CLOEXEC, protocol)
}

/// Gives it an own address.
pub(super) fn bind(fd: BorrowedFd<'_>, to: SocketAddr) -> Result<(), Errno> {
    kernel::bind(fd.as_raw_fd(), &SockaddrStorage::from(to))
}

/// Gives it the other end.
pub(super) fn connect(fd: BorrowedFd<'_>, to: SocketAddr) -> Result<(), Errno> {
    kernel::connect(fd.as_raw_fd(), &SockaddrStorage::from(to))
}

pub(super) fn own(fd: BorrowedFd<'_>) -> Result<Option<SocketAddr>, Errno> {
    kernel::getsockname(fd.as_raw_fd()).map(|name| internet(&name))
}

pub(super) fn other(fd: BorrowedFd<'_>) -> Result<Option<SocketAddr>, Errno> {
    kernel::getpeername(fd.as_raw_fd()).map(|name| internet(&name))
}

/// The address in a `sockaddr`; IPv4 addresses of dual sockets appear as IPv6 ones, so that answers can go there.
pub(super) fn address(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    // SAFETY: it is a whole storage; what of it counts is said by its family.
    let name = unsafe { SockaddrStorage::from_raw(std::ptr::from_ref(name).cast(), None) };
    internet(&name?)
}

fn internet(name: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = name.as_sockaddr_in().map(|v4| SocketAddr::from(*v4));
    v4.or_else(|| name.as_sockaddr_in6().map(|v6| SocketAddr::from(*v6)))
}
