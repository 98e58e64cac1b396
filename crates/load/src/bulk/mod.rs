//! Data movers: as many bytes or datagrams as go, over sockets that stand already.
//!
//! ```text
//!   a thread of the caller's: tcp_send, tcp_receive, udp_send, udp_receive ──► counts as it goes ──► Tally, UdpTally
//!                                          ▲                                                          ▲
//!                                   Bell: stop                               a ticker reads them whenever it likes
//! ```
//!
//! Each mover works until its [`Limit`], until the other end closes, until an error, or until somebody rings. It waits in the kernel,
//! for socket, bell and time at once, and never spins. What a mover has counted stays true when it fails.
//!
//! **What is not copied.** A TCP receiver throws away what came without copying it to user space (`MSG_TRUNC`); a TCP sender with
//! [`Copying::None`] lets the kernel read the page cache. Both measure what network and kernel carry, not what a program does with it.

mod gate;
mod loss_recorder;
mod pacer;
mod schedule;
mod tally;
mod tcp;
mod udp_receive;
mod udp_send;

pub use gate::{Gate, Open};
pub use pacer::HEADERS;
pub use tally::{Tally, UdpCounts, UdpTally};
pub use tcp::{Copying, TcpSending, tcp_receive, tcp_send};
pub use udp_receive::{UdpReceiving, udp_receive};
pub use udp_send::{UdpSending, udp_send};

use nix::poll::PollFd;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk_stream::PayloadFile;
use quell_sys::wait::{Alarm, Bell, came, readable, wait, writable};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// When a mover is done by itself. Without either: never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limit {
    /// After so many bytes of payload; a sender of datagrams sends the last one whole.
    pub bytes: Option<u64>,
    pub end_ns: Option<u64>,
}

impl Limit {
    pub const NONE: Self = Self { bytes: None, end_ns: None };

    pub fn until(end_ns: u64) -> Self {
        Self { end_ns: Some(end_ns), ..Self::NONE }
    }

    pub fn bytes(bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..Self::NONE }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Done,
    Stopped,
    /// The other end closed the connection, after all its data.
    Closed,
}

/// The numbers at the start of each datagram of a test, as iperf3 has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UdpHeader {
    /// Seconds, microseconds, packet number from 1: 32 bits each, big-endian.
    #[default]
    Bits32,
    /// The packet number has 64 bits (`--udp-counters-64bit`).
    Bits64,
}

impl UdpHeader {
    /// Bytes of it; no datagram of a test is shorter.
    pub const fn size(self) -> usize {
        match self {
            Self::Bits32 => 12,
            Self::Bits64 => 16,
        }
    }

    /// Writes time of sending (nanoseconds of any clock) and packet number; nothing into a datagram that is too short.
    pub fn write(self, datagram: &mut [u8], sent_ns: u64, number: u64) {
        let Some(head) = datagram.get_mut(..self.size()) else { return };
        head[..4].copy_from_slice(&((sent_ns / 1_000_000_000) as u32).to_be_bytes());
        head[4..8].copy_from_slice(&((sent_ns % 1_000_000_000 / 1000) as u32).to_be_bytes());
        match self {
            Self::Bits32 => head[8..12].copy_from_slice(&(number as u32).to_be_bytes()),
            Self::Bits64 => head[8..16].copy_from_slice(&number.to_be_bytes()),
        }
    }

    /// Time of sending in nanoseconds and packet number; none when the datagram is too short.
    pub fn read(self, datagram: &[u8]) -> Option<(u64, u64)> {
        let head = datagram.get(..self.size())?;
        let be32 =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let sent_ns = u64::from(be32(0)) * 1_000_000_000 + u64::from(be32(4)) * 1000;
        let number = match self {
            Self::Bits32 => be32(8).into(),
            Self::Bits64 => (u64::from(be32(8)) << 32) | u64::from(be32(12)),
        };
        Some((sent_ns, number))
    }
}

/// Rings are looked for at least this often while there is always something to do.
const LOOK_NS: u64 = 5_000_000;

