//! A socket's error queue (`IP_RECVERR`, ip(7); `SO_TIMESTAMPING`, Documentation/networking/timestamping.rst): which packet an
//! error was about, and when packets left.
//!
//! ```text
//!   sendmsg ──► Queue: the packet goes into this host's queue (TX_SCHED, __dev_queue_xmit, net/core/dev.c)
//!                 │  waits there
//!                 ▼
//!               Driver: the driver has it (TX_SOFTWARE, skb_tx_timestamp)
//!                 ▼
//!               Hardware: it is on the wire (TX_HARDWARE), by the clock of the device
//! ```

use super::inbox::{each_control, int, stamp, stamps};
use nix::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SCM_TSTAMP_SND` and `SCM_TSTAMP_SCHED`, linux/errqueue.h.
const TSTAMP_SND: u32 = 0;
const TSTAMP_SCHED: u32 = 1;
/// `SO_EE_RFC4884_FLAG_INVALID`, linux/errqueue.h.
const BROKEN: u8 = 1;
/// Bytes of a quoted packet that are kept.
const QUOTED: usize = 2048;
/// Messages taken in one call: two of each packet.
const BATCH: usize = 4;
/// The queue is bounded by the socket's receive buffer; this bound is only against a kernel that never ends.
const MOST: usize = 4096;

/// An error that came back from the path, or from this host's own stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    /// What it means for the socket: `ECONNREFUSED`, `EHOSTUNREACH`, `EMSGSIZE` …
    pub errno: Errno,
    /// Whether a packet said so (ICMP), or this host itself.
    pub from_path: bool,
    /// As much of the packet's payload as was quoted. For ICMP sockets it begins with the ICMP header.
    pub quoted: Vec<u8>,
    pub report: IcmpReport,
}

/// The message that told of an error (`struct sock_extended_err`, linux/errqueue.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IcmpReport {
    /// Who sent it: a router on the way, or the other end. None where this host itself said so.
    pub from: Option<IpAddr>,
    pub kind: u8,
    pub code: u8,
    /// Of a packet that was too big (also for this host's own device), the MTU that would do.
    pub mtu: u32,
    /// Its TTL or hop limit when it arrived, where asked for.
    pub ttl: Option<u8>,
    /// When it arrived, in nanoseconds of the wall clock, where asked for.
    pub stamp_ns: Option<u64>,
    /// Where in the quoted bytes an extension structure begins (RFC 4884), where asked for and where there is a whole one.
    pub extension: Option<usize>,
}

/// How far a packet was on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Queue,
    Driver,
    Hardware,
}

/// A packet was seen on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// The kernel's number of the packet, the same at each stage (`SOF_TIMESTAMPING_OPT_ID`).
    pub id: u32,
    pub stage: Stage,
    /// When, in nanoseconds of the wall clock, or for [`Stage::Hardware`] of the device's clock.
    pub stamp_ns: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorQueueEntry {
    Error(PathError),
    Sent(Departure),
}

pub struct ErrorQueue {
    bytes: Vec<u8>,
    control: [[u64; 64]; BATCH],
}

impl std::fmt::Debug for ErrorQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ErrorQueue")
    }
}

impl Default for ErrorQueue {
    fn default() -> Self {
        Self { bytes: vec![0; QUOTED * BATCH], control: [[0; 64]; BATCH] }
    }
}

impl ErrorQueue {
    /// Takes all that waits, without blocking, in the order in which it came about.
    pub fn take(&mut self, fd: BorrowedFd<'_>, mut each: impl FnMut(ErrorQueueEntry)) {
        for _ in 0..MOST / BATCH {
            if self.batch(fd, &mut each) < BATCH {
                break;
            }
        }
    }

    fn batch(&mut self, fd: BorrowedFd<'_>, each: &mut impl FnMut(ErrorQueueEntry)) -> usize {
        // SAFETY: all zeros are a valid iovec and a valid mmsghdr, with null pointers of length 0.
        let (mut vectors, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let rooms = self.bytes.chunks_exact_mut(QUOTED).zip(&mut self.control);
        for ((vector, header), (bytes, control)) in vectors.iter_mut().zip(&mut headers).zip(rooms)
        {
            *vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
        // SAFETY: each header points to buffers of the lengths it says, which live until after the call.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                (libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) as _,
                std::ptr::null_mut(),
            )
        };
        let got = usize::try_from(got).unwrap_or(0);
        for (header, bytes) in headers.iter().zip(self.bytes.chunks_exact(QUOTED)).take(got) {
            told(header, &bytes[..(header.msg_len as usize).min(QUOTED)], each);
        }
        got
    }
}

/// Reads one message. What is of no known kind is nothing.
fn told(header: &libc::mmsghdr, quoted: &[u8], each: &mut impl FnMut(ErrorQueueEntry)) {
    let (mut extended, mut software, mut hardware) = (None, None, None);
    let (mut ttl, mut stamp_ns) = (None, None);
    each_control(&header.msg_hdr, |level, kind, data| match (level, kind) {
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => stamp_ns = stamp(data),
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
            ttl = int(data).and_then(|ttl| u8::try_from(ttl).ok());
        }
        (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => (software, hardware) = stamps(data),
        (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
            extended = Extended::read(data);
        }
        _ => {}
    });
    let Some(extended) = extended else { return };
    if extended.origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        each(ErrorQueueEntry::Error(PathError {
            errno: extended.errno,
            from_path: matches!(
                extended.origin,
                libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6
            ),
            quoted: quoted.to_vec(),
            report: IcmpReport { ttl, stamp_ns, ..extended.report(quoted.len()) },
        }));
        return;
    }
    let sent =
        |stage, stamp_ns| ErrorQueueEntry::Sent(Departure { id: extended.data, stage, stamp_ns });
    let stage = match extended.info {
        TSTAMP_SCHED => Stage::Queue,
        TSTAMP_SND => Stage::Driver,
        _ => return,
    };
    if let Some(stamp) = software {
        each(sent(stage, stamp));
    }
    if let Some(stamp) = hardware.filter(|_| stage == Stage::Driver) {
        each(sent(Stage::Hardware, stamp));
    }
}

/// `struct sock_extended_err`, linux/errqueue.h.
struct Extended {
    errno: Errno,
    origin: u8,
    /// Type and code of an ICMP message.
    kind: u8,
    code: u8,
    /// For departures, the stage; for a packet that was too big, the MTU.
    info: u32,
    /// For departures, the packet's number; for ICMP errors, where an extension begins and whether it is broken (`ee_rfc4884`).
    data: u32,
    from: Option<IpAddr>,
}

impl Extended {
    fn read(bytes: &[u8]) -> Option<Self> {
        let word = |place: usize| bytes.get(place..place + 4).and_then(|b| b.try_into().ok());
        Some(Self {
            errno: Errno::from_raw(i32::from_ne_bytes(word(0)?)),
            origin: *bytes.get(4)?,
            kind: *bytes.get(5)?,
            code: *bytes.get(6)?,
            from: offender(bytes.get(16..)?),
            info: u32::from_ne_bytes(word(8)?),
            data: u32::from_ne_bytes(word(12)?),
        })
    }
}

impl Extended {
    fn report(&self, quoted: usize) -> IcmpReport {
        let [low, high, flags, _] = self.data.to_ne_bytes();
        let place = usize::from(u16::from_ne_bytes([low, high]));
        let whole = place > 0 && place < quoted && flags & BROKEN == 0;
        IcmpReport {
            from: self.from,
            kind: self.kind,
            code: self.code,
            mtu: if self.errno == Errno::EMSGSIZE { self.info } else { 0 },
            extension: whole.then_some(place),
            ..IcmpReport::default()
        }
    }
}

/// The `sockaddr` behind the structure (`SO_EE_OFFENDER`).
fn offender(bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(u16::from_ne_bytes(*bytes.first_chunk()?)) {
        libc::AF_INET => {
            let octets: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some(Ipv4Addr::from(octets).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            Some(IpAddr::from(Ipv6Addr::from(octets)).to_canonical())
        }
        _ => None,
    }
}

/// Takes all errors that wait, without blocking.
pub fn path_errors(fd: BorrowedFd<'_>) -> Vec<PathError> {
    let mut errors = Vec::new();
    ErrorQueue::default().take(fd, |told| {
        if let ErrorQueueEntry::Error(error) = told {
            errors.push(error);
        }
    });
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::option::observe_departures;
    use crate::socket::{EchoSocket, Udp};
    use crate::wall::realtime_ns;
    use std::os::fd::AsFd;

    /// What is told of one packet that this sends, once the clock was read before it.
    fn story(fd: BorrowedFd<'_>, send: impl Fn()) -> (u64, Vec<Departure>, u64) {
        let (mut queue, mut departures) = (ErrorQueue::default(), Vec::new());
        let before = realtime_ns();
        send();
        let after = realtime_ns();
        queue.take(fd, |told| match told {
            ErrorQueueEntry::Sent(departure) => departures.push(departure),
            ErrorQueueEntry::Error(error) => panic!("{error:?}"),
        });
        (before, departures, after)
    }

    #[test]
    fn a_packet_is_seen_before_the_own_queue_and_behind_it() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let server = Udp::listening(loopback.parse().unwrap()).unwrap();
            let client = Udp::connected(server.local().unwrap(), 0).unwrap();
            observe_departures(client.as_fd()).unwrap();
            for n in 0..3 {
                let send = || client.send(b"there").unwrap();
                let (before, departures, after) = story(client.as_fd(), send);
                let stages: Vec<_> = departures.iter().map(|d| (d.id, d.stage)).collect();
                assert_eq!(stages, [(n, Stage::Queue), (n, Stage::Driver)]);
                let (queue, driver) = (departures[0].stamp_ns, departures[1].stamp_ns);
                assert!(before <= queue && queue <= driver && driver <= after);
            }
        }
    }

    #[test]
    fn an_icmp_echo_is_seen_too() {
        for (to, kind) in [("127.0.0.1", 8), ("::1", 128)] {
            let socket = EchoSocket::open(to.parse().unwrap(), 0, 77).unwrap();
            observe_departures(socket.as_fd()).unwrap();
            let mut message = [0; 16];
            message[0] = kind;
            let (_, departures, _) = story(socket.as_fd(), || socket.send(&message).unwrap());
            let stages: Vec<_> = departures.iter().map(|d| d.stage).collect();
            assert_eq!(stages, [Stage::Queue, Stage::Driver], "{to}");
        }
    }
}
