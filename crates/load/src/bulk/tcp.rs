//! One TCP connection, as fast as it goes.

use super::{Ended, Limit, Patience, Tally, Woken, noise};
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::socket::bulk_stream::{Source, discard_some, send_some, waits};
use quell_sys::socket::option::set_bytes;
use quell_sys::socket::stream::Stream;
use quell_sys::wait::Bell;
use std::os::fd::{AsFd, BorrowedFd};

/// What a receiver takes off the queue at most in one call.
const MOST: usize = 4 << 20;

/// How the payload comes to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copying {
    /// From the program's memory, as programs do it (`send`).
    #[default]
    Once,
    /// Not at all: the kernel reads a file in its page cache (`sendfile`), as web servers do it.
    None,
}

/// What to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSending {
    /// Bytes in one call.
    pub block: usize,
    /// When it is done.
    pub limit: Limit,
    /// Most bytes a second, kept by the kernel packet by packet (`SO_MAX_PACING_RATE`).
    pub pacing: Option<u64>,
    /// Whether the payload is copied on its way.
    pub copying: Copying,
}

impl Default for TcpSending {
    fn default() -> Self {
        Self { block: 256 << 10, limit: Limit::NONE, pacing: None, copying: Copying::Once }
    }
}

/// What to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpReceiving {
    /// When it is done.
    pub limit: Limit,
}

/// Sends until the limit, or until the bell rings. The connection stays open: what was counted is in the kernel's hands, not yet at
/// the other end.
///
/// Errors when the connection breaks: `EPIPE` or `ECONNRESET` when the other end is gone.
pub fn tcp_send(
    stream: &Stream,
    what: &TcpSending,
    tally: &Tally,
    stop: &Bell,
) -> Result<Ended, SysError> {
    let fd = stream.as_fd();
    if let Some(rate) = what.pacing {
        let text = format!("the pacing rate to {rate} bytes per second");
        let bytes = rate.to_ne_bytes();
        set_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes, &text)?;
    }
    let payload = noise(what.block.max(1));
    match what.copying {
        Copying::Once => send_all(fd, what, tally, stop, |most| send_some(fd, &payload[..most])),
        Copying::None => {
            let source = Source::new(&payload)?;
            let mut at = 0;
            waits(fd, false)?;
            let ended = send_all(fd, what, tally, stop, |most| {
                let sent = source.send_some(fd, at, most.min(source.length() - at))?;
                at = (at + sent) % source.length();
                Ok(sent)
            });
            waits(fd, true)?;
            ended
        }
    }
}

fn send_all(
    fd: BorrowedFd<'_>,
    what: &TcpSending,
    tally: &Tally,
    stop: &Bell,
    mut send: impl FnMut(usize) -> Result<usize, Errno>,
) -> Result<Ended, SysError> {
    let mut patience = Patience::new(stop, what.limit.end_ns)?;
    let mut left = what.limit.bytes.unwrap_or(u64::MAX);
    let block = what.block.max(1);
    while left > 0 {
        if let Some(ended) = patience.over() {
            return Ok(ended);
        }
        match send(usize::try_from(left).unwrap_or(block).min(block)) {
            Ok(sent) => {
                left -= sent as u64;
                tally.bytes.add(sent as u64);
                tally.calls.add(1);
            }
            Err(Errno::EAGAIN) => {
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

/// Takes what comes and throws it away, until the limit, until the other end has sent all, or until the bell rings.
///
/// Errors when the connection breaks: `ECONNRESET` when the other end broke it off, `ETIMEDOUT` when it is not heard any more.
pub fn tcp_receive(
    stream: &Stream,
    what: &TcpReceiving,
    tally: &Tally,
    stop: &Bell,
) -> Result<Ended, SysError> {
    let fd = stream.as_fd();
    let mut patience = Patience::new(stop, what.limit.end_ns)?;
    let mut left = what.limit.bytes.unwrap_or(u64::MAX);
    while left > 0 {
        if let Some(ended) = patience.over() {
            return Ok(ended);
        }
        match discard_some(fd, usize::try_from(left).unwrap_or(MOST).min(MOST)) {
            Ok(0) => return Ok(Ended::Closed),
            Ok(got) => {
                left -= got as u64;
                tally.bytes.add(got as u64);
                tally.calls.add(1);
            }
            Err(Errno::EAGAIN) => {
                if let Woken::End(ended) = patience.until_readable(fd)? {
                    return Ok(ended);
                }
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(broken("receive over a TCP connection", errno)),
        }
    }
    Ok(Ended::Done)
}

fn broken(tried: &str, errno: Errno) -> SysError {
    let error = SysError::new(tried, errno);
    match errno {
        Errno::EPIPE | Errno::ECONNRESET => error.advise("the other end broke it off"),
        Errno::ETIMEDOUT => error.advise("the other end is not heard any more"),
        _ => error,
    }
}
