//! Listening to what the kernel tells a group of listeners by itself.

use super::error::{DecodeError, NetlinkError};
use super::message::{Reply, split_datagram};
use super::socket::{Protocol, Socket};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// What the kernel may keep for us between two times that we listen, in bytes.
const ROOM: libc::c_int = 8 << 20;
/// A notification is a page or less, but for what holds a packet.
const LARGEST: usize = 128 * 1024;

/// A member of a group. What comes while nobody listens waits in the kernel, as far as there is room.
#[derive(Debug)]
pub struct MulticastGroup {
    socket: Socket,
    buffer: Vec<u8>,
    overflows: u64,
}

impl MulticastGroup {
    /// Joins a group, in the calling thread's network namespace. Errors with `EPERM` where that needs rights.
    pub fn open(protocol: Protocol, group: u32) -> Result<Self, NetlinkError> {
        let socket = Socket::open(protocol)?;
        let tried = format!("listen to group {group} of {protocol:?}");
        let system = |errno| NetlinkError::system(tried.as_str(), "setsockopt", errno);
        // Beyond net.core.rmem_max where we may.
        let forced = set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, ROOM);
        forced
            .or_else(|_| set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, ROOM))
            .map_err(system)?;
        let number = libc::c_int::try_from(group).map_err(|_| system(Errno::EINVAL))?;
        set(&socket, libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, number).map_err(system)?;
        Ok(Self { socket, buffer: vec![0; LARGEST], overflows: 0 })
    }

    /// Hands on what has come, without waiting for more; at most `most` messages, since who drops packets may drop them faster than
    /// anybody listens.
    pub fn hear(
        &mut self,
        most: usize,
        mut each: impl FnMut(&Reply) -> Result<(), DecodeError>,
    ) -> Result<(), NetlinkError> {
        let tried = "hear what the kernel tells";
        for _ in 0..most {
            let length = match recv(
                self.socket.as_fd().as_raw_fd(),
                &mut self.buffer,
                MsgFlags::MSG_DONTWAIT,
            ) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                // There was no room for some; those after them come.
                Err(Errno::ENOBUFS) => {
                    self.overflows += 1;
                    continue;
                }
                Err(errno) => return Err(NetlinkError::system(tried, "recv", errno)),
            };
            for message in split_datagram(&self.buffer[..length]) {
                let message = message.map_err(|why| NetlinkError::answer(tried, why))?;
                let payload = message.payload.to_vec();
                let reply = Reply { kind: message.kind, flags: message.flags, payload };
                each(&reply).map_err(|why| NetlinkError::answer(tried, why))?;
            }
        }
        Ok(())
    }

    /// How often the kernel had no room for what it had to tell.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }
}

impl AsFd for MulticastGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn set(socket: &Socket, level: i32, option: i32, value: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the pointer and length describe `value`, which lives through the call.
    let code = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    Errno::result(code).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_without_a_word_said_hears_nothing() {
        // Links: anybody may listen.
        let mut group = MulticastGroup::open(Protocol::Route, 1).unwrap();
        group.hear(10, |_| Ok(())).unwrap();
        assert_eq!(group.overflows(), 0);
    }

    #[test]
    fn a_group_that_is_not_there_is_refused() {
        let error = MulticastGroup::open(Protocol::Route, 100_000).unwrap_err();
        assert!(error.to_string().contains("group 100000"), "{error}");
    }
}
