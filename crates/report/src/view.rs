//! The zoomable picture of a run: one page that needs nothing but a browser, with every packet in it.
//!
//! ```text
//!   Run ──► columns of numbers, base64 ──┐
//!   view/page.css, core.js, app.js ──────┴──► one HTML file
//!           core.js: arithmetic; app.js: canvas, pointer, keys
//! ```
//!
//! Numbers are embedded as they are stored, in nanoseconds and bytes, and never rounded; only rates of flows are computed here. A column
//! takes one or four bytes a number where its numbers or their steps fit, else eight: a million packets make some 11 MB.

use crate::analysis::series::is_of_line;
use crate::analysis::timeline;
use crate::analysis::way::Ways;
use crate::html::markup::{document, escape};
use crate::insight::Pair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
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

/// Times in nanoseconds, and what was measured at each. Columns that would say nothing are left out.
#[derive(Serialize)]
struct ViewSeries {
    name: String,
    slot: usize,
    t: ViewColumn,
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

/// Numbers, least significant byte first, in base64: `u8` and `u32` as they are, with their greatest for none; `d32` as steps from the
/// number before, the first from `from`; `f64` as they are, with NaN for none.
#[derive(Serialize)]
struct ViewColumn {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<f64>,
    data: String,
}

impl ViewColumn {
    /// In the least room. `f64` holds whole numbers up to 2^53: a hundred days of nanoseconds.
    fn of(values: &[Option<i64>]) -> Self {
        let byte = |v: &Option<i64>| match v {
            None => Some(u8::MAX),
            Some(v) => u8::try_from(*v).ok().filter(|v| *v != u8::MAX),
        };
        if let Some(bytes) = values.iter().map(byte).collect::<Option<Vec<u8>>>() {
            return ViewColumn::new("u8", None, bytes.into_iter());
        }
        let word = |v: &Option<i64>| match v {
            None => Some(u32::MAX),
            Some(v) => u32::try_from(*v).ok().filter(|v| *v != u32::MAX),
        };
        if let Some(words) = values.iter().map(word).collect::<Option<Vec<u32>>>() {
            return ViewColumn::new("u32", None, words.iter().flat_map(|w| w.to_le_bytes()));
        }
        let first = values.first().copied().flatten().unwrap_or(0);
        let before = std::iter::once(Some(first)).chain(values.iter().copied());
        let step = |(a, b): (Option<i64>, &Option<i64>)| u32::try_from((*b)?.checked_sub(a?)?).ok();
        if let Some(steps) = before.zip(values).map(step).collect::<Option<Vec<u32>>>() {
            let bytes = steps.iter().flat_map(|s| s.to_le_bytes());
            return ViewColumn::new("d32", Some(first as f64), bytes);
        }
        ViewColumn::floats(values.iter().map(|v| v.map_or(f64::NAN, |v| v as f64)))
    }

    fn floats(values: impl Iterator<Item = f64>) -> Self {
        ViewColumn::new("f64", None, values.flat_map(f64::to_le_bytes))
    }

    fn new(kind: &'static str, from: Option<f64>, bytes: impl Iterator<Item = u8>) -> Self {
        ViewColumn { kind, from, data: STANDARD.encode(bytes.collect::<Vec<u8>>()) }
    }
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
pub(crate) fn explorer(run: &Run) -> Option<(&'static str, String)> {
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
    // `<` would end the script early in a name like `</script>`; JSON has another way to write it.
    let data = serde_json::to_string(&data).unwrap_or_default().replace('<', "\\u003c");
    let scripts = format!(
        "<script type=\"application/json\" id=\"packets\">{data}</script>\n<script>\n{}</script>\n<script>\n{}</script>\n",
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

/// A page of this alone.
pub fn render(run: &Run) -> String {
    let m = &run.manifest;
    let title = if m.title.is_empty() { &m.experiment } else { &m.title };
    let partial = if m.complete { "" } else { " · partial run" };
    let facts = format!("Run {} · started {} · clock: {}{partial}", m.run, m.started, m.clock);
    let nothing = "<p>Nothing was measured that a picture could show.</p>\n";
    let (body, scripts) = explorer(run).unwrap_or((nothing, String::new()));
    let head = format!(
        "<header><h1>{}</h1>\n<p class=\"facts\">{}</p></header>\n",
        escape(title),
        escape(&facts)
    );
    let body = format!("{head}<main id=\"explore\">\n{body}</main>\n");
    document(&format!("{title} · {}", m.run), &body, &scripts)
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
    all.into_iter().filter(|p| p.series.iter().any(|s| !s.t.data.is_empty())).collect()
}

fn echo(series: &EchoSeries, slots: &mut Slots) -> ViewSeries {
    let samples = &series.samples;
    let column = |of: &dyn Fn(&EchoSample) -> Option<i64>| {
        ViewColumn::of(&samples.iter().map(of).collect::<Vec<_>>())
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
        t: column(&|s| Some(s.t_ns)),
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
        t: ViewColumn::of(&t.map(Some).collect::<Vec<_>>()),
        y: ViewColumn::floats(y),
        seq: None,
        status: None,
        up: None,
        down: None,
        bytes: None,
    }
}
