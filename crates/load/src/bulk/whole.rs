//! A whole transfer over one TCP connection, by the fewest system calls: both ends wait inside them.
//!
//! ```text
//!   send     256 KiB a call; the kernel copies as room comes                   ends when the other end has it all
//!   receive  1 GiB a call, MSG_WAITALL and MSG_TRUNC: the kernel takes each    ends when the other end finishes
//!            segment off the queue as it comes, without coming back to us
//! ```
//!
//! Nobody can ring here: whoever wants it to end breaks the connection off ([`Stream::abort`]). The receiver is woken for each segment as any
//! program that reads at once is, so that window, buffer and acknowledgements are what such a program has; but the wake-up ends in the
//! kernel's `tcp_recvmsg_locked`, and only the last one in the program. In a guest of the lab, where a system call costs more than a segment, that is
//! what a fast transfer's time went to. What has come while a call lasts is not in the tally: the connection itself tells it
//! (`TCP_INFO`, `tcpi_bytes_received`).

use super::tcp::broken;
use super::{Ended, Tally, payload};
use nix::errno::Errno;
use quell_sys::SysError;
use quell_sys::socket::stream::Stream;

/// Bytes that a sender hands over in one call. The kernel marks the last segment of each with PSH.
const CHUNK: usize = 256 << 10;
/// Bytes that a receiver asks for in one call. Below 2 GiB, which is the most that a call can take.
const MOST: usize = 1 << 30;

/// Sends so many bytes and waits until the other end has them all and says so; without a number sends until the connection ends.
///
/// Errors when the connection breaks, or is broken off.
pub fn tcp_send_whole(
    stream: &Stream,
    bytes: Option<u64>,
    tally: &Tally,
) -> Result<Ended, SysError> {
    let payload = &payload()[..CHUNK];
    let mut left = bytes.unwrap_or(u64::MAX);
    while left > 0 {
        let chunk = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        match stream.write(&payload[..chunk]) {
            Ok(sent) => {
                tally.moved(sent);
                if bytes.is_some() {
                    left -= sent as u64;
                }
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(broken("send over a TCP connection", errno)),
        }
    }
    stream.finish();
    // The other end finishes when it has everything.
    take_all(stream, |_| {})
}

/// Takes what comes and throws it away until the other end has sent all, and tells it that all is here.
///
/// Errors when the connection breaks, or is broken off.
pub fn tcp_receive_whole(stream: &Stream, tally: &Tally) -> Result<Ended, SysError> {
    let ended = take_all(stream, |got| tally.moved(got))?;
    stream.finish();
    Ok(ended)
}

fn take_all(stream: &Stream, mut took: impl FnMut(usize)) -> Result<Ended, SysError> {
    loop {
        match stream.discard_all(MOST) {
            Ok(0) => return Ok(Ended::Closed),
            Ok(got) => took(got),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(broken("receive over a TCP connection", errno)),
        }
    }
}
