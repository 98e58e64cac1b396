//! What is kept of a test while data flows, and what a Quell client is told meanwhile.
//!
//! ```text
//!   states    the finest ── full ──► every second state goes, and looks are half as frequent ── full ──► …
//!                            └ by how many tests the room is shared: a server's memory is bounded, whoever asks for what
//!   reports   every quarter of a line's time ──► as much as the connection takes now; what it does not take waits, and there is no other meanwhile
//! ```

use super::lane::{Cpu, ServedLane};
use super::plan::ServePlan;
use crate::limits::TEST;
use quell_host::cpu_time::CpuTimes;
use quell_host::{counted, end};
use quell_load::arrivals::Arrivals;
use quell_load::lane::LaneCounts;
use quell_sys::clock::monotonic_ns;
use quell_sys::socket::stream::TcpSocket;
use quell_wire::iperf3::{HostCounters, Moment, Report, State, frame};
use std::net::IpAddr;

#[derive(Debug)]
pub struct Measurement {
    /// When data began to flow, and when what counts began.
    pub start_ns: u64,
    pub count_ns: u64,
    /// When the client said that it was done.
    pub end_ns: u64,
    /// Where each stream stood when what counts began.
    pub base: Vec<LaneCounts>,
    pub base_arrivals: Vec<Option<Arrivals>>,
    pub last: Vec<LaneCounts>,
    /// How many datagrams the client says that it sent in each stream, and whether those that did not come are known to be lost.
    pub sent: Vec<Option<u64>>,
    pub rest_is_lost: bool,
    /// Of a report, what was not sent when the client was done.
    pub unsaid: Vec<u8>,
    /// Whether the client has told its results.
    pub trades: bool,
    pub moments: Vec<Vec<Moment>>,
    /// Each second: when, and where each stream stood.
    pub seconds: Vec<(u64, Vec<LaneCounts>)>,
    pub cpu: Cpu,
    /// The device of the control connection, and the host before the test, for a Quell client.
    pub device: Option<String>,
    pub host: Option<(HostCounters, CpuTimes)>,
}

impl Measurement {
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

    pub fn counted(&self) -> impl Iterator<Item = LaneCounts> {
        self.last.iter().zip(&self.base).map(|(last, base)| last.since(base))
    }

    pub fn seconds_counted(&self) -> f64 {
        self.end_ns.saturating_sub(self.count_ns) as f64 / 1e9
    }
}

#[derive(Debug)]
pub struct Sampling {
    every_ns: u64,
    pub next_ns: u64,
    last_second_ns: u64,
    /// States that there is room for, of each stream.
    most: usize,
    moments: bool,
    seconds: bool,
}

/// Most states over time that are kept of one stream where so many tests share the room, of a test of so many streams.
fn most(tests: usize, streams: usize) -> usize {
    let of_test = TEST.moments.min(TEST.moments_of_all / tests.max(1));
    (of_test / streams.max(1)).max(TEST.moments_of_stream)
}

/// How often streams are looked at, where that is asked for so often.
fn every_ns(asked_ns: u64, streams: usize, limit: Option<u64>) -> u64 {
    let told_bits = TEST.moment_bits.saturating_mul(streams as u64);
    let carried = |rate: u64| {
        let share = (rate / TEST.of_rate).max(1);
        told_bits.saturating_mul(1_000_000_000) / share
    };
    limit.map_or(asked_ns, |rate| asked_ns.max(carried(rate)).min(TEST.slowest_ns))
}

impl Sampling {
    /// For a test that begins now, of a client that may have so many bits a second.
    pub fn new(plan: &ServePlan, start_ns: u64, limit: Option<u64>) -> Self {
        let every_ns = every_ns(plan.look_ns, plan.streams(), limit);
        Self {
            every_ns,
            next_ns: start_ns.saturating_add(every_ns),
            last_second_ns: start_ns,
            most: TEST.moments_of_stream,
            moments: plan.quell,
            seconds: plan.output,
        }
    }

    /// Looks at the streams, while so many tests share the room.
    pub fn look(
        &mut self,
        now: u64,
        tests: usize,
        lanes: &[ServedLane],
        measured: &mut Measurement,
    ) {
        let most = most(tests, lanes.len());
        self.most = most;
        let t_ns = measured.t_ns(now);
        let marks: Vec<LaneCounts> = lanes.iter().map(|lane| lane.counted(t_ns)).collect();
        self.keep(&marks, measured);
        if self.moments {
            while measured.moments.iter().any(|moments| moments.len() >= most) {
                // A long test is seen more coarsely, all of it alike; so is one beside many others.
                for moments in &mut measured.moments {
                    let mut odd = false;
                    moments.retain(|_| {
                        odd = !odd;
                        !odd
                    });
                    moments.shrink_to(most);
                }
                self.every_ns = self.every_ns.saturating_mul(2).min(TEST.slowest_ns);
            }
        }
        // Half of the interval early is still this second's.
        let second = now.saturating_sub(self.last_second_ns) >= 990_000_000;
        if self.seconds && second && measured.seconds.len() < most {
            measured.seconds.push((now, marks));
            self.last_second_ns = now;
        }
        while self.next_ns <= now {
            self.next_ns = self.next_ns.saturating_add(self.every_ns);
        }
    }

