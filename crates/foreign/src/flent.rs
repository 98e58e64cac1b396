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

use crate::bounds::{MOST_SAMPLES, MOST_STREAMS};
use crate::error::ForeignError;
use crate::imported::{
    FlowDirection, Imported, Stream, Tool, delays_contradict, from_ms, from_s, unused,
};
use crate::{json, order};
use quell_model::{EchoSample, EchoStatus, FlowSample, Side};
use serde::Deserialize;
use std::collections::BTreeMap;

mod raw;
mod sockets;

use raw::Raw;

/// The newest version of the format that is known; Flent 2.1 writes it.
const NEWEST: u64 = 4;

/// Since this version round trips of netperf are stored in milliseconds, before it as transactions a second.
const IN_MS: u64 = 4;

#[derive(Default, Deserialize)]
#[serde(default)]
struct FlentFile {
    version: Option<f64>,
    #[serde(deserialize_with = "json::or_default")]
    metadata: Metadata,
    #[serde(rename = "raw_values", deserialize_with = "json::in_order")]
    raw: Vec<(String, Vec<Raw>)>,
    #[serde(rename = "x_values", deserialize_with = "json::or_default")]
    x: Vec<Option<f64>>,
    #[serde(deserialize_with = "json::in_order")]
    results: Vec<(String, Vec<Option<f64>>)>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "UPPERCASE", default)]
struct Metadata {
    name: Option<String>,
    title: Option<String>,
    note: Option<String>,
    host: Option<String>,
    local_host: Option<String>,
    flent_version: Option<String>,
    kernel_release: Option<String>,
    time: Option<String>,
    t0: Option<String>,
    length: Option<f64>,
    total_length: Option<f64>,
    step_size: Option<f64>,
    #[serde(deserialize_with = "json::or_default")]
    series_meta: BTreeMap<String, SeriesMeta>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "UPPERCASE", default)]
struct SeriesMeta {
    units: Option<String>,
    runner: Option<String>,
    command: Option<String>,
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

pub(crate) fn read(text: &str) -> Result<Imported, ForeignError> {
    let document: FlentFile = json::read(text)?;
    let values = document.raw.iter().map(|(_, values)| values.len());
    let values = values.chain(document.results.iter().map(|(_, values)| values.len()));
    let streams = document.raw.len().max(document.results.len());
    if streams > MOST_STREAMS || values.sum::<usize>() > 2 * MOST_SAMPLES {
        return Err(ForeignError::TooMany);
    }
    let version = document.version.unwrap_or(1.0) as u64;
    if version > NEWEST {
        return Err(ForeignError::Version { found: version, known: NEWEST });
    }
    let mut imported = about(&document.metadata);
    let raw_is_there =
        document.raw.iter().any(|(_, values)| values.iter().any(|v| v.val.is_some()));
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
        left: MOST_SAMPLES,
        computed: Vec::new(),
        other: Vec::new(),
        means: Vec::new(),
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
    Ok(imported)
}

/// How the series of a file are read, and which of them are no streams.
struct FlentReading<'a> {
    metadata: &'a Metadata,
    zero: f64,
    /// Whether round trips are in milliseconds, those of netperf too.
    in_ms: bool,
    /// Packets that there is room for.
    left: usize,
    computed: Vec<String>,
    other: Vec<String>,
    means: Vec<String>,
}

