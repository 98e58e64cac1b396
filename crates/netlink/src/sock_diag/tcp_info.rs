//! `struct tcp_info` (`include/uapi/linux/tcp.h`): a connection's state as its kernel sees it.
//!
//! The structure grows at its end from version to version; the kernel says how much of it there is
//! by its length. The same bytes come from `getsockopt(TCP_INFO)`.

use crate::core::DecodeError;
use serde::{Deserialize, Serialize};

/// A connection's state (RFC 9293), numbered as the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum TcpState {
    /// Data may flow.
    Established = 1,
    /// SYN sent.
    SynSent = 2,
    /// SYN received.
    SynReceived = 3,
    /// We closed first.
    FinWait1 = 4,
    /// We closed first, and that is acknowledged.
    FinWait2 = 5,
    /// Waiting for old segments to die out.
    TimeWait = 6,
    /// Not in use.
    Closed = 7,
    /// The other end closed first.
    CloseWait = 8,
    /// The other end closed first, we closed, and that is not yet acknowledged.
    LastAck = 9,
    /// Waiting for connections.
    Listen = 10,
    /// Both closed at once.
    Closing = 11,
    /// Half-open, kept apart by the kernel until the handshake is done (`TCP_NEW_SYN_RECV`).
    NewSynReceived = 12,
}

impl TcpState {
    /// The bits of all states.
    pub const ALL: u32 = 0x1ffe;

    /// The state's bit in a filter.
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// The state of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Established,
            2 => Self::SynSent,
            3 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            12 => Self::NewSynReceived,
            _ => return None,
        })
    }
}

/// What every kernel since 2.6 gives: up to `tcpi_total_retrans`.
const OLDEST: usize = 104;

