//! iperf3's JSON: whole (`-J`) or an object a line (`--json-stream`).
//!
//! ```text
//!   start{connecting_to | accepted_connection, test_start{protocol, reverse, duration, blksize}}
//!   intervals[]{streams[]{socket, start, end, bytes, retransmits, snd_cwnd, rtt | packets, lost_packets}}
//!   end{streams[]{sender{bytes}, receiver{bytes, end} | udp{packets, lost_packets}}, sum_received{bytes, end}}
//! ```
//!
//! Intervals are what the end that wrote the file counted; of the other end it has sums. The client's data goes up. What the receiver got, and in
//! which of its seconds, the end tells: that is the result, where it does.

mod part;
mod receiver;
#[cfg(test)]
mod tests;

use crate::bounds::{MOST_SAMPLES, MOST_STREAMS};
use crate::error::ForeignError;
use crate::imported::{FlowDirection, Imported, Stream, Tool, from_s};
use crate::json;
use part::IntervalPart;
use quell_model::{FlowSample, MeasuredDatagrams, MeasuredFlow, Side, TcpState};
use receiver::{Receiver, ReceiverSum};
use serde::Deserialize;
use std::collections::HashMap;

/// A whole document that is larger is not read: its intervals take more memory than their text.
const MOST_TEXT: usize = 64 << 20;

