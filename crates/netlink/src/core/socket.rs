//! The socket: numbering, sending, waiting for the answer that belongs to a request.
//!
//! ```text
//!   request_ack  ──▶ message, ACK       ◀── error 0 | refusal with extended ACK
//!   request      ──▶ message, ACK       ◀── replies…, error 0
//!   dump         ──▶ message, DUMP      ◀── replies…, DONE    (again from the start when the table changed meanwhile)
//!   batch        ──▶ message, message…  ◀── one answer for each that asked for one
//!   request_all  ──▶ message, message…  ◀── one answer for each, some dozens at a time
//!   dump_all     ──▶ a few tables       ◀── their ends, where they are empty; each of the others once more, alone
//! ```

use super::attr::AttrReader;
use super::error::{Cause, DecodeError, NetlinkError, Offender};
use super::message::{HEADER, Message, RawReply, Reply, flags, split_datagram};
use nix::errno::Errno;
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockType, bind, connect, recv, send,
};
use nix::sys::time::{TimeVal, TimeValLike};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The kernel answers at once; this long means that something is wrong with it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_BUFFER: usize = 32 * 1024;
/// The kernel's dumps come in pieces of at most 32 KiB; only single large objects are bigger.
const LARGEST_DATAGRAM: usize = 16 * 1024 * 1024;
const DUMP_ATTEMPTS: u32 = 16;
/// Requests in a datagram: their answers must fit into the usual receive buffer of 208 KiB, each about a kilobyte there.
const MOST_REQUESTS: usize = 64;
/// Bytes of requests in a datagram, of which the usual send buffer holds three.
const LONGEST_REQUESTS: usize = 64 * 1024;
/// Tables that are asked for at once: the kernel takes a buffer of 32 KiB for the end of each.
const TABLES_AT_ONCE: usize = 4;

/// The kernel's part that a socket talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Links, addresses, routes, neighbours, queues (`NETLINK_ROUTE`).
    Route,
    /// Socket statistics (`NETLINK_SOCK_DIAG`).
    SockDiag,
    /// nftables and conntrack (`NETLINK_NETFILTER`).
    Netfilter,
    /// Families with names: ethtool, wireguard (`NETLINK_GENERIC`).
    Generic,
}

impl Protocol {
    fn number(self) -> libc::c_int {
        match self {
            Self::Route => libc::NETLINK_ROUTE,
            Self::SockDiag => libc::NETLINK_SOCK_DIAG,
            Self::Netfilter => libc::NETLINK_NETFILTER,
            Self::Generic => libc::NETLINK_GENERIC,
        }
    }
}

