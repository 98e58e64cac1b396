//! Flent's data files, versions 1 to 4 of the format: JSON, mostly gzipped.
//!
//! ```text
//!   metadata    NAME, T0, TOTAL_LENGTH, SERIES_META{series: UNITS, RUNNER, COMMAND}
//!   raw_values  {series: [{t, val, seq|dur, owd_up, owd_down, lost, lost_dir}]}    t: Unix time; val: ms or Mbit/s
//!   x_values, results    the same on a grid of STEP_SIZE: only read where there are no raw values
//! ```
//!
//! Pings become packets, sent their round trip before the answer that Flent stamps. Rates become a receiver's bytes, since that is what they are
//! shown as. Sums and averages are computed anew from their parts. What `--socket-stats` had of an upload's socket becomes its sender's.

use crate::bounds::{MOST_SAMPLES, MOST_SECONDS, MOST_STREAMS};
use crate::error::ForeignError;
use crate::imported::{
    FlowDirection, Imported, ImpossibleValues, Stream, Tool, delays_contradict, from_ms, from_s,
    unused,
};
use crate::json::{self, Number};
use crate::order;
use quell_model::{EchoSample, EchoStatus, FlowSample, Side};
use serde::Deserialize;
use serde_json::Value;

mod raw;
mod sockets;

use raw::Raw;

/// The newest version of the format that is known; Flent 2.1 writes it.
const NEWEST: u64 = 4;

/// Since this version round trips of netperf are stored in milliseconds, before it as transactions a second.
const IN_MS: u64 = 4;

/// Netperf's calls over UDP wait for ever for an answer that was lost: longer than this is no slow path.
const STALL_S: f64 = 1.0;

#[derive(Default, Deserialize)]
#[serde(default)]
struct FlentFile {
    version: Number,
    metadata: Value,
    #[serde(rename = "raw_values", deserialize_with = "json::in_order")]
    raw: Vec<(String, Vec<Raw>)>,
    #[serde(rename = "x_values", deserialize_with = "json::or_default")]
    x: Vec<Number>,
    #[serde(deserialize_with = "json::in_order")]
    results: Vec<(String, Vec<Number>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum SeriesKind {
    Packets,
    /// Round trips of netperf: the mean of each interval.
    Means,
    Rate,
    Computed,
    Other,
}

pub(crate) fn read(text: &str, left: &mut usize) -> Result<Imported, ForeignError> {
    let document: FlentFile = json::read(text)?;
    let values = document.raw.iter().map(|(_, values)| values.len());
    let values = values.chain(document.results.iter().map(|(_, values)| values.len()));
    let streams = document.raw.len().max(document.results.len());
    if streams > MOST_STREAMS || values.sum::<usize>() > 2 * MOST_SAMPLES {
        return Err(ForeignError::TooMany);
    }
    let version = document.version.0.unwrap_or(1.0) as u64;
    if version > NEWEST {
        return Err(ForeignError::Version { found: version, known: NEWEST });
    }
    let mut imported = about(&document.metadata);
    let raw_is_there =
        document.raw.iter().any(|(_, values)| values.iter().any(|v| v.val.0.is_some()));
    let (series, zero) = match raw_is_there {
        true => {
            let zero = zero(&document.metadata, &document.raw);
            (document.raw, zero)
        }
        false => {
            imported.notes.push(
                "The file has no raw values: what Flent put on its grid takes their place."
                    .to_owned(),
            );
            (of_grid(&document.x, document.results), 0.0)
        }
    };
    let mut reading = FlentReading {
        metadata: &document.metadata,
        zero,
        in_ms: version >= IN_MS || !raw_is_there,
        left,
        computed: Vec::new(),
        other: Vec::new(),
        means: Vec::new(),
        impossible: ImpossibleValues::default(),
    };
    for (name, values) in series {
        reading.series(&mut imported, name, &values)?;
    }
    begin_at_0(&mut imported);
    let more: usize = imported.streams.iter().map(|s| s.packets.len() + s.flow.len()).sum();
    if more > 4 * MOST_SAMPLES {
        return Err(ForeignError::TooMany);
    }
    note(&mut imported, &reading.means);
    leave_out(&mut imported, &reading.computed, &reading.other);
    imported.left_out.extend(reading.impossible.said());
    Ok(imported)
}

/// How the series of a file are read, and which of them are no streams.
struct FlentReading<'a> {
    metadata: &'a Value,
    zero: f64,
    /// Whether round trips are in milliseconds, those of netperf too.
    in_ms: bool,
    /// Packets that there is room for.
    left: &'a mut usize,
    computed: Vec<String>,
    other: Vec<String>,
    means: Vec<String>,
    impossible: ImpossibleValues,
}

impl FlentReading<'_> {
    fn series(
        &mut self,
        imported: &mut Imported,
        name: String,
        values: &[Raw],
    ) -> Result<(), ForeignError> {
        let meta = &self.metadata["SERIES_META"][&*name];
        let kind = kind(&name, meta, values);
        let names = imported.streams.iter().map(|stream| &*stream.name);
        let mut stream = Stream { name: unused(names, &name), ..Stream::default() };
        match kind {
            SeriesKind::Computed => self.computed.push(name),
            SeriesKind::Other => self.other.push(name),
            SeriesKind::Packets => {
                self.packets(&mut stream, meta, values);
                if values.iter().any(|v| v.seq.0.is_some()) {
                    let packets = std::mem::take(&mut stream.packets);
                    stream.packets = order::by_number(packets, self.left)?;
                    order::arrivals(&mut stream.packets);
                }
            }
            SeriesKind::Means => {
                imported.left_out.extend(self.round_trips(&mut stream, values));
                self.means.push(name);
            }
            SeriesKind::Rate => {
                stream.way = way(&name, meta);
                stream.flow = self.flow(&name, values);
                let states = sockets::states(values, self.zero, &stream.flow);
                stream.flow.extend(states);
                let direction = stream.way.map_or("direction unknown", FlowDirection::word);
                stream
                    .facts
                    .push(("counted-by", format!("the program that measured ({direction})")));
            }
        }
        if !stream.is_empty() {
            imported.streams.push(stream);
        }
        Ok(())
    }
}

