//! The one right that a server started as root keeps, in a process of its own: to give a connection a congestion control that the system keeps for
//! administrators (`net.ipv4.tcp_allowed_congestion_control`).
//!
//! ```text
//!   server, without rights ── a connection, a name ──► helper, CAP_NET_ADMIN alone: one that is there already? ── setsockopt
//!                          ◄── errno ────────────────
//! ```
//!
//! It loads no module and opens nothing, and ends with the server.

use crate::limits::{TEST, lock};
use crate::privileges::{self, Account, PrivilegeError};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recv,
    recvmsg, send, sendmsg, socketpair,
};
use nix::unistd::{ForkResult, fork};
use quell_sys::SysError;
use quell_sys::input;
use quell_sys::socket::option::set_bytes;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;

#[derive(Debug)]
pub struct CongestionHelper(Mutex<OwnedFd>);

impl CongestionHelper {
    /// Starts it, as this user. For a process that has one thread.
    pub fn start(account: &Account) -> Result<Self, PrivilegeError> {
        let failed = |errno| SysError::new("start the helper for congestion controls", errno);
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .map_err(failed)?;
        // SAFETY: there is one thread, so that the child may do whatever a process may.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Parent { .. } => Ok(Self(Mutex::new(ours))),
            ForkResult::Child => {
                drop(ours);
                if privileges::keep_net_admin(account).is_ok() {
                    serve(&theirs);
                }
                // SAFETY: nothing of the parent's is to be run at its end.
                unsafe { libc::_exit(0) }
            }
        }
    }

    /// Gives a connection this congestion control.
    pub fn set(&self, stream: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
        let socket = lock(&self.0);
        let fds = [stream.as_raw_fd()];
        let fds = [ControlMessage::ScmRights(&fds)];
        let name = [IoSlice::new(name.as_bytes())];
        sendmsg::<()>(socket.as_raw_fd(), &name, &fds, MsgFlags::MSG_NOSIGNAL, None)?;
        let mut answer = [0; 4];
        match (
            recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?,
            i32::from_ne_bytes(answer),
        ) {
            (4, 0) => Ok(()),
            (4, errno) => Err(Errno::from_raw(errno)),
            _ => Err(Errno::EPIPE),
        }
    }
}

/// Answers until the server has ended.
fn serve(socket: &OwnedFd) {
    // What the server has open, its ports and its log, is not held by this.
    // SAFETY: numbers; none of these is used here any more.
    unsafe {
        libc::dup2(socket.as_raw_fd(), 0);
        libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0);
    }
    loop {
        let mut bytes = [0; 16];
        let mut rights = cmsg_space!([i32; 1]);
        let (stream, length) = {
            let mut name = [IoSliceMut::new(&mut bytes)];
            match recvmsg::<()>(0, &mut name, Some(&mut rights), MsgFlags::MSG_CMSG_CLOEXEC) {
                Ok(got) if got.bytes > 0 => {
                    let fd = got.cmsgs().ok().and_then(|mut all| all.next());
                    (fd, got.bytes)
                }
                Err(Errno::EINTR) => continue,
                _ => return,
            }
        };
        let answer = match stream {
            Some(ControlMessageOwned::ScmRights(fds)) if fds.len() == 1 => {
                // SAFETY: the kernel has just made this descriptor for us.
                let stream = unsafe { OwnedFd::from_raw_fd(fds[0]) };
                give(&stream, &bytes[..length.min(TEST.congestion_name)])
            }
            _ => Err(Errno::EINVAL),
        };
        let errno = answer.err().map_or(0, |errno| errno as i32);
        if send(0, &errno.to_ne_bytes(), MsgFlags::MSG_NOSIGNAL).is_err() {
            return;
        }
    }
}

fn give(stream: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    const THERE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let there = input::bytes(Path::new(THERE), 4096).map_err(|_| Errno::EPERM)?;
    if !there.split(u8::is_ascii_whitespace).any(|one| one == name) {
        return Err(Errno::ENOENT);
    }
    let fd = std::os::fd::AsFd::as_fd(stream);
    set_bytes(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name, "congestion control")
        .map_err(|error| error.errno)
}
