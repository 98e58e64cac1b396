//! Facts about a sender of TCP, from its kernel's states over time, the queues of this host and the pings beside it. Pure.
//!
//! ```text
//!   moments of each stream   │ does not count │ begins │ counts ─────────────────────── │ all is written
//!                                               a tenth   clocks, round trips, rates
//! ```

use crate::FlowMeasurement;
use quell_cause::SenderFacts;
use quell_load::bulk::HEADERS;
use quell_load::own_queue::Standing;
use quell_model::EchoStatus;
use quell_wire::iperf3::Moment;

/// In so many parts of the test its rate is compared.
const PARTS: usize = 10;

pub(crate) struct FlowSender<'a> {
    pub here: bool,
    /// The states of each stream; times of the test that counts begin at `from_ns`.
    pub moments: &'a [&'a [Moment]],
    pub from_ns: i64,
    pub amount: Option<u64>,
    pub asked: Option<u64>,
    pub mss: Option<u32>,
    pub reached: f64,
    /// Bytes that arrived, in the time that does not count too.
    pub arrived_bytes: u64,
    pub retransmits: Option<u64>,
    pub cpu: [Option<f64>; 2],
    pub receiver_limited: Option<f64>,
    pub idle_ping_ms: Option<f64>,
}

impl FlowSender<'_> {
    /// None where its kernel tells nothing, and something arrived.
    pub fn facts(&self, outcome: &FlowMeasurement) -> Option<SenderFacts> {
        let states: Vec<&[Moment]> =
            self.moments.iter().map(|all| self.writing(settled(all, self.from_ns))).collect();
        let clocks = TcpClocks::of(&states);
        if clocks.is_none() && self.arrived_bytes > 0 {
            return None;
        }
        let clocks = clocks.unwrap_or_default();
        let rtt = |part: f64| {
            let all = states.iter().flat_map(|all| all.iter()).filter(|m| m.srtt_us > 0);
            let all = quell_stats::Sample::new(all.map(|m| m.srtt_us as f64 / 1e3))?;
            all.quantile(part)
        };
        let least_ms = self.moments.iter().flat_map(|all| all.iter()).map(|m| m.min_rtt_us);
        let least_ms = least_ms.filter(|us| *us > 0).min().map(|us| us as f64 / 1e3);
        let [sender_queue, receiver_queue] = self.queues(outcome);
        let [sender_drops, receiver_drops] = self.drops(outcome);
        let pings = &outcome.latency.loaded;
        Some(SenderFacts {
            idle_share: clocks.idle,
            window_share: clocks.window,
            buffer_share: clocks.buffer.max(filled(&states)),
            sender_queue_share: sender_queue,
            receiver_queue_share: receiver_queue,
            sender_cpu_share: self.cpu[0],
            receiver_cpu_share: self.cpu[1],
            receiver_limited_share: self.receiver_limited,
            allowed_bits_per_second: self.allowed(outcome.own_queue.as_ref()),
            reached_bits_per_second: self.reached,
            rate_deviation: deviation(&states),
            retransmits: self.retransmits,
            segment_ms: (self.reached > 0.0)
                .then(|| f64::from(self.mss.unwrap_or(536)) * 8e3 / self.reached),
            sender_drops,
            receiver_drops,
            idle_rtt_ms: [least_ms, self.idle_ping_ms].into_iter().flatten().reduce(f64::max),
            low_rtt_ms: rtt(0.25),
            median_rtt_ms: rtt(0.5),
            low_ping_ms: quell_stats::Sample::new(
                pings.iter().filter_map(|ping| Some(ping.rtt_ns? as f64 / 1e6)),
            )
            .and_then(|all| all.quantile(0.1)),
            arrived_bytes: self.arrived_bytes,
            pings: pings.len() as u64,
            pings_answered: pings.iter().filter(|ping| ping.status == EchoStatus::Ok).count()
                as u64,
            results_vanished: outcome.results_vanished && !self.here,
        })
    }

    /// Those states behind which something had still to be written.
    fn writing<'a>(&self, moments: &'a [Moment]) -> &'a [Moment] {
        let Some(amount) = self.amount else { return moments };
        let is_written =
            |m: &Moment| m.unsent == 0 && m.acked.saturating_add(m.in_flight) >= amount;
        let writes = moments.iter().position(is_written).unwrap_or(moments.len());
        moments.get(..writes).unwrap_or_default()
    }

    /// What was asked for, or allowed by a kernel's pacing, of all streams together, in bits a second; none where one of them has no such rate.
    fn allowed(&self, device: Option<&Standing>) -> Option<f64> {
        let mss = f64::from(self.mss.unwrap_or(536).max(1));
        let payload = mss / (mss + f64::from(HEADERS));
        let of_queue = device.filter(|_| self.here).and_then(|device| device.flow_rate);
        let each = self.moments.iter().map(|moments| {
            let pace = moments.last().map(|last| last.pacing_limit.saturating_mul(8));
            let pace = pace.filter(|bits| *bits > 0).into_iter().chain(of_queue).min();
            let rates =
                [self.asked.map(|bits| bits as f64), pace.map(|bits| bits as f64 * payload)];
            rates.into_iter().flatten().reduce(f64::min)
        });
        let all: Option<f64> = each.sum();
        all.filter(|bits| *bits > 0.0)
    }

    /// At which part of the looks packets waited at the sender's host, and at the receiver's: only this host's queues are seen.
    fn queues(&self, outcome: &FlowMeasurement) -> [Option<f64>; 2] {
        let share = |waited: u64, queue: &Standing| {
            (queue.looks > 0).then(|| waited as f64 / queue.looks as f64)
        };
        let out = outcome.own_queue.as_ref();
        if self.here {
            return [out.and_then(|queue| share(queue.stood, queue)), None];
        }
        // What comes in, and what acknowledges it on its way out.
        let all = outcome.incoming.iter().map(|queue| share(queue.waited, queue));
        let all = all.chain([out.and_then(|queue| share(queue.waited, queue))]);
        [None, all.flatten().reduce(f64::max)]
    }

    /// How many packets the sender's host dropped, and how many the receiver's: only this host's counters are seen.
    fn drops(&self, outcome: &FlowMeasurement) -> [Option<u64>; 2] {
        let out = outcome.own_queue.as_ref();
        if self.here {
            return [out.map(|device| device.dropped + device.filtered), None];
        }
        let came: u64 = outcome.incoming.iter().map(|device| device.dropped).sum();
        [None, out.map(|device| device.filtered + came)]
    }
}

