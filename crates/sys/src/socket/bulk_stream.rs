//! Much over one TCP connection: calls that never wait, and one that does not copy.
//!
//! ```text
//!   send_some      user memory ──copied──► socket        send(2)
//!   send_file      a file's pages ─────────► socket      sendfile(2): the network reads the page cache itself
//!   discard_some   socket ──► nowhere                    recv(2) with MSG_TRUNC, tcp(7): taken off the queue and not copied
//! ```

use crate::SysError;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Most repetitions of a buffer in one call of [`send_some`].
const MOST_TIMES: usize = 64;

/// Hands over `most` bytes, or what there is room for: `bytes`, over and over, so that the kernel reads what is still in the CPU's cache. How
/// many bytes. `EAGAIN` when there is no room now, `EPIPE` when the connection is gone.
pub fn send_some(fd: BorrowedFd<'_>, bytes: &[u8], most: usize) -> Result<usize, Errno> {
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_TIMES];
    let (mut left, mut count) = (most, 0);
    for vector in &mut vectors {
        if left == 0 {
            break;
        }
        let length = left.min(bytes.len());
        *vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: length };
        left -= length;
        count += 1;
    }
    // SAFETY: all zeros is a valid msghdr.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = count as _;
    // SAFETY: the header points to `count` vectors, each to a live slice, which the kernel only reads.
    let sent = unsafe {
        libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
    };
    Errno::result(sent).map(|sent| sent as usize)
}

/// Takes at most `most` bytes off the receive queue without copying them; how many, 0 at the end. `EAGAIN` when nothing is there.
pub fn discard_some(fd: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
    // SAFETY: with MSG_TRUNC the kernel does not write to the buffer of a TCP socket (tcp_recvmsg_locked), so that it need not
    // exist.
    let got = unsafe {
        libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC | libc::MSG_DONTWAIT)
    };
    Errno::result(got).map(|got| got as usize)
}

#[derive(Debug)]
pub struct PayloadFile {
    file: File,
    length: usize,
}

impl PayloadFile {
    /// A file that holds these bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, SysError> {
        let tried = || format!("make a file of {} bytes in memory", bytes.len());
        let fd: OwnedFd = memfd_create(c"payload", MFdFlags::MFD_CLOEXEC)
            .map_err(|errno| SysError::new(tried(), errno))?;
        let mut file = File::from(fd);
        file.write_all(bytes).map_err(|e| SysError::io(tried(), &e))?;
        Ok(Self { file, length: bytes.len() })
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// Hands at most `most` bytes from `offset` on to a socket that does not wait (see [`waits`]) without copying them; how many.
    ///
    /// `EAGAIN` when there is no room now, `EPIPE` when the connection is gone: then the process also gets SIGPIPE, which has to
    /// be ignored as Rust's runtime has it (`crate::reader`).
    pub fn send_some(
        &self,
        to: BorrowedFd<'_>,
        offset: usize,
        most: usize,
    ) -> Result<usize, Errno> {
        send_file(to, self.file.as_fd(), offset as u64, most)
    }
}

/// As [`PayloadFile::send_some`], from any file; 0 where it has nothing at this offset.
pub fn send_file(
    to: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    most: usize,
) -> Result<usize, Errno> {
    let mut offset = offset as libc::off_t;
    // SAFETY: the offset is a live variable; sendfile(2) has no other memory arguments.
    let sent = unsafe { libc::sendfile(to.as_raw_fd(), file.as_raw_fd(), &raw mut offset, most) };
    Errno::result(sent).map(|sent| sent as usize)
}

/// Makes a socket's calls wait, or not.
pub fn waits(fd: BorrowedFd<'_>, waits: bool) -> Result<(), SysError> {
    let flags = if waits { OFlag::empty() } else { OFlag::O_NONBLOCK };
    let what = if waits { "make a socket wait" } else { "keep a socket from waiting" };
    fcntl(fd, FcntlArg::F_SETFL(flags)).map(drop).map_err(|errno| SysError::new(what, errno))
}