macro_rules! tcp_info {
    (
        always { $($(#[$doc:meta])* $name:ident: $type:ty = $offset:literal,)* }
        newer { $($(#[$newer_doc:meta])* $newer:ident: $newer_type:ty = $newer_offset:literal,)* }
    ) => {
        /// The state of a TCP connection. Times are in microseconds unless the field says
        /// otherwise. A field is `None` when the kernel that told it is too old to know it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub struct TcpInfo {
            /// The connection's state; none for a number that this program does not know.
            pub state: Option<TcpState>,
            /// The window scale that the other end announced (RFC 7323).
            pub snd_wscale: u8,
            /// The window scale that we announced.
            pub rcv_wscale: u8,
            $($(#[$doc])* pub $name: $type,)*
            $($(#[$newer_doc])* pub $newer: Option<$newer_type>,)*
        }

        impl TcpInfo {
            /// Reads as much as `bytes` holds. Errors when it is shorter than any kernel's.
            pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
                if bytes.len() < OLDEST {
                    return Err(DecodeError::Truncated {
                        what: "tcp_info",
                        wanted: OLDEST,
                        got: bytes.len(),
                    });
                }
                Ok(Self {
                    state: TcpState::from_number(bytes[0]),
                    snd_wscale: bytes[6] & 0xf,
                    rcv_wscale: bytes[6] >> 4,
                    $($name: <$type>::from_ne_bytes(at(bytes, $offset).unwrap_or_default()),)*
                    $($newer: at(bytes, $newer_offset).map(<$newer_type>::from_ne_bytes),)*
                })
            }
        }
    };
}

fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

tcp_info! {
    always {
        /// Timeouts in a row without progress.
        retransmits: u8 = 2,
        /// Window probes without answer.
        probes: u8 = 3,
        /// Doublings of the retransmission timeout.
        backoff: u8 = 4,
        /// Bits: 1 timestamps, 2 SACK, 4 window scaling, 8 ECN, 16 ECN seen, 32 SYN data.
        options: u8 = 5,
        /// Retransmission timeout.
        rto: u32 = 8,
        /// Sender's segment size, bytes.
        snd_mss: u32 = 16,
        /// Estimate of the other end's segment size, bytes.
        rcv_mss: u32 = 20,
        /// Segments in flight (for a listener: connections waiting).
        unacked: u32 = 24,
        /// Segments acknowledged selectively.
        sacked: u32 = 28,
        /// Segments thought lost.
        lost: u32 = 32,
        /// Retransmitted segments in flight.
        retrans: u32 = 36,
        /// Milliseconds since data was last sent.
        last_data_sent: u32 = 44,
        /// Milliseconds since data was last received.
        last_data_recv: u32 = 52,
        /// Path MTU, bytes.
        pmtu: u32 = 60,
        /// Receiver's window threshold, bytes.
        rcv_ssthresh: u32 = 64,
        /// Smoothed round-trip time.
        rtt: u32 = 68,
        /// Its mean deviation.
        rttvar: u32 = 72,
        /// Congestion window, segments.
        snd_cwnd: u32 = 80,
        /// Segment size that we announced, bytes.
        advmss: u32 = 84,
        /// Reordering distance seen, segments.
        reordering: u32 = 88,
        /// Receiver's estimate of the round-trip time.
        rcv_rtt: u32 = 92,
        /// Receiver's buffer target, bytes.
        rcv_space: u32 = 96,
        /// Segments retransmitted since the start.
        total_retrans: u32 = 100,
    }
    newer {
        /// Pacing rate, bytes per second; all ones is "unlimited".
        pacing_rate: u64 = 104,
        /// Largest pacing rate, bytes per second.
        max_pacing_rate: u64 = 112,
        /// Bytes that the other end acknowledged (RFC 4898).
        bytes_acked: u64 = 120,
        /// Bytes received in order (RFC 4898).
        bytes_received: u64 = 128,
        /// Bytes written and not yet sent.
        notsent_bytes: u32 = 144,
        /// Smallest round-trip time of the last minutes.
        min_rtt: u32 = 148,
        /// Segments received that carried data.
        data_segs_in: u32 = 152,
        /// Segments sent that carried data.
        data_segs_out: u32 = 156,
        /// Delivery rate, bytes per second.
        delivery_rate: u64 = 160,
        /// Time with something to send.
        busy_time: u64 = 168,
        /// Time of it limited by the other end's window.
        rwnd_limited: u64 = 176,
        /// Time of it limited by our send buffer.
        sndbuf_limited: u64 = 184,
        /// Segments delivered, selectively acknowledged ones included.
        delivered: u32 = 192,
        /// Segments of them that were marked CE.
        delivered_ce: u32 = 196,
        /// Bytes sent, retransmissions included.
        bytes_sent: u64 = 200,
        /// Bytes retransmitted.
        bytes_retrans: u64 = 208,
        /// Duplicate-SACKs received: retransmissions that were not needed.
        dsack_dups: u32 = 216,
        /// Reordering events.
        reord_seen: u32 = 220,
        /// Segments received out of order.
        rcv_ooopack: u32 = 224,
        /// The other end's window, bytes (5.4 and later).
        snd_wnd: u32 = 228,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_structure_from_an_old_kernel_lacks_the_newer_fields() {
        let mut bytes = [0u8; 148];
        bytes[0] = 1;
        bytes[6] = 0x79;
        bytes[68..72].copy_from_slice(&20_000u32.to_ne_bytes());
        bytes[144..148].copy_from_slice(&99u32.to_ne_bytes());
        let info = TcpInfo::from_bytes(&bytes).unwrap();
        assert_eq!(info.state, Some(TcpState::Established));
        assert_eq!((info.snd_wscale, info.rcv_wscale), (9, 7));
        assert_eq!(info.rtt, 20_000);
        assert_eq!(info.notsent_bytes, Some(99));
        assert_eq!(info.min_rtt, None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(TcpInfo::from_bytes(&bytes).is_ok(), bytes.len() >= 104);
        }
    }
}
