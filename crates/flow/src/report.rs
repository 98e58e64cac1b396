//! What a test means: one row a direction, put together from what both ends saw, and the rest that a person asks.

use crate::datagram_counts::DatagramCounts;
use crate::latency::RttSummary;
use crate::sender_facts::{FlowSender, settled};
use crate::{Amount, FlowMeasurement, Senders, StreamMeasurement, Transport, datagram_facts};
use quell_cause::calls::Endpoint;
use quell_cause::{Cause, SenderFacts, TokenBucket};
use quell_finding::{Evidence, Finding, Remedy};
use quell_grade::{Assessment, LoadedDelay};
use quell_load::own_queue::Standing;
use quell_model::{EchoSample, EchoStatus, MeasuredDatagrams, MeasuredFlow};
use quell_stats::{Interval, LogHistogram};
use quell_wire::iperf3::{HostCounters, Moment, Part, PartStream, StreamResult};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowReport {
    pub up: Option<DirectionReport>,
    pub down: Option<DirectionReport>,
    pub idle: Option<RttSummary>,
    pub loaded: Option<RttSummary>,
    /// Milliseconds that the load adds to the median; none where most pings had no answer.
    pub added_ms: Option<f64>,
    /// Of the way there alone, where the reflector tells: two clocks' offset cancels, their drift during the test (some 0.01 ms a second) does
    /// not.
    pub added_up_ms: Option<f64>,
    pub added_down_ms: Option<f64>,
    /// How well a call, a game and a page work beside it; none of too few pings, or beside a line that was not filled.
    pub grade: Option<Assessment>,
    /// What kept every sender from filling the line, as `this host's send buffer`.
    pub not_filled: Option<String>,
    pub bdp: Option<Bdp>,
    pub here: HostReport,
    pub there: Option<HostReport>,
    /// What is unknown because what the server told of it can't be.
    pub doubts: Vec<String>,
}

impl FlowReport {
    /// What the senders waited for; nothing of a test that broke off, a path that swallows large packets aside.
    pub fn causes(&self, outcome: &FlowMeasurement) -> Vec<Finding> {
        let ways = [("up", &self.up), ("down", &self.down)];
        let told = |way: &&DirectionReport| {
            outcome.broke.is_none() || way.cause == Some(Cause::MtuBlackHole)
        };
        ways.into_iter()
            .filter_map(|(name, way)| way.as_ref().filter(told)?.finding(name))
            .collect()
    }
}

/// Seconds that a queue takes behind which words may come too late: an end waits for some of them for ten seconds and some round trips.
const LONG_QUEUE_S: f64 = 10.0;

impl FlowReport {
    /// Whether it was a test: it came to its end, and something got through. Errors with what is wrong.
    pub fn verdict(&self, outcome: &FlowMeasurement) -> Result<(), String> {
        if let Some(broke) = &outcome.broke {
            let waits = self.crowded().unwrap_or_default();
            return Err(format!("{broke}{waits}; what was measured until then is above"));
        }
        if outcome.stopped {
            return Ok(());
        }
        let ways = [("up", &self.up), ("down", &self.down)];
        let ways = ways.into_iter().filter_map(|(name, way)| Some((name, way.as_ref()?)));
        if ways.clone().any(|(_, way)| way.is_unknown(outcome.plan.transport)) {
            return Err(
                "whether anything arrived is unknown: the server's count is impossible or missing"
                    .into(),
            );
        }
        let empty = ways.filter(|(_, way)| way.bits_per_second == Some(0.0));
        let empty: Vec<_> = empty.map(|(name, _)| name).collect();
        match empty.is_empty() {
            true => Ok(()),
            false => Err(format!("not one byte got through {}", empty.join(" or "))),
        }
    }

    /// What is said first, a sentence each: how well the line works beside the load, with its grade, and the headline. Of a line that was not filled the
    /// headline, and that there is no grade.
    pub fn opening(&self, headline: String) -> Vec<String> {
        if let Some(holder) = &self.not_filled {
            let no_grade = format!("No grade: the line was not filled ({holder}).");
            return vec![headline, no_grade];
        }
        self.grade.iter().map(Assessment::said).chain([headline]).collect()
    }

    /// Where pings beside the load waited for longer than ends wait for each other's words.
    fn crowded(&self) -> Option<String> {
        let longest_s = self.loaded.as_ref()?.max_ms / 1e3;
        (longest_s >= LONG_QUEUE_S).then(|| {
            format!(
                " (what both ends say waits in the path's queue, where a ping took {longest_s:.0} s; less data, -b or -n, leaves it room)"
            )
        })
    }

    /// Of this stream; none where its direction was not measured.
    pub fn measured(
        &self,
        outcome: &FlowMeasurement,
        lane: &StreamMeasurement,
    ) -> Option<MeasuredFlow> {
        let way = if lane.sends { &self.up } else { &self.down }.as_ref()?;
        let udp = outcome.plan.transport == Transport::Udp;
        let theirs = outcome.their_stream(lane.id);
        let received_bytes = match (lane.sends, theirs) {
            (false, _) => Some(lane.mark.moment.bytes),
            (true, Some(told)) if way.by_receiver => Some(told.bytes),
            // What was acknowledged arrived; of datagrams nobody else knows.
            (true, _) => Some(lane.mark.moment.bytes).filter(|_| !udp),
        };
        let retransmits = match lane.sends {
            true => Some(lane.mark.moment.retransmits),
            false => theirs.and_then(|told| u64::try_from(told.retransmits).ok()),
        };
        let counts = DatagramCounts::of(outcome, lane).filter(|_| udp && way.by_receiver);
        Some(MeasuredFlow {
            seconds: received_in(outcome, lane).and(way.seconds),
            received_bytes,
            retransmits: retransmits.filter(|_| !udp),
            datagrams: counts.map(|counts| MeasuredDatagrams {
                sent: counts.sent,
                arrived: counts.arrived,
                lost: counts.lost,
                jitter_ms: counts.jitter_ms,
            }),
        })
    }
}