    /// Keeps where the streams stand. Also at the borders of what counts, so that what counts is known from these states as well.
    pub fn keep(&self, marks: &[LaneCounts], measured: &mut Measurement) {
        if !self.moments {
            return;
        }
        for (mark, moments) in marks.iter().zip(&mut measured.moments) {
            if moments.last().is_none_or(|last| last.t_ns < mark.moment.t_ns) {
                make_room(moments, self.most);
                moments.push(mark.moment);
            }
        }
    }
}

/// Makes room for one more, and for no more than there may be: all streams of all tests grow at once, and twice what they need is the most that
/// the server ever holds.
fn make_room<T>(moments: &mut Vec<T>, most: usize) {
    let len = moments.len();
    if len == moments.capacity() {
        moments.reserve_exact(len.max(TEST.moments_of_stream).min(most.saturating_sub(len)).max(1));
    }
}

#[derive(Debug)]
pub struct Reports {
    every_ns: u64,
    pub next_ns: u64,
    /// Of the last one, what was not sent yet.
    unsaid: Vec<u8>,
}

impl Reports {
    /// For a test whose data begins to flow now.
    pub fn new(plan: &ServePlan, start_ns: u64) -> Self {
        let every_ns = plan.reports_ns.unwrap_or(u64::MAX);
        Self { every_ns, next_ns: start_ns.saturating_add(every_ns), unsaid: Vec::new() }
    }

    pub fn say(&mut self, now: u64, lanes: &[ServedLane], client: &TcpSocket) {
        if now < self.next_ns {
            return;
        }
        let late = now - self.next_ns;
        self.next_ns = now.saturating_add(self.every_ns - late % self.every_ns);
        self.write(client);
        if self.unsaid.is_empty() {
            self.unsaid = said(&report(lanes));
            self.write(client);
        }
    }

    fn write(&mut self, client: &TcpSocket) {
        if !self.unsaid.is_empty() {
            // An error comes again where the connection is read.
            let sent = client.write_now(&self.unsaid).unwrap_or(0);
            self.unsaid.drain(..sent);
        }
    }

    /// What has to be said before anything else can be.
    pub fn unsaid(self) -> Vec<u8> {
        self.unsaid
    }
}

pub fn said(report: &Report) -> Vec<u8> {
    // Whole numbers are always JSON.
    let frame = frame(report).unwrap_or_default();
    [&[State::Report.byte()][..], &frame].concat()
}

fn report(lanes: &[ServedLane]) -> Report {
    let mut report = Report::default();
    let mut came = Vec::new();
    for lane in lanes {
        let counted = lane.counted(0);
        match lane.sends {
            true => {
                report.retransmits += counted.moment.retransmits;
                report.srtt_us = report.srtt_us.max(counted.moment.srtt_us);
                report.cwnd = report.cwnd.saturating_add(counted.moment.cwnd);
            }
            false => {
                report.packets += counted.moment.packets;
                report.expected = report.expected.saturating_add(counted.expected);
                came.push(counted);
            }
        }
    }
    report.jitter_ns = LaneCounts::jitter_of(&came);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_many_streams_take_a_twentieth_of_the_rate_and_no_more() {
        for (rate, streams) in [(1_000_000, 128), (1_000_000, 1), (20_000_000, 64), (1, 256)] {
            let every_ns = every_ns(10_000_000, streams, Some(rate));
            let bits_per_s = TEST.moment_bits as f64 * streams as f64 * 1e9 / every_ns as f64;
            assert!(
                bits_per_s <= rate as f64 / 20.0 || every_ns == TEST.slowest_ns,
                "{bits_per_s} of {rate}"
            );
        }
        // Where the rate has room for what is asked for, that is done, as it is without a rate.
        assert_eq!(every_ns(100_000_000, 1, Some(10_000_000)), 100_000_000);
        assert_eq!(every_ns(10_000_000, 256, None), 10_000_000);
    }

    #[test]
    fn no_stream_has_room_for_more_states_than_are_kept() {
        for most in [TEST.moments_of_stream, TEST.moments_of_stream + 1, 100, TEST.moments] {
            let mut moments = Vec::new();
            for n in 0..most {
                make_room(&mut moments, most);
                moments.push(n);
            }
            assert_eq!(moments.capacity(), most);
        }
    }

    #[test]
    fn all_tests_together_keep_no_more_than_there_is_room_for() {
        assert_eq!((most(1, 1), most(1, 8), most(4, 8)), (8_000, 1_000, 1_000), "few have theirs");
        for tests in 1..=32 {
            for streams in 1..=1024 / tests {
                let all = most(tests, streams) * tests * streams;
                assert!(
                    all <= TEST.moments_of_all.max(1024 * TEST.moments_of_stream),
                    "{tests} of {streams}: {all}"
                );
            }
        }
    }
}
