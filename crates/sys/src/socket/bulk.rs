//! Many datagrams in one system call, sent and received.
//!
//! ```text
//!   Outbox   n datagrams ──► n packets, one call (sendmmsg)
//!                        ──► one packet through the stack, cut at the end (UDP_SEGMENT, udp(7))
//!   Trains   n packets, one call (recvmmsg) ──► trains of datagrams of one size (UDP_GRO), each with the kernel's stamp
//! ```
//!
//! A train is what the kernel carried in one piece: datagrams of a flow that were sent in one piece and never cut, or that a network card or its
//! driver joined. All of a train have one stamp: that of its first.

use super::inbox::{each_control, stamp};
use super::option::{get_bytes, grow_receive_buffer, set};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most datagrams in one train on every kernel that has it (`UDP_MAX_SEGMENTS`, 64 until Linux 6.9).
pub const MOST_SEGMENTS: usize = 64;
/// Most bytes in one train: what fits in an IP packet with its headers.
pub const MOST_BYTES: usize = 65_487;
/// The largest train, and so the room each packet gets in [`Trains`].
const TRAIN: usize = 65_536;
/// Room for the ancillary data of one train: stamp, segment size, and the address, TTL and TOS byte that its socket may tell; more is cut off.
const CONTROL: usize = 160;
/// Datagrams of one size for the connected end: each has a head of its own, and all have the rest of their bytes in common, so that a
/// thousand streams of the largest datagrams take no more memory than one.
///
/// ```text
///   heads    │ 16 │ 16 │ 16 │ …           changed for each datagram
///   payload  │ size - 16            │     the same for all, here and in other boxes
/// ```
#[derive(Debug)]
pub struct Outbox {
    heads: Vec<u8>,
    head: usize,
    payload: &'static [u8],
    size: usize,
}

/// Most bytes that a datagram has of its own.
pub const HEAD: usize = 16;

impl Outbox {
    /// Room for `count` datagrams (at least one) of `size` bytes. Behind its head each has the first bytes of `payload`, and ends where that
    /// does.
    pub fn new(count: usize, size: usize, payload: &'static [u8]) -> Self {
        let head = size.min(HEAD);
        let payload = &payload[..payload.len().min(size - head)];
        Self { heads: vec![0; count.max(1) * head], head, payload, size: head + payload.len() }
    }

    pub fn count(&self) -> usize {
        self.heads.len().checked_div(self.head).unwrap_or(1)
    }

    /// The head of the n-th, to be changed; empty where there is none.
    pub fn head_mut(&mut self, n: usize) -> &mut [u8] {
        let start = n.saturating_mul(self.head);
        self.heads.get_mut(start..start.saturating_add(self.head)).unwrap_or_default()
    }

    /// Where the bytes of the n-th are; none of it is written through these pointers.
    fn parts(&self, n: usize) -> [libc::iovec; 2] {
        let part = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        [part(&self.heads[n * self.head..][..self.head]), part(self.payload)]
    }

    /// Hands the kernel the first `count` in one piece, which it cuts into datagrams. At most [`MOST_SEGMENTS`], and [`MOST_BYTES`].
    ///
    /// Errors: `EAGAIN` when there is no room now; `EINVAL` when a datagram is larger than the path's MTU or the kernel has no such thing
    /// (before Linux 4.18), `EIO` when the device can't calculate checksums: then send them one by one ([`Outbox::send`]).
    pub fn send_train(&self, fd: BorrowedFd<'_>, count: usize) -> Result<(), Errno> {
        let count = count.min(self.count()).min(MOST_SEGMENTS);
        let mut vectors = [[EMPTY; 2]; MOST_SEGMENTS];
        for (n, vector) in vectors.iter_mut().take(count).enumerate() {
            *vector = self.parts(n);
        }
        let mut control = [0u64; 4];
        // SAFETY: all zeros is a valid msghdr.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = vectors.as_flattened_mut().as_mut_ptr();
        header.msg_iovlen = (2 * count) as _;
        if count > 1 {
            // SAFETY: CMSG_SPACE and CMSG_LEN only calculate; the control buffer has room for a header and two bytes, and is aligned for
            // it.
            unsafe {
                header.msg_control = control.as_mut_ptr().cast();
                header.msg_controllen = libc::CMSG_SPACE(2) as _;
                let message = control.as_mut_ptr().cast::<libc::cmsghdr>();
                (*message).cmsg_level = libc::SOL_UDP;
                (*message).cmsg_type = libc::UDP_SEGMENT;
                (*message).cmsg_len = libc::CMSG_LEN(2) as _;
                libc::CMSG_DATA(message).cast::<u16>().write_unaligned(self.size as u16);
            }
        }
        // SAFETY: the header points to buffers of the lengths it says; the kernel only reads them.
        let sent = unsafe {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            libc::sendmsg(fd.as_raw_fd(), &raw const header, flags)
        };
        Errno::result(sent).map(drop)
    }

