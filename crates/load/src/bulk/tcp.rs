//! One TCP connection, as fast as it goes.

use super::gate::{Gate, wait_for, wait_until};
use super::pacer::Pacer;
use super::{Ended, Limit, Patience, Payload, Tally, Woken, payload, payload_file};
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::bulk_stream::{discard_some, send_some, waits};
use quell_sys::socket::option::{get, set, set_bytes};
use quell_sys::socket::stream::TcpSocket;
use quell_sys::wait::{Alarm, Bell};
use std::os::fd::{AsFd, BorrowedFd};

/// What a receiver takes off the queue at most in one call.
const MOST: usize = 4 << 20;

/// A buffer that is read from the CPU's cache each time.
const HOT: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copying {
    /// From the program's memory, as programs do it (`send`).
    #[default]
    Once,
    /// Not at all: the kernel reads a file in its page cache (`sendfile`), as web servers do it.
    None,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSending {
    pub block: usize,
    pub limit: Limit,
    /// Bits of payload a second, kept by the writes: by time `t` no more than `rate · t` and one small piece was handed over.
    pub rate: Option<u64>,
    /// Most bytes a second, kept by the kernel packet by packet (`SO_MAX_PACING_RATE`), but not in the first ten segments.
    pub pacing: Option<u64>,
    /// Whether the payload is copied on its way.
    pub copying: Copying,
    pub payload: Payload,
}

/// Sends until the limit, or until the bell rings. The connection stays open: what was counted is in the kernel's hands, not yet at
/// the other end. Not a byte is handed to the kernel before the gate lets it through.
///
/// Errors when the connection breaks: `EPIPE` or `ECONNRESET` when the other end is gone.
pub fn tcp_send(
    gate: &dyn Gate,
    stream: &TcpSocket,
    what: &TcpSending,
    tally: &Tally,
    stop: &Bell,
) -> Result<Ended, SysError> {
    let fd = stream.as_fd();
    let pacer = pacer_of(gate, fd, what)?;
    let block = what.block.max(1);
    match what.copying {
        Copying::Once => {
            let payload = &payload(what.payload)[..block.min(HOT)];
            send_all((gate, pacer), fd, what, (tally, stop), |most| send_some(fd, payload, most))
        }
        Copying::None => {
            let source = payload_file(what.payload)?;
            let mut at = 0;
            waits(fd, false)?;
            let ended = send_all((gate, pacer), fd, what, (tally, stop), |most| {
                let sent = source.send_some(fd, at, most.min(source.length() - at))?;
                at = (at + sent) % source.length();
                Ok(sent)
            });
            waits(fd, true)?;
            ended
        }
    }
}

/// What keeps a connection to the rates that are wanted, its kernel told of them.
fn pacer_of(
    gate: &dyn Gate,
    fd: BorrowedFd<'_>,
    what: &TcpSending,
) -> Result<Option<Pacer>, SysError> {
    let pacer = match what.rate {
        Some(rate) => Some(paced(fd, rate, what.block.min(gate.most().unwrap_or(usize::MAX)))?),
        None => None,
    };
    let kernel = pacer.as_ref().map(Pacer::kernel);
    if let Some(rate) = [kernel, what.pacing].into_iter().flatten().min() {
        let text = format!("the pacing rate to {rate} bytes per second");
        let bytes = rate.to_ne_bytes();
        set_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes, &text)?;
    }
    Ok(pacer)
}

/// What keeps a connection to its rate from now on, at most `most` bytes a write.
fn paced(fd: BorrowedFd<'_>, rate: u64, most: usize) -> Result<Pacer, SysError> {
    let mss = get(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG)
        .map_err(|errno| SysError::new("ask for the segment size of a connection", errno))?;
    let mss = usize::try_from(mss).unwrap_or(0);
    let pacer = Pacer::new(monotonic_ns(), rate, mss, most);
    if pacer.cuts(mss, most) {
        set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1, "TCP_NODELAY")?;
    }
    Ok(pacer)
}

