//! StreamSampler at a test's streams at round times: what is told as it goes, and what was counted in the end.

use crate::Progress;
use crate::lane::OpenLane;
use crate::measurement::{Interval, IntervalStream, ServerCounts, StreamMeasurement};
use crate::{Amount, FlowPlan, LaneCounts, Transport};
use quell_host::cpu_time::CpuTimes;
use quell_load::arrivals::Arrivals;
use quell_load::connection_sample;
use quell_load::own_queue::{OwnQueue, Standing};
use quell_stats::LogHistogram;
use quell_sys::socket::bulk::on_this_host;
use quell_wire::iperf3::{Moment, Report};
use std::os::fd::AsFd;

const LOOK_NS: u64 = 100_000_000;
/// Most looks of one test: longer ones are looked at less often.
const MOST_LOOKS: u64 = 6000;

pub(crate) struct StreamSampler<'a> {
    plan: &'a FlowPlan,
    lanes: &'a [OpenLane],
    origin: u64,
    start: u64,
    look_ns: u64,
    report_ns: u64,
    next_look: u64,
    next_report: u64,
    counting: bool,
    /// At the origin, at the last report, and now; one a lane.
    begun: Vec<LaneCounts>,
    begun_gaps: Vec<Option<LogHistogram>>,
    begun_arrivals: Vec<Arrivals>,
    /// What the kernel had sent again of each connection before the test: SYNs, and what made the stream known.
    again_before: Vec<u64>,
    /// When all that a sender of an amount had to send was sent, over TCP acknowledged.
    done_ns: Vec<Option<u64>>,
    reported: Vec<LaneCounts>,
    pub now: Vec<LaneCounts>,
    gaps: Vec<Option<LogHistogram>>,
    /// What the server said last, and what it had said at the last report.
    pub heard: Option<Report>,
    heard_before: Report,
    reported_ns: u64,
    now_ns: u64,
    begun_ns: u64,
    moments: Vec<Vec<Moment>>,
    pub intervals: Vec<Interval>,
    pub cpu: CpuTimes,
    /// Of the device that data leaves by, or comes in by.
    own_queue: Option<OwnQueue>,
    /// Of those to which what comes in by it is redirected.
    incoming: Vec<OwnQueue>,
}

impl<'a> StreamSampler<'a> {
    pub fn new(
        lanes: &'a [OpenLane],
        origin: u64,
        start: u64,
        plan: &'a FlowPlan,
        device: Option<&str>,
    ) -> Self {
        let planned = match plan.amount {
            Amount::Time(time) => time.nanos() + plan.omit.nanos(),
            Amount::Bytes(_) => 60_000_000_000,
        };
        let zero = vec![LaneCounts::default(); lanes.len()];
        Self {
            plan,
            lanes,
            origin,
            start,
            look_ns: LOOK_NS.max(planned / MOST_LOOKS),
            report_ns: plan.interval.nanos(),
            next_look: start,
            next_report: start + plan.interval.nanos(),
            counting: origin == start,
            begun: zero.clone(),
            begun_gaps: vec![None; lanes.len()],
            begun_arrivals: vec![Arrivals::default(); lanes.len()],
            again_before: lanes.iter().map(|lane| lane.counted(0).moment.retransmits).collect(),
            done_ns: vec![None; lanes.len()],
            reported: zero.clone(),
            now: zero,
            gaps: vec![None; lanes.len()],
            heard: None,
            heard_before: Report::default(),
            reported_ns: start,
            now_ns: start,
            begun_ns: start,
            moments: vec![Vec::new(); lanes.len()],
            intervals: Vec::new(),
            cpu: CpuTimes::now(),
            own_queue: device.and_then(OwnQueue::of),
            incoming: device.map(OwnQueue::incoming).unwrap_or_default(),
        }
    }

    pub fn window_t(&self, at: u64) -> i64 {
        at.wrapping_sub(self.origin).cast_signed()
    }

    /// When data may flow, in nanoseconds of the monotonic clock.
    pub fn start(&self) -> u64 {
        self.start
    }

    pub fn due(&self, now: u64) -> u64 {
        let boundary = if self.counting { u64::MAX } else { self.origin };
        self.next_look.min(self.next_report).min(boundary).max(now + 1)
    }