/// The part of the looks at which all was sent, both windows had room, and the send buffer was full of what is not acknowledged: the kernel's clock of
/// the buffer does not run then.
fn filled(streams: &[&[Moment]]) -> f64 {
    let is_filled = |m: &&Moment| {
        let more = m.in_flight.saturating_add(m.segment.max(1));
        m.full && m.unsent == 0 && more <= m.window && more <= m.cwnd
    };
    let looks = || streams.iter().flat_map(|all| all.iter());
    looks().filter(is_filled).count() as f64 / looks().count().max(1) as f64
}

/// States of the time that counts. How a flow begins is not what it waited for: a tenth is left out.
pub(crate) fn settled(moments: &[Moment], from_ns: i64) -> &[Moment] {
    let begun = moments.partition_point(|moment| moment.t_ns < from_ns);
    let counted = moments.get(begun..).unwrap_or_default();
    counted.get(counted.len() / 10..).unwrap_or_default()
}

#[derive(Debug, Default)]
struct TcpClocks {
    idle: f64,
    window: f64,
    buffer: f64,
}

impl TcpClocks {
    fn of(streams: &[&[Moment]]) -> Option<Self> {
        let (mut time, mut busy, mut window, mut buffer) = (0.0, 0.0, 0.0, 0.0);
        for moments in streams {
            let [first, .., last] = moments else { continue };
            let less = |of: fn(&Moment) -> u64| of(last).saturating_sub(of(first)) as f64;
            time += last.t_ns.saturating_sub(first.t_ns).max(0) as f64 / 1e3;
            busy += less(|m| m.busy_us);
            window += less(|m| m.window_limited_us);
            buffer += less(|m| m.buffer_limited_us);
        }
        (time > 0.0 && busy > 0.0).then(|| Self {
            idle: (1.0 - busy / time).max(0.0),
            window: (window / time).min(1.0),
            buffer: (buffer / time).min(1.0),
        })
    }
}

