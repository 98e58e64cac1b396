//! What two Quells tell each other beyond iperf3, inside its parameters and results.
//!
//! Everything is optional when read, so that versions can differ.

use super::DatagramLog;
use super::shown::{name, word};
use super::token::HelloToken;
use serde::{Deserialize, Serialize};

/// What a Quell client asks of a Quell server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wishes {
    /// The version of this addition: 1.
    pub version: u32,
    /// Milliseconds between looks at a stream's state; 0 for none.
    pub look_ms: u32,
    /// Congestion control of each stream that the server sends, in their order; shorter lists repeat.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub congestion: Vec<String>,
    /// The server shall not copy what it sends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub zero_copy: bool,
    /// Streams come from another address than the control connection. Before the first over UDP, the client opens a TCP connection from there
    /// with the test's cookie, and waits for one byte.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
    /// Milliseconds between reports of what the server sees while data flows; 0 for none. A server that knows of them says the first one,
    /// with nothing in it, before data flows.
    #[serde(skip_serializing_if = "is_none")]
    pub reports_ms: u32,
    /// An amount of datagrams is what the server sends, whether they come or not. Clients of 0.1 wait until it came.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bounded: bool,
    /// What the hellos of its UDP streams carry, if the server says that it knows of it. Servers of 0.1 and iperf3's do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<HelloToken>,
    /// Of the one stream of datagrams each way, each that comes is logged and told in the results.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub log: bool,
    /// Milliseconds of the test, where they are no whole seconds; `time` then is rounded up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
    /// Milliseconds at the start that do not count, where they are no whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omit_ms: Option<u64>,
}

/// Longest report that is read, in bytes.
pub const LONGEST_REPORT: usize = 1024;

/// What a Quell server sees of a test while data flows, from its start and of all its streams together; see [`Wishes::reports_ms`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// Datagrams that came, of those from the client.
    pub packets: u64,
    /// Datagrams that were sent, as far as their numbers tell.
    pub expected: u64,
    /// Jitter (RFC 3550) in nanoseconds: the mean of the streams, each weighing as many datagrams as came.
    pub jitter_ns: u64,
    /// Segments that the server sent again.
    pub retransmits: u64,
    /// Round-trip time in microseconds of the server's TCP, that of the stream with most.
    pub srtt_us: u64,
    /// The server's congestion windows together, in bytes.
    pub cwnd: u64,
}

fn is_none(reports_ms: &u32) -> bool {
    *reports_ms == 0
}

/// What a Quell server (or client) adds to its results.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// The version of this addition: 1.
    pub version: u32,
    pub host: Host,
    /// Its counters when data began to flow and when it had ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<HostCounters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<HostCounters>,
    pub streams: Vec<PartStream>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    #[serde(deserialize_with = "name")]
    pub quell: String,
    /// `uname -r`.
    #[serde(deserialize_with = "name")]
    pub kernel: String,
    /// How many CPUs the process may use.
    pub cpus: u32,
    /// CPU time of the whole host during the test in percent of all CPUs; none where it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_busy: Option<f64>,
}

/// What a host's kernel counted since its start (`/proc/net/snmp`, `/proc/net/netstat`, link and queue statistics).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostCounters {
    /// TCP segments sent again (`RetransSegs`).
    pub retransmitted: u64,
    /// Retransmission timeouts (`TCPTimeouts`).
    pub timeouts: u64,
    /// TCP segments that were dropped since a socket's buffer was full (`TCPRcvQDrop`, `PruneCalled` …).
    pub tcp_dropped: u64,
    /// Datagrams dropped since a socket's buffer was full (`RcvbufErrors`).
    pub udp_receive_dropped: u64,
    /// Datagrams that found no room on sending (`SndbufErrors`).
    pub udp_send_dropped: u64,
    /// Packets that the test's device dropped on receiving.
    pub device_receive_dropped: u64,
    /// Packets that the test's device dropped on sending.
    pub device_send_dropped: u64,
    /// Packets that the test's device received with errors.
    pub device_errors: u64,
    /// Packets that the queues of the test's device dropped.
    pub queue_dropped: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartStream {
    /// Its number: 1, 3, 4 …
    pub id: u32,
    /// Congestion control, where this end sends.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "word")]
    pub congestion: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
    /// Send buffer in bytes, as the kernel counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<u64>,
    /// Receive buffer in bytes, as the kernel counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<u64>,
    /// The part of its time in which what moved the data was on a CPU or waited for one, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toil: Option<f64>,
    /// The part of its time in which this end read nothing, since the rate that it allows was used up, from 0 to 1. Of a receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<f64>,
    /// Datagrams that came after one with a higher number.
    pub out_of_order: u64,
    /// Further copies of datagrams.
    pub duplicates: u64,
    /// Datagrams that this end's own socket dropped for want of room: no loss of the network.
    pub socket_dropped: u64,
    /// Datagrams that came to this end's socket and are not of the stream.
    pub foreign: u64,
    /// Times between arrivals: how many of them were shorter than each bound in nanoseconds (the bound before excluded).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<(u64, u64)>,
    /// The longest of them in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_gap_ns: Option<u64>,
    /// Of a receiver of one stream of datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<LossRecord>,
    #[serde(skip_serializing_if = "DatagramLog::is_empty")]
    pub log: DatagramLog,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<Moment>,
}

