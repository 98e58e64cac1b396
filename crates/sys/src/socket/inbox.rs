//! Receiving datagrams: as many as wait, in one call, each with what the kernel knows of it.

use super::ends::{self, address};
use crate::SysError;
use nix::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Room for the ancillary data of one datagram: stamp, TOS, TTL, destination.
const CONTROL: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// Who sent it; none on sockets without addresses.
    pub from: Option<SocketAddr>,
    /// When it entered this host's stack, in nanoseconds of the wall clock.
    pub stamp_ns: Option<u64>,
    /// When the device received it, in nanoseconds of the device's clock, where the device stamps and departures are observed.
    pub hardware_ns: Option<u64>,
    /// Its TOS or traffic class byte, where asked for.
    pub tos: Option<u8>,
    /// Its TTL or hop limit, where asked for.
    pub ttl: Option<u8>,
    /// The own address it was sent to, where asked for.
    pub to: Option<IpAddr>,
    pub interface: u32,
    pub size: usize,
    pub length: usize,
}

pub struct Inbox {
    bytes: Vec<u8>,
    each: usize,
    control: Vec<[u64; CONTROL / 8]>,
    names: Vec<libc::sockaddr_storage>,
    arrivals: Vec<Arrival>,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("each", &self.each).field("arrivals", &self.arrivals).finish()
    }
}

impl Inbox {
    /// Buffers for `count` datagrams (at least one) of at most `each` bytes at a time.
    pub fn new(count: usize, each: usize) -> Self {
        let count = count.max(1);
        // SAFETY: an address of all zeros is a valid sockaddr_storage (AF_UNSPEC).
        let name: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        Self {
            bytes: vec![0; count * each],
            each,
            control: vec![[0; CONTROL / 8]; count],
            names: vec![name; count],
            arrivals: Vec::with_capacity(count),
        }
    }

    pub fn capacity(&self) -> usize {
        self.names.len()
    }

    /// Takes what waits in the socket, without blocking; how many datagrams. Errors are the socket's: those that came back from
    /// the path (`ECONNREFUSED`, `EHOSTUNREACH` …) take the place of a datagram once, and reading goes on after them.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.arrivals.clear();
        let count = self.names.len();
        let mut vectors: Vec<libc::iovec> = self
            .bytes
            .chunks_exact_mut(self.each)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = Vec::with_capacity(count);
        let places = vectors.iter_mut().zip(&mut self.names).zip(&mut self.control);
        for ((vector, name), control) in places {
            // SAFETY: all zeros is a valid mmsghdr, with null pointers of length 0.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
            headers.push(header);
        }
        // SAFETY: each header points to buffers of the lengths it says, which live until after the call.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                // With MSG_TRUNC the length is that of the datagram, also where the buffer is smaller.
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        let got = match Errno::result(got) {
            Ok(got) => got as usize,
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            Err(errno) => return Err(errno),
        };
        for (header, name) in headers.iter().zip(&self.names).take(got) {
            self.arrivals.push(arrival(header, name, self.each));
        }
        Ok(got)
    }

    /// The datagrams of the last call.
    pub fn iter(&self) -> impl Iterator<Item = (&Arrival, &[u8])> {
        self.arrivals
            .iter()
            .zip(self.bytes.chunks_exact(self.each))
            .map(|(arrival, bytes)| (arrival, &bytes[..arrival.length]))
    }

    /// The n-th datagram of the last call, to be changed in place.
    pub fn datagram_mut(&mut self, n: usize) -> Option<(Arrival, &mut [u8])> {
        let arrival = *self.arrivals.get(n)?;
        let start = n * self.each;
        Some((arrival, self.bytes.get_mut(start..start + arrival.length)?))
    }
}

fn arrival(header: &libc::mmsghdr, name: &libc::sockaddr_storage, room: usize) -> Arrival {
    let mut arrival = Arrival {
        from: (header.msg_hdr.msg_namelen > 0).then(|| address(name)).flatten(),
        size: header.msg_len as usize,
        length: (header.msg_len as usize).min(room),
        ..Arrival::default()
    };
    each_control(&header.msg_hdr, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => arrival.stamp_ns = stamp(data),
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => arrival.hardware_ns = stamps(data).1,
        (libc::IPPROTO_IP, libc::IP_TOS) => arrival.tos = data.first().copied(),
        (libc::IPPROTO_IP, libc::IP_TTL) => arrival.ttl = int(data).map(|v| v as u8),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => arrival.tos = int(data).map(|v| v as u8),
        (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => arrival.ttl = int(data).map(|v| v as u8),
        // struct in_pktinfo: interface, local address (to answer from), address in the header.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            arrival.interface = int(data).unwrap_or(0) as u32;
            let octets: Option<[u8; 4]> = data.get(4..8).and_then(|b| b.try_into().ok());
            arrival.to = octets.map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            let octets: Option<[u8; 16]> = data.get(..16).and_then(|b| b.try_into().ok());
            arrival.to = octets.map(|octets| IpAddr::V6(Ipv6Addr::from(octets)));
            arrival.interface = data.get(16..).and_then(int).unwrap_or(0) as u32;
        }
        _ => {}
    });
    arrival
}

/// A C `int`.
pub(super) fn int(data: &[u8]) -> Option<i32> {
    data.first_chunk().copied().map(i32::from_ne_bytes)
}

/// `struct timespec` as nanoseconds.
pub(super) fn stamp(data: &[u8]) -> Option<u64> {
    let (seconds, rest) = data.split_first_chunk::<8>()?;
    let nanos = rest.first_chunk::<8>()?;
    let seconds = u64::try_from(i64::from_ne_bytes(*seconds)).ok()?;
    let nanos = u64::try_from(i64::from_ne_bytes(*nanos)).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// `struct scm_timestamping` (linux/errqueue.h): the stamp of the kernel and that of the device, where there are any.
pub(super) fn stamps(data: &[u8]) -> (Option<u64>, Option<u64>) {
    let at = |place| data.get(place..).and_then(stamp).filter(|ns| *ns > 0);
    (at(0), at(32))
}

/// Calls `each` with level, type and data of the ancillary messages that the kernel wrote.
pub(super) fn each_control(
    header: &libc::msghdr,
    mut each: impl FnMut(libc::c_int, libc::c_int, &[u8]),
) {
    // SAFETY: the kernel wrote `msg_controllen` bytes of well-formed messages into the buffer, which the caller keeps alive; the
    // CMSG macros stay within them.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            let length = ((*message).cmsg_len as usize)
                .saturating_sub(data.offset_from(message.cast::<u8>()) as usize);
            let data = std::slice::from_raw_parts(data, length);
            each((*message).cmsg_level, (*message).cmsg_type, data);
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
}

/// Connects a datagram socket: only the other end's packets come, and errors from the path are told.
pub(super) fn connect(fd: BorrowedFd<'_>, to: SocketAddr) -> Result<(), SysError> {
    ends::connect(fd, to).map_err(|errno| {
        let error = SysError::new(format!("send to {}", to.ip()), errno);
        match errno {
            Errno::ENETUNREACH | Errno::EHOSTUNREACH => {
                error.advise("this host has no route there: see `ip route get`")
            }
            _ => error,
        }
    })
}
