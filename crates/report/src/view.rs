//! Explore, the zoomable picture of a run on its page, with every packet in it.
//!
//! ```text
//!   Run ──► columns of numbers ──► JSON, gzip, base64 ──┐
//!   view/core.js, app.js ───────────────────────────────┴──► elements, and the scripts that fill them
//!           core.js: arithmetic; app.js: canvas, pointer, keys
//! ```
//!
//! Numbers are embedded as they are stored, in nanoseconds and bytes, and never rounded; only rates of flows are computed here.

use crate::analysis::series::is_of_line;
use crate::analysis::shared_line::Ways;
use crate::analysis::timeline;
use crate::insight::Pair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use quell_model::{CellId, EchoSample, EchoStatus, Manifest, Side};
use quell_store::{CellData, EchoSeries, FlowSeries, QueueSeries, Run};
use quell_wire::text::line as clean;
use serde::Serialize;
use std::collections::HashMap;

#[derive(Serialize)]
struct ViewDocument {
    looks: Vec<ViewColours>,
    statuses: Vec<&'static str>,
    /// The cell that is opened first, and the one beside it.
    worst: usize,
    beside: Option<usize>,
    cells: Vec<ViewCell>,
}

#[derive(Serialize)]
struct ViewColours {
    light: &'static str,
    dark: &'static str,
    dash: Vec<f64>,
}

#[derive(Serialize)]
struct ViewCell {
    name: String,
    /// Its place in the run.
    #[serde(skip)]
    number: usize,
    events: Vec<Event>,
    panels: Vec<Panel>,
}

#[derive(Serialize)]
struct Event {
    t: f64,
    label: String,
}

#[derive(Serialize)]
struct Panel {
    title: &'static str,
    unit: &'static str,
    /// What a stored number is multiplied with to be shown in the unit.
    scale: f64,
    /// `packets` or `steps`.
    kind: &'static str,
    series: Vec<ViewSeries>,
}