struct Patience<'a> {
    stop: &'a Bell,
    alarm: Alarm,
    end_ns: u64,
    look_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    Ready,
    End(Ended),
}

impl<'a> Patience<'a> {
    fn new(stop: &'a Bell, end_ns: Option<u64>) -> Result<Self, SysError> {
        let mut alarm = Alarm::new()?;
        alarm.set(end_ns)?;
        Ok(Self { stop, alarm, end_ns: end_ns.unwrap_or(u64::MAX), look_ns: 0 })
    }

    /// Whether to end now, looked at between two calls that did not wait.
    fn over(&mut self) -> Option<Ended> {
        self.over_at(monotonic_ns())
    }

    fn over_at(&mut self, now: u64) -> Option<Ended> {
        if now >= self.end_ns {
            return Some(Ended::Done);
        }
        if now >= self.look_ns {
            self.look_ns = now.saturating_add(LOOK_NS);
            if self.stop.rings() {
                return Some(Ended::Stopped);
            }
        }
        None
    }

    fn until_writable(&self, fd: BorrowedFd<'_>) -> Result<Woken, SysError> {
        self.until(&mut [readable(self.stop), readable(&self.alarm), writable(&fd)])
    }

    /// Until there is something to read, or a nap is over.
    fn until_readable(&self, fd: BorrowedFd<'_>, nap: Option<&Alarm>) -> Result<Woken, SysError> {
        let (stop, end) = (readable(self.stop), readable(&self.alarm));
        match nap {
            Some(nap) => self.until(&mut [stop, end, readable(&fd), readable(nap)]),
            None => self.until(&mut [stop, end, readable(&fd)]),
        }
    }

    /// Until an alarm, whatever the socket has.
    fn until_alarm(&self, alarm: &Alarm) -> Result<Woken, SysError> {
        self.until(&mut [readable(self.stop), readable(&self.alarm), readable(alarm)])
    }

    fn until(&self, fds: &mut [PollFd<'_>]) -> Result<Woken, SysError> {
        wait(fds)?;
        Ok(match (came(&fds[0]), came(&fds[1])) {
            (true, _) => Woken::End(Ended::Stopped),
            (_, true) => Woken::End(Ended::Done),
            _ => Woken::Ready,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payload {
    #[default]
    Random,
    /// Digits, again and again (iperf3's `--repeating-payload`): what a link that compresses makes small.
    Digits,
}

const PAYLOAD: usize = 1 << 20;

/// Bytes that no link compresses, the same in each run and for all movers of a process: many streams take no more memory than one.
fn payload(kind: Payload) -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    static DIGITS: OnceLock<Vec<u8>> = OnceLock::new();
    match kind {
        Payload::Random => BYTES.get_or_init(|| {
            let mut rng = quell_stats::Rng::new(0x5175_656c_6c21);
            (0..PAYLOAD / 8).flat_map(|_| rng.u64().to_le_bytes()).collect()
        }),
        Payload::Digits => {
            DIGITS.get_or_init(|| (0..PAYLOAD).map(|at| b'0' + (at % 10) as u8).collect())
        }
    }
}

fn payload_file(kind: Payload) -> Result<Arc<PayloadFile>, SysError> {
    static FILES: [Mutex<Weak<PayloadFile>>; 2] = [const { Mutex::new(Weak::new()) }; 2];
    let mut file = FILES[kind as usize].lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(source) = file.upgrade() {
        return Ok(source);
    }
    let source = Arc::new(PayloadFile::new(payload(kind))?);
    *file = Arc::downgrade(&source);
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_when_and_which_in_both_widths() {
        for (header, number) in
            [(UdpHeader::Bits32, u64::from(u32::MAX)), (UdpHeader::Bits64, 1 << 40)]
        {
            let mut datagram = vec![0; header.size()];
            header.write(&mut datagram, 7_000_123_999, number);
            assert_eq!(header.read(&datagram), Some((7_000_123_000, number)));
            assert_eq!(header.read(&datagram[1..]), None);
        }
    }
}
