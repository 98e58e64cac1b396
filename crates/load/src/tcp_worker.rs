//! What a connection's own thread does: send or receive, blocked in the kernel, until the end.
//!
//! **Few system calls.** A sender hands over 256 KiB at a time; the kernel wakes it when a third of the send buffer is free
//! (`sk_stream_write_space`), within the one call. A receiver discards up to 1 MiB at a time without copying (`MSG_TRUNC`); in the lab's
//! kernel it asks for that once and for all (ADR 0017).
//!
//! **MSG_WAITALL is no such loop.** It acknowledges between two segments where a reader would have taken both, and offers less window.
//!
//! **SO_RCVLOWAT is left alone.** It would save wake-ups (`tcp_data_ready` stays silent below it), and Linux 6.1 does take care that
//! ACKs go on (`__tcp_ack_snd_check` acknowledges at once while less than the mark waits) and that a full window wakes the reader
//! (`tcp_epollin_ready`). But what waits unread lies in the receive buffer: it is missing from the window that is offered
//! (`__tcp_select_window`), and a mark above half the buffer even enlarges buffer and window clamp (`tcp_set_rcvlowat`). So a fixed
//! window would be measured smaller, and an autotuned one larger, than an ordinary program has it.

use crate::flow::{Ending, Flow, MOST};
use nix::errno::Errno;
use quell_sys::socket::stream::TcpSocket;

const CHUNK: usize = 256 * 1024;

/// Sends zeros until the limit, the end or an error. With a limit, waits until the other end has it all.
pub(crate) fn send(flow: &Flow) -> Ending {
    static ZEROS: [u8; CHUNK] = [0; CHUNK];
    let mut left = flow.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let chunk = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        match flow.stream.write(&ZEROS[..chunk]) {
            Ok(sent) if flow.limit.is_some() => left -= sent as u64,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Ending::Broken(errno),
        }
    }
    flow.stream.finish();
    to_the_end(&flow.stream)
}

/// Reads until the other end closes, which it does when it has everything.
fn to_the_end(stream: &TcpSocket) -> Ending {
    loop {
        match stream.discard(MOST) {
            Ok(0) => return Ending::Complete,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Ending::Broken(errno),
        }
    }
}

/// Receives and counts until the other end finishes, or an error.
pub(crate) fn receive(flow: &Flow) -> Ending {
    loop {
        match flow.stream.discard_on(&flow.received) {
            Ok(0) => {
                // So that the sender knows that all is here.
                flow.stream.finish();
                return Ending::Complete;
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Ending::Broken(errno),
        }
    }
}