impl DirectionReport {
    /// Whether the sender waited for an end of the connection and not for the path.
    fn is_held_by_an_end(&self) -> bool {
        let ends = [
            Cause::ReceiverWindow,
            Cause::SendBuffer,
            Cause::SenderIdle,
            Cause::Cpu,
            Cause::RateLimit,
        ];
        self.cause.is_some_and(|cause| ends.contains(&cause))
    }

    /// What kept its sender from filling the line, as `this host's send buffer`; `name` is that of the direction.
    fn unfilled_by(&self, name: &str, is_asked: bool) -> Option<String> {
        let (sender, receiver) =
            if name == "up" { ("this host", "the server") } else { ("the server", "this host") };
        // What nothing was lost of, as it was asked for.
        let is_whole =
            self.datagrams.as_ref().is_none_or(|d| d.lost == 0 && d.unseen == 0 && d.arrived > 0);
        match self.cause {
            Some(Cause::SendBuffer) => Some(format!("{sender}'s send buffer")),
            Some(Cause::ReceiverWindow) => Some(format!("{receiver}'s receive window")),
            Some(Cause::SenderIdle) => Some(format!("{sender} had nothing to send")),
            Some(Cause::RateLimit) | None if is_asked && is_whole => {
                Some("the rate asked for".into())
            }
            Some(Cause::RateLimit) => Some("the rate that the server allows".into()),
            _ => None,
        }
    }

    /// Which end's buffer holds its sender, as `this host's send buffer`.
    pub fn buffer_that_holds(&self, name: &str) -> Option<String> {
        let is_buffer = matches!(self.cause, Some(Cause::SendBuffer | Cause::ReceiverWindow));
        self.unfilled_by(name, false).filter(|_| is_buffer)
    }

