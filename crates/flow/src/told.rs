//! What the server told, as far as it can be: bound before it is believed. Pure.
//!
//! ```text
//!   results, read ──► what this end knows ──┬─► can be: taken
//!                                           └─► can't be: left out, thus unknown, and said
//! ```
//!
//! This end knows what it sent, how long all of it took, and how many streams there were. A stream of which one number can't be has no
//! number that counts.

use crate::fate::changes;
use crate::{Amount, FlowPlan, LaneOutcome, Transport};
use quell_stats::jitter::without_start;
use quell_wire::iperf3::{Host, HostCounters, Part, PartStream, Results, StreamResult};

/// Bits a second that no host moves: ten times the fastest port there is (IEEE 802.3dj, 1.6 Tbit/s).
const FASTEST_BITS: f64 = 16e12;
/// How late a busy server may see the first data, in seconds.
const BUSY_S: f64 = 0.25;
/// Packets or segments a second that no host counts.
const FASTEST_PACKETS: f64 = 1e9;
/// Datagrams a second that no program reads from one socket: 10 ns each, as long as one memory access takes.
const FASTEST_READ: f64 = 1e8;
/// Most CPUs of a host (Linux, `NR_CPUS`).
const MOST_CPUS: u32 = 8192;
/// The largest window of TCP (RFC 7323, section 2.3).
const MOST_WINDOW: u64 = 65_535 << 14;
/// What may wait in a receiver's buffer that no look at its window has seen (Linux, `tcp_rmem`: 6 MiB, and 32 MiB since 6.16).
const USUAL_BUFFER: u64 = 32 << 20;
/// Most of a state in bytes: 32 bits of segments, each of 16 bits.
const MOST_STATE: u64 = 1 << 48;

/// What this end knows for sure.
pub(crate) struct Known<'a> {
    pub plan: &'a FlowPlan,
    pub lanes: &'a [LaneOutcome],
    /// Seconds that counted here.
    pub seconds: f64,
    /// Seconds from telling the server what to measure until it had told its results.
    pub took_s: f64,
}