    /// Sends those from `from` up to `to` in one call, without blocking; how many the kernel took. Errors only when it took none: `EAGAIN`
    /// when there is no room now, `EMSGSIZE` when one is larger than the path carries, `ECONNREFUSED` where nobody listens (one
    /// datagram's error, told in place of sending the next).
    pub fn send(&self, fd: BorrowedFd<'_>, from: usize, to: usize) -> Result<usize, Errno> {
        let to = to.min(self.count());
        let mut vectors = [[EMPTY; 2]; BATCH];
        // SAFETY: all zeros is a valid mmsghdr.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        let count = to.saturating_sub(from).min(BATCH);
        for (n, (vector, header)) in vectors.iter_mut().zip(&mut headers).take(count).enumerate() {
            *vector = self.parts(from + n);
            header.msg_hdr.msg_iov = vector.as_mut_ptr();
            header.msg_hdr.msg_iovlen = vector.len() as _;
        }
        // SAFETY: each header points to its vectors, and those to bytes of the lengths they say, which the kernel only reads.
        let sent = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        };
        Errno::result(sent).map(|sent| sent as usize)
    }
}

const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };

/// Datagrams in one call of [`Outbox::send`].
pub const BATCH: usize = 64;

/// What a socket got of what makes receiving fast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkSocket {
    /// Trains are handed over whole (`UDP_GRO`, since Linux 5.0).
    pub trains: bool,
    /// Arrivals have kernel stamps.
    pub stamps: bool,
    /// The receive buffer, payload and bookkeeping together, in bytes.
    pub buffer: usize,
}

/// Makes a UDP socket ready for much: kernel stamps, a receive buffer of `buffer` bytes where the system grants it, and trains in
/// one piece where `trains`. What it got.
pub fn prepare_receiving(fd: BorrowedFd<'_>, buffer: usize, trains: bool) -> BulkSocket {
    let stamps = set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1, "kernel receive timestamps");
    let gro = set(fd, libc::SOL_UDP, libc::UDP_GRO, trains.into(), "trains of datagrams");
    BulkSocket {
        trains: trains && gro.is_ok(),
        stamps: stamps.is_ok(),
        buffer: grow_receive_buffer(fd, buffer),
    }
}

/// Asks for the marks of what comes, over whichever IP; a socket that speaks one of them refuses the other's option.
pub fn tell_marks(fd: BorrowedFd<'_>) {
    let _ = set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1, "reports of TOS bytes");
    let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1, "reports of traffic classes");
}

/// How full a receive buffer is, and what found no room in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fill {
    /// Bytes that wait, with their bookkeeping.
    pub used: u32,
    /// Bytes that there is room for, with their bookkeeping.
    pub room: u32,
    /// How many packets the kernel threw away because there was no room, since the socket was opened; it wraps. A train counts as one.
    pub drops: u32,
}

/// Looks into a socket's receive buffer (`SO_MEMINFO`, since Linux 4.12).
pub fn fill(fd: BorrowedFd<'_>) -> Option<Fill> {
    let field = fields(fd)?;
    Some(Fill {
        used: field(libc::SK_MEMINFO_RMEM_ALLOC)?,
        room: field(libc::SK_MEMINFO_RCVBUF)?,
        drops: field(libc::SK_MEMINFO_DROPS)?,
    })
}

/// Bytes of packets that a socket sent and that have not left this host, with their bookkeeping: they wait in a queue or in the device, and are charged to
/// the socket until then (`sk_wmem_alloc`). 0 where the kernel does not tell.
pub fn on_this_host(fd: BorrowedFd<'_>) -> u32 {
    fields(fd).and_then(|field| field(libc::SK_MEMINFO_WMEM_ALLOC)).unwrap_or(0)
}

/// `SO_MEMINFO`, field by field; none of what an older kernel does not tell.
fn fields(fd: BorrowedFd<'_>) -> Option<impl Fn(libc::c_int) -> Option<u32>> {
    let mut bytes = [0; 4 * (libc::SK_MEMINFO_DROPS as usize + 1)];
    let length = get_bytes(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut bytes).ok()?;
    Some(move |n: libc::c_int| {
        bytes[..length].get(n as usize * 4..)?.first_chunk().copied().map(u32::from_ne_bytes)
    })
}