/// A blocking netlink socket with a deadline. It belongs to the network namespace that the thread
/// was in when it was opened, also if the thread moves later.
///
/// After [`Cause::Timeout`] or [`Cause::Answer`] take a new one: the kernel may still be in the
/// middle of a table, and would answer the next one with `EBUSY`.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    protocol: Protocol,
    sequence: u32,
    pub(super) timeout: Duration,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// Errors when the kernel has no such protocol (`EPROTONOSUPPORT`).
    pub fn open(protocol: Protocol) -> Result<Self, NetlinkError> {
        let tried = || format!("open a netlink socket for {protocol:?}");
        let system = |call| move |errno| NetlinkError::system(tried(), call, errno);
        // nix has no name for some of the protocols, so the call is made directly. SAFETY:
        // socket(2) has no memory arguments; a non-negative result is a descriptor that nobody else
        // owns.
        let fd = unsafe {
            let raw = Errno::result(libc::socket(
                AddressFamily::Netlink as libc::c_int,
                SockType::Raw as libc::c_int | SockFlag::SOCK_CLOEXEC.bits(),
                protocol.number(),
            ))
            .map_err(system("socket"))?;
            OwnedFd::from_raw_fd(raw)
        };
        // Port 0: as the own one "pick one for me", as the other end's "the kernel".
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(system("bind"))?;
        connect(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).map_err(system("connect"))?;
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            switch_on(&fd, option).map_err(system("setsockopt"))?;
        }
        Ok(Self::over(fd, protocol))
    }

    /// A conversation over a descriptor that keeps datagrams apart.
    pub(super) fn over(fd: OwnedFd, protocol: Protocol) -> Self {
        let buffer = vec![0; FIRST_BUFFER];
        Self { fd, protocol, sequence: 0, timeout: DEFAULT_TIMEOUT, buffer }
    }

    /// The part of the kernel that this socket talks to.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Sends a request and waits until the kernel has carried it out.
    pub fn request_ack(&mut self, message: &Message) -> Result<(), NetlinkError> {
        self.request(message).map(drop)
    }

    /// Sends a request and returns what the kernel answered before it acknowledged.
    pub fn request(&mut self, message: &Message) -> Result<Vec<Reply>, NetlinkError> {
        let (sequence, sent) = self.send_one(message, message.flags() | flags::ACK)?;
        let mut replies = Vec::new();
        self.receive(message.tried(), |reply| {
            if reply.sequence != sequence {
                return Ok(SendProgress::More);
            }
            match i32::from(reply.kind) {
                libc::NLMSG_ERROR => acknowledgement(message.tried(), &reply, &sent),
                libc::NLMSG_NOOP => Ok(SendProgress::More),
                _ => {
                    replies.push(keep(&reply));
                    Ok(SendProgress::More)
                }
            }
        })?;
        Ok(replies)
    }

    /// Reads a whole table and hands each entry to `each`.
    ///
    /// When the table changes while it is read (`NLM_F_DUMP_INTR`), reading starts again; `each`
    /// sees only the entries of one consistent reading.
    pub fn dump(
        &mut self,
        message: &Message,
        mut each: impl FnMut(&Reply) -> Result<(), DecodeError>,
    ) -> Result<(), NetlinkError> {
        for _ in 0..DUMP_ATTEMPTS {
            if let Some(replies) = self.dump_once(message)? {
                return replies
                    .iter()
                    .try_for_each(&mut each)
                    .map_err(|why| NetlinkError::answer(message.tried(), why));
            }
        }
        Err(NetlinkError {
            tried: message.tried().to_owned(),
            cause: Cause::KeptChanging { attempts: DUMP_ATTEMPTS },
        })
    }

    /// Reads a table of which nothing is kept: each entry is handed on as it comes, so that a table of any length takes no memory. One that
    /// changes meanwhile may show an entry twice or not at all.
    pub fn stream(
        &mut self,
        message: &Message,
        mut each: impl FnMut(&Reply) -> Result<(), DecodeError>,
    ) -> Result<(), NetlinkError> {
        let (sequence, sent) = self.send_one(message, message.flags() | flags::DUMP)?;
        self.receive(message.tried(), |reply| {
            if reply.sequence != sequence {
                return Ok(SendProgress::More);
            }
            match i32::from(reply.kind) {
                libc::NLMSG_DONE => finish_dump(message.tried(), &reply),
                libc::NLMSG_ERROR => acknowledgement(message.tried(), &reply, &sent),
                libc::NLMSG_NOOP => Ok(SendProgress::More),
                _ => match each(&keep(&reply)) {
                    Ok(()) => Ok(SendProgress::More),
                    Err(why) => Err(NetlinkError::answer(message.tried(), why)),
                },
            }
        })
    }

    /// Sends several messages in one datagram and waits for the acknowledgement of each that
    /// carries [`flags::ACK`]. Returns the first refusal.
    ///
    /// Whether earlier messages stay in force when a later one is refused is up to the family:
    /// nftables undoes the whole batch, rtnetlink does not.
    pub fn batch(&mut self, messages: &[Message]) -> Result<(), NetlinkError> {
        let Some(first) = messages.first() else { return Ok(()) };
        let all: Vec<&Message> = messages.iter().collect();
        let (base, sent) = self.send_all(&all, 0).map_err(|(_, error)| error)?;
        let asks = |(_, message): &(u32, &Message)| message.flags() & flags::ACK != 0;
        let numbered = (0..).map(|n| base.wrapping_add(n)).zip(messages);
        let mut waiting: BTreeSet<u32> = numbered.filter(asks).map(|(number, _)| number).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.receive(first.tried(), |reply| {
            let index = reply.sequence.wrapping_sub(base) as usize;
            if let (Some(message), libc::NLMSG_ERROR) = (messages.get(index), reply.kind.into()) {
                acknowledgement(message.tried(), &reply, &sent[index])?;
                waiting.remove(&reply.sequence);
            }
            Ok(if waiting.is_empty() { SendProgress::Done } else { SendProgress::More })
        })
    }

    /// Sends requests, some dozens in a datagram, and waits until the kernel has carried all of them out: thousands take one call for dozens
    /// instead of two for each.
    ///
    /// # Errors
    /// The first that was refused, by its number from 0, and the answer. Those before it are in force, and perhaps some behind it.
    pub fn request_all(&mut self, messages: &[&Message]) -> Result<(), (usize, NetlinkError)> {
        let mut first = 0;
        while first < messages.len() {
            let mut bytes = 0;
            let fits = |message: &&&Message| {
                bytes += HEADER + message.payload().len();
                bytes <= LONGEST_REQUESTS
            };
            let many = messages[first..].iter().take(MOST_REQUESTS).take_while(fits).count();
            let next = first + many.max(1);
            self.request_some(&messages[first..next])
                .map_err(|(number, error)| (first + number, error))?;
            first = next;
        }
        Ok(())
    }

    fn request_some(&mut self, messages: &[&Message]) -> Result<(), (usize, NetlinkError)> {
        let (base, sent) = self.send_all(messages, flags::ACK)?;
        let tried = messages[0].tried();
        let (mut left, mut refused) = (messages.len(), None);
        let received = self.receive(tried, |reply| {
            let index = reply.sequence.wrapping_sub(base) as usize;
            if let (Some(message), libc::NLMSG_ERROR) = (messages.get(index), reply.kind.into()) {
                left -= 1;
                if let Err(error) = acknowledgement(message.tried(), &reply, &sent[index]) {
                    refused.get_or_insert((index, error));
                }
            }
            Ok(if left == 0 { SendProgress::Done } else { SendProgress::More })
        });
        match (refused, received) {
            (Some(refused), _) => Err(refused),
            (None, received) => received.map_err(|error| (0, error)),
        }
    }

    /// Reads several tables and hands each entry to `each`, with its table's number. Of those that are empty a few are asked for at once.
    pub fn dump_all(
        &mut self,
        messages: &[Message],
        mut each: impl FnMut(usize, &Reply) -> Result<(), DecodeError>,
    ) -> Result<(), NetlinkError> {
        for (chunk, some) in messages.chunks(TABLES_AT_ONCE).enumerate() {
            let empty = self.dump_some(some)?;
            for (index, message) in some.iter().enumerate().filter(|(index, _)| !empty[*index]) {
                self.dump(message, |reply| each(chunk * TABLES_AT_ONCE + index, reply))?;
            }
        }
        Ok(())
    }

    /// Asks for tables at once, and says which of them are empty. While the kernel is not done with one it answers `EBUSY` for those behind it.
    fn dump_some(&mut self, messages: &[Message]) -> Result<Vec<bool>, NetlinkError> {
        let all: Vec<&Message> = messages.iter().collect();
        let (base, sent) = self.send_all(&all, flags::DUMP).map_err(|(_, error)| error)?;
        let mut empty = vec![true; messages.len()];
        let mut over = vec![false; messages.len()];
        self.receive(messages[0].tried(), |reply| {
            let index = reply.sequence.wrapping_sub(base) as usize;
            let Some(message) = messages.get(index) else { return Ok(SendProgress::More) };
            empty[index] &= reply.flags & flags::DUMP_INTERRUPTED == 0;
            match i32::from(reply.kind) {
                libc::NLMSG_DONE => {
                    over[index] = true;
                    finish_dump(message.tried(), &reply)?;
                }
                libc::NLMSG_ERROR => {
                    over[index] = true;
                    match acknowledgement(message.tried(), &reply, &sent[index]) {
                        Err(error) if error.errno() == Some(Errno::EBUSY) => empty[index] = false,
                        other => drop(other?),
                    }
                }
                libc::NLMSG_NOOP => {}
                _ => empty[index] = false,
            }
            Ok(if over.iter().all(|over| *over) { SendProgress::Done } else { SendProgress::More })
        })?;
        Ok(empty)
    }

    /// Sends messages in one datagram.
    fn send_all(
        &mut self,
        messages: &[&Message],
        flags: u16,
    ) -> Result<SentBatch, (usize, NetlinkError)> {
        for (number, message) in messages.iter().enumerate() {
            refuse_oversized(message).map_err(|error| (number, error))?;
        }
        let base = self.sequence.wrapping_add(1);
        let (mut datagram, mut sent) = (Vec::new(), Vec::with_capacity(messages.len()));
        for message in messages {
            let sequence = self.next_sequence();
            let bytes = message.to_bytes_with(message.flags() | flags, sequence);
            datagram.extend_from_slice(&bytes);
            datagram.resize(datagram.len().next_multiple_of(4), 0);
            sent.push(bytes);
        }
        self.send(messages[0].tried(), &datagram).map_err(|error| (0, error))?;
        Ok((base, sent))
    }

    /// One reading of a table; `None` when it changed meanwhile.
    fn dump_once(&mut self, message: &Message) -> Result<Option<Vec<Reply>>, NetlinkError> {
        let (sequence, sent) = self.send_one(message, message.flags() | flags::DUMP)?;
        let mut replies = Vec::new();
        let mut interrupted = false;
        self.receive(message.tried(), |reply| {
            if reply.sequence != sequence {
                return Ok(SendProgress::More);
            }
            interrupted |= reply.flags & flags::DUMP_INTERRUPTED != 0;
            match i32::from(reply.kind) {
                libc::NLMSG_DONE => finish_dump(message.tried(), &reply),
                libc::NLMSG_ERROR => acknowledgement(message.tried(), &reply, &sent),
                libc::NLMSG_NOOP => Ok(SendProgress::More),
                _ => {
                    replies.push(keep(&reply));
                    Ok(SendProgress::More)
                }
            }
        })?;
        Ok((!interrupted).then_some(replies))
    }

    fn next_sequence(&mut self) -> u32 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    fn send_one(&mut self, message: &Message, flags: u16) -> Result<(u32, Vec<u8>), NetlinkError> {
        refuse_oversized(message)?;
        let sequence = self.next_sequence();
        let bytes = message.to_bytes_with(flags, sequence);
        self.send(message.tried(), &bytes)?;
        Ok((sequence, bytes))
    }

    fn send(&self, tried: &str, bytes: &[u8]) -> Result<(), NetlinkError> {
        loop {
            match send(self.fd.as_raw_fd(), bytes, MsgFlags::empty()) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(NetlinkError::system(tried, "send", errno)),
            }
        }
    }

    /// Receives until `handle` says that the answer is complete, or time is up.
    fn receive(
        &mut self,
        tried: &str,
        mut handle: impl FnMut(RawReply<'_>) -> Result<SendProgress, NetlinkError>,
    ) -> Result<(), NetlinkError> {
        let mut deadline = None;
        loop {
            let length = self.receive_datagram(tried, &mut deadline)?;
            for reply in split_datagram(&self.buffer[..length]) {
                let reply = reply.map_err(|why| NetlinkError::answer(tried, why))?;
                if handle(reply)? == SendProgress::Done {
                    return Ok(());
                }
            }
            self.left(tried, &mut deadline)?;
        }
    }

    /// What is left of the time until the deadline, which begins with the first question.
    fn left(&self, tried: &str, deadline: &mut Option<Instant>) -> Result<Duration, NetlinkError> {
        let now = Instant::now();
        let left = deadline.get_or_insert(now + self.timeout).saturating_duration_since(now);
        if left.is_zero() { Err(self.timed_out(tried)) } else { Ok(left) }
    }

    /// Receives one whole datagram into the buffer, which grows to its size first.
    fn receive_datagram(
        &mut self,
        tried: &str,
        deadline: &mut Option<Instant>,
    ) -> Result<usize, NetlinkError> {
        let peek = MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC;
        let size = self.receive_with(tried, deadline, peek, 0)?;
        if size > LARGEST_DATAGRAM {
            let why = format!("the answer has {size} bytes; at most {LARGEST_DATAGRAM} are taken");
            return Err(NetlinkError::invalid(tried, why));
        }
        if size > self.buffer.len() {
            self.buffer.resize(size.next_power_of_two(), 0);
        }
        self.receive_with(tried, deadline, MsgFlags::empty(), self.buffer.len())
    }

    /// Receives into the first `room` bytes of the buffer.
    ///
    /// Mostly the answer is there: the kernel gives it before it has taken the request (`netlink_rcv_skb`). So the clock is looked at, and
    /// the time to wait set, only where it is not.
    fn receive_with(
        &mut self,
        tried: &str,
        deadline: &mut Option<Instant>,
        how: MsgFlags,
        room: usize,
    ) -> Result<usize, NetlinkError> {
        let mut now = MsgFlags::MSG_DONTWAIT;
        loop {
            match recv(self.fd.as_raw_fd(), &mut self.buffer[..room], how | now) {
                Ok(length) => return Ok(length),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if !now.is_empty() => now = MsgFlags::empty(),
                Err(Errno::EAGAIN) => return Err(self.timed_out(tried)),
                Err(errno) => return Err(NetlinkError::system(tried, "recv", errno)),
            }
            let left = self.left(tried, deadline)?;
            // A receive timeout of zero means "for ever", hence at least one microsecond.
            let left = i64::try_from(left.as_micros()).unwrap_or(i64::MAX).max(1);
            socket::setsockopt(
                &self.fd,
                socket::sockopt::ReceiveTimeout,
                &TimeVal::microseconds(left),
            )
            .map_err(|errno| NetlinkError::system(tried, "setsockopt", errno))?;
        }
    }

    fn timed_out(&self, tried: &str) -> NetlinkError {
        NetlinkError { tried: tried.to_owned(), cause: Cause::Timeout(self.timeout) }
    }
}

