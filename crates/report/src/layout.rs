//! Which figures a table of a run shows: one layout for the terminal and for the page.
//!
//! Where each probe of an experiment has one stream of its own (as in `home-link`: `udp`, `ping`, `tcp`), a row is a scenario, and each
//! column takes its figure from the probe that measures it best. Otherwise a row is a stream in a scenario.

use crate::analysis::{Estimate, IntervalEnds, Results, Summary, SummaryRow};
use quell_model::{CellId, Manifest};

/// A table: columns, and rows of cells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableLayout {
    pub columns: Vec<FigureColumn>,
    pub rows: Vec<FigureRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FigureColumn {
    pub name: &'static str,
    pub of: String,
    pub unit: &'static str,
    /// The probe that it comes from, where a row is a scenario.
    pub from: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FigureRow {
    pub scenario: String,
    pub stream: Option<(String, String)>,
    /// The line that the stream's data shares with others, where a row is a stream.
    pub way: Option<String>,
    pub cells: Vec<Option<TableFigure>>,
}

impl FigureRow {
    /// The stream, with its probe where that has another name.
    pub fn stream_name(&self) -> Option<String> {
        let (probe, stream) = self.stream.as_ref()?;
        Some(match probe == stream || probe == CellId::TOGETHER {
            true => stream.clone(),
            false => format!("{probe}: {stream}"),
        })
    }
}

/// A figure, in the column's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TableFigure {
    pub estimate: Estimate,
    /// Where it is not known exactly: the most that it can be. The other is then the least.
    pub at_most: Option<Estimate>,
    pub digits: usize,
    /// Whether it is of fewer than half of the packets that were sent.
    pub of_a_minority: bool,
}

pub(crate) const MINORITY: &str =
    "* of fewer than half of the packets sent: the times of the others are unknown";

/// What the time of a page load is in virtual time.
pub(crate) const NETWORK_SHARE: &str =
    "the network's share of a page load; in virtual time programs, the browser too, take none";

impl TableFigure {
    /// The same with fewer digits, at least one after the point.
    pub fn shortened(self, by: usize) -> Self {
        // What has more digits for being small would show as nothing.
        let least = if self.estimate.interval.is_some_and(|i| i.high.is_some_and(|high| high < 0.1))
        {
            3
        } else {
            1
        };
        Self { digits: self.digits.saturating_sub(by).max(least.min(self.digits)), ..self }
    }

    /// The figure, as `12.3`; `12.3*` of a minority; `≥2.1 ≤12.3` where it lies between these.
    pub fn figure(&self) -> String {
        let mark = if self.of_a_minority { "*" } else { "" };
        let least = number(self.estimate.value, self.digits);
        match &self.at_most {
            Some(most) if most.value.is_infinite() => format!("≥{least}{mark}"),
            Some(most) => format!("≥{least} ≤{}{mark}", number(most.value, self.digits)),
            None => least + mark,
        }
    }

    fn ends(&self) -> Option<IntervalEnds> {
        let low = self.estimate.interval?.low;
        Some(IntervalEnds { low, high: self.at_most.unwrap_or(self.estimate).interval?.high })
    }

    /// The interval from low to high, as `11.9–12.7`; `≥11.9` or `≤12.7` where it is open to one side, `–` where to both.
    pub fn interval(&self) -> Option<String> {
        let IntervalEnds { low, high } = self.ends()?;
        let [low, high] = [low, high].map(|end| end.map(|end| number(end, self.digits)));
        Some(match (low, high) {
            (Some(low), Some(high)) => format!("{low}–{high}"),
            (Some(low), None) => format!("≥{low}"),
            (None, Some(high)) => format!("≤{high}"),
            (None, None) => "–".to_owned(),
        })
    }

    fn is_open(&self) -> bool {
        self.ends().is_some_and(|ends| ends.low.is_none() || ends.high.is_none())
    }
}

fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    // Rounding gives "-0.0", which is nothing.
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| matches!(b, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

/// A kind of figure: what it is called, its unit, factor to that unit, and where it stands in a summary.
struct FigureKind {
    name: &'static str,
    of: &'static str,
    unit: &'static str,
    factor: f64,
    from: From,
    value: fn(&SummaryRow) -> Option<Estimate>,
}

/// Which probe measures it best.
#[derive(Clone, Copy, PartialEq)]
enum From {
    Loss,
    OneWay,
    RoundTrip,
    Flow,
    Page,
}

const fn kind(
    name: &'static str,
    of: &'static str,
    unit: &'static str,
    from: From,
    value: fn(&SummaryRow) -> Option<Estimate>,
) -> FigureKind {
    let factor = if unit.len() == 1 { 100.0 } else { 1.0 };
    FigureKind { name, of, unit, factor, from, value }
}

const KINDS: [FigureKind; 16] = [
    kind("loss", "", "%", From::Loss, |r| r.loss),
    kind("late", "", "%", From::Loss, |r| r.late),
    kind("jitter", "up", "ms", From::Loss, |r| r.jitter_up_ms),
    kind("jitter", "down", "ms", From::Loss, |r| r.jitter_down_ms),
    kind("jitter", "RTT", "ms", From::Loss, |r| r.jitter_rtt_ms),
    kind("delay", "up p50", "ms", From::OneWay, |r| r.up_p50_ms),
    kind("delay", "down p50", "ms", From::OneWay, |r| r.down_p50_ms),
    kind("RTT", "p50", "ms", From::RoundTrip, |r| r.rtt_p50_ms),
    kind("RTT", "p99", "ms", From::RoundTrip, |r| r.rtt_p99_ms),
    kind("goodput", "", "Mbit/s", From::Flow, |r| r.goodput_mbps),
    kind("share", "", "%", From::Flow, |r| r.share),
    kind("CPU", "", "ms/MB", From::Flow, |r| r.cpu_ms_per_mb),
    kind("page", "doc", "ms", From::Page, |r| r.page_doc_ms),
    kind("page", "paint", "ms", From::Page, |r| r.page_paint_ms),
    kind("page", "total", "ms", From::Page, |r| r.page_load_ms),
    kind("page", "sd", "ms", From::Page, |r| r.page_load_sd_ms),
];

/// Digits of a figure in `unit`: as many as tell it from its neighbours.
fn digits(unit: &str, estimate: &Estimate) -> usize {
    let high = estimate.interval.and_then(|ends| ends.high);
    let largest = high.unwrap_or(estimate.value).abs();
    match unit {
        // A bound of 0.07 % is not 0.1 %.
        "%" if largest == 0.0 || largest >= 1.0 => 1,
        "%" if largest >= 0.1 => 2,
        "%" => 3,
        _ if estimate.value.abs() < 100.0 => 3,
        _ => 1,
    }
}

impl FigureKind {
    fn value(&self, row: &SummaryRow) -> Option<TableFigure> {
        let estimate = (self.value)(row)?.scaled(self.factor);
        let of_packets = !matches!(self.name, "loss" | "late" | "goodput" | "share" | "CPU");
        let of_a_minority = of_packets && row.of_a_minority;
        let at_most = match (self.name, self.of) {
            ("loss", _) => row.loss_at_most,
            ("RTT", "p50") => row.rtt_p50_at_most_ms,
            ("RTT", _) => row.rtt_p99_at_most_ms,
            _ => None,
        };
        let at_most = at_most.map(|most| most.scaled(self.factor));
        let largest = at_most.filter(|most| most.value.is_finite()).unwrap_or(estimate);
        let digits = digits(self.unit, &largest);
        Some(TableFigure { digits, estimate, at_most, of_a_minority })
    }
}

impl TableLayout {
    fn values(&self) -> impl Iterator<Item = &TableFigure> {
        self.rows.iter().flat_map(|r| &r.cells).flatten()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.values().next().is_none()
    }

    /// Whether a row is a stream rather than a scenario.
    pub fn has_streams(&self) -> bool {
        self.rows.iter().any(|r| r.stream.is_some())
    }

    pub fn has_ways(&self) -> bool {
        self.rows.iter().any(|r| r.way.is_some())
    }

    pub fn has_minorities(&self) -> bool {
        self.values().any(|v| v.of_a_minority)
    }

    /// What its figures are over so many repeats, and how their intervals are to be read.
    pub fn over(&self, repeats: u32) -> String {
        let mut text = format!("means over {repeats} repeats");
        if self.columns.iter().any(|c| c.of == "p99") {
            text += ", p99 of the packets of all";
        }
        match repeats {
            0..3 => text += "; intervals need three",
            // Some repeats are missing.
            _ if self.values().all(|v| v.ends().is_none()) => {}
            3..10 => {
                text += ", and below each its 95 % interval; ";
                text += &format!("{repeats} are few, so it is wide");
            }
            _ => text += ", and below each its 95 % interval",
        }
        if self.values().any(TableFigure::is_open) {
            text += "; ≥, ≤ and – where the packets are too few for one of its ends, or both";
        }
        text
    }

    /// What has to be said of pages that were loaded where programs take no time.
    pub fn of_pages(&self, manifest: &Manifest) -> Option<String> {
        let has_pages = self.columns.iter().any(|column| column.name == "page");
        (has_pages && manifest.kernel.virtual_time).then(|| format!("page: {NETWORK_SHARE}"))
    }

    /// The same table with fewer digits.
    pub fn shortened(&self, digits: usize) -> Self {
        let mut layout = self.clone();
        for value in layout.rows.iter_mut().flat_map(|r| &mut r.cells).flatten() {
            *value = value.shortened(digits);
        }
        layout
    }

    pub fn part(&self, columns: std::ops::Range<usize>) -> Self {
        let row = |row: &FigureRow| FigureRow {
            cells: row.cells[columns.clone()].to_vec(),
            ..row.clone()
        };
        let rows = self.rows.iter().map(row).collect();
        Self { columns: self.columns[columns.clone()].to_vec(), rows }
    }

    pub fn of(manifest: &Manifest, results: &Results, summary: &Summary) -> Self {
        match Sources::of(results, manifest) {
            Some(sources) => by_scenario(manifest, summary, &sources),
            None => by_stream(summary),
        }
    }
}

/// The probe that each column comes from, in the order of [`From`], where a row is a scenario.
struct Sources([Option<String>; 5]);

impl Sources {
    /// None where a probe has no stream of its own name, or where two probes measure the same kind of thing. Other streams of its cells
    /// are those of loads.
    fn of(results: &Results, manifest: &Manifest) -> Option<Self> {
        let mut probes: Vec<&str> = manifest.cells.iter().map(|c| c.id.probe.as_str()).collect();
        probes.sort_unstable();
        probes.dedup();
        let mut found: [Vec<String>; 4] = Default::default();
        for probe in probes {
            let mut own = results.rows.iter().filter(|r| r.cell.probe == probe).peekable();
            own.peek()?;
            let row = own.find(|r| r.stream == probe)?;
            let kind = match row.echo() {
                Some(echo) if echo.up_ms.is_some() => 0,
                Some(_) => 1,
                None if row.pages.is_none() => 2,
                None => 3,
            };
            found[kind].push(probe.to_owned());
        }
        if found.iter().any(|probes| probes.len() > 1) {
            return None;
        }
        let [one_way, round_trip, flow, page] = found.map(|mut probes| probes.pop());
        let loss = one_way.clone().or_else(|| round_trip.clone()).or_else(|| page.clone());
        Some(Self([loss, one_way.clone(), round_trip.or(one_way), flow, page]))
    }

    fn of_kind(&self, from: From) -> Option<&String> {
        self.0[from as usize].as_ref()
    }
}

fn by_scenario(manifest: &Manifest, summary: &Summary, sources: &Sources) -> TableLayout {
    let scenarios = manifest.scenarios();
    let found = |scenario: &str, source: &str| {
        let is =
            |r: &&SummaryRow| r.scenario == scenario && r.probe == source && r.stream == source;
        summary.rows.iter().find(is)
    };
    let mut columns = Vec::new();
    let mut rows: Vec<FigureRow> = scenarios
        .iter()
        .map(|s| FigureRow {
            scenario: (*s).to_owned(),
            stream: None,
            way: None,
            cells: Vec::new(),
        })
        .collect();
    let mut add = |column: FigureColumn, cells: Vec<Option<TableFigure>>| {
        if cells.iter().any(Option::is_some) {
            columns.push(column);
            rows.iter_mut().zip(cells).for_each(|(row, cell)| row.cells.push(cell));
        }
    };
    for kind in &KINDS {
        let Some(source) = sources.of_kind(kind.from) else { continue };
        let of_each: Vec<Option<&SummaryRow>> =
            scenarios.iter().map(|s| found(s, source)).collect();
        // A flow has a direction of its own; jitter and delays say theirs.
        let way = of_each.iter().flatten().find_map(|r| r.way.as_deref());
        let of = way.filter(|_| kind.from == From::Flow).map_or(kind.of, direction).to_owned();
        let cells = of_each.iter().map(|row| row.and_then(|row| kind.value(row))).collect();
        add(
            FigureColumn { name: kind.name, of, unit: kind.unit, from: Some(source.clone()) },
            cells,
        );
    }
    // What loads carried beside the probe that measures goodput.
    let mut ways: Vec<Option<&str>> = summary.loads_shown().map(|l| l.way.as_deref()).collect();
    ways.sort_unstable();
    ways.dedup();
    for way in ways {
        let of = way.map_or("", direction).to_owned();
        let carried = |scenario: &&str| {
            let mut loads = summary.loads_shown();
            let load = loads.find(|l| l.scenario == **scenario && l.way.as_deref() == way)?;
            let estimate = load.carried_mbps;
            let digits = digits("Mbit/s", &estimate);
            Some(TableFigure { digits, estimate, at_most: None, of_a_minority: false })
        };
        let cells = scenarios.iter().map(carried).collect();
        add(FigureColumn { name: "loads", of, unit: "Mbit/s", from: None }, cells);
    }
    TableLayout { columns, rows }
}

/// `up` of `dsl up`; all of a way that is named by its ends.
fn direction(way: &str) -> &str {
    match way.rsplit_once(' ') {
        Some((_, direction @ ("up" | "down"))) => direction,
        _ => way,
    }
}

fn by_stream(summary: &Summary) -> TableLayout {
    let shown: Vec<&FigureKind> =
        KINDS.iter().filter(|k| summary.rows.iter().any(|r| (k.value)(r).is_some())).collect();
    let rows = summary.rows.iter().map(|row| FigureRow {
        scenario: row.scenario.clone(),
        stream: Some((row.probe.clone(), row.stream.clone())),
        way: row.way.clone(),
        cells: shown.iter().map(|kind| kind.value(row)).collect(),
    });
    let column = |kind: &&FigureKind| FigureColumn {
        name: kind.name,
        of: kind.of.to_owned(),
        unit: kind.unit,
        from: None,
    };
    TableLayout { columns: shown.iter().map(column).collect(), rows: rows.collect() }
}
