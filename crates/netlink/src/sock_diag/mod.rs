//! The namespace's TCP sockets and what each knows about its path (`NETLINK_SOCK_DIAG`, what `ss
//! -ti` reads).

mod tcp_info;

pub use tcp_info::{TcpInfo, TcpState};

use crate::core::{Attr, DecodeError, Message, NetlinkError, Protocol, Reply, Socket};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const PART: &str = "TCP socket statistics (CONFIG_INET_DIAG, CONFIG_INET_TCP_DIAG)";
/// `struct inet_diag_msg`.
const HEADER: usize = 72;
/// `INET_DIAG_*`: what is to be told of each socket, asked for as bit (number - 1).
mod extension {
    pub const INFO: u16 = 2;
    pub const CONGESTION: u16 = 4;
    pub const MEMORY: u16 = 7;
    pub const ALL: u8 = (1 << (INFO - 1)) | (1 << (CONGESTION - 1)) | (1 << (MEMORY - 1));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFilter {
    /// Bit set of states, see [`TcpState::bit`].
    pub states: u32,
    pub local_port: Option<u16>,
    pub remote_port: Option<u16>,
}

impl TcpFilter {
    pub const ESTABLISHED: Self =
        Self { states: TcpState::Established.bit(), local_port: None, remote_port: None };

    /// All connections that can carry or still flush data: everything but listeners and TIME-WAIT.
    pub const CONNECTED: Self = Self {
        states: TcpState::ALL & !TcpState::Listen.bit() & !TcpState::TimeWait.bit(),
        local_port: None,
        remote_port: None,
    };
}

/// A TCP or UDP socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DiagSocket {
    /// Its own address. IPv4 connections of IPv6 sockets appear as IPv4.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
    pub state: TcpState,
    /// Received and not yet read, in bytes (for a listener: connections to be accepted).
    pub receive_queue: u32,
    /// Written and not yet acknowledged, in bytes (for a listener: the longest such queue).
    pub send_queue: u32,
    /// The inode of the socket, as in /proc/PID/fd; 0 when no process has it any more.
    pub inode: u32,
    /// The kernel's number for the socket, never used twice.
    pub cookie: u64,
    /// What TCP knows; none for half-open and TIME-WAIT sockets.
    pub info: Option<TcpInfo>,
    /// The congestion control's name.
    pub congestion_control: Option<String>,
    /// Its buffers (`SK_MEMINFO_*`).
    pub memory: Option<SocketMemory>,
}

/// What a socket's buffers hold and may hold, in bytes as the kernel counts them: payload and bookkeeping
/// (`include/uapi/linux/sock_diag.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SocketMemory {
    /// Received and not yet read.
    pub received: u32,
    pub receive_buffer: u32,
    /// Handed to the queues below.
    pub sent: u32,
    pub send_buffer: u32,
    /// Written and not yet acknowledged.
    pub queued: u32,
    /// Packets that were dropped for want of room (4.7 and later).
    pub drops: u32,
}

/// Reads the sockets of one namespace.
#[derive(Debug)]
pub struct SockDiag {
    socket: Socket,
}

impl SockDiag {
    /// Opens the conversation in the calling thread's namespace.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self { socket: Socket::open(Protocol::SockDiag)? })
    }

    /// Hands each TCP socket that passes the filter to `each`, and keeps none. Errors as [`SockDiag::tcp`].
    pub fn each_tcp(
        &mut self,
        filter: &TcpFilter,
        mut each: impl FnMut(DiagSocket),
    ) -> Result<(), NetlinkError> {
        let mut handed = false;
        let both = self.socket.stream(&request_both(filter), |reply| {
            handed = true;
            DiagSocket::parse(reply)?.map(&mut each);
            Ok(())
        });
        match both {
            Ok(()) => Ok(()),
            Err(error) if handed => Err(error.means_lacking(PART, &[Errno::ENOENT])),
            Err(_) => self.each(libc::IPPROTO_TCP as u8, "TCP", PART, filter, &mut each),
        }
    }

    /// Hands each UDP socket to `each`. Errors with `ENOENT` when the kernel lacks `CONFIG_INET_UDP_DIAG`.
    pub fn each_udp(&mut self, mut each: impl FnMut(DiagSocket)) -> Result<(), NetlinkError> {
        const PART: &str = "UDP socket statistics (CONFIG_INET_UDP_DIAG)";
        let all = TcpFilter { states: u32::MAX, local_port: None, remote_port: None };
        self.each(libc::IPPROTO_UDP as u8, "UDP", PART, &all, &mut each)
    }

    fn each(
        &mut self,
        protocol: u8,
        name: &str,
        part: &str,
        filter: &TcpFilter,
        each: &mut dyn FnMut(DiagSocket),
    ) -> Result<(), NetlinkError> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.socket
                .stream(&request(family as u8, protocol, name, filter), |reply| {
                    DiagSocket::parse(reply)?.map(&mut *each);
                    Ok(())
                })
                .map_err(|error| error.means_lacking(part, &[Errno::ENOENT]))?;
        }
        Ok(())
    }

    /// The TCP sockets, IPv4 and IPv6, that pass the filter. Errors with `ENOENT` when the kernel
    /// lacks `CONFIG_INET_TCP_DIAG`.
    pub fn tcp(&mut self, filter: &TcpFilter) -> Result<Vec<DiagSocket>, NetlinkError> {
        let mut sockets = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.socket
                .dump(&request(family as u8, libc::IPPROTO_TCP as u8, "TCP", filter), |reply| {
                    sockets.extend(DiagSocket::parse(reply)?);
                    Ok(())
                })
                .map_err(|error| error.means_lacking(PART, &[Errno::ENOENT]))?;
        }
        Ok(sockets)
    }
}