/// The number of the first of several messages, and all of them as they were sent.
type SentBatch = (u32, Vec<Vec<u8>>);

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Whether the answer is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendProgress {
    More,
    Done,
}

fn keep(reply: &RawReply<'_>) -> Reply {
    Reply { kind: reply.kind, flags: reply.flags, payload: reply.payload.to_vec() }
}

fn refuse_oversized(message: &Message) -> Result<(), NetlinkError> {
    match message.oversized() {
        Some(kind) => Err(NetlinkError {
            tried: message.tried().to_owned(),
            cause: Cause::Oversized { kind },
        }),
        None => Ok(()),
    }
}

/// A table's end carries an error number when reading it failed half way.
fn finish_dump(tried: &str, reply: &RawReply<'_>) -> Result<SendProgress, NetlinkError> {
    match reply.payload.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes)) {
        Some(code) if code < 0 => {
            let attributes = reply.payload.get(4..).unwrap_or_default();
            Err(refusal(tried, code, attributes, &[]))
        }
        _ => Ok(SendProgress::Done),
    }
}

/// NLMSG_ERROR: an error number (0: it worked), the request's header or the whole request, then
/// attributes.
fn acknowledgement(
    tried: &str,
    reply: &RawReply<'_>,
    sent: &[u8],
) -> Result<SendProgress, NetlinkError> {
    let Some((head, _)) = reply.payload.split_first_chunk::<{ 4 + HEADER }>() else {
        let got = reply.payload.len();
        let why = DecodeError::Truncated { what: "acknowledgement", wanted: 4 + HEADER, got };
        return Err(NetlinkError::answer(tried, why));
    };
    let code = i32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
    if code == 0 {
        return Ok(SendProgress::Done);
    }
    let attributes = if reply.flags & flags::ACK_ATTRIBUTES == 0 {
        &[][..]
    } else {
        let request = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let echoed = if reply.flags & flags::ACK_CAPPED == 0 { request } else { HEADER };
        let start = 4usize.saturating_add(echoed.next_multiple_of(4));
        reply.payload.get(start..).unwrap_or_default()
    };
    Err(refusal(tried, code, attributes, sent))
}

