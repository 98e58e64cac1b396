//! A socket's error queue (`IP_RECVERR`, ip(7)): which packet an error was about.

use super::inbox::each_control;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An error that came back from the path, or from this host's own stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    /// What it means for the socket: `ECONNREFUSED`, `EHOSTUNREACH`, `EMSGSIZE` …
    pub errno: Errno,
    /// Whether a packet said so (ICMP), or this host itself.
    pub from_path: bool,
    /// As much of the packet's payload as was quoted. For ICMP sockets it begins with the ICMP header.
    pub quoted: Vec<u8>,
}

/// Takes all errors that wait, without blocking.
pub fn path_errors(fd: BorrowedFd<'_>) -> Vec<PathError> {
    let mut errors = Vec::new();
    // The queue is bounded by the socket's receive buffer; the bound here is only against a kernel that never ends.
    while errors.len() < 4096 {
        match one(fd) {
            Some(error) => errors.push(error),
            None => break,
        }
    }
    errors
}

fn one(fd: BorrowedFd<'_>) -> Option<PathError> {
    let mut bytes = [0u8; 2048];
    let mut control = [0u64; 64];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: all zeros is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header points to buffers of the lengths it says, which live until after the call.
    let got = unsafe {
        libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
    };
    let got = usize::try_from(got).ok()?;
    let mut error = PathError {
        errno: Errno::UnknownErrno,
        from_path: false,
        quoted: bytes[..got.min(bytes.len())].to_vec(),
    };
    each_control(&header, |level, kind, data| {
        let v4 = level == libc::IPPROTO_IP && kind == libc::IP_RECVERR;
        let v6 = level == libc::IPPROTO_IPV6 && kind == libc::IPV6_RECVERR;
        // struct sock_extended_err: errno (4), origin (1), type, code, …
        if let (true, Some(head)) = (v4 || v6, data.first_chunk::<8>()) {
            error.errno = Errno::from_raw(i32::from_ne_bytes([head[0], head[1], head[2], head[3]]));
            error.from_path = matches!(head[4], 2 | 3);
        }
    });
    Some(error)
}
