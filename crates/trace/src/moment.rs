//! Moments of a connection: what happened, to whose data, and which packets show it.

use crate::time::{Time, millis_or_null};
use quell_units::Span;
use serde::Serialize;

/// One of the two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionEnd {
    /// Who opened it, or, if that was not captured, who was seen first.
    Client,
    Server,
}

impl ConnectionEnd {
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpEvent {
    /// A small segment left right upon the ACK of an earlier one (Nagle, RFC 896).
    Held,
    /// Sent again after a silence: the retransmission timer (RFC 6298), or a tail loss probe (RFC 8985).
    Timer,
    /// Sent again in the wake of a timer.
    AfterTimer,
    /// Sent again upon duplicate or selective ACKs.
    FastRetransmit,
    /// Sent again, and nothing in the capture tells why.
    SentAgain,
    /// A SYN, or its answer, sent again.
    SynAgain,
    ZeroWindow,
    /// The sender had sent all that the receiver's window lets it.
    FullWindow,
    /// Came behind data that was sent after it.
    OutOfOrder,
    /// The capture recorded an ACK before its data.
    AckBeforeData,
    Reset,
    /// Answered by a reset instead of being opened.
    Refused,
}

impl TcpEvent {
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held until an ACK came",
            Self::Timer => "sent again by a timer",
            Self::AfterTimer => "sent again after a timer",
            Self::FastRetransmit => "fast retransmission",
            Self::SentAgain => "sent again",
            Self::SynAgain => "SYN sent again",
            Self::ZeroWindow => "zero window",
            Self::FullWindow => "full window",
            Self::OutOfOrder => "out of order",
            Self::AckBeforeData => "ACK recorded before its data",
            Self::Reset => "reset",
            Self::Refused => "refused",
        }
    }

    pub(crate) fn is_retransmission(self) -> bool {
        matches!(
            self,
            Self::Timer
                | Self::AfterTimer
                | Self::FastRetransmit
                | Self::SentAgain
                | Self::SynAgain
        )
    }
}

/// Something that happened. Packets are numbered as tcpdump counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TcpMoment {
    /// When the waiting began, or, where nobody waited, when it happened.
    #[serde(skip)]
    pub time: Time,
    /// Whose data it is about; who reset.
    pub side: ConnectionEnd,
    pub event: TcpEvent,
    #[serde(rename = "waited_ms", serialize_with = "millis_or_null")]
    pub waited: Option<Span>,
    /// Payload of the segment that it is about, in bytes; of a window its size.
    pub length: u32,
    pub packets: [Option<u64>; 3],
}