/// Datagrams of one flow that the kernel carried in one piece; a single one too.
#[derive(Debug, Clone, Copy)]
pub struct Train<'a> {
    /// When the first entered this host's stack, in nanoseconds of the wall clock; none where the kernel gave no stamp.
    pub stamp_ns: Option<u64>,
    /// The bytes of all, one behind the other.
    pub bytes: &'a [u8],
    /// The size of each but the last, which may be shorter. Zero when there is one, and that is empty.
    pub segment: usize,
    /// It was marked on its way (CE of ECN), where the socket tells that ([`tell_marks`]).
    pub marked: bool,
    /// Bytes of its only datagram beyond those here, that nobody wanted copied ([`Trains::heads`]).
    pub beyond: usize,
}

impl<'a> Train<'a> {
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.bytes.chunks(self.segment.max(1))
    }
}

pub struct Trains {
    bytes: Vec<u8>,
    /// Bytes that each has room for.
    room: usize,
    vectors: Vec<libc::iovec>,
    control: Vec<[u64; CONTROL / 8]>,
    headers: Vec<libc::mmsghdr>,
    got: usize,
}

// SAFETY: the pointers in `vectors` and `headers` point into the other vectors, which nobody else has.
unsafe impl Send for Trains {}

impl std::fmt::Debug for Trains {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trains").field("got", &self.got).finish_non_exhaustive()
    }
}

impl Trains {
    /// Buffers for `count` trains (at least one), 64 KiB each.
    pub fn new(count: usize) -> Self {
        Self::with_room(count, TRAIN)
    }

    /// The same for single datagrams, of each of which only the head is copied: for a socket without `UDP_GRO`.
    pub fn heads(count: usize) -> Self {
        Self::with_room(count, HEAD)
    }