/// Says how the figures of the streams are to be read.
fn note(imported: &mut Imported, means: &[String]) {
    let any = |is: fn(&Stream) -> bool| imported.streams.iter().any(is);
    let mut notes = Vec::new();
    if !means.is_empty() {
        notes.push(format!(
            "{}: each round trip is netperf's mean of an interval and no packet; what was lost is unknown, and none counts as lost.",
            listed(means)
        ));
    }
    for (is_so, said) in [
        (
            any(|s| !s.packets.is_empty() && !s.two_clocks),
            "Of pings Flent stores the answers: what was lost after the last one is unknown.",
        ),
        (
            any(|s| !s.flow.is_empty()),
            "Rates are as the program at this end counted them: of an upload that is what it handed to its kernel, and shown as goodput here.",
        ),
        (
            any(|s| s.flow.iter().any(|f| f.tcp.is_some())),
            "Of sockets Flent stores window, round trip and rates, and not what was sent again.",
        ),
    ] {
        notes.extend(is_so.then(|| said.to_owned()));
    }
    imported.notes.extend(notes);
}

/// The first packet left before the moment that Flent calls its zero, by a round trip or by what its times are rounded to. What is before 0 would
/// pass for warm-up.
fn begin_at_0(imported: &mut Imported) {
    let packets = imported.streams.iter().flat_map(|s| &s.packets).map(|p| p.t_ns);
    let before = packets.min().unwrap_or(0).min(0);
    for stream in &mut imported.streams {
        stream.packets.iter_mut().for_each(|p| p.t_ns -= before);
        stream.flow.iter_mut().for_each(|s| s.t_ns -= before);
    }
    // What is only rounded is not to make another second of it.
    if before < -1_000_000 {
        imported.started_s = imported.started_s.map(|s| s + before as f64 / 1e9);
    }
}

fn leave_out(imported: &mut Imported, computed: &[String], other: &[String]) {
    let mut out = |names: &[String], why: &str| {
        if !names.is_empty() {
            imported.left_out.push(format!("{}: {why}.", listed(names)));
        }
    };
    out(computed, "computed from others");
    out(other, "neither round trips of pings nor rates");
}