impl Known<'_> {
    /// What can be of what the server told; the rest is left out and goes into `doubts`.
    pub fn believe(&self, mut told: Results, doubts: &mut Vec<String>) -> Results {
        let streams = std::mem::take(&mut told.streams);
        for lane in self.lanes {
            let possible = match streams.iter().find(|stream| stream.id == lane.id) {
                Some(stream) => self.stream(stream, lane).map(|()| stream.clone()),
                None => Err("it gives none that can be read".into()),
            };
            match possible {
                Ok(mut stream) => {
                    if lane.sends && self.plan.transport == Transport::Udp {
                        stream.jitter = self.jitter(&stream, doubts);
                    }
                    told.streams.push(stream);
                }
                Err(why) => doubts
                    .push(format!("the server's count of stream {} is impossible: {why}", lane.id)),
            }
        }
        if let Some(part) = &mut told.quell {
            self.part(part, doubts);
        }
        self.forged(&told, doubts);
        // A plain iperf3 has at most a thread for each stream and one for the talk.
        let threads = self.lanes.len() as f64 + 1.0;
        // None where the server says nothing of them that can be: then as many as any host has.
        let cpus = told.quell.as_ref().map(|part| part.host.cpus).filter(|cpus| *cpus > 0);
        let runs_on = match &told.quell {
            Some(_) => cpus.unwrap_or(MOST_CPUS).into(),
            None => threads,
        };
        let all = [&mut told.cpu_util_total, &mut told.cpu_util_user, &mut told.cpu_util_system];
        // The kernel counts CPU time in ticks, which a short test may exceed.
        let most = 100.0 * runs_on * (1.0 + 0.02 / self.seconds.max(0.02));
        let told_share = all.iter().filter_map(|share| **share).fold(0.0, f64::max);
        if all.iter().any(|share| share.is_none_or(|share| share > most)) {
            all.into_iter().for_each(|share| *share = None);
            let says = match told_share > most {
                true => format!("{} % of a CPU", quoted(told_share)),
                false => "none that can be".into(),
            };
            let can_be = match (&told.quell, cpus) {
                (Some(_), Some(cpus)) => format!(" with {cpus} CPUs"),
                (Some(_), None) => String::new(),
                (None, _) => format!(" with the {threads} threads of a plain iperf3"),
            };
            doubts.push(format!("the server's CPU share is impossible{can_be}: it says {says}"));
        }
        self.cpu_parts(&mut told, doubts);
        told
    }

    /// Datagrams that others sent under the sender's address change what is told of time and order.
    fn forged(&self, told: &Results, doubts: &mut Vec<String>) {
        let parts = told.quell.iter().flat_map(|part| &part.streams);
        for lane in self.lanes {
            let there = || parts.clone().find(|part| part.id == lane.id).map(|part| part.forged);
            let forged = if lane.sends { there().unwrap_or(0) } else { lane.mark.forged };
            if forged > 0 {
                // Where counting began is the highest number that had come by then.
                let counts = match self.plan.omit.nanos() {
                    0 => "",
                    _ => {
                        ", and what of it was sent and lost since counting began, which may be behind a number of theirs"
                    }
                };
                let who = if lane.sends { ", as the server says" } else { "" };
                doubts.push(format!(
                    "somebody else wrote into stream {} ({forged} datagrams show it{who}): its jitter, order and copies are unknown{counts}",
                    lane.id
                ));
            }
        }
    }

    /// A total of CPU time is the sum of its parts, but for what the kernel's ticks (`USER_HZ`, 10 ms) make of each and of when they were read.
    fn cpu_parts(&self, told: &mut Results, doubts: &mut Vec<String>) {
        let all = (told.cpu_util_total, told.cpu_util_user, told.cpu_util_system);
        let (Some(total), Some(user), Some(system)) = all else { return };
        let ticks = 100.0 * 0.04 / self.seconds.max(0.04);
        if (total - user - system).abs() <= ticks.max(total.abs() / 100.0) {
            return;
        }
        (told.cpu_util_total, told.cpu_util_user, told.cpu_util_system) = (None, None, None);
        doubts.push(format!(
            "the server's CPU share contradicts itself: it says {total:.1} % in all, {user:.1} % of it user, {system:.1} % kernel"
        ));
    }

    fn stream(&self, told: &StreamResult, lane: &LaneOutcome) -> Result<(), String> {
        self.time(told, lane)?;
        let (udp, bytes) = (self.plan.transport == Transport::Udp, told.bytes);
        let (sent, numbered) = lane.moved;
        let most = match lane.sends {
            // No more comes than was written; a receiver counts no copies.
            true => sent,
            false => (FASTEST_BITS / 8.0 * self.took_s) as u64,
        };
        if bytes > most {
            return Err(format!("it says {bytes} bytes; at most {most} can be"));
        }
        if udp {
            let unsigned = |n: i64| u64::try_from(n).ok();
            let packets = unsigned(told.packets).ok_or("it says less than no datagram")?;
            let errors = unsigned(told.errors).ok_or("it says that less than none were lost")?;
            let before = unsigned(told.omitted_packets.unwrap_or(0));
            let before_lost = unsigned(told.omitted_errors.unwrap_or(0));
            let most = if lane.sends { numbered } else { self.packets() };
            if packets > most {
                return Err(format!("it says {packets} datagrams; at most {most} can be"));
            }
            let whole = before.is_some_and(|before| before <= packets)
                && before_lost.is_some_and(|before| before <= errors);
            // Those that came were sent, and numbered.
            let came = lane.omitted.expected.saturating_add(lane.mark.expected);
            if !lane.sends && self.plan.omit.nanos() == 0 && packets < came {
                return Err(format!("it says {packets} datagrams; number {came} came here"));
            }
            if !whole || errors > packets || packets == 0 && bytes > 0 {
                return Err(format!(
                    "its {packets} datagrams, {errors} lost ones and {bytes} bytes contradict each other"
                ));
            }
        } else if !lane.sends {
            if told.retransmits > self.packets().cast_signed() {
                return Err(format!("it says {} segments sent again", told.retransmits));
            }
            // What came here was sent, but for what its clock leaves to the time that does not count, and ACKs on their way.
            let window = lane.buffers.1.unwrap_or(MOST_WINDOW).saturating_mul(4);
            let came = lane.mark.moment.bytes;
            if self.plan.omit.nanos() == 0 && bytes.saturating_add(window) < came {
                return Err(format!("it says {bytes} bytes; {came} came here"));
            }
        }
        if !udp && lane.sends && self.plan.omit.nanos() == 0 {
            // What was acknowledged came there, and what of it nobody took yet waits in a buffer whose room this end was told as its window.
            let window = lane.moments.iter().map(|moment| moment.window).max().unwrap_or(0);
            let waits = window.saturating_mul(4).max(USUAL_BUFFER);
            let acked = lane.mark.moment.bytes;
            if bytes.saturating_add(waits) < acked {
                return Err(format!("it says {bytes} bytes; {acked} were acknowledged"));
            }
        }
        Ok(())
    }

    /// Jitter that can be: a transit takes no longer than the test, nor does the mean of their changes, of which the estimate is a part. It is no count:
    /// where it can't be all others can.
    fn jitter(&self, told: &StreamResult, doubts: &mut Vec<String>) -> Option<f64> {
        let settled = |jitter| without_start(jitter, changes(told));
        let can_be = |jitter: &f64| *jitter <= self.took_s && settled(*jitter) <= self.took_s;
        let jitter = told.jitter.filter(can_be);
        if jitter.is_none() {
            let says = match told.jitter {
                Some(jitter) if jitter <= self.took_s => format!(
                    "{} s, thus {} s without its start from 0",
                    quoted(jitter),
                    quoted(settled(jitter))
                ),
                Some(jitter) => format!("{} s", quoted(jitter)),
                None => "none that can be".into(),
            };
            doubts.push(format!(
                "the server's jitter of stream {} is impossible: it says {says}",
                told.id
            ));
        }
        jitter
    }

    /// A test takes as long there as here, but for what waits on the path and for what a busy CPU is late.
    fn time(&self, told: &StreamResult, lane: &LaneOutcome) -> Result<(), String> {
        let told = told.end_time - told.start_time;
        let late = if self.plan.omit.nanos() > 0 { 0.5 } else { 0.0 };
        let tcp = self.plan.transport == Transport::Tcp;
        let least = match self.plan.amount {
            // Datagrams may come for a shorter time than they were sent.
            _ if !tcp => 0.0,
            // A stream that was through first took less than the test.
            Amount::Bytes(_) if lane.sends => lane.seconds.unwrap_or(self.seconds) / 2.0,
            Amount::Bytes(_) => self.seconds / 2.0,
            Amount::Time(time) => {
                let lasted = self.seconds.min(time.as_secs_f64());
                // What was acknowledged had come there, and it was counted until the word of the end came.
                let begun = lane.moments.iter().find(|m| lane.sends && m.bytes > 0);
                let begun = begun.map_or(f64::INFINITY, |m| m.t_ns.max(0) as f64 / 1e9);
                (lasted / 2.0).max(lasted - begun - BUSY_S) - late
            }
        };
        // Clocks differ by less than a thousandth (RFC 5905: 500 ppm at most).
        let most = self.took_s * 1.001 + 0.01;
        // Datagrams take what is between two longer than from the first to the last: of two, as long again.
        let most = if tcp { most } else { 2.0 * most };
        // Versions before 3.2 tell no times.
        match told == 0.0 || (least..=most).contains(&told) {
            true => Ok(()),
            false => Err(format!(
                "it says it took {} s; here it took {:.3} s",
                quoted(told),
                self.seconds
            )),
        }
    }

    /// More packets than can be in this time.
    fn packets(&self) -> u64 {
        (FASTEST_PACKETS * self.took_s) as u64
    }

    fn part(&self, part: &mut Part, doubts: &mut Vec<String>) {
        let Host { cpus, cpu_busy, .. } = &mut part.host;
        if !(1..=MOST_CPUS).contains(cpus) {
            doubts.push(format!("the server's CPUs are impossible: it says {cpus}"));
            // As of a server that does not say it.
            *cpus = 0;
            *cpu_busy = None;
        }
        if cpu_busy.is_some_and(|busy| !(0.0..=101.0).contains(&busy)) {
            doubts.push("the server's host's CPU share is impossible: none of 0 to 100 %".into());
            *cpu_busy = None;
        }
        if let (Some(before), Some(after)) = (&part.before, &part.after) {
            let most = self.packets();
            let counted = quell_host::counted::between(before, after);
            if all(&counted).into_iter().any(|count| count > most) {
                doubts.push("the server's counters are impossible: they moved too far".into());
                (part.before, part.after) = (None, None);
            }
        }
        part.streams.retain(|stream| {
            let lane = self.lanes.iter().find(|lane| lane.id == stream.id);
            let possible = lane.is_some() && self.detail(stream);
            if !possible {
                let id = stream.id;
                doubts.push(format!("the server's details of stream {id} are impossible"));
            }
            possible
        });
    }

    /// Whether a stream's details can be.
    fn detail(&self, told: &PartStream) -> bool {
        let took_ns = self.took_s * 1e9;
        let most = self.packets();
        let gaps = told.gaps.iter().try_fold(0u64, |sum, (_, count)| sum.checked_add(*count));
        // Classes are bounds: those of the longest times lie a little above them.
        let within = told.gaps.iter().all(|(ns, _)| *ns as f64 <= 2.0 * took_ns);
        let counts = [told.out_of_order, told.duplicates, told.socket_dropped];
        let most_read = (FASTEST_READ * self.took_s) as u64;
        counts.into_iter().all(|count| count <= most)
            && [told.foreign, told.forged].into_iter().all(|count| count <= most_read)
            && gaps.is_some_and(|sum| sum <= most)
            && within
            && told.mss.is_none_or(|mss| mss <= 65_535)
            && told.moments.is_sorted_by_key(|moment| moment.t_ns)
            && told.moments.iter().all(|m| {
                let took_us = (self.took_s * 1.001 * 1e6) as u64 + 1_000_000;
                let bytes = (FASTEST_BITS / 8.0 * self.took_s) as u64;
                let times = [m.busy_us, m.window_limited_us, m.buffer_limited_us, m.srtt_us];
                let packets = [m.packets, m.lost, m.retransmits, m.out_of_order, m.marked];
                let states = [m.cwnd, m.unsent, m.in_flight, m.segment];
                (m.t_ns as f64).abs() <= took_ns + 1e9
                    && times.into_iter().all(|time| time <= took_us)
                    && packets.into_iter().all(|count| count <= most)
                    && states.into_iter().all(|state| state <= MOST_STATE)
                    && m.window <= MOST_WINDOW
                    && m.bytes.max(m.acked) <= bytes
            })
    }
}