/// A refusal with what the extended ACK adds. A malformed extension is left out: the error number
/// is what matters.
fn refusal(tried: &str, code: i32, attributes: &[u8], sent: &[u8]) -> NetlinkError {
    let mut kernel_says = None;
    let mut offender = None;
    for attr in AttrReader::new(attributes).flatten() {
        // `NLMSGERR_ATTR_MSG`, `_OFFS`, `_MISS_TYPE`.
        match attr.kind {
            1 => kernel_says = attr.str().ok().map(str::to_owned),
            2 => {
                offender = attr.u32().ok().map(|offset| Offender::Attribute {
                    offset,
                    kind: attribute_kind_at(sent, offset),
                });
            }
            5 => {
                offender = offender.or(attr.u32().ok().map(Offender::Missing));
            }
            _ => {}
        }
    }
    let errno = Errno::from_raw(code.saturating_neg());
    NetlinkError { tried: tried.to_owned(), cause: Cause::Refused { errno, kernel_says, offender } }
}

fn attribute_kind_at(sent: &[u8], offset: u32) -> Option<u16> {
    let start = usize::try_from(offset).ok()?.checked_add(2)?;
    let bytes = sent.get(start..start.checked_add(2)?)?;
    Some(u16::from_ne_bytes([bytes[0], bytes[1]]) & 0x3fff)
}