/// When the datagrams of a stream came, as far as a policer shows in it; times in nanoseconds from the first one's arrival.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LossRecord {
    /// How many came before the first that was lost, and when the last of these did.
    pub before: u64,
    pub before_ns: u64,
    /// When datagrams came of which the one before was lost, and how many had come by then: the first, ever fewer, and the last.
    pub behind: Vec<(u64, u64)>,
    /// By how much the fastest of the first of these took longer than the fastest before; none where a clock was set.
    pub longer_ns: Option<i64>,
}

/// The state of a stream at one time; counts from the stream's start, omitted seconds included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// Nanoseconds since the test's start at this end.
    pub t_ns: i64,
    pub bytes: u64,
    /// Datagrams; 0 for TCP.
    #[serde(skip_serializing_if = "is_zero")]
    pub packets: u64,
    /// Datagrams lost so far, at a receiver.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub retransmits: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub cwnd: u64,
    /// Smoothed round-trip time in microseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub srtt_us: u64,
    /// Variation of the round-trip time in microseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub rttvar_us: u64,
    /// The kernel's estimate of the delivery rate in bytes a second.
    #[serde(skip_serializing_if = "is_zero")]
    pub delivery_rate: u64,
    /// Least round-trip time of the last minutes in microseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub min_rtt_us: u64,
    /// Bytes that the other end has room for (its window).
    #[serde(skip_serializing_if = "is_zero")]
    pub window: u64,
    /// Bytes that the other end acknowledged.
    #[serde(skip_serializing_if = "is_zero")]
    pub acked: u64,
    /// Bytes written and not yet sent.
    #[serde(skip_serializing_if = "is_zero")]
    pub unsent: u64,
    /// Time with something to send, in microseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub busy_us: u64,
    /// Of that, time in which the other end's window held it up.
    #[serde(skip_serializing_if = "is_zero")]
    pub window_limited_us: u64,
    /// Of that, time in which the own send buffer held it up.
    #[serde(skip_serializing_if = "is_zero")]
    pub buffer_limited_us: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub pmtu: u64,
    /// Segments that arrived out of order, at a receiver.
    #[serde(skip_serializing_if = "is_zero")]
    pub out_of_order: u64,
    /// Segments that were delivered with a congestion mark.
    #[serde(skip_serializing_if = "is_zero")]
    pub marked: u64,
    /// Rate at which the kernel lets segments out, in bytes a second; 0 where it does not hold them back.
    #[serde(skip_serializing_if = "is_zero")]
    pub pacing_rate: u64,
    /// The rate that was set for that, in bytes a second; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub pacing_limit: u64,
    /// Bytes on their way: sent, and neither acknowledged nor thought lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub in_flight: u64,
    /// Bytes of a full segment that this end sends.
    #[serde(skip_serializing_if = "is_zero")]
    pub segment: u64,
    /// Whether the send buffer had no room for more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub full: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addition_comes_out_as_it_went_in_and_leaves_out_what_is_nothing() {
        let moment = Moment { t_ns: -5, bytes: 7, retransmits: 2, ..Moment::default() };
        let stream = PartStream {
            id: 3,
            gaps: vec![(1000, 4)],
            moments: vec![moment],
            ..PartStream::default()
        };
        let part = Part { version: 1, streams: vec![stream], ..Part::default() };
        let text = serde_json::to_string(&part).unwrap();
        assert_eq!(serde_json::from_str::<Part>(&text).unwrap(), part);
        assert!(text.contains(r#"{"t_ns":-5,"bytes":7,"retransmits":2}"#), "{text}");
        assert_eq!(serde_json::from_str::<Part>("{}").unwrap(), Part::default());
    }
}