fn listed(names: &[String]) -> String {
    const NAMED: usize = 4;
    let named: Vec<String> =
        names.iter().take(NAMED).map(|n| crate::imported::cut(n.clone())).collect();
    match names.len() - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn about(metadata: &Value) -> Imported {
    let mut imported = Imported::new(Tool::Flent);
    let text = |key| json::text(&metadata[key]).map(crate::imported::cut).unwrap_or_default();
    imported.test = text("NAME");
    imported.title = text("TITLE");
    imported.started_s = started_s(metadata);
    let seconds = metadata["TOTAL_LENGTH"].as_f64().or(metadata["LENGTH"].as_f64());
    let window = seconds.and_then(from_s).and_then(|ns| u64::try_from(ns).ok());
    imported.window_ns = window.filter(|ns| *ns > 0);
    imported.tell("Flent", json::text(&metadata["FLENT_VERSION"]));
    imported.tell("host", json::text(&metadata["HOST"]));
    imported.tell("from", json::text(&metadata["LOCAL_HOST"]));
    imported.tell("kernel", json::text(&metadata["KERNEL_RELEASE"]));
    imported.tell("note", json::text(&metadata["NOTE"]));
    imported
}

fn started_s(metadata: &Value) -> Option<f64> {
    let text = metadata["T0"].as_str().or(metadata["TIME"].as_str())?;
    quell_units::time::unix_seconds(text)
}

/// The Unix time of the run's zero. Old files have it in a time zone that they don't tell: whole quarters of an hour are put right by the first value.
fn zero(metadata: &Value, raw: &[(String, Vec<Raw>)]) -> f64 {
    const QUARTER: f64 = 900.0;
    let first = first(raw.iter().flat_map(|(_, values)| values).filter_map(|v| v.t.0).collect());
    let told = started_s(metadata);
    match (told, first) {
        (Some(told), Some(first)) => {
            let shift = ((first - told) / QUARTER).round() * QUARTER;
            let zero = told + shift;
            let is_it = shift.abs() <= 86_400.0 && first >= zero - raw::EARLIEST_NS as f64 / 1e9;
            if is_it { zero } else { first }
        }
        (told, first) => told.or(first).unwrap_or(0.0),
    }
}

/// The first of these times, but for a few that are far before all others: those are to be refused, and not the others.
fn first(mut times: Vec<f64>) -> Option<f64> {
    times.retain(|t| t.is_finite());
    let few = (times.len() / 4).min(8);
    let (before, near, _) =
        (few < times.len()).then(|| times.select_nth_unstable_by(few, f64::total_cmp))?;
    let earliest = *near - raw::EARLIEST_NS as f64 / 1e9;
    Some(before.iter().copied().filter(|t| *t >= earliest).fold(*near, f64::min))
}

fn of_grid(x: &[Number], results: Vec<(String, Vec<Number>)>) -> Vec<(String, Vec<Raw>)> {
    let value = |(t, val): (&Number, Number)| {
        let is_there = t.0.is_some() && val.0.is_some();
        is_there.then(|| Raw { t: *t, val, ..Raw::default() })
    };
    let of = |values: Vec<Number>| x.iter().zip(values).filter_map(value).collect();
    let (told, series): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|(name, _)| sockets::is_told_of_one(name));
    let mut series: Vec<(String, Vec<Raw>)> =
        series.into_iter().map(|(name, values)| (name, of(values))).collect();
    sockets::add(&mut series, x, &told);
    series
}

fn kind(name: &str, meta: &Value, values: &[Raw]) -> SeriesKind {
    let runner = meta["RUNNER"].as_str().unwrap_or_default();
    let computed = [" avg", " sum", " totals", " fairness"].iter().any(|end| name.ends_with(end));
    if computed || matches!(runner, "AverageRunner" | "SumRunner" | "FairnessRunner") {
        return SeriesKind::Computed;
    }
    if !values.iter().any(|v| v.val.0.is_some() || v.is_lost()) {
        return if name.contains("::") { SeriesKind::Computed } else { SeriesKind::Other };
    }
    let units = meta["UNITS"].as_str();
    match units {
        Some("ms") | None if name.starts_with("Ping") => {
            let is_mean = runner == "NetperfDemoRunner" || values.iter().any(|v| v.dur.0.is_some());
            if is_mean { SeriesKind::Means } else { SeriesKind::Packets }
        }
        Some("Mbits/s") => SeriesKind::Rate,
        None if name.starts_with("TCP ") => SeriesKind::Rate,
        _ => SeriesKind::Other,
    }
}