    /// What its sender waited for, with the facts; `name` is that of the direction.
    pub fn finding(&self, name: &str) -> Option<Finding> {
        let (here, there) = ("this host", "the server");
        let (sender, receiver) = if name == "up" { (here, there) } else { (there, here) };
        // A queue, or a thread, may be the receiver's.
        let of_receiver = matches!(self.cause, Some(Cause::OwnQueue | Cause::Cpu))
            && self.cause_end == Some(if name == "up" { Endpoint::There } else { Endpoint::Here });
        let sender = if of_receiver { receiver } else { sender };
        let finding = self.cause?.finding(name, sender, receiver);
        let mut evidence = self.facts.as_ref().map(SenderFacts::evidence).unwrap_or_default();
        evidence.extend(self.policer.iter().flat_map(TokenBucket::evidence));
        let finding = Finding { sure: self.sure, evidence, ..finding };
        match (self.cause, self.bits_per_second) {
            // What TCP got through is no more than its rate.
            (Some(Cause::Policer), Some(bits)) if self.policer.is_none() => {
                let words = format!("{} got through", quell_units::fmt::rate(bits));
                let through =
                    Evidence::number("got through", bits, "bit/s", "arrivals, by the receiver");
                let measure =
                    "quell flow -u -b with more than got through tells its rate and burst";
                Some(finding.saw(through.in_words(words)).cure(Remedy::advice(measure)))
            }
            _ => Some(finding),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DirectionReport {
    /// Payload that arrived, in bits a second: the receiver's count; of TCP what was acknowledged, where that got lost or can't be. None where nobody
    /// knows, and where there is no time, as of one datagram.
    pub bits_per_second: Option<f64>,
    /// Payload that was sent, in bits a second, where nobody knows what of it arrived.
    pub sent_bits_per_second: Option<f64>,
    pub by_receiver: bool,
    /// Bytes that left the sender: over TCP those that were acknowledged when it ended, and what the receiver got until the end reached it.
    pub sent_bytes: Option<u64>,
    pub received_bytes: Option<u64>,
    pub seconds: Option<f64>,
    pub retransmits: Option<u64>,
    /// TCP: the least round-trip time that the sender's kernel saw, median and highest of its smoothed one while it sent, in milliseconds.
    pub tcp_rtt_ms: Option<[f64; 3]>,
    /// TCP: the largest window that the receiver offered after the first tenth of the time, in bytes.
    #[serde(rename = "window_bytes")]
    pub window: Option<u64>,
    #[serde(rename = "cwnd_bytes")]
    pub cwnd: Option<u64>,
    pub congestion: Vec<String>,
    /// TCP: what the sender waited for; none where its kernel does not tell.
    pub cause: Option<Cause>,
    /// At which end; none where it is neither, or not known.
    pub cause_end: Option<Endpoint>,
    pub sure: bool,
    pub facts: Option<SenderFacts>,
    /// Where packets of this direction waited in a queue of this host: what was seen there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_queue: Option<Standing>,
    /// Packets that this host's own device dropped meanwhile, or one to which what comes in is redirected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped_here: Option<LocalDrops>,
    pub datagrams: Option<DatagramReport>,
    /// Of datagrams: the rate and burst of the policer that dropped some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer: Option<TokenBucket>,
    /// Why it is unknown whether a policer dropped those that are lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policer_unknown: Option<&'static str>,
    #[serde(rename = "streams_bits_per_second")]
    pub streams: Vec<Option<f64>>,
}

/// Packets that this host's own device dropped while a flow left by it, or came in: the flow's own, or others'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocalDrops {
    pub device: String,
    /// The device whose incoming packets are redirected to it; none where it dropped what goes out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirected_from: Option<String>,
    /// Its queues' kinds, as the kernel spells them, the root's first.
    pub kinds: Vec<String>,
    pub packets: u64,
    /// Whether filters before its queues dropped them (`ingress`, or `clsact`, which counts both ways together), and not the queues.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub filters: bool,
}

impl LocalDrops {
    fn of(seen: &Standing) -> Option<Self> {
        let packets = seen.dropped + seen.emulated;
        let Standing { device, redirected_from, kinds, .. } = seen.clone();
        (packets > 0).then_some(Self { device, redirected_from, kinds, packets, filters: false })
    }

    fn by_filters(seen: &Standing) -> Option<Self> {
        let (device, packets) = (seen.device.clone(), seen.filtered);
        let place = |kind: &&String| matches!(kind.as_str(), "clsact" | "ingress");
        let kinds = seen.kinds.iter().filter(place).cloned().collect();
        let told = Self { device, redirected_from: None, kinds, packets, filters: true };
        (packets > 0).then_some(told)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatagramReport {
    pub sent: u64,
    pub arrived: u64,
    /// That did not arrive, though a later one did.
    pub lost: u64,
    /// Part of those up to the last one that arrived, from 0 to 1; 1 where none did.
    pub loss: f64,
    /// Sent behind the last one that arrived: lost too, or still on their way when the test ended.
    pub unseen: u64,
    /// The sender did not tell how many it sent: `sent` ends with the last one that arrived.
    pub tail_unknown: bool,
    /// Whether those of the omitted time are among them: some receivers do not tell them apart.
    pub omitted_included: bool,
    /// Behind a later one; none where the receiver does not tell, or where others wrote into the flow.
    pub reordered: Option<u64>,
    /// Further copies; none as before.
    pub duplicates: Option<u64>,
    /// Thrown away by the receiving host, its socket being full; among those that did not arrive.
    pub socket_dropped: Option<u64>,
    /// Came to the receiver, and not of this test: of another length, or with a number that none of it can have; none where the receiver does not tell.
    pub foreign: Option<u64>,
    /// Refused by a queue of the sending host; among those that did not arrive.
    pub refused: Option<u64>,
    /// Jitter (RFC 3550, its estimate's start from 0 left out) in milliseconds: the mean over streams, weighted by what arrived of each.
    pub jitter_ms: Option<f64>,
    /// Times between arrivals: the upper bound of each class in nanoseconds, and how many.
    #[serde(rename = "gaps_ns")]
    pub gaps: Vec<(u64, u64)>,
    /// The longest of them in nanoseconds; none where the receiver does not tell.
    pub longest_gap_ns: Option<u64>,
}

/// Rate times round-trip time, and whether the window was that large.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bdp {
    /// Bits a second: what was asked for, or what was reached.
    #[serde(rename = "bits_per_second")]
    pub rate: f64,
    pub asked: bool,
    pub rtt_ms: f64,
    #[serde(rename = "needed_bytes")]
    pub needed: u64,
    #[serde(rename = "offered_bytes")]
    pub offered: u64,
    /// What the sender's socket buffer holds, as the kernel counts it.
    #[serde(rename = "send_buffer_bytes")]
    pub send_buffer: Option<u64>,
    /// Whether the window and the send buffer were large enough: for the rate that was asked for, else whether neither held the sender up; none
    /// where that is unknown.
    pub enough: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostReport {
    /// CPU of the program, in percent of one CPU; none where it is not known.
    pub cpu_percent: Option<f64>,
    pub cpu_user_percent: Option<f64>,
    pub cpu_system_percent: Option<f64>,
    /// CPU of the whole host, in percent of all its CPUs.
    pub host_busy_percent: Option<f64>,
    pub cpus: Option<u32>,
    /// What the host counted during the test, other programs' traffic among it.
    pub counted: Option<HostCounters>,
}

type Figure = fn(&RttSummary) -> Option<f64>;

impl FlowReport {
    pub fn of(outcome: &FlowMeasurement) -> Self {
        let theirs = outcome.theirs.as_ref();
        let has = |direction| outcome.plan.direction != direction;
        let latency = &outcome.latency;
        let idle = RttSummary::of(&latency.idle)
            .map(|spread| spread.where_unanswered(latency.idle_unanswered));
        let loaded = RttSummary::of(&counted(outcome))
            .map(|spread| spread.where_unanswered(latency.loaded_unanswered));
        let whole = loaded.filter(RttSummary::is_majority);
        let added = |of: Figure| Some(of(whole.as_ref()?)? - of(idle.as_ref()?)?);
        let idle_ms = idle.as_ref().map(|idle| idle.p50_ms);
        let up = has(Senders::Down).then(|| DirectionReport::of(outcome, true, idle_ms));
        let down = has(Senders::Up).then(|| DirectionReport::of(outcome, false, idle_ms));
        let end = |results: &quell_wire::iperf3::Results| HostReport {
            cpu_percent: results.cpu_util_total,
            cpu_user_percent: results.cpu_util_user,
            cpu_system_percent: results.cpu_util_system,
            host_busy_percent: results.quell.as_ref().and_then(|part| part.host.cpu_busy),
            cpus: results.quell.as_ref().map(|part| part.host.cpus).filter(|cpus| *cpus > 0),
            counted: results.quell.as_ref().and_then(moved),
        };
        let ways: Vec<&DirectionReport> = up.iter().chain(&down).collect();
        let not_filled = not_filled(outcome, up.as_ref(), down.as_ref());
        let grade = match not_filled {
            Some(_) => None,
            None => assessment(outcome, &ways, idle.as_ref(), loaded.as_ref()),
        };
        Self {
            bdp: Bdp::of(outcome, up.as_ref(), down.as_ref(), idle.as_ref()),
            up,
            down,
            idle,
            loaded,
            grade,
            not_filled,
            added_ms: added(|spread| Some(spread.p50_ms)),
            added_up_ms: added(|spread| spread.up_ms),
            added_down_ms: added(|spread| spread.down_ms),
            here: HostReport { counted: outcome.here, ..end(&outcome.ours) },
            there: theirs.map(end),
            doubts: outcome.doubts.clone(),
        }
    }
}

/// What kept every sender from filling the line: a rate, its program or a buffer; none where one may have filled it.
fn not_filled(
    outcome: &FlowMeasurement,
    up: Option<&DirectionReport>,
    down: Option<&DirectionReport>,
) -> Option<String> {
    let is_asked = outcome.plan.rate.or(outcome.plan.pacing).is_some();
    let ways = [("up", up), ("down", down)].into_iter().filter_map(|(name, w)| Some((name, w?)));
    let holders: Option<Vec<String>> =
        ways.map(|(name, way)| way.unfilled_by(name, is_asked)).collect();
    let mut holders = holders?;
    holders.dedup();
    Some(holders.join("; "))
}

fn assessment(
    outcome: &FlowMeasurement,
    ways: &[&DirectionReport],
    idle: Option<&RttSummary>,
    loaded: Option<&RttSummary>,
) -> Option<Assessment> {
    let (plan, idle, loaded) = (&outcome.plan, idle?, loaded?);
    let (a, what) = match plan.direction {
        Senders::Up => ("an", "upload"),
        Senders::Down => ("a", "download"),
        Senders::Both => ("an", "upload and download"),
    };
    let asked = plan.rate.into_iter().chain(plan.pacing).min();
    let rates: Vec<f64> = match asked {
        Some(each) => vec![each.saturating_mul(u64::from(plan.streams)) as f64],
        // The line was not full where an end held the data back.
        None if ways.iter().any(|way| way.is_held_by_an_end()) => {
            ways.iter().filter_map(|way| way.bits_per_second).collect()
        }
        None => Vec::new(),
    };
    let rates: Vec<String> = rates.into_iter().map(quell_units::fmt::rate).collect();
    let load = match &rates[..] {
        [] => format!("beside a full {what}"),
        rates => format!("beside {a} {what} of {}", rates.join(" and ")),
    };
    let (lost, sent) = (loaded.lost as f64, (loaded.answered() + loaded.lost).max(1) as f64);
    Assessment::of(&LoadedDelay {
        idle_ms: idle.p50_ms,
        p50_ms: loaded.p50_ms,
        p95_ms: loaded.p95_ms,
        loss: lost / sent,
        least_loss: Interval::least_loss(lost, sent),
        jitter_ms: loaded.jitter_ms,
        samples: loaded.answered(),
        load,
        connections: u32::try_from(plan.all_streams()).unwrap_or(u32::MAX),
        seconds: outcome.seconds,
    })
}

/// Pings of the time that counts. Of a test that ended before its time those that were under way were not waited for.
fn counted(outcome: &FlowMeasurement) -> Vec<EchoSample> {
    let cut = outcome.stopped || outcome.broke.is_some();
    let counts =
        |ping: &&EchoSample| ping.t_ns >= 0 && !(cut && ping.status == EchoStatus::Unfinished);
    outcome.latency.loaded.iter().filter(counts).cloned().collect()
}

fn moved(part: &Part) -> Option<HostCounters> {
    Some(quell_host::counted::between(part.before.as_ref()?, part.after.as_ref()?))
}

impl DirectionReport {
    /// Whether nobody knows what arrived: of datagrams only their receiver does.
    pub fn is_unknown(&self, transport: Transport) -> bool {
        transport == Transport::Udp && !self.by_receiver
    }

    fn of(outcome: &FlowMeasurement, up: bool, idle_ms: Option<f64>) -> Self {
        let way = DirectionStreams::of(outcome, up);
        let DirectionStreams { udp, lanes, theirs, moments, .. } = &way;
        let (udp, from_ns) = (*udp, way.from_ns);
        let ours: Vec<u64> = lanes.iter().map(|l| l.mark.moment.bytes).collect();
        let their_bytes: Option<Vec<u64>> = theirs.iter().map(|t| t.map(|t| t.bytes)).collect();
        let there: Option<u64> = their_bytes.as_ref().map(|b| b.iter().sum());
        let here: u64 = ours.iter().sum();
        let (sent, received) = if up { (Some(here), there) } else { (there, Some(here)) };
        let by_receiver = received.is_some();
        // What came was sent, though its acknowledgement was still on its way.
        let sent = sent.map(|sent| if udp { sent } else { sent.max(received.unwrap_or(0)) });
        // What became of datagrams only their receiver knows.
        let datagrams = (udp && by_receiver).then(|| DatagramReport::of(&way));
        // The receiver's cut between what counts and what does not is a little later than the sender's: bytes are those of the datagrams.
        let sent = match &datagrams {
            Some(all) if !all.tail_unknown && !all.omitted_included => {
                Some(all.sent.saturating_mul(outcome.block))
            }
            _ => sent,
        };
        let lasted: Vec<Option<f64>> = lanes.iter().map(|l| received_in(outcome, l)).collect();
        let seconds = lasted.iter().flatten().copied().reduce(f64::max);
        let arrived = if up { their_bytes.unwrap_or(ours) } else { ours };
        let counted = seconds.map(|seconds| rate(arrived.iter().sum(), seconds));
        // Of datagrams only their receiver knows.
        let is_unknown = udp && !by_receiver;
        let most = |of: fn(&Moment) -> u64| {
            moments.iter().flat_map(|m| settled(m, from_ns)).map(of).max().filter(|most| *most > 0)
        };
        let retransmits = way.retransmits();
        let before = lanes.iter().map(|lane| lane.omitted.moment.bytes).sum::<u64>();
        let arrived_bytes = before + here.max(received.unwrap_or(0));
        let sender = way.sender(counted.unwrap_or(0.0), arrived_bytes, idle_ms);
        let facts = (!udp).then(|| sender.facts(outcome)).flatten();
        let ends =
            if up { [Endpoint::Here, Endpoint::There] } else { [Endpoint::There, Endpoint::Here] };
        let dropped_here = dropped_here(outcome, up);
        let by_filters = dropped_here.as_ref().is_some_and(|dropped| dropped.filters);
        let policer = datagrams
            .as_ref()
            .filter(|all| all.lost > 0)
            .map(|all| datagram_facts::policer(outcome, lanes, all, by_filters));
        let (policer, policer_unknown) =
            policer.map_or((None, None), |found| (found.ok(), found.err()));
        let of_datagrams =
            || policer.map(|_| TokenBucket::diagnosis(by_filters.then_some(Endpoint::Here)));
        let found = facts.as_ref().map(|facts| facts.cause(ends)).or_else(of_datagrams);
        Self {
            bits_per_second: counted.filter(|_| !is_unknown),
            sent_bits_per_second: counted.filter(|_| is_unknown),
            by_receiver,
            sent_bytes: sent,
            received_bytes: received,
            seconds,
            retransmits,
            tcp_rtt_ms: rtt(moments, from_ns),
            window: most(|m| m.window),
            cwnd: most(|m| m.cwnd),
            congestion: way.congestion(),
            cause: found.map(|found| found.cause),
            cause_end: found.and_then(|found| match found.cause {
                // Who asks for a rate is here, and what fq lets out.
                Cause::RateLimit if found.end.is_none() => {
                    Some(if sender.asked.is_some() { Endpoint::Here } else { ends[0] })
                }
                _ => found.end,
            }),
            sure: found.is_some_and(|found| found.sure),
            facts,
            own_queue: match found.map(|found| found.cause) {
                Some(Cause::OwnQueue) => most_waited(outcome, up),
                _ => None,
            },
            dropped_here,
            datagrams,
            policer,
            policer_unknown,
            streams: {
                let each = arrived.iter().zip(&lasted);
                let known = |own: &Option<f64>| own.and(seconds).filter(|_| !is_unknown);
                each.map(|(bytes, own)| Some(rate(*bytes, known(own)?))).collect()
            },
        }
    }
}

/// What both ends tell of the streams of one direction.
struct DirectionStreams<'a> {
    outcome: &'a FlowMeasurement,
    up: bool,
    udp: bool,
    lanes: Vec<&'a StreamMeasurement>,
    theirs: Vec<Option<&'a StreamResult>>,
    parts: Vec<Option<&'a PartStream>>,
    /// The states of each stream at its sender; a server counts from where data began to flow.
    moments: Vec<&'a [Moment]>,
    from_ns: i64,
}

impl<'a> DirectionStreams<'a> {
    fn of(outcome: &'a FlowMeasurement, up: bool) -> Self {
        let lanes: Vec<_> = outcome.lanes.iter().filter(|l| l.sends == up).collect();
        let parts: Vec<_> = lanes.iter().map(|l| outcome.their_part(l.id)).collect();
        Self {
            outcome,
            up,
            udp: outcome.plan.transport == Transport::Udp,
            theirs: lanes.iter().map(|l| outcome.their_stream(l.id)).collect(),
            moments: match up {
                true => lanes.iter().map(|l| &l.moments[..]).collect(),
                false => parts.iter().flatten().map(|p| &p.moments[..]).collect(),
            },
            from_ns: if up { 0 } else { outcome.plan.omit.nanos().cast_signed() },
            lanes,
            parts,
        }
    }

    fn retransmits(&self) -> Option<u64> {
        let known = |n: i64| u64::try_from(n).ok();
        match (self.udp, self.up) {
            (true, _) => None,
            (false, true) => Some(self.lanes.iter().map(|l| l.mark.moment.retransmits).sum()),
            (false, false) => self.theirs.iter().map(|t| known(t.as_ref()?.retransmits)).sum(),
        }
    }

    fn congestion(&self) -> Vec<String> {
        let mut all: Vec<String> = match self.up {
            true => self.lanes.iter().filter_map(|l| l.congestion.clone()).collect(),
            false => self.parts.iter().flatten().filter_map(|p| p.congestion.clone()).collect(),
        };
        if all.is_empty() && !self.up && !self.udp {
            let theirs = self.outcome.theirs.as_ref();
            all.extend(theirs.and_then(|t| t.congestion_used.clone()));
        }
        all.dedup();
        all
    }

    fn sender(&self, reached: f64, arrived_bytes: u64, idle_ms: Option<f64>) -> FlowSender<'_> {
        let Self { up, lanes, parts, .. } = self;
        let plan = &self.outcome.plan;
        let here = toil(lanes.iter().map(|l| l.toil));
        let there = toil(parts.iter().map(|p| p.as_ref()?.toil));
        FlowSender {
            here: *up,
            moments: &self.moments,
            from_ns: self.from_ns,
            amount: match plan.amount {
                Amount::Bytes(bytes) => Some(bytes / u64::from(plan.streams.max(1))),
                Amount::Time(_) => None,
            },
            asked: plan.rate.into_iter().chain(plan.pacing).min(),
            mss: match up {
                true => lanes.iter().find_map(|l| l.mss),
                false => parts.iter().flatten().find_map(|p| p.mss),
            },
            reached,
            arrived_bytes,
            retransmits: self.retransmits(),
            cpu: if *up { [here, there] } else { [there, here] },
            receiver_limited: toil(parts.iter().map(|p| p.as_ref()?.held_back)).filter(|_| *up),
            idle_ping_ms: idle_ms,
        }
    }
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// In how many seconds what a stream's receiver counted came. None where there is no time: one datagram that is all that was sent, or of an amount,
/// has come, but it has no rate.
pub(crate) fn received_in(outcome: &FlowMeasurement, lane: &StreamMeasurement) -> Option<f64> {
    let timed = matches!(outcome.plan.amount, Amount::Time(_));
    let theirs = outcome.their_stream(lane.id).map(|t| t.end_time - t.start_time);
    // A test takes about as long there as here.
    let here = lane.seconds.unwrap_or(0.0).max(outcome.seconds);
    let about = (here / 2.0)..=(here * 2.0 + 1.0);
    let theirs = theirs.filter(|seconds| about.contains(seconds));
    let told = theirs.filter(|_| lane.sends);
    if outcome.plan.transport == Transport::Udp {
        let counts = DatagramCounts::of(outcome, lane);
        if counts.is_some_and(|counts| counts.arrived == 1 && (counts.sent <= 1 || !timed)) {
            return None;
        }
        // Of a stream that broke off at its beginning: what is there is no time.
        if outcome.broke.is_some() && lane.mark.moment.packets <= 1 {
            return None;
        }
        // DatagramReport that came for a shorter time than they were sent are no faster for it. Who receives may learn late that the time is over.
        let sent_for = match (timed, theirs.filter(|_| !lane.sends)) {
            (true, Some(theirs)) => theirs.min(outcome.seconds),
            (true, None) => outcome.seconds,
            (false, _) => lane.seconds.unwrap_or(0.0),
        };
        return match told {
            Some(told) => Some(told.max(sent_for)),
            None if timed => Some(lane.seconds.unwrap_or(0.0).max(sent_for)),
            None => lane.seconds.or(Some(outcome.seconds)),
        };
    }
    // Both ends' seconds are those of the test; the server's may be longer by what waited on the path, and are shorter where the first segment got
    // lost, behind which all that came later waited: bytes that came at once are no faster than they were sent. An amount was through when it was
    // acknowledged.
    let here = lane.seconds.unwrap_or(outcome.seconds);
    match told {
        Some(told) if timed => Some(told.max(here)),
        Some(told) => Some(told.min(here)),
        None => Some(here),
    }
}

/// Of this host's queues through which this direction goes that in which packets waited most often.
fn most_waited(outcome: &FlowMeasurement, up: bool) -> Option<Standing> {
    let out = outcome.own_queue.as_ref();
    let all = outcome.incoming.iter().filter(|_| !up).chain(out);
    all.max_by_key(|queue| if up { queue.stood } else { queue.waited }).cloned()
}

fn dropped_here(outcome: &FlowMeasurement, up: bool) -> Option<LocalDrops> {
    let own = outcome.own_queue.as_ref();
    let queues = match up {
        true => own.and_then(LocalDrops::of),
        false => outcome.incoming.iter().find_map(LocalDrops::of),
    };
    queues.or_else(|| own.and_then(LocalDrops::by_filters))
}

/// Of the threads of all streams together; none where one of them is not known, or can't be.
fn toil(of_each: impl ExactSizeIterator<Item = Option<f64>>) -> Option<f64> {
    let streams = of_each.len().max(1) as f64;
    let all: Option<f64> = of_each.map(|share| share.filter(|s| (0.0..=1.0).contains(s))).sum();
    all.map(|all| all / streams)
}

fn rtt(moments: &[&[Moment]], from_ns: i64) -> Option<[f64; 3]> {
    let counted = || moments.iter().flat_map(|m| m.iter()).filter(|m| m.t_ns >= from_ns);
    let times = counted().filter(|m| m.srtt_us > 0).map(|m| m.srtt_us as f64 / 1000.0);
    let sample = quell_stats::Sample::new(times)?;
    // What is smoothed does not show the least one.
    let least = counted().map(|m| m.min_rtt_us).filter(|us| *us > 0).min();
    let least = least.map_or(sample.min(), |us| sample.min().min(us as f64 / 1000.0));
    Some([least, sample.median(), sample.max()])
}

impl DatagramReport {
    fn of(way: &DirectionStreams<'_>) -> Self {
        let DirectionStreams { outcome, up, lanes, parts, .. } = way;
        let counts =
            DatagramCounts::sum(lanes.iter().filter_map(|lane| DatagramCounts::of(outcome, lane)));
        let ours = |of: fn(&StreamMeasurement) -> u64| lanes.iter().map(|l| of(l)).sum::<u64>();
        let told = |of: fn(&PartStream) -> u64| -> Option<u64> {
            parts.iter().map(|part| part.map(of)).sum()
        };
        let gaps = match up {
            true => parts.iter().flatten().flat_map(|p| p.gaps.iter().copied()).collect(),
            false => lanes.iter().filter_map(|l| l.gaps.as_ref()).flat_map(classes).collect(),
        };
        let longest_gap_ns = match up {
            true => parts.iter().flatten().filter_map(|part| part.longest_gap_ns).max(),
            false => lanes.iter().filter_map(|lane| lane.longest_gap_ns).max(),
        };
        let pick = |here: fn(&StreamMeasurement) -> u64, there: fn(&PartStream) -> u64| match up {
            true => told(there),
            false => Some(ours(here)),
        };
        Self {
            sent: counts.sent,
            arrived: counts.arrived,
            lost: counts.lost,
            loss: counts.loss(),
            unseen: counts.sent.saturating_sub(counts.arrived + counts.lost),
            tail_unknown: counts.tail_unknown,
            omitted_included: counts.whole,
            reordered: pick(|l| l.mark.reordered, |p| p.out_of_order),
            duplicates: pick(|l| l.mark.duplicates, |p| p.duplicates),
            socket_dropped: pick(|l| l.mark.socket_dropped, |p| p.socket_dropped),
            foreign: pick(|l| l.mark.foreign, |p| p.foreign),
            refused: up.then(|| ours(|l| l.mark.refused)),
            jitter_ms: counts.jitter_ms,
            gaps: merged(gaps, longest_gap_ns),
            longest_gap_ns,
        }
    }
}

fn classes(gaps: &LogHistogram) -> Vec<(u64, u64)> {
    gaps.counts().map(|(bucket, n)| (quell_stats::log_histogram::highest(bucket), n)).collect()
}

/// The classes of all streams; none ends above the longest of all.
fn merged(mut gaps: Vec<(u64, u64)>, longest_ns: Option<u64>) -> Vec<(u64, u64)> {
    for (ns, _) in &mut gaps {
        *ns = (*ns).min(longest_ns.unwrap_or(u64::MAX));
    }
    gaps.sort_unstable();
    gaps.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = kept.1.saturating_add(later.1);
        }
        same
    });
    gaps.retain(|(_, n)| *n > 0);
    gaps
}

