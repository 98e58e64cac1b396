//! What a test gave, as it was counted: nothing here is judged yet.

use crate::FlowPlan;
use crate::LaneCounts;
use crate::latency::Latency;
use quell_load::own_queue::Standing;
use quell_stats::LogHistogram;
use quell_wire::iperf3::{
    DatagramLog, HostCounters, LossRecord, Moment, PartStream, Results, StreamResult,
};
use std::net::SocketAddr;
use std::time::SystemTime;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IntervalStream {
    pub id: u32,
    pub sends: bool,
    /// Counts of this interval, states at its end.
    pub mark: LaneCounts,
}

/// What a Quell server said of its end while data flowed, in the time since the line before, as far as it had come by then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Datagrams that were lost on their way there.
    pub lost: u64,
    pub jitter_ns: u64,
    pub retransmits: u64,
    pub srtt_us: u64,
    pub cwnd: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Seconds from where counting began; negative while it has not.
    pub start_s: f64,
    pub end_s: f64,
    pub omitted: bool,
    pub lanes: Vec<IntervalStream>,
    /// What the server said meanwhile; none of one that says nothing.
    pub heard: Option<ServerCounts>,
}

impl Interval {
    pub fn seconds(&self) -> f64 {
        (self.end_s - self.start_s).max(0.0)
    }

    pub fn rate(&self, up: bool) -> Option<f64> {
        let mut lanes = self.lanes.iter().filter(|lane| lane.sends == up).peekable();
        lanes.peek()?;
        let bytes: u64 = lanes.map(|lane| lane.mark.moment.bytes).sum();
        (self.seconds() > 0.0).then(|| bytes as f64 * 8.0 / self.seconds())
    }
}

#[derive(Debug, Clone)]
pub struct StreamMeasurement {
    pub id: u32,
    /// Its descriptor, by which iperf3 names it.
    pub number: i32,
    pub sends: bool,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Counts of the time that counts; states at its end.
    pub mark: LaneCounts,
    /// Counts of the time before, which does not count.
    pub omitted: LaneCounts,
    /// Bytes and datagrams that were handed to the kernel, or received, in all.
    pub moved: (u64, u64),
    /// The stream over time, from its start; times in nanoseconds from where counting began.
    pub moments: Vec<Moment>,
    /// Times between arrivals in the time that counts, at a receiver of datagrams.
    pub gaps: Option<LogHistogram>,
    pub longest_gap_ns: Option<u64>,
    /// Of a receiver of datagrams.
    pub losses: Option<LossRecord>,
    /// Of a receiver of datagrams, where it was asked for.
    pub log: DatagramLog,
    /// Seconds in which its data was counted at this end; none where that is no time, as of one datagram.
    pub seconds: Option<f64>,
    pub congestion: Option<String>,
    pub mss: Option<u32>,
    /// The part of its time in which what moved its data was on a CPU or waited for one, from 0 to 1; none where the kernel does not tell.
    pub toil: Option<f64>,
    /// Send and receive buffer in bytes as the kernel counts them.
    pub buffers: (Option<u64>, Option<u64>),
}

impl StreamMeasurement {
    /// That so many datagrams were sent to it in all, of which no more will come: what is missing behind the last one that did is lost too.
    pub(crate) fn all_sent(&mut self, sent: u64) {
        if self.sends {
            return;
        }
        let mark = &mut self.mark;
        mark.expected = mark.expected.max(sent.saturating_sub(self.omitted.expected));
        mark.moment.lost = mark.expected.saturating_sub(mark.moment.packets);
    }
}

#[derive(Debug)]
pub enum Progress<'a> {
    Connected {
        block: u64,
    },
    Started {
        latency: &'a Latency,
        /// Whether the server says what it sees while it goes.
        hears: bool,
    },
    Interval(&'a Interval),
    Ending,
}