/// The standard deviation of the rate of all streams over equal parts of the time, as a part of its mean; none of too few states.
fn deviation(streams: &[&[Moment]]) -> Option<f64> {
    let first = streams.iter().map(|all| all.first().map(|m| m.t_ns)).max()??;
    let last = streams.iter().map(|all| all.last().map(|m| m.t_ns)).min()??;
    if last <= first || streams.iter().any(|all| all.len() < 2 * PARTS) {
        return None;
    }
    let at = |part: usize| {
        let t_ns = first + last.saturating_sub(first) / PARTS as i64 * part as i64;
        streams.iter().map(|all| acked_at(all, t_ns)).sum::<f64>()
    };
    let parts = quell_stats::Sample::new((0..PARTS).map(|part| at(part + 1) - at(part)))?;
    let mean = parts.mean();
    let variance = parts.values().iter().map(|part| (part - mean).powi(2)).sum::<f64>();
    (mean > 0.0).then(|| (variance / PARTS as f64).sqrt() / mean)
}

/// Bytes that were acknowledged by a time, between two states as if evenly.
fn acked_at(moments: &[Moment], t_ns: i64) -> f64 {
    let behind = moments.partition_point(|m| m.t_ns < t_ns);
    match (behind.checked_sub(1).and_then(|n| moments.get(n)), moments.get(behind)) {
        (Some(before), Some(after)) => {
            let part = t_ns.saturating_sub(before.t_ns) as f64
                / after.t_ns.saturating_sub(before.t_ns).max(1) as f64;
            before.acked as f64 + part * after.acked.saturating_sub(before.acked) as f64
        }
        (Some(one), None) | (None, Some(one)) => one.acked as f64,
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of a stream at these rates in bits a second, busy for this part of the time.
    fn stream(rate: impl Fn(i64) -> f64, busy: f64) -> Vec<Moment> {
        let mut acked = 0.0;
        let at = |n: i64| {
            acked += rate(n) / 80.0;
            Moment {
                t_ns: n * 100_000_000,
                acked: acked as u64,
                busy_us: (n as f64 * 1e5 * busy) as u64,
                ..Moment::default()
            }
        };
        (0..100).map(at).collect()
    }

    #[test]
    fn the_kernels_clocks_are_parts_of_the_time_of_all_streams() {
        let (one, other) = (stream(|_| 1e6, 1.0), stream(|_| 1e6, 0.4));
        let clocks = TcpClocks::of(&[&one, &other]).unwrap();
        assert!((clocks.idle - 0.3).abs() < 1e-9, "{clocks:?}");
        assert!(TcpClocks::of(&[]).is_none() && TcpClocks::of(&[&one[..1]]).is_none());
    }

    #[test]
    fn a_rate_that_stays_deviates_little() {
        let even = stream(|_| 10e6, 1.0);
        assert!(deviation(&[&even]).unwrap() < 0.01);
        let halved = stream(|n| if n < 50 { 15e6 } else { 5e6 }, 1.0);
        assert!((deviation(&[&halved]).unwrap() - 0.5).abs() < 0.02);
        assert_eq!(deviation(&[&even[..15]]), None);
    }

    #[test]
    fn a_tenth_of_the_time_that_counts_is_how_it_begins() {
        let all = stream(|_| 1e6, 1.0);
        assert_eq!(settled(&all, 0).first().map(|m| m.t_ns), Some(1_000_000_000));
        assert_eq!(settled(&all, 5_000_000_000).len(), 45);
        assert!(settled(&[], 0).is_empty());
    }
}