fn all(counted: &HostCounters) -> [u64; 9] {
    [
        counted.retransmitted,
        counted.timeouts,
        counted.tcp_dropped,
        counted.udp_receive_dropped,
        counted.udp_send_dropped,
        counted.device_receive_dropped,
        counted.device_send_dropped,
        counted.device_errors,
        counted.queue_dropped,
    ]
}

/// A figure of the peer's as people write it, and only what nobody would write out as a power of ten.
fn quoted(figure: f64) -> String {
    match figure.abs() {
        0.0 | 0.001..1e6 => format!("{figure:.3}"),
        _ => format!("{figure:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LaneCounts;
    use crate::{Findings, Outcome, Senders};
    use quell_units::Span;
    use quell_wire::iperf3::Moment;

    /// One second: 1 GB over TCP, or 4 datagrams of 1000 bytes.
    fn told_of(transport: Transport, direction: Senders, told: Results) -> (Findings, Outcome) {
        let amount = Amount::Time(Span::from_secs(1));
        let plan = FlowPlan {
            transport,
            direction,
            amount,
            ..FlowPlan::new("there", ([127, 0, 0, 1], 5201).into())
        };
        let moment = match transport {
            Transport::Tcp => Moment { bytes: 1_000_000_000, ..Moment::default() },
            Transport::Udp => Moment { bytes: 4000, packets: 4, ..Moment::default() },
        };
        let mark = LaneCounts { moment, expected: moment.packets, ..LaneCounts::default() };
        let lanes =
            vec![LaneOutcome::example(direction == Senders::Up, LaneCounts::default(), mark)];
        let known = Known { plan: &plan, lanes: &lanes, seconds: 1.0, took_s: 1.1 };
        let mut doubts = Vec::new();
        let theirs = known.believe(told, &mut doubts);
        let outcome = Outcome { doubts, ..Outcome::example(plan, lanes, Some(theirs)) };
        (Findings::of(&outcome), outcome)
    }

    fn results(stream: StreamResult) -> Results {
        let share = Some(1.0);
        Results {
            cpu_util_total: share,
            cpu_util_user: share,
            cpu_util_system: share,
            streams: vec![stream],
            ..Results::default()
        }
    }

    fn tcp() -> StreamResult {
        StreamResult {
            id: 1,
            bytes: 999_000_000,
            retransmits: -1,
            jitter: Some(0.0),
            end_time: 1.01,
            ..StreamResult::default()
        }
    }

    fn udp() -> StreamResult {
        StreamResult { bytes: 4000, packets: 4, ..tcp() }
    }

    #[test]
    fn who_says_that_it_sent_less_than_came_here_is_not_believed() {
        let told =
            |packets| results(StreamResult { bytes: packets as u64 * 1000, packets, ..udp() });
        let doubts = |packets| told_of(Transport::Udp, Senders::Down, told(packets)).0.doubts;
        assert_eq!([4, 5].map(doubts), [vec![], vec![]] as [Vec<String>; 2]);
        assert_eq!(doubts(3).len(), 1, "{:?}", doubts(3));
        assert!(doubts(3)[0].contains("3 datagrams; number 4 came here"), "{:?}", doubts(3));
        let (findings, outcome) = told_of(Transport::Udp, Senders::Down, told(3));
        let datagrams = findings.down.unwrap().datagrams.unwrap();
        assert_eq!((datagrams.contradicted, datagrams.jitter_ms), (true, None));
        let end = &crate::iperf_json::document(&outcome)["end"];
        assert!(end["sum"]["lost_packets"].is_null(), "{end:#}");
    }

    #[test]
    fn what_can_be_is_believed() {
        let (findings, _) = told_of(Transport::Tcp, Senders::Up, results(tcp()));
        let up = findings.up.unwrap();
        assert_eq!(
            (findings.doubts.len(), up.by_receiver, up.received_bytes),
            (0, true, Some(999_000_000))
        );
        let (findings, _) = told_of(Transport::Udp, Senders::Up, results(udp()));
        assert_eq!(
            (findings.doubts.len(), findings.up.unwrap().datagrams.unwrap().arrived),
            (0, 4)
        );
    }

    #[test]
    fn more_than_was_sent_or_a_time_far_from_ours_is_unknown_and_no_headline() {
        for stream in [
            StreamResult { bytes: 1_000_000_000_000_000, ..tcp() },
            StreamResult { bytes: 1_000_002_000, ..tcp() },
            // Of a gigabyte that was acknowledged.
            StreamResult { bytes: 0, ..tcp() },
            StreamResult { bytes: 900_000_000, ..tcp() },
            StreamResult { end_time: 1e-9, ..tcp() },
            StreamResult { end_time: 1e308, ..tcp() },
            StreamResult { end_time: 20.0, ..tcp() },
            StreamResult { id: 7, ..tcp() },
        ] {
            let (findings, outcome) = told_of(Transport::Tcp, Senders::Up, results(stream.clone()));
            let up = findings.up.unwrap();
            assert_eq!((up.by_receiver, up.received_bytes), (false, None), "{stream:?}");
            // What TCP acknowledged in the second that passed here.
            assert_eq!((up.bits_per_second, up.seconds), (Some(8e9), Some(1.0)), "{stream:?}");
            assert_eq!(up.sent_bits_per_second, None);
            assert_eq!(findings.doubts.len(), 1, "{:?}", findings.doubts);
            assert!(findings.doubts[0].len() < 120, "{:?}", findings.doubts);
            let iperf = crate::iperf_json::document(&outcome);
            assert!(iperf["end"]["sum_received"]["bytes"].is_null() && iperf["error"].is_string());
        }
    }

    #[test]
    fn what_was_acknowledged_may_wait_in_a_busy_servers_buffer_and_is_no_doubt() {
        // Seen: a plain iperf3 on a busy machine, whose kernel had 24 MB that it had not read.
        let busy = StreamResult { bytes: 1_000_000_000 - 24_126_950, ..tcp() };
        let (findings, _) = told_of(Transport::Tcp, Senders::Up, results(busy));
        assert!(findings.doubts.is_empty(), "{:?}", findings.doubts);
        assert_eq!(findings.up.unwrap().received_bytes, Some(975_873_050));
    }

    #[test]
    fn a_server_can_not_have_got_more_datagrams_than_were_sent_nor_the_same_data_in_less_time() {
        // Twice the bytes of as many datagrams.
        let twice = StreamResult { bytes: 8000, ..udp() };
        let (findings, _) = told_of(Transport::Udp, Senders::Up, results(twice));
        let up = findings.up.unwrap();
        assert!(up.is_unknown(Transport::Udp) && up.received_bytes.is_none(), "{up:?}");
        assert!(findings.doubts[0].contains("at most 4000 can be"), "{:?}", findings.doubts);
        // A second, in which data was acknowledged after 0.1 s already.
        let plan = FlowPlan {
            amount: Amount::Time(Span::from_secs(1)),
            ..FlowPlan::new("there", ([127, 0, 0, 1], 5201).into())
        };
        let at = |t_ns, bytes| Moment { t_ns, bytes, ..Moment::default() };
        let mark = LaneCounts { moment: at(1_000_000_000, 1_000_000_000), ..LaneCounts::default() };
        let mut lane = LaneOutcome::example(true, LaneCounts::default(), mark);
        lane.moments = vec![at(0, 0), at(100_000_000, 1000), at(1_000_000_000, 1_000_000_000)];
        let lanes = [lane];
        let known = Known { plan: &plan, lanes: &lanes, seconds: 1.0, took_s: 1.1 };
        let doubts = |end_time| {
            let mut doubts = Vec::new();
            known.believe(results(StreamResult { end_time, ..tcp() }), &mut doubts);
            doubts.len()
        };
        assert_eq!([0.6, 0.7, 1.0].map(doubts), [1, 0, 0]);
    }

    #[test]
    fn datagrams_that_contradict_what_was_sent_are_unknown() {
        for stream in [
            StreamResult { bytes: 100_000_000_000_000, errors: -5, ..udp() },
            StreamResult { packets: 1_000_000_000_000_000, errors: 5, ..udp() },
            StreamResult { packets: 5, ..udp() },
            StreamResult { errors: 5, ..udp() },
            StreamResult { packets: -86, ..udp() },
        ] {
            let (findings, outcome) = told_of(Transport::Udp, Senders::Up, results(stream.clone()));
            let up = findings.up.unwrap();
            assert!(up.is_unknown(Transport::Udp) && up.datagrams.is_none(), "{stream:?}");
            // What was sent is no goodput.
            assert_eq!((up.bits_per_second, &up.streams[..]), (None, &[None][..]));
            assert_eq!(up.sent_bits_per_second, Some(32_000.0), "{stream:?}");
            assert_eq!(findings.doubts.len(), 1, "{:?}", findings.doubts);
            let iperf = crate::iperf_json::document(&outcome);
            assert!(iperf["end"]["sum"]["lost_packets"].is_null(), "{iperf:#}");
        }
    }

    #[test]
    fn a_jitter_that_can_not_be_is_unknown_and_what_came_is_not() {
        for jitter in [None, Some(1.510e6), Some(1e300)] {
            let told = results(StreamResult { jitter, errors: 1, ..udp() });
            let (findings, outcome) = told_of(Transport::Udp, Senders::Up, told);
            let datagrams = findings.up.unwrap().datagrams.unwrap();
            let counts = (datagrams.arrived, datagrams.lost, datagrams.jitter_ms);
            assert_eq!(counts, (3, 1, None), "{jitter:?}");
            assert!(findings.doubts[0].contains("jitter of stream 1"), "{:?}", findings.doubts);
            let end = &crate::iperf_json::document(&outcome)["end"];
            assert!(end["sum"]["jitter_ms"].is_null(), "{end:#}");
            assert_eq!(end["sum"]["lost_packets"], 1, "{end:#}");
        }
    }

    #[test]
    fn a_jitter_that_can_not_be_without_its_start_is_unknown_too() {
        // Four came: three changes, of which the estimate is 0.176.
        for (jitter, known) in [(0.5, false), (0.19, true)] {
            let told = results(StreamResult { jitter: Some(jitter), ..udp() });
            let (findings, _) = told_of(Transport::Udp, Senders::Up, told);
            let datagrams = findings.up.unwrap().datagrams.unwrap();
            assert_eq!((datagrams.jitter_ms.is_some(), datagrams.arrived), (known, 4), "{jitter}");
            assert!(datagrams.jitter_ms.is_none_or(|ms| ms <= 1100.0), "{datagrams:?}");
            assert_eq!(findings.doubts.is_empty(), known, "{:?}", findings.doubts);
            let doubt = findings.doubts.concat();
            assert!(known || doubt.contains("0.500 s, thus 2.840 s"), "{doubt}");
        }
    }

    #[test]
    fn more_datagrams_of_others_than_a_program_reads_are_unknown() {
        for (foreign, forged, known) in
            [(1000, 0, true), (500_000_000, 0, false), (0, 500_000_000, false)]
        {
            let stream = PartStream { id: 1, foreign, forged, ..PartStream::default() };
            let host = Host { cpus: 4, ..Host::default() };
            let part = Part { host, streams: vec![stream], ..Part::default() };
            let told = Results { quell: Some(part), ..results(udp()) };
            let (findings, _) = told_of(Transport::Udp, Senders::Up, told);
            let datagrams = findings.up.unwrap().datagrams.unwrap();
            assert_eq!(datagrams.foreign, known.then_some(1000));
            let doubts = findings.doubts.concat();
            assert_eq!(doubts.contains("details of stream 1 are impossible"), !known, "{doubts}");
            assert!(!doubts.contains("somebody else"), "{doubts}");
        }
    }

    #[test]
    fn a_sender_that_counts_less_than_came_or_more_than_can_be_is_unknown() {
        for stream in
            [StreamResult { retransmits: 1 << 62, ..tcp() }, StreamResult { bytes: 1, ..tcp() }]
        {
            let (findings, _) = told_of(Transport::Tcp, Senders::Down, results(stream));
            let down = findings.down.unwrap();
            assert_eq!((down.retransmits, down.sent_bytes), (None, None));
            // This end counted itself.
            assert_eq!((down.by_receiver, down.bits_per_second), (true, Some(8e9)));
        }
    }

    #[test]
    fn a_cpu_that_no_host_has_is_unknown() {
        for share in [None, Some(1e308), Some(400.0)] {
            let told = Results { cpu_util_user: share, ..results(tcp()) };
            let (findings, _) = told_of(Transport::Tcp, Senders::Up, told);
            let there = findings.there.unwrap();
            assert_eq!((there.cpu_percent, there.cpu_user_percent), (None, None));
            assert_eq!(findings.doubts.len(), 1, "{:?}", findings.doubts);
            // A plain iperf3 does not say how many CPUs it has.
            let doubt = &findings.doubts[0];
            assert!(doubt.contains("2 threads of a plain iperf3"), "{doubt}");
            assert!(findings.up.unwrap().by_receiver, "the count is believed all the same");
        }
    }

    #[test]
    fn a_server_that_says_no_number_of_cpus_is_given_none() {
        for (cpus, share) in [(0, None), (u32::MAX, Some(1e9)), (0, Some(1.0))] {
            let part = Part { host: Host { cpus, ..Host::default() }, ..Part::default() };
            let told = Results {
                quell: Some(part),
                cpu_util_total: share,
                cpu_util_user: share.map(|_| 0.5),
                cpu_util_system: share.map(|_| 0.5),
                ..results(tcp())
            };
            let (findings, _) = told_of(Transport::Tcp, Senders::Up, told);
            assert_eq!(findings.there.unwrap().cpus, None);
            let doubts = findings.doubts;
            assert!(
                doubts[0].contains(&format!("CPUs are impossible: it says {cpus}")),
                "{doubts:?}"
            );
            assert!(doubts.iter().all(|doubt| !doubt.contains("8192")), "{doubts:?}");
            assert_eq!(doubts.len(), if share == Some(1.0) { 1 } else { 2 }, "{doubts:?}");
        }
    }

    #[test]
    fn details_that_can_not_be_are_left_out_without_an_overflow() {
        let huge = Moment {
            bytes: u64::MAX,
            srtt_us: u64::MAX,
            pacing_limit: u64::MAX,
            ..Moment::default()
        };
        let streams = [
            PartStream { id: 1, moments: vec![huge, huge, huge], ..PartStream::default() },
            PartStream { id: 1, gaps: vec![(1, u64::MAX), (1, u64::MAX)], ..PartStream::default() },
            PartStream { id: 1, duplicates: u64::MAX, ..PartStream::default() },
        ];
        for stream in streams {
            let counted = HostCounters { timeouts: u64::MAX, ..HostCounters::default() };
            let host = Host { cpus: 4, cpu_busy: Some(1e9), ..Host::default() };
            let part = Part {
                host,
                before: Some(HostCounters::default()),
                after: Some(counted),
                streams: vec![stream],
                ..Part::default()
            };
            let (findings, _) = told_of(
                Transport::Tcp,
                Senders::Down,
                Results { quell: Some(part), ..results(tcp()) },
            );
            let there = findings.there.unwrap();
            assert_eq!((there.counted, there.host_busy_percent), (None, None));
            assert_eq!(findings.down.unwrap().tcp_rtt_ms, None);
            assert_eq!(findings.doubts.len(), 3, "{:?}", findings.doubts);
        }
    }
}
