//! What the kernel tells of a handshake (`TCP_INFO`, tcp(7)): how often its SYN was sent again, how long the answer took.

use super::option::get_bytes;
use std::os::fd::BorrowedFd;

/// Where `tcpi_rtt` stands in `struct tcp_info` (linux/tcp.h), in microseconds.
const RTT: usize = 68;
/// Where `tcpi_total_retrans` stands.
const RETRANSMITTED: usize = 100;
/// Where `tcpi_segs_in` stands.
const RECEIVED: usize = 140;
/// Half of the time after which a SYN is sent again (`TCP_TIMEOUT_INIT`, include/net/tcp.h).
const HALF_REPEAT_NS: u64 = 500_000_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handshake {
    pub repeated: u32,
    /// The kernel's own measure from the SYN to its answer, in nanoseconds, exact to a microsecond; none where the connection did not come about.
    pub rtt_ns: Option<u64>,
    /// Segments that came for it, its answer among them (RFC 4898, `tcpEStatsPerfSegsIn`). Sooner than its answer comes what is about the connection before it from the
    /// same port, of which the other end did not hear that it is over: a challenge ACK (RFC 5961, section 4), or a SYN-ACK that is sent again.
    pub received: u32,
}

impl Handshake {
    /// Reads it from a socket that connects.
    pub fn read(fd: BorrowedFd<'_>) -> Self {
        let mut info = [0; RECEIVED + 4];
        let read = get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).unwrap_or(0);
        let number = |place: usize| -> u32 {
            let bytes = info[..read].get(place..place + 4).and_then(|b| b.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let rtt_us = Some(number(RTT)).filter(|rtt| *rtt > 0);
        Self {
            repeated: number(RETRANSMITTED),
            rtt_ns: rtt_us.map(|us| u64::from(us) * 1000),
            received: number(RECEIVED),
        }
    }

    /// Whether it was the first SYN that was answered, so long after it was sent: then the kernel's measure, by the timestamp that the answer brings
    /// back, is of all the time that passed, and not of at least a second less. None where there is no measure.
    pub fn is_answer_to_first(&self, passed_ns: u64) -> Option<bool> {
        match self.repeated {
            0 => Some(true),
            _ => Some(self.rtt_ns?.saturating_add(HALF_REPEAT_NS) > passed_ns),
        }
    }
}