/// Intervals meet, or overlap by less than this.
const RESTART_NS: i64 = 10_000_000;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3File {
    #[serde(deserialize_with = "json::or_default")]
    start: Start,
    #[serde(deserialize_with = "json::or_default")]
    intervals: Vec<Interval>,
    end: Option<Iperf3End>,
    error: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Start {
    version: Option<String>,
    system_info: Option<String>,
    connecting_to: Option<Iperf3Host>,
    accepted_connection: Option<Iperf3Host>,
    timestamp: Timestamp,
    tcp_mss_default: Option<u32>,
    tcp_mss: Option<u32>,
    test_start: TestStart,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3Host {
    host: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Timestamp {
    timesecs: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TestStart {
    protocol: Option<String>,
    duration: Option<f64>,
    blksize: Option<u64>,
    reverse: Option<i64>,
    omit: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Interval {
    #[serde(deserialize_with = "json::or_default")]
    streams: Vec<IntervalPart>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3End {
    #[serde(deserialize_with = "json::or_default")]
    streams: Vec<Iperf3Ends>,
    sum_sent: ReceiverSum,
    sum_received: ReceiverSum,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3Ends {
    sender: Option<IntervalPart>,
    receiver: Option<IntervalPart>,
    udp: Option<IntervalPart>,
}

/// The name of an event of `--json-stream`.
#[derive(Deserialize)]
struct NamedIntervals {
    event: String,
}

#[derive(Deserialize)]
struct Holds<T> {
    data: T,
}

fn whole(text: &str) -> Result<Iperf3File, ForeignError> {
    if text.len() > MOST_TEXT {
        return Err(ForeignError::TooLong { most: MOST_TEXT });
    }
    json::read(text)
}

/// An object a line. What was written when a test was cut off is its last line.
fn by_lines(text: &str) -> Result<Iperf3File, ForeignError> {
    if text.len() > MOST_TEXT {
        return Err(ForeignError::TooLong { most: MOST_TEXT });
    }
    let mut document = Iperf3File::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let failed = |e: serde_json::Error| match ForeignError::json(&e) {
            ForeignError::Json { column, why, .. } => {
                ForeignError::Json { line: index + 1, column, why }
            }
            other => other,
        };
        let NamedIntervals { event } = serde_json::from_str(line).map_err(failed)?;
        match event.as_str() {
            "start" => document.start = holds(line).map_err(failed)?,
            "interval" => document.intervals.push(holds(line).map_err(failed)?),
            "end" => document.end = Some(holds(line).map_err(failed)?),
            "error" => document.error = Some(holds(line).map_err(failed)?),
            _ => {}
        }
    }
    Ok(document)
}

fn holds<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str::<Holds<T>>(line).map(|holds| holds.data)
}

#[derive(Default)]
struct Iperf3Counts {
    socket: i64,
    sends: bool,
    here: Vec<FlowSample>,
    /// What the other end's counters must have been, where this one can tell.
    there: Vec<FlowSample>,
    bytes: f64,
    packets: i64,
    lost: i64,
    retransmits: i64,
    /// What became of its datagrams some interval does not tell, or tells what can't be.
    is_untold: bool,
    /// What its receiver got, in which seconds; of datagrams with an omitted time, what became of those that count: the intervals cut that time
    /// elsewhere than the end does.
    measured: Option<MeasuredFlow>,
    /// Intervals were omitted before its first.
    begins_anew: bool,
}

pub(crate) fn read(text: &str) -> Result<Imported, ForeignError> {
    let is_by_lines =
        text.lines().next().is_some_and(|l| serde_json::from_str::<NamedIntervals>(l).is_ok());
    let Iperf3File { start, intervals, end, error } =
        if is_by_lines { by_lines(text)? } else { whole(text)? };
    let parts: usize = intervals.iter().map(|i| i.streams.len()).sum();
    if parts > MOST_SAMPLES {
        return Err(ForeignError::TooMany);
    }
    let mut counted = Iperf3Streams::new(Iperf3Setup::of(&start, &intervals));
    for (number, interval) in intervals.iter().enumerate() {
        counted.interval(number, interval)?;
    }
    let last = counted.lanes.iter().filter_map(|lane| lane.here.last()).map(|s| s.t_ns).max();
    let planned = start.test_start.duration.filter(|s| *s > 0.0).and_then(from_s);
    let window = planned.filter(|_| error.is_none()).or(last);
    let mut imported = about(&start);
    imported.window_ns = window.and_then(|ns| u64::try_from(ns).ok()).filter(|ns| *ns > 0);
    let end = end.unwrap_or_default();
    let jitters = counted.end(&end)?;
    counted.leave_out(&mut imported, &jitters, &end.streams);
    let is_client = counted.setup.is_client;
    name(&mut imported, counted.lanes, is_client);
    imported.failed = error.map(|e| crate::imported::cut(e.escape_debug().to_string()));
    Ok(imported)
}

/// What holds for all streams of a test.
struct Iperf3Setup {
    is_udp: bool,
    is_client: bool,
    /// Whether the end that wrote the file sends, where a stream does not say.
    sends: bool,
    mss: Option<u32>,
    /// Bytes of a datagram.
    size: Option<u64>,
    omits: bool,
}

impl Iperf3Setup {
    fn of(start: &Start, intervals: &[Interval]) -> Self {
        let is_client = start.accepted_connection.is_none();
        let reverse = start.test_start.reverse.unwrap_or(0) != 0;
        let is_omitted = |interval: &Interval| interval.streams.iter().any(|part| part.omitted);
        Self {
            is_udp: start.test_start.protocol.as_deref() == Some("UDP"),
            is_client,
            sends: is_client != reverse,
            mss: start.tcp_mss.or(start.tcp_mss_default).filter(|mss| *mss > 0),
            size: start.test_start.blksize,
            omits: start.test_start.omit.is_some_and(|s| s > 0.0)
                || intervals.iter().any(is_omitted),
        }
    }
}

/// The streams of a test, interval by interval.
struct Iperf3Streams {
    setup: Iperf3Setup,
    lanes: Vec<Iperf3Counts>,
    /// By socket, and whether it sends.
    places: HashMap<(i64, bool), usize>,
    /// Intervals that were omitted so far.
    omitted: usize,
}

impl Iperf3Streams {
    fn new(setup: Iperf3Setup) -> Self {
        Self { setup, lanes: Vec::new(), places: HashMap::new(), omitted: 0 }
    }

    fn lane(&mut self, socket: i64, sends: bool) -> Result<&mut Iperf3Counts, ForeignError> {
        let new = self.lanes.len();
        let place = *self.places.entry((socket, sends)).or_insert(new);
        if place == MOST_STREAMS {
            return Err(ForeignError::TooMany);
        }
        if place == new {
            self.lanes.push(Iperf3Counts { socket, sends, ..Iperf3Counts::default() });
        }
        Ok(&mut self.lanes[place])
    }

    fn interval(&mut self, number: usize, interval: &Interval) -> Result<(), ForeignError> {
        let Iperf3Setup { is_udp, mss, size, omits, .. } = self.setup;
        for (index, part) in interval.streams.iter().enumerate() {
            if part.omitted {
                self.omitted += 1;
                continue;
            }
            let at = |what: &str| format!("intervals[{number}].streams[{index}].{what}");
            part.check(omits, at)?;
            // Without a number a stream is known by its place.
            let socket = part.socket.unwrap_or(-1 - index as i64);
            let begins_anew = self.omitted > 0;
            let lane = self.lane(socket, part.sender.unwrap_or(self.setup.sends))?;
            // It begins where the omitted time ends, whatever it says.
            lane.begins_anew = begins_anew;
            lane.take(part, is_udp, mss, size);
            if !(0..=lane.packets).contains(&lane.lost) {
                if !omits {
                    let (lost, sent) = (lane.lost, lane.packets);
                    let why = format!("with it {lost} of {sent} datagrams were lost so far");
                    return Err(ForeignError::Value { place: at("lost_packets"), why });
                }
                // Lost in the omitted time, and came later.
                lane.is_untold = true;
            }
        }
        Ok(())
    }

    /// What the end tells of each stream; the jitters that no stream can keep.
    fn end(&mut self, end: &Iperf3End) -> Result<Vec<f64>, ForeignError> {
        let Iperf3Setup { is_udp, omits, .. } = self.setup;
        let sent_here = |udp: &IntervalPart| udp.sender.unwrap_or(self.setup.sends);
        let sent = end.streams.iter().filter_map(|ends| ends.udp.as_ref());
        let sent = sent.filter(|part| sent_here(part));
        let receiver = Receiver::of(sent, &end.sum_sent, &end.sum_received).filter(|_| is_udp);
        let mut jitters = Vec::new();
        for (index, ends) in end.streams.iter().enumerate() {
            for (part, what) in
                [(&ends.sender, "sender"), (&ends.receiver, "receiver"), (&ends.udp, "udp")]
            {
                let Some(part) = part else { continue };
                let place = |of: &str| format!("end.streams[{index}].{what}.{of}");
                part.check(omits, place)?;
                if !omits && what == "udp" {
                    part.check_sum(place)?;
                }
                jitters.extend(self.end_of_stream(part, what, receiver.as_ref()));
            }
        }
        Ok(jitters)
    }

    /// What the end tells of one side of a stream; its jitter where the stream can't keep it.
    fn end_of_stream(
        &mut self,
        part: &IntervalPart,
        what: &str,
        receiver: Option<&Receiver>,
    ) -> Option<f64> {
        let Iperf3Setup { is_udp, size, .. } = self.setup;
        let omitted = self.omitted > 0;
        let lane = self.lanes.iter_mut().find(|lane| {
            Some(lane.socket) == part.socket && part.sender.is_none_or(|sends| sends == lane.sends)
        })?;
        let receiver = receiver.filter(|_| lane.sends);
        lane.end(part, what, is_udp, receiver);
        if omitted && what == "udp" {
            lane.leave_out_omitted(part, size);
        }
        let found = match (what, receiver) {
            ("udp", Some(receiver)) => receiver.measured(part),
            ("udp", None) if omitted || lane.is_untold => {
                measured(part, size.filter(|_| !lane.sends))
            }
            ("receiver", _) if !is_udp => received(part),
            _ => None,
        };
        lane.measured = lane.measured.or(found.and_then(MeasuredFlow::believed));
        if what != "udp" || lane.measured.is_some() {
            return None;
        }
        lane.is_untold |= lane.sends && part.datagrams().is_none();
        part.jitter_ms
    }

    /// Says what is in the file and not in the run.
    fn leave_out(&mut self, imported: &mut Imported, jitters: &[f64], ends: &[Iperf3Ends]) {
        let untold = self.lanes.iter().filter(|lane| lane.is_untold && lane.measured.is_none());
        let (untold, omitted) = (untold.count(), self.omitted);
        self.lanes
            .iter_mut()
            .filter(|lane| lane.is_untold)
            .for_each(Iperf3Counts::forget_datagrams);
        if untold > 0 {
            imported.left_out.push(format!(
                "Datagrams of {untold} {}: what became of them in the time that counts the file does not tell.",
                if untold == 1 { "stream" } else { "streams" }
            ));
        }
        if omitted > 0 {
            imported.left_out.push(format!("{omitted} intervals that iperf3 omitted (-O)."));
        }
        if !jitters.is_empty() {
            imported.left_out.push(format!(
                "Jitter, of which iperf3 tells no packets: {} ms at the end.",
                jitters.iter().map(|ms| format!("{ms:.3}")).collect::<Vec<_>>().join(", ")
            ));
        }
        let late: i64 = ends.iter().filter_map(|e| e.udp.as_ref()?.out_of_order).sum();
        if late > 0 {
            imported.left_out.push(format!("{late} datagrams that came out of order."));
        }
    }
}

fn about(start: &Start) -> Imported {
    let mut imported = Imported::new(Tool::Iperf3);
    imported.test = start.test_start.protocol.clone().unwrap_or_default().to_ascii_lowercase();
    imported.test = crate::imported::cut(imported.test);
    imported.started_s = start.timestamp.timesecs;
    let host = start.connecting_to.as_ref().or(start.accepted_connection.as_ref());
    imported.tell("iperf3", start.version.clone());
    imported.tell("host", host.and_then(|h| h.host.clone()));
    imported.tell("system", start.system_info.clone());
    let written = if start.accepted_connection.is_some() { "the server" } else { "the client" };
    imported.tell("written by", Some(written.to_owned()));
    imported
}

fn sample(t_s: f64, side: Side, bytes: f64, packets: i64, tcp: Option<TcpState>) -> FlowSample {
    FlowSample {
        t_ns: from_s(t_s).unwrap_or(0),
        side,
        bytes: bytes as u64,
        packets: u64::try_from(packets).unwrap_or(0),
        tcp,
    }
}

impl Iperf3Counts {
    fn sides(&self) -> (Side, Side) {
        match self.sends {
            true => (Side::Sender, Side::Receiver),
            false => (Side::Receiver, Side::Sender),
        }
    }

    fn take(&mut self, part: &IntervalPart, is_udp: bool, mss: Option<u32>, size: Option<u64>) {
        let (here, there) = self.sides();
        // Where the omitted time ends iperf3 counts its seconds anew; the last interval of that time it does not mark.
        let begins = from_s(part.start).unwrap_or(0).saturating_add(RESTART_NS);
        if self.here.last().is_some_and(|last| begins < last.t_ns) {
            let (socket, sends, begins_anew) = (self.socket, self.sends, self.begins_anew);
            *self = Self { socket, sends, begins_anew, ..Self::default() };
        }
        let begin_s = if self.begins_anew { 0.0 } else { part.start };
        if self.here.is_empty() {
            self.here.push(sample(begin_s, here, 0.0, 0, None));
        }
        self.bytes += part.bytes;
        self.packets += part.packets.unwrap_or(0);
        self.lost += part.lost_packets.unwrap_or(0);
        // Who sends hears of losses in the end.
        let is_told = part.packets.is_some() && (self.sends || part.lost_packets.is_some());
        self.is_untold |= is_udp && !is_told;
        self.retransmits += part.retransmits.unwrap_or(0);
        let tcp = part.retransmits.filter(|_| self.sends && !is_udp).map(|_| TcpState {
            retransmits: Some(u64::try_from(self.retransmits).unwrap_or(0)),
            cwnd: part.window(mss).unwrap_or(0),
            srtt_us: part.rtt_us().unwrap_or(0),
            pacing_rate: u64::MAX,
            ..TcpState::default()
        });
        let got = if self.sends { self.packets } else { self.packets - self.lost };
        self.here.push(sample(part.end, here, self.bytes, got, tcp));
        // A receiver knows of the datagrams that are missing that they were sent.
        if is_udp && !self.sends {
            if self.there.is_empty() {
                self.there.push(sample(begin_s, there, 0.0, 0, None));
            }
            let each = size.unwrap_or(0) as f64;
            self.there.push(sample(
                part.end,
                there,
                self.packets as f64 * each,
                self.packets,
                None,
            ));
        }
    }

    /// A receiver's first interval after the omitted time counts datagrams of that time too, its bytes and the end do not: what is more than the
    /// end tells came then.
    fn leave_out_omitted(&mut self, end: &IntervalPart, size: Option<u64>) {
        let Some((packets, lost)) = end.datagrams().filter(|_| !self.sends) else {
            self.is_untold |= !self.sends;
            return;
        };
        let more = self.packets - packets;
        if more <= 0 {
            return;
        }
        let more_lost = (self.lost - lost).clamp(0, more);
        let less = |samples: &mut [FlowSample], packets: i64, size: u64| {
            let packets = u64::try_from(packets).unwrap_or(0);
            for sample in samples.iter_mut().skip(1) {
                sample.packets = sample.packets.saturating_sub(packets);
                sample.bytes = sample.bytes.saturating_sub(packets.saturating_mul(size));
            }
        };
        less(&mut self.here, more - more_lost, 0);
        less(&mut self.there, more, size.unwrap_or(0));
    }

    fn end(&mut self, part: &IntervalPart, what: &str, is_udp: bool, receiver: Option<&Receiver>) {
        let (_, there) = self.sides();
        let theirs = if self.sends { "receiver" } else { "sender" };
        let last = |bytes: f64, packets: i64| {
            vec![
                sample(part.start, there, 0.0, 0, None),
                sample(part.end, there, bytes, packets, None),
            ]
        };
        let measured =
            receiver.filter(|_| what == "udp").and_then(|r| Some((r, r.measured(part)?)));
        if let Some((receiver, got)) = measured {
            let (bytes, packets) = (got.received_bytes, got.datagrams.map(|d| d.arrived));
            let packets = packets.map_or(0, u64::cast_signed);
            let begin = sample(part.start, there, 0.0, 0, None);
            let end = part.start + receiver.seconds;
            let last = sample(end, there, bytes.unwrap_or(0) as f64, packets, None);
            self.there = vec![begin, last];
        } else if what == "udp" && self.sends {
            let Some((sent, lost)) = part.datagrams() else { return };
            let got = sent - lost;
            let bytes = if sent > 0 { part.bytes * got as f64 / sent as f64 } else { 0.0 };
            self.there = last(bytes, got);
        } else if what == theirs && !is_udp {
            self.there = last(part.bytes, 0);
        }
    }

    /// Leaves bytes and no datagrams; what was sent to a receiver it knows of datagrams alone.
    fn forget_datagrams(&mut self) {
        if !self.sends {
            self.there.clear();
        }
        self.here.iter_mut().chain(&mut self.there).for_each(|sample| sample.packets = 0);
    }
}

/// What the receiver of a TCP stream got, in its own seconds; none where its end did not come here.
fn received(part: &IntervalPart) -> Option<MeasuredFlow> {
    let seconds = Some(part.end - part.start).filter(|s| *s > 0.0 && part.bytes > 0.0);
    let bytes = Some(part.bytes as u64);
    seconds.map(|_| MeasuredFlow { seconds, received_bytes: bytes, ..MeasuredFlow::default() })
}

/// What the end says of datagrams; none where that can't be. `size`: of each, where the bytes are not of those that count.
fn measured(part: &IntervalPart, size: Option<u64>) -> Option<MeasuredFlow> {
    let (sent, lost) = part.datagrams()?;
    let arrived = sent - lost;
    let bytes = match size {
        Some(size) => (size as f64) * arrived as f64,
        None if sent > 0 => part.bytes * arrived as f64 / sent as f64,
        None => 0.0,
    };
    let [sent, arrived, lost] = [sent, arrived, lost].map(i64::cast_unsigned);
    let jitter_ms = part.jitter_ms;
    Some(MeasuredFlow {
        seconds: Some(part.end - part.start),
        received_bytes: Some(bytes as u64),
        retransmits: None,
        datagrams: Some(MeasuredDatagrams { sent, arrived, lost, jitter_ms }),
    })
}

/// Names the streams by their ways, with numbers where there are several.
fn name(imported: &mut Imported, lanes: Vec<Iperf3Counts>, is_client: bool) {
    let way = |lane: &Iperf3Counts| {
        if lane.sends == is_client { FlowDirection::Up } else { FlowDirection::Down }
    };
    let many = [FlowDirection::Up, FlowDirection::Down]
        .map(|w| lanes.iter().filter(|l| way(l) == w).count() > 1);
    let (mut only_sent, mut sums) = (false, false);
    let mut count = [0_usize; 2];
    for lane in lanes {
        let way = way(&lane);
        let index = usize::from(way == FlowDirection::Down);
        count[index] += 1;
        let name = match many[index] {
            true => format!("{}-{}", way.word(), count[index]),
            false => way.word().to_owned(),
        };
        only_sent |= lane.sends && lane.there.is_empty();
        sums |= lane.sends && !lane.there.is_empty();
        let mut flow = lane.here;
        flow.extend(lane.there);
        let told = lane.measured.and_then(|measured| serde_json::to_string(&measured).ok());
        let facts = told.map(|told| ("measured", told)).into_iter().collect();
        imported.streams.push(Stream { name, way: Some(way), flow, facts, ..Stream::default() });
    }
    if sums {
        imported.notes.push(
            "What was sent from here is known in intervals at the sender; at the receiver iperf3 tells its sum, so that goodput over time is the mean."
                .to_owned(),
        );
    }
    if only_sent {
        imported.notes.push(
            "The file does not tell what the receiver got: there is no goodput of what was sent from here.".to_owned(),
        );
    }
}
