//! Connections that wait for a delayed acknowledgement, seen several times while we watch.
//!
//! ```text
//!   sender:    write ─ segment 1 ──►        write: too small for a segment, and one is unacknowledged: Nagle holds it
//!   receiver:              waits 40 ms for something to send an acknowledgement with
//!   TCP_INFO of the sender meanwhile: unacked 1, notsent < mss, idle for some milliseconds, nothing lost
//! ```

use quell_host::sockets::Sockets;
use quell_netlink::sock_diag::{DiagSocket, TcpState};
use std::collections::BTreeMap;

/// Most connections that are followed.
const MOST: usize = 256;

/// How often each connection was seen to wait so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Looks in all.
    pub looks: u32,
    /// By the kernel's number for the socket.
    pub seen: BTreeMap<u64, u32>,
}

impl Stalls {
    /// Takes a look.
    pub fn look(&mut self, sockets: &Sockets) {
        self.looks += 1;
        for socket in sockets.tcp.iter().filter(|socket| waits(socket)) {
            if self.seen.len() < MOST || self.seen.contains_key(&socket.cookie) {
                *self.seen.entry(socket.cookie).or_default() += 1;
            }
        }
    }
}

/// Whether a connection waits for an acknowledgement that nothing but its being delayed explains: far longer than its path takes, and
/// without a loss.
pub fn waits(socket: &DiagSocket) -> bool {
    let Some(info) = &socket.info else { return false };
    let held = info.notsent_bytes.unwrap_or(0);
    let path_ms = info.min_rtt.unwrap_or(info.rtt) / 1000;
    socket.state == TcpState::Established
        && info.unacked == 1
        && held > 0
        && held < info.snd_mss
        && info.lost == 0
        && info.retrans == 0
        && info.backoff == 0
        && info.last_data_sent > path_ms
}