impl Bdp {
    fn of(
        outcome: &FlowMeasurement,
        up: Option<&DirectionReport>,
        down: Option<&DirectionReport>,
        idle: Option<&RttSummary>,
    ) -> Option<Self> {
        if outcome.plan.transport == Transport::Udp {
            return None;
        }
        let way = up.or(down)?;
        let rtt_ms = match idle {
            Some(idle) => idle.p50_ms,
            None => f64::from(outcome.control_rtt_us?) / 1000.0,
        };
        let asked = outcome.plan.rate;
        let rate = asked.map_or_else(
            || way.streams.iter().flatten().copied().fold(0.0, f64::max),
            |bits| bits as f64,
        );
        let needed = (rate / 8.0 * rtt_ms / 1000.0).ceil() as u64;
        // Where the server sends, the window is what its kernel saw of ours.
        let offered = way.window?;
        let send_buffer = outcome.lanes.iter().find(|l| l.sends).and_then(|l| l.buffers.0);
        Some(Self {
            rate,
            asked: asked.is_some(),
            rtt_ms,
            needed,
            offered,
            send_buffer,
            enough: match (asked, way.cause) {
                (_, Some(Cause::ReceiverWindow | Cause::SendBuffer)) => Some(false),
                (Some(_), _) => Some(offered >= needed),
                (None, None | Some(Cause::Unknown)) => None,
                (None, Some(_)) => Some(true),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_class_of_times_between_arrivals_ends_above_the_longest_of_them() {
        let classes = vec![(6_029_311, 3), (4_980_735, 90), (6_029_311, 2), (1, 0)];
        let capped = merged(classes.clone(), Some(5_790_000));
        assert_eq!(capped, [(4_980_735, 90), (5_790_000, 5)]);
        assert_eq!(merged(classes, None), [(4_980_735, 90), (6_029_311, 5)], "an older server");
    }

    #[test]
    fn what_a_load_adds_is_not_told_by_the_few_pings_that_came_in_time() {
        let ping = |n: i64, answered: i64, rtt_ms: u64| {
            let status = if n < answered { EchoStatus::Ok } else { EchoStatus::Unfinished };
            let rtt_ns = (n < answered).then_some(rtt_ms * 1_000_000);
            EchoSample { rtt_ns, ..EchoSample::new(n * 50_000_000, 0, 56, status) }
        };
        let added = |answered| {
            let plan = crate::FlowPlan::new("there", ([127, 0, 0, 1], 5201).into());
            let mut outcome = FlowMeasurement::example(plan, vec![], None);
            outcome.latency.idle = (0..40).map(|n| ping(n, 40, 20)).collect();
            outcome.latency.loaded = (0..100).map(|n| ping(n, answered, 1345)).collect();
            FlowReport::of(&outcome).added_ms
        };
        assert_eq!(added(15), None, "15 of 100");
        assert_eq!(added(51), Some(1325.0));
    }

    #[test]
    fn a_line_that_was_not_filled_has_no_grade_and_says_what_held_it() {
        let way = |cause| DirectionReport { cause, ..DirectionReport::default() };
        for (cause, is_asked, holder) in [
            (Some(Cause::SendBuffer), false, Some("this host's send buffer")),
            (Some(Cause::ReceiverWindow), false, Some("the server's receive window")),
            (Some(Cause::SenderIdle), false, Some("this host had nothing to send")),
            (Some(Cause::RateLimit), true, Some("the rate asked for")),
            (None, true, Some("the rate asked for")),
            (None, false, None),
            (Some(Cause::PathQueue), true, None),
        ] {
            assert_eq!(way(cause).unfilled_by("up", is_asked).as_deref(), holder, "{cause:?}");
        }
        let plan = crate::FlowPlan::new("there", ([127, 0, 0, 1], 5201).into());
        let mut outcome = FlowMeasurement::example(plan, vec![], None);
        let both = |outcome: &_, causes: [Cause; 2]| {
            let [up, down] = causes.map(|cause| way(Some(cause)));
            not_filled(outcome, Some(&up), Some(&down))
        };
        assert_eq!(both(&outcome, [Cause::SendBuffer, Cause::PathQueue]), None, "down is full");
        outcome.plan.rate = Some(10);
        let found = both(&outcome, [Cause::RateLimit; 2]);
        assert_eq!(found.as_deref(), Some("the rate asked for"));
        let report = FlowReport { not_filled: found, ..FlowReport::of(&outcome) };
        let said = "No grade: the line was not filled (the rate asked for).";
        assert_eq!(report.opening("You get it.".into()), ["You get it.", said]);
    }

    #[test]
    fn of_a_test_that_was_stopped_the_pings_under_way_are_neither_sent_nor_lost() {
        let ping = |n: i64, status, rtt_ns| EchoSample {
            rtt_ns,
            ..EchoSample::new(n * 50_000_000, 0, 56, status)
        };
        let loaded = |stopped| {
            let plan = crate::FlowPlan::new("there", ([127, 0, 0, 1], 5201).into());
            let mut outcome =
                FlowMeasurement { stopped, ..FlowMeasurement::example(plan, vec![], None) };
            let answered = (0..30).map(|n| ping(n, EchoStatus::Ok, Some(20_000_000)));
            let lost = (30..31).map(|n| ping(n, EchoStatus::Lost, None));
            let under_way = (31..99).map(|n| ping(n, EchoStatus::Unfinished, None));
            outcome.latency.loaded = answered.chain(lost).chain(under_way).collect();
            let spread = FlowReport::of(&outcome).loaded.unwrap();
            (spread.sent, spread.lost, spread.late)
        };
        assert_eq!((loaded(true), loaded(false)), ((31, 1, 0), (99, 1, 68)));
    }

    #[test]
    fn what_came_at_once_behind_a_lost_first_segment_is_no_faster_than_it_was_sent() {
        // Nothing came before 0.76 s, and 59,368 bytes until the word of the end.
        let rate = |told: f64| {
            let plan = crate::FlowPlan {
                rate: Some(100_000),
                amount: Amount::Time(quell_units::Span::from_secs(5)),
                ..crate::FlowPlan::new("there", ([127, 0, 0, 1], 5201).into())
            };
            let mark = crate::LaneCounts {
                moment: Moment { bytes: 47_784, ..Moment::default() },
                ..crate::LaneCounts::default()
            };
            let lane = StreamMeasurement {
                seconds: Some(5.0),
                ..StreamMeasurement::example(true, crate::LaneCounts::default(), mark)
            };
            let told =
                StreamResult { id: 1, bytes: 59_368, end_time: told, ..StreamResult::default() };
            let theirs = quell_wire::iperf3::Results { streams: vec![told], ..Default::default() };
            let up = FlowReport::of(&FlowMeasurement::example(plan, vec![lane], Some(theirs)))
                .up
                .unwrap();
            (up.bits_per_second.unwrap() * up.seconds.unwrap(), up.seconds.unwrap())
        };
        assert_eq!([4.243, 5.0, 5.6].map(rate).map(|(_, seconds)| seconds), [5.0, 5.0, 5.6]);
        assert_eq!(rate(4.243).0.round(), 474_944.0, "all that came counts");
    }

    #[test]
    fn classes_of_several_streams_are_added_up() {
        assert_eq!(merged(vec![(20, 1), (10, 2), (20, 3), (30, 0)], None), [(10, 2), (20, 4)]);
    }
}
