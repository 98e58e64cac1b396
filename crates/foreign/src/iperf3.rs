//! iperf3's JSON: whole (`-J`) or an object a line (`--json-stream`).
//!
//! ```text
//!   start{connecting_to | accepted_connection, test_start{protocol, reverse, duration, blksize}}
//!   intervals[]{streams[]{socket, start, end, bytes, retransmits, snd_cwnd, rtt | packets, lost_packets}}
//!   end{streams[]{sender{bytes}, receiver{bytes, end} | udp{packets, lost_packets}}, sum_received{bytes, end}}
//! ```
//!
//! Intervals are what the end that wrote the file counted; of the other end it has sums. The client's data goes up. What the receiver got, and in
//! which of its seconds, the end tells: that is the result, where it does. An end that never heard from the other one writes zeros: those are
//! unknown.

mod part;
#[cfg(test)]
mod tests;

use crate::bounds::{MOST_SAMPLES, MOST_STREAMS};
use crate::error::ForeignError;
use crate::imported::{FlowDirection, Imported, ImpossibleValues, Stream, Tool, from_s};
use crate::json;
use crate::text::JsonObject;
use part::{Counted, IntervalPart, Receiver, ReceiverSum};
use quell_model::{FlowSample, MeasuredDatagrams, MeasuredFlow, Side, TcpState};
use quell_units::fmt::plural;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// Intervals meet, or overlap by less than this.
const RESTART_NS: i64 = 10_000_000;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3File {
    start: Value,
    #[serde(deserialize_with = "json::or_default")]
    intervals: Vec<Interval>,
    #[serde(deserialize_with = "json::or_default")]
    end: Iperf3End,
    error: Value,
    title: Value,
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
    sum_sent: Option<ReceiverSum>,
    sum_received: Option<ReceiverSum>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Iperf3Ends {
    sender: Option<IntervalPart>,
    receiver: Option<IntervalPart>,
    udp: Option<IntervalPart>,
}

#[derive(Deserialize)]
struct Event<T> {
    event: String,
    data: T,
}

/// The name of an event of `--json-stream`.
pub(crate) fn event(line: &str) -> Option<String> {
    serde_json::from_str::<Event<serde::de::IgnoredAny>>(line).ok().map(|event| event.event)
}

/// An object a line. What was written when a test was cut off is its last line.
pub(crate) fn read_lines(lines: &[JsonObject<'_>]) -> Result<Imported, ForeignError> {
    fn data<'a, T: Deserialize<'a>>(line: &'a JsonObject<'_>) -> Result<T, ForeignError> {
        json::read(&line.text).map(|event: Event<T>| event.data).map_err(|e| e.on(line.line))
    }
    let mut file = Iperf3File::default();
    for line in lines {
        match event(&line.text).as_deref() {
            Some("start") => file.start = data(line)?,
            Some("interval") => file.intervals.push(data(line)?),
            Some("end") => file.end = data(line)?,
            Some("error") => file.error = data(line)?,
            _ => {}
        }
    }
    imported(file)
}

pub(crate) fn read(text: &str) -> Result<Imported, ForeignError> {
    imported(json::read(text)?)
}

fn imported(file: Iperf3File) -> Result<Imported, ForeignError> {
    let Iperf3File { start, intervals, end, error, title } = file;
    let parts: usize = intervals.iter().map(|i| i.streams.len()).sum();
    if parts > MOST_SAMPLES {
        return Err(ForeignError::TooMany);
    }
    let mut counted = Iperf3Streams::new(Iperf3Setup::of(&start, &intervals));
    for (number, interval) in intervals.iter().enumerate() {
        counted.interval(number, interval)?;
    }
    let last = counted.lanes.iter().filter_map(|lane| lane.here.last()).map(|s| s.t_ns).max();
    let error = json::text(&error);
    let planned = start["test_start"]["duration"].as_f64().filter(|s| *s > 0.0).and_then(from_s);
    let window = planned.filter(|_| error.is_none()).or(last);
    let mut imported = about(&start);
    imported.title = json::text(&title).map(crate::imported::cut).unwrap_or_default();
    imported.window_ns = window.and_then(|ns| u64::try_from(ns).ok()).filter(|ns| *ns > 0);
    let jitters = counted.end(&end);
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
    mss: Option<i64>,
    /// Bytes of a datagram.
    size: u64,
    omits: bool,
}

impl Iperf3Setup {
    fn of(start: &Value, intervals: &[Interval]) -> Self {
        let is_client = start["accepted_connection"].is_null();
        let test = &start["test_start"];
        let is_reverse = test["reverse"].as_i64().is_some_and(|reverse| reverse != 0);
        let is_omitted = |interval: &Interval| interval.streams.iter().any(|part| part.omitted());
        let mss = start["tcp_mss"].as_i64().or(start["tcp_mss_default"].as_i64());
        let size = test["blksize"].as_u64().and_then(|size| u32::try_from(size).ok());
        Self {
            is_udp: test["protocol"] == "UDP",
            is_client,
            sends: is_client != is_reverse,
            mss: mss.filter(|mss| *mss > 0),
            size: size.unwrap_or(0).into(),
            omits: test["omit"].as_f64().is_some_and(|s| s > 0.0)
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
    impossible: ImpossibleValues,
}

impl Iperf3Streams {
    fn new(setup: Iperf3Setup) -> Self {
        Self {
            setup,
            lanes: Vec::new(),
            places: HashMap::new(),
            omitted: 0,
            impossible: ImpossibleValues::default(),
        }
    }

    fn interval(&mut self, number: usize, interval: &Interval) -> Result<(), ForeignError> {
        for (index, part) in interval.streams.iter().enumerate() {
            if part.omitted() {
                self.omitted += 1;
                continue;
            }
            let place = || format!("intervals[{number}].streams[{index}]");
            // Without a number a stream is known by its place.
            let socket = part.socket.0.unwrap_or(-1 - index as i64);
            let sends = part.sender().unwrap_or(self.setup.sends);
            let new = self.lanes.len();
            let at = *self.places.entry((socket, sends)).or_insert(new);
            if at == MOST_STREAMS {
                return Err(ForeignError::TooMany);
            }
            if at == new {
                self.lanes.push(Iperf3Counts::new(socket, sends));
            }
            let lane = &mut self.lanes[at];
            // It begins where the omitted time ends, whatever it says.
            lane.begins_anew = self.omitted > 0;
            let part = part.counted(self.setup.omits, &mut self.impossible, place);
            lane.take(part, &self.setup, &mut self.impossible, place);
        }
        Ok(())
    }

    /// What the end tells of each stream; the jitters that no stream can keep.
    fn end(&mut self, end: &Iperf3End) -> Vec<f64> {
        let Iperf3Setup { is_udp, sends, omits, .. } = self.setup;
        let mut jitters = Vec::new();
        let mut part = |part: &Option<IntervalPart>, index: usize, what: &str| {
            let part = part.as_ref()?;
            let place = || format!("end.streams[{index}].{what}");
            let mut counted = part.counted(omits, &mut self.impossible, place)?;
            if what == "udp" && !omits {
                let lost = counted.lost.take();
                let all = 0..=counted.packets.unwrap_or(i64::MAX);
                counted.lost = self.impossible.check(lost, all, "lost_packets", place);
            }
            let socket = part.socket.0?;
            Some((socket, part.sender(), counted))
        };
        let ends: Vec<_> = end.streams.iter().enumerate().collect();
        let ends: Vec<_> = ends
            .into_iter()
            .flat_map(|(at, of)| {
                let parts = [(&of.sender, "sender"), (&of.receiver, "receiver"), (&of.udp, "udp")];
                parts.map(|(one, what)| (what, part(one, at, what)))
            })
            .filter_map(|(what, part)| Some((what, part?)))
            .collect();
        let sent =
            ends.iter().filter(|(what, (_, sender, _))| *what == "udp" && sender.unwrap_or(sends));
        let receiver = end.sum_received.as_ref().filter(|_| is_udp);
        let receiver =
            Receiver::of(sent.map(|(_, (.., part))| part), end.sum_sent.as_ref(), receiver);
        let omitted = self.omitted > 0;
        for (what, (socket, sender, part)) in &ends {
            let lane = self.lanes.iter_mut().find(|lane| {
                lane.socket == *socket && sender.is_none_or(|sends| sends == lane.sends)
            });
            let Some(lane) = lane else { continue };
            match *what {
                "udp" => {
                    jitters.extend(lane.end_of_datagrams(part, &receiver, &self.setup, omitted))
                }
                _ if !is_udp => lane.end(part, *what == "sender"),
                _ => {}
            }
        }
        jitters
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
                "Datagrams of {}: what became of them is unknown, the file does not tell.",
                plural(untold as u64, "stream")
            ));
        }
        if omitted > 0 {
            imported
                .left_out
                .push(plural(omitted as u64, "interval") + " that iperf3 omitted (-O).");
        }
        let repeated: usize = self.lanes.iter().map(|lane| lane.repeated).sum();
        if repeated > 0 {
            imported
                .left_out
                .push(plural(repeated as u64, "interval") + " that the file tells twice.");
        }
        if !jitters.is_empty() {
            imported.left_out.push(format!(
                "Jitter, of which iperf3 tells no packets: {} ms at the end.",
                jitters.iter().map(|ms| format!("{ms:.3}")).collect::<Vec<_>>().join(", ")
            ));
        }
        let late = ends.iter().filter_map(|e| e.udp.as_ref()?.out_of_order.0);
        let late: i64 = late.filter(|n| (0..=part::MOST).contains(n)).sum();
        if late > 0 {
            imported.left_out.push(plural(late as u64, "datagram") + " that came out of order.");
        }
        imported.left_out.extend(std::mem::take(&mut self.impossible).said());
    }
}

fn about(start: &Value) -> Imported {
    let mut imported = Imported::new(Tool::Iperf3);
    let text = |of: &Value| json::text(of).map(crate::imported::cut);
    let accepted = &start["accepted_connection"];
    let (host, written) = match accepted.is_null() {
        true => (&start["connecting_to"], "the client"),
        false => (accepted, "the server"),
    };
    imported.test = text(&start["test_start"]["protocol"]).unwrap_or_default().to_ascii_lowercase();
    imported.started_s = start["timestamp"]["timesecs"].as_f64();
    imported.tell("iperf3", text(&start["version"]));
    imported.tell("host", text(&host["host"]));
    imported.tell("system", text(&start["system_info"]));
    imported.tell("written by", Some(written.to_owned()));
    imported
}

fn sample(t_s: f64, side: Side, bytes: f64, packets: Option<i64>) -> FlowSample {
    FlowSample {
        t_ns: from_s(t_s).unwrap_or(0),
        side,
        bytes: bytes as u64,
        packets: packets.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        tcp: None,
    }
}

/// One direction of a socket, as far as the intervals tell.
struct Iperf3Counts {
    socket: i64,
    sends: bool,
    here: Vec<FlowSample>,
    /// What the other end's counters must have been, where this one can tell.
    there: Vec<FlowSample>,
    bytes: f64,
    /// So far; none once an interval did not tell, or told what can't be.
    packets: Option<i64>,
    lost: Option<i64>,
    retransmits: Option<i64>,
    /// What became of its datagrams is unknown.
    is_untold: bool,
    /// An interval did not tell its bytes, so that those behind it have no place.
    is_cut: bool,
    /// What its receiver got, in which seconds; of datagrams with an omitted time, what became of those that count: the intervals cut that time
    /// elsewhere than the end does.
    measured: Option<MeasuredFlow>,
    /// Intervals that the file tells again, as a server does whose client went.
    repeated: usize,
    /// Intervals were omitted before its first.
    begins_anew: bool,
}

impl Iperf3Counts {
    fn new(socket: i64, sends: bool) -> Self {
        Self {
            socket,
            sends,
            here: Vec::new(),
            there: Vec::new(),
            bytes: 0.0,
            packets: Some(0),
            lost: Some(0),
            retransmits: Some(0),
            is_untold: false,
            is_cut: false,
            measured: None,
            repeated: 0,
            begins_anew: false,
        }
    }

    fn sides(&self) -> (Side, Side) {
        match self.sends {
            true => (Side::Sender, Side::Receiver),
            false => (Side::Receiver, Side::Sender),
        }
    }

    fn take(
        &mut self,
        part: Option<Counted>,
        setup: &Iperf3Setup,
        impossible: &mut ImpossibleValues,
        place: impl Fn() -> String,
    ) {
        let (here, there) = self.sides();
        let Some((part, bytes)) = part.and_then(|part| Some((part, part.bytes?))) else {
            self.is_cut = true;
            self.is_untold |= setup.is_udp;
            return;
        };
        let told = |s: f64| from_s(s).unwrap_or(0);
        if let [.., before, last] = &self.here[..]
            && part.end > part.start
            && (before.t_ns, last.t_ns) == (told(part.start), told(part.end))
        {
            self.repeated += 1;
            return;
        }
        // Where the omitted time ends iperf3 counts its seconds anew; the last interval of that time it does not mark.
        let begins = from_s(part.start).unwrap_or(0).saturating_add(RESTART_NS);
        if self.here.last().is_some_and(|last| begins < last.t_ns) {
            let begins_anew = self.begins_anew;
            *self = Self { begins_anew, ..Self::new(self.socket, self.sends) };
        }
        if self.is_cut {
            return;
        }
        let begin_s = if self.begins_anew { 0.0 } else { part.start };
        if self.here.is_empty() {
            self.here.push(sample(begin_s, here, 0.0, None));
        }
        let more = |sum: Option<i64>, more: Option<i64>| sum?.checked_add(more?);
        self.bytes += bytes;
        self.retransmits = more(self.retransmits, part.retransmits);
        if setup.is_udp {
            self.packets = more(self.packets, part.packets);
            // Who sends hears of losses in the end.
            let lost = if self.sends { Some(0) } else { part.lost };
            let lost = more(self.lost, lost);
            let all = self.packets.unwrap_or(i64::MAX);
            // With an omitted time one may have been lost in that, and come later.
            self.lost = match setup.omits {
                true => lost.filter(|lost| (0..=all).contains(lost)),
                false => impossible.check(lost, 0..=all, "lost_packets so far", place),
            };
            self.is_untold |= self.packets.is_none() || self.lost.is_none();
        }
        let got = self.packets.zip(self.lost).map(|(packets, lost)| packets - lost);
        let is_told = part.retransmits.is_some() || part.cwnd.is_some() || part.rtt_us.is_some();
        let known = |value: Option<i64>| value.and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
        let tcp = (is_told && self.sends && !setup.is_udp).then(|| TcpState {
            retransmits: self.retransmits.and_then(|n| u64::try_from(n).ok()),
            cwnd: known(part.cwnd.zip(setup.mss).map(|(bytes, mss)| bytes / mss)),
            srtt_us: known(part.rtt_us),
            pacing_rate: u64::MAX,
            ..TcpState::default()
        });
        self.here.push(FlowSample { tcp, ..sample(part.end, here, self.bytes, got) });
        // A receiver knows of the datagrams that are missing that they were sent.
        if setup.is_udp && !self.sends {
            if self.there.is_empty() {
                self.there.push(sample(begin_s, there, 0.0, None));
            }
            let bytes = self.packets.unwrap_or(0) as f64 * setup.size as f64;
            self.there.push(sample(part.end, there, bytes, self.packets));
        }
    }

    /// What the end tells of the sender or the receiver of a TCP stream. Of the other end it has zeros where that never told.
    fn end(&mut self, part: &Counted, is_sender: bool) {
        let is_here = is_sender == self.sends;
        let Some(bytes) = part.bytes.filter(|bytes| is_here || *bytes > 0.0 || self.bytes == 0.0)
        else {
            return;
        };
        if !is_here {
            let (_, there) = self.sides();
            self.there =
                vec![sample(part.start, there, 0.0, None), sample(part.end, there, bytes, None)];
        }
        if is_sender {
            self.retransmits = part.retransmits;
        } else if part.end > part.start && bytes > 0.0 {
            self.measured = Some(MeasuredFlow {
                seconds: Some(part.end - part.start),
                received_bytes: Some(bytes as u64),
                retransmits: self.retransmits.and_then(|n| u64::try_from(n).ok()),
                datagrams: None,
            });
        }
    }

    /// What the end tells of datagrams; its jitter where the stream can't keep it.
    fn end_of_datagrams(
        &mut self,
        part: &Counted,
        receiver: &Receiver,
        setup: &Iperf3Setup,
        omitted: bool,
    ) -> Option<f64> {
        let (_, there) = self.sides();
        let last = |end: f64, bytes: f64, packets: i64| {
            vec![sample(part.start, there, 0.0, None), sample(end, there, bytes, Some(packets))]
        };
        let summed = Some(receiver).filter(|_| self.sends).and_then(|r| r.measured(part));
        let found = match (part.datagrams(), &summed) {
            _ if self.sends && receiver.is_silent(part) => {
                self.is_untold = true;
                return None;
            }
            (_, Some(got)) => {
                let packets = got.datagrams.map_or(0, |d| d.arrived.cast_signed());
                let bytes = got.received_bytes.unwrap_or(0) as f64;
                self.there = last(part.start + got.seconds.unwrap_or(0.0), bytes, packets);
                summed
            }
            (Some((sent, lost)), None) => {
                if self.sends {
                    let got = sent - lost;
                    let bytes = part.bytes.unwrap_or(0.0);
                    let bytes = if sent > 0 { bytes * got as f64 / sent as f64 } else { 0.0 };
                    self.there = last(part.end, bytes, got);
                }
                let size = (!self.sends && setup.size > 0).then_some(setup.size);
                (omitted || self.is_untold).then(|| measured(part, size)).flatten()
            }
            (None, None) => None,
        };
        if omitted {
            self.leave_out_omitted(part, setup.size);
        }
        self.measured = found.and_then(MeasuredFlow::believed);
        if self.measured.is_some() {
            return None;
        }
        self.is_untold |= self.sends && part.datagrams().is_none();
        part.jitter_ms
    }

    /// A receiver's first interval after the omitted time counts datagrams of that time too, its bytes and the end do not: what is more than the
    /// end tells came then.
    fn leave_out_omitted(&mut self, end: &Counted, size: u64) {
        let told = end.datagrams().filter(|_| !self.sends);
        let Some(((packets, lost), all)) = told.zip(self.packets.zip(self.lost)) else {
            self.is_untold |= !self.sends;
            return;
        };
        let more = all.0 - packets;
        if more <= 0 {
            return;
        }
        let more_lost = (all.1 - lost).clamp(0, more);
        let less = |samples: &mut [FlowSample], packets: i64, size: u64| {
            let packets = u64::try_from(packets).unwrap_or(0);
            for sample in samples.iter_mut().skip(1) {
                sample.packets = sample.packets.saturating_sub(packets);
                sample.bytes = sample.bytes.saturating_sub(packets.saturating_mul(size));
            }
        };
        less(&mut self.here, more - more_lost, 0);
        less(&mut self.there, more, size);
    }

    /// Leaves bytes, and of a sender what it sent; what was sent to a receiver it knows of datagrams alone.
    fn forget_datagrams(&mut self) {
        if !self.sends {
            self.there.clear();
            self.here.iter_mut().for_each(|sample| sample.packets = 0);
        }
        self.there.iter_mut().for_each(|sample| sample.packets = 0);
    }
}

/// What the end says of datagrams; none where that can't be. `size`: of each, where the bytes are not of those that count.
fn measured(part: &Counted, size: Option<u64>) -> Option<MeasuredFlow> {
    let (sent, lost) = part.datagrams()?;
    let arrived = sent - lost;
    let bytes = match size {
        Some(size) => (size as f64) * arrived as f64,
        None if sent > 0 => part.bytes? * arrived as f64 / sent as f64,
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
            "The file does not tell what the receiver got: goodput of what was sent from here is unknown.".to_owned(),
        );
    }
}