/// A test that was carried out, perhaps not to its end.
#[derive(Debug, Clone)]
pub struct FlowMeasurement {
    pub plan: FlowPlan,
    /// When data began to flow, by the wall clock.
    pub started: SystemTime,
    /// The test's cookie, for iperf3's JSON.
    pub cookie: String,
    pub block: u64,
    pub control_mss: Option<u32>,
    /// Round-trip time of the connection to the server before the test, in microseconds.
    pub control_rtt_us: Option<u32>,
    pub path_mtu: Option<u32>,
    pub seconds: f64,
    pub lanes: Vec<StreamMeasurement>,
    pub intervals: Vec<Interval>,
    pub ours: Results,
    /// What the server told, as far as it can be; none where it got lost before.
    pub theirs: Option<Results>,
    pub doubts: Vec<String>,
    /// What this host's kernel counted during the test, other programs' traffic among it.
    pub here: Option<HostCounters>,
    /// What stood in the queues of the device that data left by or came in by, and what was dropped there; none where it could not be seen.
    pub own_queue: Option<Standing>,
    /// The same of the devices to which what comes in by that one is redirected.
    pub incoming: Vec<Standing>,
    pub latency: Latency,
    /// Why it ended before its time, or without the server's results.
    pub broke: Option<String>,
    /// Whether the server said that its results come, and they did not, or waited in vain for those of this end.
    pub results_vanished: bool,
    pub stopped: bool,
}

impl FlowMeasurement {
    pub(crate) fn their_stream(&self, id: u32) -> Option<&StreamResult> {
        self.theirs.as_ref()?.streams.iter().find(|stream| stream.id == id)
    }

    /// What a Quell server told of a stream in detail.
    pub(crate) fn their_part(&self, id: u32) -> Option<&PartStream> {
        self.theirs.as_ref()?.quell.as_ref()?.streams.iter().find(|stream| stream.id == id)
    }

    /// Each datagram of this direction that came, as its receiver saw it.
    pub fn log(&self, up: bool) -> Option<&DatagramLog> {
        let lane = self.lanes.iter().find(|lane| lane.sends == up)?;
        if up { self.their_part(lane.id).map(|part| &part.log) } else { Some(&lane.log) }
    }

    pub fn quell_server(&self) -> bool {
        self.theirs.as_ref().is_some_and(|theirs| theirs.quell.is_some())
    }
}

/// Made up for tests.
#[cfg(test)]
mod tests {
    use super::*;

    impl FlowMeasurement {
        pub(crate) fn example(
            plan: FlowPlan,
            lanes: Vec<StreamMeasurement>,
            theirs: Option<Results>,
        ) -> Self {
            Self {
                plan,
                started: SystemTime::UNIX_EPOCH,
                cookie: String::new(),
                block: 1000,
                control_mss: None,
                control_rtt_us: None,
                path_mtu: None,
                seconds: 1.0,
                lanes,
                intervals: Vec::new(),
                ours: Results::default(),
                theirs,
                doubts: Vec::new(),
                here: None,
                own_queue: None,
                incoming: Vec::new(),
                latency: Latency::default(),
                broke: None,
                results_vanished: false,
                stopped: false,
            }
        }
    }

    impl StreamMeasurement {
        /// Stream 1 with these counts of the omitted and the counted time.
        pub(crate) fn example(sends: bool, omitted: LaneCounts, mark: LaneCounts) -> Self {
            let at = SocketAddr::from(([127, 0, 0, 1], 5201));
            let sum = |of: fn(&LaneCounts) -> u64| of(&omitted) + of(&mark);
            Self {
                id: 1,
                number: 5,
                sends,
                local: at,
                remote: at,
                moved: (sum(|m| m.moment.bytes), sum(|m| m.moment.packets)),
                mark,
                omitted,
                moments: Vec::new(),
                gaps: None,
                longest_gap_ns: None,
                losses: None,
                log: DatagramLog::default(),
                seconds: Some(1.0),
                congestion: None,
                mss: None,
                toil: None,
                buffers: (None, Some(1 << 20)),
            }
        }
    }
}