fn send_all(
    (gate, mut pacer): (&dyn Gate, Option<Pacer>),
    fd: BorrowedFd<'_>,
    what: &TcpSending,
    (tally, stop): (&Tally, &Bell),
    mut send: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<Ended, SysError> {
    let mut patience = Patience::new(stop, what.limit.end_ns)?;
    let mut left = what.limit.bytes.unwrap_or(u64::MAX);
    let block = what.block.min(gate.most().unwrap_or(usize::MAX)).max(1);
    let block = pacer.as_ref().map_or(block, Pacer::piece);
    // Of a piece that is due: what is not sent yet.
    let mut owed = 0;
    let mut passed = 0;
    while left > 0 {
        if let Some(ended) = patience.over() {
            return Ok(ended);
        }
        if passed == 0 {
            if owed == 0
                && let Some(pacer) = &mut pacer
                && let Some(ended) = wait_until(&patience, |now| pacer.take(now))?
            {
                return Ok(ended);
            }
            if owed == 0 || pacer.is_none() {
                owed = block;
            }
            passed = usize::try_from(left).unwrap_or(owed).min(owed);
            if let Some(ended) = wait_for(gate, passed, &patience)? {
                return Ok(ended);
            }
        }
        match send(passed) {
            Ok(sent) => {
                passed -= sent;
                owed -= sent;
                left -= sent as u64;
                tally.bytes.add(sent as u64);
            }
            Err(Errno::EAGAIN) => {
                // Who let it through did so for now, and not for when there is room.
                passed = 0;
                if let Woken::End(ended) = patience.until_writable(fd)? {
                    return Ok(ended);
                }
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(broken("send over a TCP connection", errno)),
        }
    }
    Ok(Ended::Done)
}

/// Takes what comes and throws it away, until the limit, until the other end has sent all, or until the bell rings. What the gate does not let
/// through yet waits in the socket, and TCP holds the sender back.
///
/// Errors when the connection breaks: `ECONNRESET` when the other end broke it off, `ETIMEDOUT` when it is not heard any more.
pub fn tcp_receive(
    gate: &dyn Gate,
    stream: &TcpSocket,
    limit: Limit,
    tally: &Tally,
    stop: &Bell,
) -> Result<Ended, SysError> {
    let fd = stream.as_fd();
    let mut patience = Patience::new(stop, limit.end_ns)?;
    let mut left = limit.bytes.unwrap_or(u64::MAX);
    let mut mark = LowWater::new(fd)?;
    let most = gate.most().unwrap_or(MOST);
    mark.allowed &= gate.most().is_none();
    while left > 0 {
        if let Some(ended) = patience.over() {
            return Ok(ended);
        }
        match discard_some(fd, usize::try_from(left).unwrap_or(most).min(most)) {
            Ok(0) => return Ok(Ended::Closed),
            Ok(got) => {
                left -= got as u64;
                tally.bytes.add(got as u64);
                tally.last_ns.set(monotonic_ns());
                mark.took(got as u64);
                if let Some(ended) = wait_for(gate, got, &patience)? {
                    return Ok(ended);
                }
            }
            Err(Errno::EAGAIN) => {
                let nap = mark.adjust(monotonic_ns())?;
                if let Woken::End(ended) = patience.until_readable(fd, nap)? {
                    // What waits below the mark came in time too.
                    if let Ok(rest @ 1..) =
                        discard_some(fd, usize::try_from(left).unwrap_or(most).min(most))
                    {
                        tally.bytes.add(rest as u64);
                        tally.last_ns.set(monotonic_ns());
                    }
                    return Ok(ended);
                }
            }
            Err(Errno::EINTR) => {}
            Err(errno) => {
                return Err(broken("receive over a TCP connection", errno));
            }
        }
    }
    Ok(Ended::Done)
}

/// How much has to wait before a fast receiver is woken (`SO_RCVLOWAT`): about what comes in a millisecond.
///
/// ```text
///   slower than 256 Mbit/s, or a window that was set by hand    woken for each segment
///   faster                                                     woken a thousand times a second; by a clock where the rate falls
/// ```
///
/// A wake-up of another CPU costs more than all else that a receiver does. What waits unread takes room from the window, so the
/// mark stays below an eighth of the receive buffer; that far it also leaves the kernel's sizing of the buffer alone
/// (`tcp_set_rcvlowat`).
struct LowWater<'a> {
    fd: BorrowedFd<'a>,
    allowed: bool,
    mark: u64,
    since_ns: u64,
    bytes: u64,
    nap: Alarm,
    nap_ends_ns: u64,
}

const NAP_NS: u64 = 1_000_000;
/// No mark below this: wake-ups are then no burden.
const LEAST_MARK: u64 = 32 << 10;
const MOST_MARK: u64 = 1 << 20;
const SPELL_NS: u64 = 4_000_000;
/// Longest time that anything waits below the mark.
const FALLBACK_NS: u64 = 10_000_000;
/// `SO_BUF_LOCK`'s bit: the receive buffer was set by hand (asm-generic/socket.h, since Linux 5.17).
const SO_BUF_LOCK: libc::c_int = 72;
const RCVBUF_LOCK: i32 = 2;

impl<'a> LowWater<'a> {
    fn new(fd: BorrowedFd<'a>) -> Result<Self, SysError> {
        let locks = get(fd, libc::SOL_SOCKET, SO_BUF_LOCK);
        let allowed = locks.is_ok_and(|locks| locks & RCVBUF_LOCK == 0);
        let nap = Alarm::new()?;
        Ok(Self { fd, allowed, mark: 1, since_ns: 0, bytes: 0, nap, nap_ends_ns: 0 })
    }

    fn took(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Before waiting: sets the mark by the rate of late. Where there is one, what to wait for beside the socket.
    fn adjust(&mut self, now: u64) -> Result<Option<&Alarm>, SysError> {
        let spell = now.saturating_sub(self.since_ns);
        if self.allowed && spell >= SPELL_NS {
            let buffer = get(self.fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap_or(0);
            let most = (buffer.max(0) as u64 / 8).min(MOST_MARK);
            let wanted = mark_for(self.bytes, spell, most);
            // The kernel looks whether to wake at each setting: not for little.
            if wanted.abs_diff(self.mark) > self.mark / 4 {
                let value = libc::c_int::try_from(wanted).unwrap_or(1);
                let what = "the low-water mark";
                self.allowed =
                    set(self.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, value, what).is_ok();
                self.mark = wanted;
            }
            (self.since_ns, self.bytes) = (now, 0);
        }
        if self.mark <= 1 {
            return Ok(None);
        }
        // Set only when it is over: not once a wait.
        if self.nap_ends_ns <= now {
            self.nap_ends_ns = now.saturating_add(FALLBACK_NS);
            self.nap.set(Some(self.nap_ends_ns))?;
        }
        Ok(Some(&self.nap))
    }
}

impl Drop for LowWater<'_> {
    fn drop(&mut self) {
        if self.mark > 1 {
            let _ = set(self.fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1, "the low-water mark");
        }
    }
}

/// The mark after so many bytes in so many nanoseconds.
fn mark_for(bytes: u64, spell_ns: u64, most: u64) -> u64 {
    let in_a_nap = u128::from(bytes) * u128::from(NAP_NS) / u128::from(spell_ns.max(1));
    let mark = u64::try_from(in_a_nap).unwrap_or(u64::MAX).min(most);
    if mark < LEAST_MARK { 1 } else { mark }
}

fn broken(tried: &str, errno: Errno) -> SysError {
    let error = SysError::new(tried, errno);
    match errno {
        Errno::EPIPE | Errno::ECONNRESET => error.advise("the other end broke it off"),
        Errno::ETIMEDOUT => error.advise("the other end is not heard any more"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fast_flow_has_a_mark_and_never_one_that_takes_the_window() {
        let spell = 4_000_000;
        assert_eq!(mark_for(0, spell, 1 << 20), 1);
        assert_eq!(mark_for(50_000, spell, 1 << 20), 1, "100 Mbit/s");
        assert_eq!(mark_for(500_000, spell, 1 << 20), 125_000, "1 Gbit/s: what comes in 1 ms");
        assert_eq!(mark_for(500_000, spell, 64_000), 64_000, "an eighth of the buffer");
        assert_eq!(mark_for(500_000, spell, 16_000), 1, "a small buffer has none");
        assert_eq!(mark_for(u64::MAX, 0, 1 << 20), 1 << 20);
    }
}