fn way(name: &str, meta: &Value) -> Option<FlowDirection> {
    let name = name.to_ascii_lowercase();
    let command = meta["COMMAND"].as_str().unwrap_or_default();
    if name.contains("download") || command.contains("TCP_MAERTS") {
        Some(FlowDirection::Down)
    } else if name.contains("upload") || command.contains("TCP_STREAM") {
        Some(FlowDirection::Up)
    } else {
        None
    }
}

fn row_of(series: &str) -> String {
    format!("a row of {series}")
}

impl FlentReading<'_> {
    /// Packets of a ping. Of one whose values can't be it is unknown what became of it.
    fn packets(&mut self, stream: &mut Stream, meta: &Value, values: &[Raw]) {
        let impossible = &mut self.impossible;
        let numbered = values.iter().any(|v| v.seq.0.is_some());
        let (mut last_ns, mut next) = (0, 0);
        for (index, value) in values.iter().enumerate() {
            let place = || format!("{:?}[{index}]", stream.name);
            if value.val.0.is_none() && value.seq.0.is_none() && !value.is_lost() {
                if !value.is_of_socket() {
                    impossible
                        .add(&row_of(&stream.name), || format!("[{index}] has no round trip"));
                }
                continue;
            }
            let at = value.since(self.zero, &place(), impossible);
            let seq = value.seq.0.or(numbered.then_some(f64::NAN)).unwrap_or(index as f64);
            let seq = impossible.check(Some(seq), 0.0..9e15, "seq", place);
            let (known, seq) = (at.is_some() && seq.is_some(), seq.map_or(next, |seq| seq as u64));
            (last_ns, next) = (at.unwrap_or(last_ns), seq + 1);
            let mut packet = EchoSample::new(last_ns, seq, 0, EchoStatus::Unsure);
            let ms = if value.is_lost() { None } else { value.val.0.or(Some(f64::NAN)) };
            let ms = impossible.check(ms, 0.0..=MOST_SECONDS * 1e3, "round trip", place);
            match ms.and_then(from_ms).filter(|_| known) {
                _ if value.is_lost() => {
                    packet.status = match value.lost_dir.as_str() {
                        Some("up") => EchoStatus::LostUp,
                        Some("down") => EchoStatus::LostDown,
                        _ => EchoStatus::Lost,
                    };
                }
                Some(rtt) => {
                    packet.t_ns -= i64::try_from(rtt).unwrap_or(0);
                    (packet.rtt_ns, packet.status) = (Some(rtt), EchoStatus::Ok);
                    let mut one_way = |ms: Number, what: &str| {
                        let most = MOST_SECONDS * 1e3;
                        from_s(impossible.check(ms.0, -most..=most, what, place)? / 1e3)
                    };
                    let up = one_way(value.owd_up, "owd_up");
                    let down = one_way(value.owd_down, "owd_down");
                    let both = up.zip(down);
                    match both.and_then(|(up, down)| delays_contradict(rtt, up, down)) {
                        Some(why) => impossible.add("owd_up", || format!("{}: {why}", place())),
                        None => (packet.up_ns, packet.down_ns) = (up, down),
                    }
                }
                None => {}
            }
            stream.packets.push(packet);
        }
        stream.two_clocks = stream.packets.iter().any(|p| p.up_ns.is_some());
        let from_0 = meta["COMMAND"].as_str().is_some_and(|c| c.contains("fping"));
        let first = stream.packets.iter().min_by_key(|p| p.seq);
        if let Some(first) = first.filter(|first| numbered && from_0 && first.seq == 1) {
            // fping counts from 0: the first packet was lost, and Flent does not store that.
            let second = stream.packets.iter().filter(|p| p.seq > 1).min_by_key(|p| p.seq);
            let apart =
                |p: &EchoSample| (p.t_ns - first.t_ns) / i64::try_from(p.seq - 1).unwrap_or(1);
            let at = first.t_ns - second.map_or(0, apart);
            stream.packets.push(EchoSample::new(at, 0, 0, EchoStatus::Lost));
        }
    }

    /// Netperf's means of intervals. One in which it stood still for an answer that never came is no round trip: what is said of it.
    fn round_trips(&mut self, stream: &mut Stream, values: &[Raw]) -> Option<String> {
        let mut lengths: Vec<f64> = values.iter().filter_map(|v| v.dur.0).collect();
        lengths.sort_by(f64::total_cmp);
        let usual_s = lengths.get(lengths.len() / 2).copied().unwrap_or(0.0);
        let mut stalls: Vec<(f64, f64)> = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let place = || format!("{:?}[{index}]", stream.name);
            let Some(val) = value.val.0 else {
                if !value.is_of_socket() {
                    self.impossible
                        .add(&row_of(&stream.name), || format!("[{index}] has no round trip"));
                }
                continue;
            };
            let Some(at) = value.since(self.zero, &place(), &mut self.impossible) else { continue };
            let ms = if self.in_ms { val } else { 1e3 / val };
            let took_s = value.dur.0.unwrap_or(0.0);
            // Fewer than two calls in many times as long as others take.
            if took_s > STALL_S.max(5.0 * usual_s) && (ms * 2.0 > took_s * 1e3 || val == 0.0) {
                stalls.push((at as f64 / 1e9 - took_s, took_s));
                continue;
            }
            let ms = self.impossible.check(Some(ms), 0.0..=MOST_SECONDS * 1e3, "round trip", place);
            let Some(rtt) = ms.and_then(from_ms) else { continue };
            stream.packets.push(EchoSample {
                rtt_ns: Some(rtt),
                ..EchoSample::new(at, index as u64, 0, EchoStatus::Ok)
            });
        }
        let &(begin, longest) = stalls.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let name = crate::imported::cut(stream.name.clone());
        let times = if stalls.len() == 1 { "" } else { ", the longest of several times" };
        Some(format!(
            "{name}: netperf stood still for {longest:.1} s from {begin:.1} s on{times}; that is no round trip."
        ))
    }

    /// Rates as bytes so far. Between two intervals that don't touch nothing is known, and nothing counts.
    fn flow(&mut self, name: &str, values: &[Raw]) -> Vec<FlowSample> {
        let impossible = &mut self.impossible;
        let mut rates: Vec<(f64, f64, Option<f64>)> = Vec::new();
        for (index, value) in values.iter().enumerate() {
            let place = || format!("{name:?}[{index}]");
            if value.val.0.is_none() && value.dur.0.is_none() {
                if !value.is_of_socket() {
                    impossible.add(&row_of(name), || format!("[{index}] has no rate"));
                }
                continue;
            }
            let at = value.since(self.zero, &place(), impossible);
            let rate = value.val.0.or(Some(f64::NAN));
            let rate = impossible.check(rate, 0.0..1e9, "rate in Mbit/s", place);
            let dur = impossible.check(value.dur.0, 0.0..=3600.0, "dur", place);
            rates.extend(at.zip(rate).map(|(at, rate)| (at as f64 / 1e9, rate, dur)));
        }
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut samples: Vec<FlowSample> = Vec::new();
        let mut bytes = 0.0;
        let mut before: Option<f64> = None;
        let at = |t: f64, bytes: f64| FlowSample {
            t_ns: from_s(t).unwrap_or(0),
            side: Side::Receiver,
            bytes: bytes as u64,
            packets: 0,
            tcp: None,
        };
        let usual = self.metadata["STEP_SIZE"]
            .as_f64()
            .filter(|s| (1e-3..=60.0).contains(s))
            .unwrap_or(0.2);
        for (t, rate, dur) in rates {
            let apart = before.map(|before| t - before);
            let dur = dur.or(apart).unwrap_or(usual);
            // Intervals overlap by what their times are rounded to.
            let dur = apart.map_or(dur, |apart| dur.min(apart));
            if apart.is_none_or(|apart| apart > dur * 1.5) {
                samples.push(at(t - dur, bytes));
            }
            bytes += rate * 1e6 / 8.0 * dur;
            samples.push(at(t, bytes));
            before = Some(t);
        }
        samples
    }
}