/// The TCP sockets of both families at once, by the older request, which takes no family (`struct inet_diag_req`, `inet_diag_dump_compat` of
/// net/ipv4/inet_diag.c): the kernel walks over its whole table for each request, half a millisecond of 262144 places where it is empty.
fn request_both(filter: &TcpFilter) -> Message {
    const TCPDIAG_GETSOCK: u16 = 18;
    let mut header = [0; 60];
    header[0] = libc::AF_INET as u8;
    header[3] = extension::ALL;
    header[4..6].copy_from_slice(&filter.local_port.unwrap_or(0).to_be_bytes());
    header[6..8].copy_from_slice(&filter.remote_port.unwrap_or(0).to_be_bytes());
    header[44..52].fill(0xff);
    header[52..56].copy_from_slice(&filter.states.to_ne_bytes());
    Message::with_header("list the TCP sockets", TCPDIAG_GETSOCK, 0, &header)
}

/// `struct inet_diag_req_v2`: family, protocol, extensions, padding, states, socket identity (48
/// bytes).
fn request(family: u8, protocol: u8, name: &str, filter: &TcpFilter) -> Message {
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    let mut header = [0; 56];
    header[0] = family;
    header[1] = protocol;
    header[2] = extension::ALL;
    header[4..8].copy_from_slice(&filter.states.to_ne_bytes());
    header[8..10].copy_from_slice(&filter.local_port.unwrap_or(0).to_be_bytes());
    header[10..12].copy_from_slice(&filter.remote_port.unwrap_or(0).to_be_bytes());
    // INET_DIAG_NOCOOKIE
    header[48..56].fill(0xff);
    Message::with_header(format!("list the {name} sockets"), SOCK_DIAG_BY_FAMILY, 0, &header)
}

impl DiagSocket {
    /// `None` for states that this program does not know.
    pub(crate) fn parse(reply: &Reply) -> Result<Option<Self>, DecodeError> {
        let (header, attrs) = reply.split::<HEADER>()?;
        let Some(state) = TcpState::from_number(header[1]) else { return Ok(None) };
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let end = |port_at: usize, address_at: usize| {
            let port = u16::from_be_bytes([header[port_at], header[port_at + 1]]);
            let mut address = [0; 16];
            address.copy_from_slice(&header[address_at..address_at + 16]);
            SocketAddr::new(address_of(header[0], address), port)
        };
        let mut socket = Self {
            local: end(4, 8),
            remote: end(6, 24),
            state,
            receive_queue: word(56),
            send_queue: word(60),
            inode: word(68),
            cookie: u64::from(word(44)) | (u64::from(word(48)) << 32),
            info: None,
            congestion_control: None,
            memory: None,
        };
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                extension::INFO => socket.info = info_of(&attr)?,
                extension::CONGESTION => socket.congestion_control = Some(attr.str()?.to_owned()),
                extension::MEMORY => socket.memory = Some(SocketMemory::from_bytes(attr.payload)),
                _ => {}
            }
        }
        Ok(Some(socket))
    }
}

impl SocketMemory {
    /// Words that an older kernel does not send are zero.
    fn from_bytes(bytes: &[u8]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let word = |at: usize| words.get(at).map_or(0, |w| u32::from_ne_bytes(*w));
        Self {
            received: word(0),
            receive_buffer: word(1),
            sent: word(2),
            send_buffer: word(3),
            queued: word(5),
            drops: word(8),
        }
    }
}

/// Sockets without a full state (half-open, TIME-WAIT) come with an empty one.
fn info_of(attr: &Attr<'_>) -> Result<Option<TcpInfo>, DecodeError> {
    if attr.payload.is_empty() { Ok(None) } else { TcpInfo::from_bytes(attr.payload).map(Some) }
}

fn address_of(family: u8, bytes: [u8; 16]) -> IpAddr {
    if family == libc::AF_INET as u8 {
        let [a, b, c, d, ..] = bytes;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    } else {
        IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
    }
}
