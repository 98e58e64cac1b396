//! The rows of a run's three tables, as agents send them. The store adds the cell's columns (scenario, probe, repeat) and the
//! stream's name.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// What became of one probe packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum EchoStatus {
    Ok,
    /// A further reply to a packet that was answered already.
    Duplicate,
    /// No reply, and it can't be told in which direction the packet was lost.
    Lost,
    LostUp,
    LostDown,
    /// The kernel refused to send it, or an ICMP error came back.
    Error,
    /// Sent so shortly before the end that no reply could have come by then: not counted. If it was said to be lost before, its row takes the place
    /// of that one.
    Unfinished,
    /// The reply came after a longer time than is waited for. Its row takes the place of one that said it was lost.
    Late,
    /// An answer came, and nobody can know whether it was to what was sent first or to what the kernel sent again, the first being lost; or
    /// none came, and it was not waited for so long that it must be lost. It counts as sent, and neither as answered nor as lost. Its row takes
    /// the place of one that said it was lost.
    Unsure,
    /// Never under way: the own queue had no room for it. It does not count as sent.
    NotSent,
}

impl EchoStatus {
    pub const NAMES: [(EchoStatus, &'static str); 10] = [
        (EchoStatus::Ok, "ok"),
        (EchoStatus::Duplicate, "duplicate"),
        (EchoStatus::Lost, "lost"),
        (EchoStatus::LostUp, "lost-up"),
        (EchoStatus::LostDown, "lost-down"),
        (EchoStatus::Error, "error"),
        (EchoStatus::Unfinished, "unfinished"),
        (EchoStatus::Late, "late"),
        (EchoStatus::Unsure, "unsure"),
        (EchoStatus::NotSent, "not-sent"),
    ];

    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(s, _)| *s == self).map_or("lost", |(_, n)| n)
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(_, n)| *n == name).map(|(s, _)| *s)
    }

    /// Whether a reply to the packet came, be it late.
    pub fn is_answered(self) -> bool {
        matches!(self, EchoStatus::Ok | EchoStatus::Late)
    }

    pub fn is_lost(self) -> bool {
        matches!(self, EchoStatus::Lost | EchoStatus::LostUp | EchoStatus::LostDown)
    }
}

/// One probe packet of an echo-like probe (ICMP echo, UDP stream). One row a packet sent, one more for each duplicate.
/// As events they may hold two of a packet: first that it was lost, then that it was late, unsure, or could not be awaited. [`latest`] leaves the
/// second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EchoSample {
    /// When it was sent: nanoseconds since the start of the measurement.
    pub t_ns: i64,
    /// Sequence number within the stream, from 0.
    pub seq: u64,
    /// Round-trip time in nanoseconds, by kernel timestamps where there are any. What the reflector took between receiving and
    /// answering is left out where it tells that.
    pub rtt_ns: Option<u64>,
    /// One-way delay to the reflector in nanoseconds. Needs clocks in step (in the lab they are the same clock).
    pub up_ns: Option<i64>,
    /// One-way delay back in nanoseconds.
    pub down_ns: Option<i64>,
    /// The reflector's own count of packets when it answered this one: the order of arrival there.
    pub up_order: Option<u64>,
    /// The order of arrival of replies at the prober, from 0.
    pub down_order: Option<u64>,
    /// How long after the kernel's receive timestamp the program saw the reply, in nanoseconds: a large value means that this
    /// machine was short of CPU.
    pub seen_late_ns: Option<u64>,
    /// How long the packet waited in this host's own queue, from where the kernel took it to where the device's driver did, in
    /// nanoseconds. It is part of the round-trip time. None where the kernel did not say.
    pub queued_ns: Option<u64>,
    /// How long after it was due the packet was sent, in nanoseconds: a large value means that this machine was short of CPU. It
    /// is no part of the round-trip time. None where nothing was due at a time.
    pub sent_late_ns: Option<u64>,
    /// Size in bytes: UDP or ICMP payload.
    pub bytes: u32,
    pub status: EchoStatus,
}

impl EchoSample {
    /// A packet of which nothing is known but what became of it.
    pub fn new(t_ns: i64, seq: u64, bytes: u32, status: EchoStatus) -> Self {
        Self {
            t_ns,
            seq,
            rtt_ns: None,
            up_ns: None,
            down_ns: None,
            up_order: None,
            down_order: None,
            seen_late_ns: None,
            queued_ns: None,
            sent_late_ns: None,
            bytes,
            status,
        }
    }
}

/// Leaves of each packet what was said last: one that was late or unsure, or that nobody could wait for, is no longer lost.
pub fn latest(samples: &mut Vec<EchoSample>) {
    let taken_back = |s: &&EchoSample| {
        matches!(s.status, EchoStatus::Late | EchoStatus::Unfinished | EchoStatus::Unsure)
    };
    let taken_back: HashSet<u64> = samples.iter().filter(taken_back).map(|s| s.seq).collect();
    if !taken_back.is_empty() {
        samples.retain(|s| !(s.status.is_lost() && taken_back.contains(&s.seq)));
    }
}

/// Which end of a flow reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Side {
    Sender,
    /// The end that receives it; its bytes are goodput.
    Receiver,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Sender => "sender",
            Side::Receiver => "receiver",
        }
    }
}

/// What TCP says of a connection at the sender (`struct tcp_info`, linux/tcp.h).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpState {
    /// Segments retransmitted so far (`tcpi_total_retrans`); none where who wrote it did not tell, as Flent.
    pub retransmits: Option<u64>,
    /// Congestion window in segments; 0 where not known.
    pub cwnd: u32,
    /// Smoothed RTT in microseconds.
    pub srtt_us: u32,
    /// Least RTT seen in microseconds.
    pub min_rtt_us: u32,
    /// The kernel's delivery rate estimate in bytes per second.
    pub delivery_rate: u64,
    /// Pacing rate in bytes per second; `u64::MAX` when not paced.
    pub pacing_rate: u64,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Bytes in the send queue that were not sent yet.
    pub notsent_bytes: u32,
}

/// The state of a flow at one time. Bytes and packets are cumulative from the flow's start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSample {
    /// Nanoseconds since the start of the measurement.
    pub t_ns: i64,
    pub side: Side,
    /// Payload bytes sent (sender: handed to the kernel and, for TCP, acknowledged) or received so far.
    pub bytes: u64,
    /// Datagrams so far; for TCP, 0.
    pub packets: u64,
    /// TCP's own view; none for UDP and for receivers.
    pub tcp: Option<TcpState>,
}

/// The state of one queue at one time. Counters are cumulative from the queue's creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// Nanoseconds since the start of the measurement.
    pub t_ns: i64,
    /// `node:device`.
    pub device: String,
    /// Handle or class id as `tc` prints it: `1:` or `1:10`.
    pub handle: String,
    /// Kind: `fq_codel`, `htb` …; for a class, `htb class`.
    pub kind: String,
    pub backlog_bytes: u64,
    pub backlog_packets: u64,
    pub drops: u64,
    /// Packets marked CE (RFC 3168), where the queue counts them.
    pub marks: u64,
    pub packets: u64,
    pub bytes: u64,
}
