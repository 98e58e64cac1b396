//! What was seen while data flowed.

use super::lane::{Cpu, ServedLane};
use super::plan::ServePlan;
use quell_host::cpu_time::CpuTimes;
use quell_host::{counted, end};
use quell_load::arrivals::Arrivals;
use quell_load::lane::LaneCounts;
use quell_sys::clock::monotonic_ns;
use quell_wire::iperf3::{HostCounters, Moment};
use std::net::IpAddr;

/// What was seen while data flowed.
#[derive(Debug)]
pub struct Measured {
    /// When data began to flow, and when what counts began.
    pub start_ns: u64,
    pub count_ns: u64,
    /// When the client said that it was done.
    pub end_ns: u64,
    /// Where each stream stood when what counts began.
    pub base: Vec<LaneCounts>,
    pub base_arrivals: Vec<Option<Arrivals>>,
    /// And in the end.
    pub last: Vec<LaneCounts>,
    /// How many datagrams the client says that it sent in each stream, and whether those that did not come are known to be lost.
    pub sent: Vec<Option<u64>>,
    pub rest_is_lost: bool,
    /// Of a report, what was not sent when the client was done.
    pub unsaid: Vec<u8>,
    /// Whether the client has told its results.
    pub trades: bool,
    /// Each stream over time.
    pub moments: Vec<Vec<Moment>>,
    /// The part of the time in which this program did not run when it was to; none where it sends alone, and over UDP.
    pub paused: Option<f64>,
    /// Each second: when, and where each stream stood.
    pub seconds: Vec<(u64, Vec<LaneCounts>)>,
    pub cpu: Cpu,
    /// The device of the control connection, and the host before the test, for a Quell client.
    pub device: Option<String>,
    pub host: Option<(HostCounters, CpuTimes)>,
}

impl Measured {
    pub fn new(plan: &ServePlan, local: Option<IpAddr>, lanes: &[ServedLane]) -> Self {
        let device = local.filter(|_| plan.quell).and_then(end::device_with);
        let host = || (counted::now(device.as_deref()), CpuTimes::now());
        let now = monotonic_ns();
        Self {
            start_ns: now,
            count_ns: now,
            end_ns: now,
            base: vec![LaneCounts::default(); lanes.len()],
            base_arrivals: vec![None; lanes.len()],
            sent: vec![None; lanes.len()],
            rest_is_lost: false,
            unsaid: Vec::new(),
            trades: false,
            last: vec![LaneCounts::default(); lanes.len()],
            moments: vec![Vec::new(); lanes.len()],
            paused: None,
            seconds: Vec::new(),
            cpu: Cpu::default(),
            host: plan.quell.then(host),
            device,
        }
    }

    /// A time of the monotonic clock as one since data began to flow.
    pub fn t_ns(&self, at_ns: u64) -> i64 {
        i64::try_from(at_ns.saturating_sub(self.start_ns)).unwrap_or(i64::MAX)
    }

    /// The last states have what was counted in the end: what was sent again until the streams stood, and the datagrams that were on their way.
    pub fn complete_moments(&mut self) {
        for (moments, last) in self.moments.iter_mut().zip(&self.last) {
            if let Some(moment) = moments.last_mut() {
                moment.retransmits = last.moment.retransmits;
                if last.expected > 0 {
                    (moment.bytes, moment.packets) = (last.moment.bytes, last.moment.packets);
                    moment.lost = last.moment.lost;
                }
            }
        }
    }

    /// What counts, of each stream.
    pub fn counted(&self) -> impl Iterator<Item = LaneCounts> {
        self.last.iter().zip(&self.base).map(|(last, base)| last.since(base))
    }

    pub fn seconds_counted(&self) -> f64 {
        self.end_ns.saturating_sub(self.count_ns) as f64 / 1e9
    }
}