    fn with_room(count: usize, room: usize) -> Self {
        let count = count.max(1);
        // SAFETY: all zeros is a valid mmsghdr.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            bytes: vec![0; count * room],
            room,
            vectors: vec![EMPTY; count],
            control: vec![[0; CONTROL / 8]; count],
            headers: vec![header; count],
            got: 0,
        }
    }

    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Takes what waits in the socket, without blocking; how many trains, 0 when nothing waits. Errors are the socket's: those that
    /// came back from the path take the place of a datagram once, and reading goes on after them.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.got = 0;
        let places =
            self.bytes.chunks_exact_mut(self.room).zip(&mut self.vectors).zip(&mut self.control);
        for (((bytes, vector), control), header) in places.zip(&mut self.headers) {
            *vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: each header points to buffers of the lengths it says, which live as long as self.
        let got = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                // With MSG_TRUNC the lengths are those of the datagrams, however much of them was copied (recv(2)).
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        match Errno::result(got) {
            Ok(got) => self.got = got as usize,
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
        Ok(self.got)
    }

    /// The trains of the last call.
    pub fn iter(&self) -> impl Iterator<Item = Train<'_>> {
        self.headers.iter().zip(self.bytes.chunks_exact(self.room)).take(self.got).map(
            |(header, bytes)| {
                let length = (header.msg_len as usize).min(self.room);
                let beyond = header.msg_len as usize - length;
                let bytes = &bytes[..length];
                let mut train =
                    Train { stamp_ns: None, bytes, segment: length, marked: false, beyond };
                each_control(&header.msg_hdr, |level, kind, data| match (level, kind) {
                    (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => train.stamp_ns = stamp(data),
                    (libc::SOL_UDP, libc::UDP_GRO) => {
                        let size = data.first_chunk().copied().map(i32::from_ne_bytes);
                        if let Some(size @ 1..) = size.and_then(|s| usize::try_from(s).ok()) {
                            train.segment = size;
                        }
                    }
                    (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        train.marked = data.first().is_some_and(|tos| tos & 3 == 3);
                    }
                    _ => {}
                });
                train
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{readable, wait};
    use crate::wall::realtime_ns;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair(loopback: &str, trains: bool) -> (UdpSocket, UdpSocket, BulkSocket) {
        let server = UdpSocket::bind(loopback).unwrap();
        let client = UdpSocket::bind(loopback).unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        let got = prepare_receiving(server.as_fd(), 4 << 20, trains);
        (server, client, got)
    }

    /// All datagrams that come until there are `count`, and in how many pieces.
    fn receive(server: &UdpSocket, count: usize) -> (Vec<Vec<u8>>, usize) {
        let mut trains = Trains::new(4);
        let (mut datagrams, mut pieces) = (Vec::new(), 0);
        while datagrams.len() < count {
            wait(&mut [readable(server)]).unwrap();
            pieces += trains.receive(server.as_fd()).unwrap();
            datagrams.extend(
                trains.iter().flat_map(|t| t.datagrams().map(<[u8]>::to_vec).collect::<Vec<_>>()),
            );
        }
        (datagrams, pieces)
    }

    fn numbered(count: usize, size: usize) -> Outbox {
        let mut outbox = Outbox::new(count, size, &[7; 4096]);
        (0..count).for_each(|n| outbox.head_mut(n)[0] = n as u8);
        outbox
    }

    #[test]
    fn a_train_arrives_whole_or_in_single_cars_as_the_receiver_likes() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            for trains in [true, false] {
                let (server, client, got) = pair(loopback, trains);
                assert_eq!(got.trains, trains);
                let outbox = numbered(10, 100);
                outbox.send_train(client.as_fd(), 10).unwrap();
                let (datagrams, pieces) = receive(&server, 10);
                assert_eq!(pieces, if trains { 1 } else { 10 }, "{loopback}");
                let numbers: Vec<u8> = datagrams.iter().map(|d| d[0]).collect();
                assert_eq!(numbers, (0..10).collect::<Vec<_>>());
                assert!(datagrams.iter().all(|d| d.len() == 100));
            }
        }
    }

    #[test]
    fn a_train_has_a_stamp() {
        let (server, client, got) = pair("127.0.0.1:0", true);
        assert!(got.stamps);
        let before = realtime_ns();
        numbered(3, 100).send_train(client.as_fd(), 3).unwrap();
        wait(&mut [readable(&server)]).unwrap();
        let mut trains = Trains::new(1);
        assert_eq!(trains.receive(server.as_fd()), Ok(1));
        let train = trains.iter().next().unwrap();
        assert_eq!(train.datagrams().map(<[u8]>::len).collect::<Vec<_>>(), [100, 100, 100]);
        assert!((before..=realtime_ns()).contains(&train.stamp_ns.unwrap()));
        assert_eq!(trains.receive(server.as_fd()), Ok(0));
    }

    #[test]
    fn many_datagrams_go_out_in_one_call_and_stay_apart() {
        let (server, client, _) = pair("127.0.0.1:0", true);
        let outbox = numbered(5, 64);
        assert_eq!(outbox.send(client.as_fd(), 1, 5), Ok(4));
        let (datagrams, _) = receive(&server, 4);
        assert_eq!(datagrams.iter().map(|d| d[0]).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn of_a_datagram_of_which_only_the_head_is_wanted_the_length_is_told() {
        let (server, client, _) = pair("127.0.0.1:0", false);
        assert_eq!(numbered(2, 1000).send(client.as_fd(), 0, 2), Ok(2));
        client.send(&[9; 5]).unwrap();
        let (mut heads, mut got) = (Trains::heads(3), Vec::new());
        while got.len() < 3 {
            wait(&mut [readable(&server)]).unwrap();
            assert!(heads.receive(server.as_fd()).unwrap() > 0);
            got.extend(heads.iter().map(|t| (t.bytes[0], t.bytes.len(), t.beyond)));
        }
        assert_eq!(got, [(0, 16, 984), (1, 16, 984), (9, 5, 0)]);
    }

    #[test]
    fn what_the_sockets_own_buffer_dropped_is_counted() {
        let (server, client, _) = pair("127.0.0.1:0", true);
        prepare_receiving(server.as_fd(), 4096, false);
        assert_eq!(fill(server.as_fd()).map(|f| (f.used, f.drops)), Some((0, 0)));
        let outbox = numbered(64, 1000);
        assert_eq!(outbox.send(client.as_fd(), 0, 64), Ok(64));
        // A busy kernel may take its time; a test that hangs is ended.
        let look = || fill(server.as_fd()).unwrap();
        while look().drops == 0 {
            std::thread::yield_now();
        }
        let full = look();
        assert!(full.used > 0 && full.room >= 4096, "{full:?}");
        let (mut trains, mut kept) = (Trains::new(64), 0);
        while kept + look().drops as usize != 64 {
            kept += trains.receive(server.as_fd()).unwrap();
            assert!(kept < 64, "none was dropped");
        }
    }
}