    pub fn look(&mut self, now: u64, last: bool, tell: &mut dyn FnMut(Progress<'_>)) {
        let boundary = !self.counting && now >= self.origin;
        let report = now >= self.next_report;
        if !(last || boundary || report || now >= self.next_look) {
            return;
        }
        let t_ns = self.window_t(now);
        for (place, lane) in self.lanes.iter().enumerate() {
            let mut mark = lane.counted(t_ns);
            let again = &mut mark.moment.retransmits;
            *again = again.saturating_sub(self.again_before[place]);
            // A connection that is gone has forgotten what it counted.
            if mark.moment.pmtu == 0 && self.now[place].moment.pmtu > 0 {
                mark.moment = Moment { t_ns, bytes: mark.moment.bytes, ..self.now[place].moment };
            }
            self.now[place] = mark;
            if self.moments[place].last().is_none_or(|last| last.t_ns < t_ns) {
                self.moments[place].push(mark.moment);
            }
        }
        if self.counting {
            self.look_at_queues(last);
        }
        self.now_ns = now;
        while self.next_look <= now {
            self.next_look += self.look_ns;
        }
        let worth_telling = now - self.reported_ns > self.report_ns / 20;
        if report || boundary || (last && worth_telling) {
            self.report(now, tell);
        }
        if boundary {
            let queues = self.own_queue.iter_mut().chain(&mut self.incoming);
            queues.for_each(OwnQueue::begin);
            self.counting = true;
            self.begun.clone_from(&self.now);
            self.begun_ns = now;
            self.begun_gaps = self.lanes.iter().map(|lane| lane.gaps()).collect();
            self.begun_arrivals = self.lanes.iter().map(arrivals).collect();
            self.lanes.iter().for_each(|lane| lane.forget_longest());
            self.cpu = CpuTimes::now();
            self.next_report = self.origin + self.report_ns;
        }
        if last {
            self.gaps = self.lanes.iter().map(|lane| lane.gaps()).collect();
        }
    }

    fn look_at_queues(&mut self, last: bool) {
        let leaves = |lane: &OpenLane| lane.sends && on_this_host(lane.as_fd()) > 0;
        let own = self.own_queue.iter_mut().map(|queue| (queue, self.lanes.iter().any(leaves)));
        for (queue, waits) in own.chain(self.incoming.iter_mut().map(|queue| (queue, true))) {
            match last {
                // Behind the last byte its queue is empty.
                true => queue.count(),
                false => queue.look(waits),
            }
        }
    }

    /// Counts the datagrams of after the last look: a sender's very last, and those that were still on their way to a receiver. When these came is
    /// told in a row of their own.
    pub fn settle(&mut self, tell: &mut dyn FnMut(Progress<'_>)) {
        if self.plan.transport != Transport::Udp {
            return;
        }
        let mut came_ns = self.now_ns;
        for (place, lane) in self.lanes.iter().enumerate() {
            let before = self.now[place];
            let last_ns = lane.last_ns().unwrap_or(0).max(self.now_ns);
            let mark = lane.counted(self.window_t(last_ns));
            if mark.expected == before.expected && mark.moment.packets == before.moment.packets {
                continue;
            }
            self.now[place] = mark;
            if !lane.sends {
                came_ns = came_ns.max(last_ns);
                if self.moments[place].last().is_some_and(|last| last.t_ns < mark.moment.t_ns) {
                    self.moments[place].push(mark.moment);
                }
            }
        }
        self.gaps = self.lanes.iter().map(|lane| lane.gaps()).collect();
        if came_ns > self.now_ns && came_ns - self.reported_ns > self.report_ns / 20 {
            self.report(came_ns, tell);
        }
    }

    /// Notes which senders of an amount are done: all was written, and acknowledged. Whether all are.
    pub fn note_done(&mut self, now: u64) -> bool {
        for (lane, done_ns) in self.lanes.iter().zip(&mut self.done_ns) {
            if lane.sends && done_ns.is_none() && lane.ended().is_some() && lane.all_acknowledged()
            {
                *done_ns = Some(now);
            }
        }
        self.is_done()
    }

    pub fn is_done(&self) -> bool {
        self.lanes.iter().zip(&self.done_ns).all(|(lane, done_ns)| !lane.sends || done_ns.is_some())
    }

    fn report(&mut self, now: u64, tell: &mut dyn FnMut(Progress<'_>)) {
        let heard = self.heard.map(|now| {
            let before = std::mem::replace(&mut self.heard_before, now);
            let lost = |report: &Report| report.expected.saturating_sub(report.packets);
            ServerCounts {
                lost: lost(&now).saturating_sub(lost(&before)),
                jitter_ns: now.jitter_ns,
                retransmits: now.retransmits.saturating_sub(before.retransmits),
                srtt_us: now.srtt_us,
                cwnd: now.cwnd,
            }
        });
        let seconds = |at: u64| self.window_t(at) as f64 / 1e9;
        let lanes = self.lanes.iter().enumerate().map(|(place, lane)| IntervalStream {
            id: lane.id,
            sends: lane.sends,
            mark: self.now[place].since(&self.reported[place]),
        });
        let interval = Interval {
            start_s: seconds(self.reported_ns),
            end_s: seconds(now),
            omitted: !self.counting,
            lanes: lanes.collect(),
            heard,
        };
        tell(Progress::Interval(&interval));
        self.intervals.push(interval);
        self.reported.clone_from(&self.now);
        self.reported_ns = now;
        while self.next_report <= now {
            self.next_report += self.report_ns;
        }
    }

    pub fn seconds(&self) -> f64 {
        match self.counting {
            true => self.now_ns.saturating_sub(self.begun_ns.max(self.start)) as f64 / 1e9,
            false => 0.0,
        }
    }

    /// For how many seconds a stream's data was counted here, where it has such a time of its own.
    fn lasted(&self, place: usize, lane: &OpenLane) -> Option<f64> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let since_start = |ns: u64| seconds(ns.saturating_sub(self.start));
        match (self.plan.transport, self.plan.amount, lane.sends) {
            (Transport::Udp, _, false) => {
                arrivals(lane).lasted_ns(&self.begun_arrivals[place]).map(seconds)
            }
            (Transport::Tcp, Amount::Bytes(_), false) => lane.last_ns().map(since_start),
            (Transport::Udp, Amount::Bytes(_), true) if lane.sent_for_ns().is_some() => {
                lane.sent_for_ns().map(seconds)
            }
            (_, Amount::Bytes(_), true) => self.done_ns[place].map(since_start),
            _ => Some(self.seconds()),
        }
    }

    /// What stood in the queues of the own device, and what was dropped there.
    pub fn own_queue(&self) -> Option<&Standing> {
        self.own_queue.as_ref().map(OwnQueue::standing)
    }

    /// The same of what comes in, where another device shapes it.
    pub fn incoming(&self) -> Vec<Standing> {
        self.incoming.iter().map(|queue| queue.standing().clone()).collect()
    }

    pub fn outcomes(&self) -> Vec<StreamMeasurement> {
        let each = self.lanes.iter().enumerate().map(|(place, lane)| {
            let gaps = match (&self.gaps[place], &self.begun_gaps[place]) {
                (Some(all), Some(before)) => Some(all.since(before)),
                (all, _) => all.clone(),
            };
            StreamMeasurement {
                id: lane.id,
                number: lane.number(),
                sends: lane.sends,
                local: lane.local,
                remote: lane.remote,
                mark: match self.counting {
                    true => self.now[place].since(&self.begun[place]),
                    false => LaneCounts::default(),
                },
                omitted: if self.counting { self.begun[place] } else { self.now[place] },
                moved: lane.moved(),
                moments: self.moments[place].clone(),
                gaps,
                longest_gap_ns: lane.arrivals().map(|arrivals| arrivals.longest_ns),
                losses: lane.losses(),
                log: lane.log(),
                seconds: self.lasted(place, lane),
                congestion: lane.congestion(),
                mss: lane.info().map(|info| info.snd_mss),
                toil: lane.toil(),
                buffers: connection_sample::buffers(lane.as_fd()),
            }
        });
        each.collect()
    }
}

fn arrivals(lane: &OpenLane) -> Arrivals {
    lane.arrivals().unwrap_or_default()
}