impl FlentReading<'_> {
    fn series(
        &mut self,
        imported: &mut Imported,
        name: String,
        values: &[Raw],
    ) -> Result<(), ForeignError> {
        let meta = self.metadata.series_meta.get(&name);
        let kind = kind(&name, meta, values);
        let names = imported.streams.iter().map(|stream| &*stream.name);
        let mut stream = Stream { name: unused(names, &name), ..Stream::default() };
        match kind {
            SeriesKind::Computed => self.computed.push(name),
            SeriesKind::Other => self.other.push(name),
            SeriesKind::Packets | SeriesKind::Means => {
                let per_second = kind == SeriesKind::Means && !self.in_ms;
                let untold =
                    packets(&mut stream, meta, values, self.zero, per_second, &mut self.left)?;
                imported.left_out.extend(untold.said("round trip"));
                if kind == SeriesKind::Means {
                    self.means.push(name);
                }
            }
            SeriesKind::Rate => {
                stream.way = way(&name, meta);
                let (flow, untold) = flow(&name, values, self.zero, self.metadata.step_size)?;
                stream.flow = flow;
                imported.left_out.extend(untold.said("rate"));
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

fn about(metadata: &Metadata) -> Imported {
    let mut imported = Imported::new(Tool::Flent);
    let text = |text: &Option<String>| text.clone().map(crate::imported::cut).unwrap_or_default();
    imported.test = text(&metadata.name);
    imported.title = text(&metadata.title);
    let started = metadata
        .t0
        .as_deref()
        .or(metadata.time.as_deref())
        .and_then(quell_units::time::unix_seconds);
    imported.started_s = started;
    let seconds = metadata.total_length.or(metadata.length);
    let window = seconds.and_then(from_s).and_then(|ns| u64::try_from(ns).ok());
    imported.window_ns = window.filter(|ns| *ns > 0);
    imported.tell("Flent", metadata.flent_version.clone());
    imported.tell("host", metadata.host.clone());
    imported.tell("from", metadata.local_host.clone());
    imported.tell("kernel", metadata.kernel_release.clone());
    imported.tell("note", metadata.note.clone());
    imported
}

/// The Unix time of the run's zero. Old files have it in a time zone that they don't tell: whole quarters of an hour are put right by the first value.
fn zero(metadata: &Metadata, raw: &[(String, Vec<Raw>)]) -> f64 {
    const QUARTER: f64 = 900.0;
    let first = first(raw.iter().flat_map(|(_, values)| values).filter_map(|v| v.t).collect());
    let told = metadata
        .t0
        .as_deref()
        .or(metadata.time.as_deref())
        .and_then(quell_units::time::unix_seconds);
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

fn of_grid(x: &[Option<f64>], results: Vec<(String, Vec<Option<f64>>)>) -> Vec<(String, Vec<Raw>)> {
    let value = |(t, val): (&Option<f64>, Option<f64>)| {
        let t = (*t)?;
        Some(Raw { t: Some(t), val: Some(val?), ..Raw::default() })
    };
    let of = |values: Vec<Option<f64>>| x.iter().zip(values).filter_map(value).collect();
    let (told, series): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|(name, _)| sockets::is_told_of_one(name));
    let mut series: Vec<(String, Vec<Raw>)> =
        series.into_iter().map(|(name, values)| (name, of(values))).collect();
    sockets::add(&mut series, x, &told);
    series
}

fn kind(name: &str, meta: Option<&SeriesMeta>, values: &[Raw]) -> SeriesKind {
    let runner = meta.and_then(|m| m.runner.as_deref()).unwrap_or_default();
    let computed = [" avg", " sum", " totals", " fairness"].iter().any(|end| name.ends_with(end));
    if computed || matches!(runner, "AverageRunner" | "SumRunner" | "FairnessRunner") {
        return SeriesKind::Computed;
    }
    if !values.iter().any(|v| v.val.is_some() || v.lost == Some(true)) {
        return if name.contains("::") { SeriesKind::Computed } else { SeriesKind::Other };
    }
    let units = meta.and_then(|m| m.units.as_deref());
    match units {
        Some("ms") | None if name.starts_with("Ping") => {
            let is_mean = runner == "NetperfDemoRunner" || values.iter().any(|v| v.dur.is_some());
            if is_mean { SeriesKind::Means } else { SeriesKind::Packets }
        }
        Some("Mbits/s") => SeriesKind::Rate,
        None if name.starts_with("TCP ") => SeriesKind::Rate,
        _ => SeriesKind::Other,
    }
}

fn way(name: &str, meta: Option<&SeriesMeta>) -> Option<FlowDirection> {
    let name = name.to_ascii_lowercase();
    let command = meta.and_then(|m| m.command.as_deref()).unwrap_or_default();
    if name.contains("download") || command.contains("TCP_MAERTS") {
        Some(FlowDirection::Down)
    } else if name.contains("upload") || command.contains("TCP_STREAM") {
        Some(FlowDirection::Up)
    } else {
        None
    }
}

/// Values of a series that are neither of a packet nor of an interval, as some runners store beside these.
struct Untold {
    series: String,
    count: usize,
    first: usize,
}

impl Untold {
    fn of(series: &str) -> Self {
        Self { series: series.to_owned(), count: 0, first: 0 }
    }

    fn add(&mut self, index: usize) {
        if self.count == 0 {
            self.first = index;
        }
        self.count += 1;
    }

    fn said(&self, what: &str) -> Option<String> {
        let (series, count) = (crate::imported::cut(self.series.clone()), self.count);
        let values = if count == 1 { "value" } else { "values" };
        let first = self.first;
        (count > 0).then(|| {
            format!("{series}: {count} {values} without a {what}, the first at [{first}].")
        })
    }
}

/// Packets of a ping. `per_second` where the values are transactions a second.
fn packets(
    stream: &mut Stream,
    meta: Option<&SeriesMeta>,
    values: &[Raw],
    zero: f64,
    per_second: bool,
    left: &mut usize,
) -> Result<Untold, ForeignError> {
    let mut untold = Untold::of(&stream.name);
    let numbered = values.iter().any(|v| v.seq.is_some());
    for (index, value) in values.iter().enumerate() {
        let wrong = |what: &str, why: String| {
            let place = format!("raw_values[{:?}][{index}].{what}", stream.name);
            ForeignError::Value { place, why }
        };
        let is_lost = value.lost == Some(true);
        if value.val.is_none() && value.seq.is_none() && !is_lost {
            if !value.is_of_socket() {
                untold.add(index);
            }
            continue;
        }
        let at = value.since(zero).map_err(|why| wrong("t", why))?;
        let seq = match (numbered, value.seq) {
            (true, Some(seq)) if (0.0..9e15).contains(&seq) && seq.fract() == 0.0 => seq as u64,
            (true, Some(seq)) => {
                return Err(wrong("seq", format!("{seq:?} is no number of a packet")));
            }
            (true, None) => return Err(wrong("seq", "a packet without its number".to_owned())),
            (false, _) => index as u64,
        };
        if is_lost {
            let status = match value.lost_dir.as_deref() {
                Some("up") => EchoStatus::LostUp,
                Some("down") => EchoStatus::LostDown,
                _ => EchoStatus::Lost,
            };
            stream.packets.push(EchoSample::new(at, seq, 0, status));
            continue;
        }
        let Some(val) = value.val else {
            return Err(wrong("val", "a packet without its round trip".to_owned()));
        };
        let ms = if per_second { 1000.0 / val } else { val };
        let Some(rtt) = from_ms(ms) else {
            return Err(wrong("val", format!("{val:?} is no round-trip time")));
        };
        let one_way = |ms: f64| from_s(ms / 1e3).ok_or_else(|| format!("{ms:?} ms is no delay"));
        let up_ns = value.owd_up.map(one_way).transpose().map_err(|why| wrong("owd_up", why))?;
        let down_ns =
            value.owd_down.map(one_way).transpose().map_err(|why| wrong("owd_down", why))?;
        if let Some(why) = delays_contradict(rtt, up_ns, down_ns) {
            return Err(wrong("owd_up", why));
        }
        let is_packet = value.dur.is_none();
        let sent = if is_packet { at - i64::try_from(rtt).unwrap_or(0) } else { at };
        stream.packets.push(EchoSample {
            rtt_ns: Some(rtt),
            up_ns,
            down_ns,
            ..EchoSample::new(sent, seq, 0, EchoStatus::Ok)
        });
    }
    stream.two_clocks = stream.packets.iter().any(|p| p.up_ns.is_some());
    if numbered {
        let from_0 = meta.and_then(|m| m.command.as_deref()).is_some_and(|c| c.contains("fping"));
        let first = stream.packets.iter().map(|p| p.seq).min().unwrap_or(0);
        if from_0 && first == 1 {
            // fping counts from 0: the first packet was lost, and Flent does not store that.
            let second = stream.packets.iter().filter(|p| p.seq > 1).min_by_key(|p| p.seq);
            let at = stream.packets.iter().find(|p| p.seq == 1).map_or(0, |p| p.t_ns);
            let step = second.map_or(0, |p| (p.t_ns - at) / i64::try_from(p.seq - 1).unwrap_or(1));
            stream.packets.push(EchoSample::new(at - step, 0, 0, EchoStatus::Lost));
        }
        stream.packets = order::by_number(std::mem::take(&mut stream.packets), left)?;
        order::arrivals(&mut stream.packets);
    }
    Ok(untold)
}

/// Rates as bytes so far. Between two intervals that don't touch nothing is known, and nothing counts.
fn flow(
    name: &str,
    values: &[Raw],
    zero: f64,
    step: Option<f64>,
) -> Result<(Vec<FlowSample>, Untold), ForeignError> {
    let mut untold = Untold::of(name);
    let mut rates: Vec<(f64, f64, Option<f64>)> = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let wrong = |what: &str, why: String| {
            let place = format!("raw_values[{name:?}][{index}].{what}");
            ForeignError::Value { place, why }
        };
        let Some(rate) = value.val else {
            if value.dur.is_some() {
                return Err(wrong("val", "an interval without its rate".to_owned()));
            }
            if !value.is_of_socket() {
                untold.add(index);
            }
            continue;
        };
        let at = value.since(zero).map_err(|why| wrong("t", why))?;
        if !(0.0..1e9).contains(&rate) {
            return Err(wrong("val", format!("{rate:?} Mbit/s is no rate")));
        }
        if let Some(dur) = value.dur.filter(|dur| !(0.0..=3600.0).contains(dur)) {
            return Err(wrong("dur", format!("{dur:?} s is no time of an interval")));
        }
        rates.push((at as f64 / 1e9, rate, value.dur));
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
    for (t, rate, dur) in rates {
        let usual = step.filter(|s| (1e-3..=60.0).contains(s)).unwrap_or(0.2);
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
    Ok((samples, untold))
}
