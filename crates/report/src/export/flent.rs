//! A cell as a data file of Flent, version 4.
//!
//! ```text
//!   packets ──► "Ping (ms) ICMP"      the ping; others by their streams' names
//!   flows   ──► "TCP upload::1" …     what the receiver had, as Mbit/s of each step
//!           └─► avg, sum, totals
//! ```
//!
//! Flent draws a file by the test that its `NAME` names: `tcp_nup`, `tcp_ndown` or, with both, `rrul_be_nflows`; `udp_flood` of datagrams up; `ping`
//! without a flow.

use crate::analysis::counters::Counters;
use crate::analysis::shared_line::Ways;
use crate::analysis::window_ns;
use flate2::{Compression, GzBuilder};
use quell_model::{CellRecord, EchoSample, EchoStatus, Manifest, Side};
use quell_store::{CellData, EchoSeries};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io;

/// Flent's usual distance of values on its grid, in nanoseconds.
const STEP_NS: i64 = 200_000_000;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the measurement {cell} has neither packets with answers nor flows with a receiver, which are what Flent's files hold"
)]
pub struct NotForFlent {
    pub cell: String,
}

#[derive(Serialize)]
struct Raw {
    t: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    val: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owd_up: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owd_down: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_dir: Option<&'static str>,
}

struct FlentSeries {
    name: String,
    units: &'static str,
    stream: Option<String>,
    /// Whether it is a flow of datagrams.
    is_udp: bool,
    raw: Vec<Raw>,
    grid: Vec<Option<f64>>,
}

/// A cell as the bytes of a `.flent.gz`.
///
/// # Errors
/// When the cell has nothing that such a file holds.
pub fn flent(
    manifest: &Manifest,
    record: &CellRecord,
    data: &CellData,
    zero_s: f64,
) -> Result<Vec<u8>, NotForFlent> {
    let nothing = || NotForFlent { cell: record.id.to_string() };
    let end_ns = window_ns(record, data).ok_or_else(nothing)?;
    let steps = (end_ns / STEP_NS).max(1);
    let mut series = pings(data, zero_s, steps);
    let (up, down) = (flows(data, true, zero_s, steps), flows(data, false, zero_s, steps));
    if series.is_empty() && up.is_empty() && down.is_empty() {
        return Err(nothing());
    }
    let test = match (up.is_empty(), down.is_empty()) {
        (true, true) => "ping",
        (false, true) if up.iter().all(|f| f.is_udp) => "udp_flood",
        (false, true) => "tcp_nup",
        (true, false) => "tcp_ndown",
        (false, false) => "rrul_be_nflows",
    };
    let both = test == "rrul_be_nflows";
    series.extend(
        computed("Ping (ms)", "ms", &series, steps).into_iter().filter(|s| s.name.ends_with("avg")),
    );
    let mut all = Vec::new();
    for (word, mut flows) in [("upload", up), ("download", down)] {
        let of = |is_udp: bool| if is_udp { "UDP" } else { "TCP" };
        for (number, flow) in flows.iter_mut().enumerate() {
            let class = if both { " BE" } else { "" };
            flow.name = format!("{} {word}{class}::{}", of(flow.is_udp), number + 1);
        }
        let stem = format!("{} {word}", of(!flows.is_empty() && flows.iter().all(|f| f.is_udp)));
        let sums = computed(&stem, "Mbits/s", &flows, steps);
        if let Some(sum) = sums.iter().find(|s| s.name.ends_with("sum")) {
            all.push(sum.grid.clone());
        }
        series.extend(flows);
        series.extend(sums);
    }
    if both {
        let grid = (0..steps as usize).map(|x| add(all.iter().filter_map(|sum| sum[x])));
        let grid: Vec<Option<f64>> = grid.collect();
        series.push(FlentSeries { grid, ..empty("TCP totals", "Mbits/s") });
    }
    let document = document(manifest, record, test, end_ns, series);
    Ok(packed(&document))
}