fn switch_on(fd: &OwnedFd, option: libc::c_int) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    // SAFETY: the pointer and length describe `on`, which lives through the call.
    let code = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_NETLINK,
            option,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    Errno::result(code).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_reply(payload: &[u8], flags: u16) -> RawReply<'_> {
        RawReply { kind: libc::NLMSG_ERROR as u16, flags, sequence: 1, payload }
    }

    #[test]
    fn an_extended_ack_gives_the_kernels_words_and_the_offending_attribute() {
        let mut request = Message::with_header("make it", 16, 0, &[0; 16]);
        request.attrs().u32(4, 9);
        let sent = request.to_bytes(1);
        let mut payload = (-22i32).to_ne_bytes().to_vec();
        payload.extend_from_slice(&sent[..HEADER]);
        let mut writer = super::super::AttrWriter::new();
        writer.str(1, "Invalid MTU").u32(2, 32);
        payload.extend_from_slice(writer.as_bytes());
        let error = acknowledgement(
            "make it",
            &error_reply(&payload, flags::ACK_CAPPED | flags::ACK_ATTRIBUTES),
            &sent,
        )
        .unwrap_err();
        assert_eq!(error.errno(), Some(Errno::EINVAL));
        assert_eq!(
            error.to_string(),
            "could not make it: the kernel answered EINVAL, Invalid argument, \"Invalid MTU\", about \
             attribute 4 at byte 32"
        );
    }

    #[test]
    fn a_cut_acknowledgement_is_an_error_not_a_success() {
        let error = acknowledgement("x", &error_reply(&[0; 4], 0), &[]).unwrap_err();
        assert!(matches!(error.cause, Cause::Answer(DecodeError::Truncated { .. })));
    }

    #[test]
    fn the_kernel_refuses_nonsense_with_a_reason() {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        // RTM_GETLINK for an interface that can't exist.
        let mut header = [0u8; 16];
        header[4..8].copy_from_slice(&i32::MAX.to_ne_bytes());
        let message = Message::with_header("get link", 18, 0, &header);
        let error = socket.request(&message).unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENODEV));
    }

    #[test]
    fn a_dump_of_links_shows_loopback() {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        let mut indices = Vec::new();
        let message = Message::with_header("list links", 18, 0, &[0; 16]);
        socket
            .dump(&message, |reply| {
                let (header, attrs) = reply.split::<16>()?;
                indices.push(i32::from_ne_bytes([header[4], header[5], header[6], header[7]]));
                assert!(attrs.find(3)?.is_some());
                Ok(())
            })
            .unwrap();
        assert!(indices.contains(&1));
    }

    #[test]
    fn no_answer_ends_in_a_timeout() {
        let mut socket = Socket::open(Protocol::Route).unwrap();
        socket.timeout = Duration::from_millis(5);
        let error = socket.receive("hear something", |_| Ok(SendProgress::Done)).unwrap_err();
        assert!(matches!(error.cause, Cause::Timeout(_)));
    }
}