/// What was measured at each of these times. Columns that would say nothing are left out.
#[derive(Serialize)]
struct ViewSeries {
    name: String,
    slot: usize,
    /// Nanoseconds, each from the one before.
    t: Vec<i64>,
    y: ViewColumn,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<ViewColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<ViewColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    up: Option<ViewColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    down: Option<ViewColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<ViewColumn>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ViewColumn {
    Whole(Vec<Option<i64>>),
    Real(Vec<f64>),
}

/// Gives each name of a series its place among the looks.
#[derive(Default)]
struct Slots(HashMap<String, usize>);

impl Slots {
    fn of(&mut self, name: &str) -> usize {
        let next = self.0.len();
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

/// What shows the packets of a run: elements, and the scripts that fill them; none where there are no packets, flows or queues.
pub fn explorer(run: &Run) -> Option<(&'static str, String)> {
    let (cells, worst) = cells(run);
    if cells.is_empty() {
        return None;
    }
    // The worst of the scenarios that something was done about, with that; where most is lost there is little to see. Else the worst of all.
    let pairs = Pair::all(&run.manifest);
    let cure = |at: usize| cure(&run.manifest, &cells[at], &pairs, &cells);
    let seen = worst.iter().filter(|(_, badness)| *badness < 1.5 * EVER);
    let (worst, beside) = match seen.clone().find_map(|(at, _)| Some((*at, cure(*at)?))) {
        Some((at, cure)) => (at, Some(cure)),
        None => (worst[0].0, None),
    };
    let data = ViewDocument { looks: looks(), statuses: statuses(), worst, beside, cells };
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let written = serde_json::to_writer(std::io::BufWriter::new(&mut packed), &data);
    written.expect("texts, numbers and lists are JSON, and memory takes all bytes");
    let data = STANDARD.encode(packed.finish().expect("memory takes all bytes"));
    let scripts = format!(
        "<script type=\"text/plain\" id=\"packets\">{data}</script>\n<script>\n{}</script>\n<script>\n{}</script>\n",
        include_str!("view/core.js"),
        include_str!("view/app.js")
    );
    Some((include_str!("view/body.html"), scripts))
}

/// The same probe's and repeat's cell of the scenario in which something was done about it.
fn cure(
    manifest: &Manifest,
    worst: &ViewCell,
    pairs: &[Pair],
    cells: &[ViewCell],
) -> Option<usize> {
    let id = |cell: &ViewCell| &manifest.cells[cell.number].id;
    let of = id(worst);
    let pair = pairs.iter().find(|pair| pair.before == of.scenario)?;
    let is =
        |id: &CellId| id.scenario == pair.after && id.probe == of.probe && id.repeat == of.repeat;
    cells.iter().position(|cell| is(id(cell)))
}

fn looks() -> Vec<ViewColours> {
    let lengths = |dash: Option<&str>| {
        dash.into_iter().flat_map(|d| d.split(' ')).filter_map(|n| n.parse().ok()).collect()
    };
    let look =
        |l: quell_chart::Look| ViewColours { light: l.light, dark: l.dark, dash: lengths(l.dash) };
    quell_chart::looks().map(look).collect()
}

fn statuses() -> Vec<&'static str> {
    EchoStatus::NAMES.iter().map(|(_, name)| *name).collect()
}

/// The cells that have something to show, and their places with how bad they are, the worst first.
fn cells(run: &Run) -> (Vec<ViewCell>, Vec<(usize, f64)>) {
    let mut slots = Slots::default();
    let (mut cells, mut badness) = (Vec::new(), Vec::new());
    // What loads lose is their own business, where probes have packets.
    let probes_have_some = run.iter().any(|(r, data)| data.echo(&r.id.probe).is_some());
    for (number, (record, data)) in run.iter().enumerate() {
        let panels = panels(data, &mut slots);
        if panels.is_empty() {
            continue;
        }
        let id = &record.id;
        let repeat = match id.repeat {
            0 => String::new(),
            n => format!(", repeat {}", n + 1),
        };
        badness.push(self::badness(data, probes_have_some.then_some(&*id.probe)));
        let event = |c: timeline::LineChange| Event { t: c.at_s * 1e9, label: clean(&c.what) };
        cells.push(ViewCell {
            number,
            name: clean(&format!("{}, {}{repeat}", id.scenario, id.probe)),
            events: timeline::changes(data).into_iter().map(event).collect(),
            panels,
        });
    }
    let mut worst: Vec<(usize, f64)> = badness.into_iter().enumerate().collect();
    worst.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    (cells, worst)
}

/// Longer than any answer is waited for, so that where more are lost it is worse.
const EVER: f64 = 1e15;

/// How long its packets took: their 95th percentile in nanoseconds, a lost one taking for ever; of several streams the worst, or of
/// the one of this name. Nothing without any.
fn badness(data: &CellData, own: Option<&str>) -> f64 {
    let of = |series: &EchoSeries| {
        let times = series.samples.iter().filter_map(|s| match s.status {
            status if status.is_lost() => Some(EVER),
            status if status.is_answered() => s.rtt_ns.map(|ns| ns as f64),
            _ => None,
        });
        let mut times: Vec<f64> = times.collect();
        let lost = times.iter().filter(|t| **t >= EVER).count() as f64;
        let at = times.len() * 95 / 100;
        if times.is_empty() {
            return None;
        }
        let percentile = *times.select_nth_unstable_by(at, f64::total_cmp).1;
        // Of two in which packets are lost the worse is that in which more are.
        Some(percentile * (1.0 + lost / times.len() as f64))
    };
    let shown = data.echoes.iter().filter(|s| own.is_none_or(|own| s.stream == own));
    shown.filter_map(of).fold(f64::NEG_INFINITY, f64::max)
}

fn panels(data: &CellData, slots: &mut Slots) -> Vec<Panel> {
    let ways = Ways::of(data);
    let echoes = data.echoes.iter().map(|s| echo(&ways.rows(s), slots)).collect();
    let flows = data.flows.iter().filter(|f| f.side == Side::Receiver && f.samples.len() > 1);
    let flows = flows.map(|f| flow(f, slots)).collect();
    let queues = data
        .queues
        .iter()
        .filter(|q| !is_of_line(&q.handle) && q.points.iter().any(|p| p.backlog_bytes > 0));
    let queues = queues.map(|q| queue(q, slots)).collect();
    let panel = |title, unit, scale, kind, series| Panel { title, unit, scale, kind, series };
    let all = [
        panel("Round-trip time", "ms", 1e-6, "packets", echoes),
        panel("Goodput", "Mbit/s", 1e-6, "steps", flows),
        panel("Waiting in queues", "kB", 1e-3, "steps", queues),
    ];
    all.into_iter().filter(|p| p.series.iter().any(|s| !s.t.is_empty())).collect()
}

fn echo(series: &EchoSeries, slots: &mut Slots) -> ViewSeries {
    let samples = &series.samples;
    let column = |of: &dyn Fn(&EchoSample) -> Option<i64>| {
        ViewColumn::Whole(samples.iter().map(of).collect())
    };
    let if_any = |of: &dyn Fn(&EchoSample) -> Option<i64>| {
        samples.iter().any(|s| of(s).is_some()).then(|| column(of))
    };
    let status = |s: &EchoSample| {
        let place = EchoStatus::NAMES.iter().position(|(status, _)| *status == s.status);
        place.and_then(|p| i64::try_from(p).ok())
    };
    let is_counted = samples.iter().enumerate().all(|(i, s)| s.seq == i as u64);
    let all_ok = samples.iter().all(|s| s.status == EchoStatus::Ok);
    let has_sizes = samples.iter().any(|s| s.bytes > 0);
    ViewSeries {
        slot: slots.of(&series.stream),
        name: clean(&series.stream),
        t: from_one_to_the_next(samples.iter().map(|s| s.t_ns)),
        y: column(&|s| s.rtt_ns.and_then(|ns| i64::try_from(ns).ok())),
        seq: (!is_counted).then(|| column(&|s| i64::try_from(s.seq).ok())),
        status: (!all_ok).then(|| column(&status)),
        up: if_any(&|s| s.up_ns),
        down: if_any(&|s| s.down_ns),
        bytes: has_sizes.then(|| column(&|s| Some(i64::from(s.bytes)))),
    }
}

/// Bits per second, over a second each: what came behind a repaired loss is handed over in one go, and no rate of the line.
fn flow(flow: &FlowSeries, slots: &mut Slots) -> ViewSeries {
    let mut looks: Vec<&quell_model::FlowSample> = Vec::new();
    for sample in &flow.samples {
        if looks.last().is_none_or(|last| sample.t_ns - last.t_ns >= 1_000_000_000) {
            looks.push(sample);
        }
    }
    let rate = |pair: &[&quell_model::FlowSample]| {
        let seconds = (pair[1].t_ns - pair[0].t_ns) as f64 / 1e9;
        pair[1].bytes.saturating_sub(pair[0].bytes) as f64 * 8.0 / seconds
    };
    let rates = looks.windows(2).map(rate).collect::<Vec<_>>();
    // The last rate lasts until the last report.
    let last = rates.last().copied();
    steps(&flow.stream, looks.iter().map(|s| s.t_ns), rates.into_iter().chain(last), slots)
}

fn queue(queue: &QueueSeries, slots: &mut Slots) -> ViewSeries {
    let name = format!("{} {} {}", queue.device, queue.kind, queue.handle);
    let bytes = queue.points.iter().map(|p| p.backlog_bytes as f64);
    steps(&name, queue.points.iter().map(|p| p.t_ns), bytes, slots)
}

fn steps(
    name: &str,
    t: impl Iterator<Item = i64>,
    y: impl Iterator<Item = f64>,
    slots: &mut Slots,
) -> ViewSeries {
    ViewSeries {
        slot: slots.of(name),
        name: clean(name),
        t: from_one_to_the_next(t),
        y: ViewColumn::Real(y.collect()),
        seq: None,
        status: None,
        up: None,
        down: None,
        bytes: None,
    }
}

fn from_one_to_the_next(times: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut last = 0;
    times.map(|t| t - std::mem::replace(&mut last, t)).collect()
}