fn empty(name: &str, units: &'static str) -> FlentSeries {
    FlentSeries {
        name: name.to_owned(),
        units,
        stream: None,
        is_udp: false,
        raw: Vec::new(),
        grid: Vec::new(),
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

/// Flent reads no time without a fraction of a second.
fn with_fraction(started: &str) -> String {
    match started.strip_suffix('Z') {
        Some(whole) if !whole.contains('.') => format!("{whole}.000000Z"),
        _ => started.to_owned(),
    }
}

fn document(
    manifest: &Manifest,
    record: &CellRecord,
    test: &'static str,
    end_ns: i64,
    series: Vec<FlentSeries>,
) -> Value {
    let length = (end_ns as f64 / 1e9).ceil() as i64;
    let (mut meta, mut raw_values, mut results) = (Map::new(), Map::new(), Map::new());
    for FlentSeries { name, units, stream, raw, grid, .. } in series {
        let mut own = json!({ "UNITS": units, "MEAN_VALUE": mean(grid.iter().flatten().copied()) });
        // What is computed has none.
        if let Some(stream) = stream {
            own["STREAM"] = stream.into();
        }
        meta.insert(name.clone(), own);
        raw_values.insert(name.clone(), json!(raw));
        results.insert(name, json!(grid));
    }
    let steps = (end_ns / STEP_NS).max(1);
    json!({
        "metadata": {
            "NAME": test,
            "TITLE": format!("{} {}", manifest.experiment, record.id.scenario),
            "NOTE": format!("{}, exported from the run {} of Quell", record.id, manifest.run),
            "HOST": "quell",
            "HOSTS": ["quell"],
            "LOCAL_HOST": "quell",
            "TIME": with_fraction(&manifest.started),
            "T0": with_fraction(&manifest.started),
            "LENGTH": length,
            "TOTAL_LENGTH": length,
            "STEP_SIZE": seconds(STEP_NS),
            "TEST_PARAMETERS": {},
            "FLENT_VERSION": format!("quell {}", manifest.quell),
            "IP_VERSION": null,
            "DATA_FILENAME": format!("{}.flent.gz", manifest.run),
            "BATCH_NAME": null,
            "BATCH_TIME": null,
            "BATCH_TITLE": null,
            "BATCH_UUID": null,
            "KERNEL_RELEASE": manifest.kernel.version,
            "SYSCTLS": manifest.sysctls,
            "SERIES_META": meta,
        },
        "raw_values": raw_values,
        "results": results,
        "version": 4,
        "x_values": (0..steps).map(|x| seconds(x * STEP_NS)).collect::<Vec<_>>(),
    })
}

fn packed(document: &Value) -> Vec<u8> {
    // No time in the header, so that the same run gives the same bytes.
    let mut out = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let written = serde_json::to_writer(io::BufWriter::new(&mut out), document);
    written.expect("texts, numbers and lists are JSON, and memory takes all bytes");
    out.finish().expect("memory takes all bytes")
}

/// The streams of packets; one of them is Flent's ICMP ping, which its figures look for.
fn pings(data: &CellData, zero_s: f64, steps: i64) -> Vec<FlentSeries> {
    let answered = |s: &&EchoSeries| s.samples.iter().any(|p| p.rtt_ns.is_some());
    let streams: Vec<&EchoSeries> = data.echoes.iter().filter(answered).collect();
    // As it was called when it came from Flent.
    let own = |s: &EchoSeries| s.stream.strip_prefix("Ping (ms) ").unwrap_or(&s.stream).to_owned();
    let by = |is: fn(&str) -> bool| streams.iter().position(|s| is(&own(s)));
    let icmp =
        by(|name| name == "ICMP").or_else(|| by(|name| name.starts_with("ping"))).unwrap_or(0);
    let one = |(number, series): (usize, &&EchoSeries)| {
        let name = if number == icmp { "ICMP".to_owned() } else { own(series) };
        let mut packets: Vec<&EchoSample> = series.samples.iter().filter(|p| counts(p)).collect();
        packets.sort_by_key(|p| arrived(p));
        FlentSeries {
            name: format!("Ping (ms) {name}"),
            units: "ms",
            stream: Some(series.stream.clone()),
            is_udp: false,
            raw: packets.iter().map(|p| packet(p, zero_s)).collect(),
            grid: on_grid(&packets, steps),
        }
    };
    streams.iter().enumerate().map(one).collect()
}

fn counts(packet: &EchoSample) -> bool {
    packet.status.is_answered() && packet.rtt_ns.is_some() || packet.status.is_lost()
}

/// When the answer came; of a lost packet when it was sent.
fn arrived(packet: &EchoSample) -> i64 {
    let rtt = packet.rtt_ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
    packet.t_ns.saturating_add(rtt)
}

fn packet(packet: &EchoSample, zero_s: f64) -> Raw {
    let ms = |ns: i64| ns as f64 / 1e6;
    Raw {
        t: zero_s + seconds(arrived(packet)),
        val: packet.rtt_ns.map(|ns| ns as f64 / 1e6),
        seq: Some(packet.seq),
        dur: None,
        owd_up: packet.up_ns.map(ms),
        owd_down: packet.down_ns.map(ms),
        lost: packet.status.is_lost().then_some(true),
        lost_dir: match packet.status {
            EchoStatus::LostUp => Some("up"),
            EchoStatus::LostDown => Some("down"),
            _ => None,
        },
    }
}

/// Round trips on the grid: straight between answers that are not far from each other.
fn on_grid(packets: &[&EchoSample], steps: i64) -> Vec<Option<f64>> {
    let answers: Vec<(i64, f64)> =
        packets.iter().filter_map(|p| Some((arrived(p), p.rtt_ns? as f64 / 1e6))).collect();
    let value = |t: i64| {
        let after = answers.partition_point(|(at, _)| *at < t);
        let next = *answers.get(after)?;
        if next.0 == t {
            return Some(next.1);
        }
        let before = *answers.get(after.checked_sub(1)?)?;
        let apart = next.0 - before.0;
        let part = (t - before.0) as f64 / apart as f64;
        // Over five steps a line is drawn through without an answer.
        (apart <= 5 * STEP_NS).then_some(before.1 + (next.1 - before.1) * part)
    };
    (0..steps).map(|x| value(x * STEP_NS)).collect()
}

fn flows(data: &CellData, is_up: bool, zero_s: f64, steps: i64) -> Vec<FlentSeries> {
    let mut all = Vec::new();
    let ways = Ways::of(data);
    let received = data
        .flows
        .iter()
        .filter(|f| f.side == Side::Receiver && goes_up(&ways, &f.stream) == is_up);
    for flow in received {
        let Some((first, last)) = flow.samples.first().zip(flow.samples.last()) else { continue };
        let (first, last, last_sample) = (first.t_ns.max(0), last.t_ns, last);
        let counters = Counters::of(&flow.samples);
        let rate = |x: i64| {
            let (from, to) = (x * STEP_NS, (x + 1) * STEP_NS);
            let within = from.max(first) < to.min(last);
            within.then(|| counters.rate_mbps(from.max(first), to.min(last)))
        };
        let grid: Vec<Option<f64>> = (0..steps).map(rate).collect();
        let raw = (0..steps).zip(&grid).filter_map(|(x, rate)| {
            let (from, to) = ((x * STEP_NS).max(first), ((x + 1) * STEP_NS).min(last));
            let dur = Some(seconds(to - from));
            let t = zero_s + seconds(to);
            Some(Raw {
                t,
                val: Some((*rate)?),
                seq: None,
                dur,
                owd_up: None,
                owd_down: None,
                lost: None,
                lost_dir: None,
            })
        });
        let raw = raw.collect();
        all.push(FlentSeries {
            stream: Some(flow.stream.clone()),
            is_udp: last_sample.packets > 0,
            raw,
            grid,
            ..empty("", "Mbits/s")
        });
    }
    all
}

/// Whether a flow goes up: by its name, else by the line that it shares.
fn goes_up(ways: &Ways, stream: &str) -> bool {
    let name = stream.to_ascii_lowercase();
    if name.contains("down") {
        return false;
    }
    name.contains("up") || !ways.is_down(stream)
}

fn computed(stem: &str, units: &'static str, of: &[FlentSeries], steps: i64) -> Vec<FlentSeries> {
    if of.is_empty() {
        return Vec::new();
    }
    let at = |x: usize| of.iter().filter_map(move |s| s.grid[x]);
    let sum = (0..steps as usize).map(|x| add(at(x))).collect();
    let avg = (0..steps as usize).map(|x| mean(at(x))).collect();
    vec![
        FlentSeries { grid: avg, ..empty(&format!("{stem} avg"), units) },
        FlentSeries { grid: sum, ..empty(&format!("{stem} sum"), units) },
    ]
}

fn add(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(|a, b| a + b)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u64, 0.0), |(n, sum), value| (n + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}
