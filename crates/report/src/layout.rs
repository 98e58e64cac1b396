//! Which figures a table of a run shows: one layout for the terminal and for the page.
//!
//! Where each probe of an experiment has one stream of its own (as in `home-link`: `udp`, `ping`, `tcp`), a row is a scenario, and each
//! column takes its figure from the probe that measures it best. Otherwise a row is a stream in a scenario.

use crate::analysis::{Estimate, Results, Summary, SummaryRow};
use quell_model::Manifest;

/// A table: columns, and rows of cells.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

/// A column of figures.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// What it shows.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The probe that it comes from, where a row is a scenario.
    pub from: Option<String>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub scenario: String,
    /// The probe and the stream, where a row is a stream.
    pub stream: Option<(String, String)>,
    /// One for each column.
    pub cells: Vec<Option<Value>>,
}

/// A figure, in the column's unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Value {
    pub estimate: Estimate,
    /// Digits after the point.
    pub digits: usize,
}

impl Value {
    /// The same with fewer digits, at least one after the point.
    pub fn shortened(self, by: usize) -> Self {
        Self { digits: self.digits.saturating_sub(by).max(1), ..self }
    }

    /// The figure, as `12.3`.
    pub fn mean(&self) -> String {
        number(self.estimate.mean, self.digits)
    }

    /// The interval from low to high, as `11.9–12.7`.
    pub fn interval(&self) -> Option<String> {
        let (low, high) = self.estimate.interval?;
        Some(format!("{}–{}", number(low, self.digits), number(high, self.digits)))
    }
}

/// How the intervals of a mean over so many repeats are to be read, to stand after "means over … repeats"; empty where there are none.
pub(crate) fn intervals(repeats: u32) -> String {
    match repeats {
        0..3 => "; intervals need three".to_owned(),
        3..10 => format!(
            ", and below each its 95 % interval (Student's t); {repeats} are few, so it is wide"
        ),
        _ => ", and below each its 95 % interval (bootstrap)".to_owned(),
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

/// A kind of figure: name, unit, factor to that unit, and where it stands in a summary.
struct Kind {
    name: &'static str,
    unit: &'static str,
    factor: f64,
    of: fn(&SummaryRow) -> Option<Estimate>,
}

const KINDS: [Kind; 6] = [
    Kind { name: "loss", unit: "%", factor: 100.0, of: |r| r.loss },
    Kind { name: "jitter", unit: "ms", factor: 1.0, of: |r| r.jitter_ms },
    Kind { name: "RTT p50", unit: "ms", factor: 1.0, of: |r| r.rtt_p50_ms },
    Kind { name: "RTT p99", unit: "ms", factor: 1.0, of: |r| r.rtt_p99_ms },
    Kind { name: "goodput", unit: "Mbit/s", factor: 1.0, of: |r| r.goodput_mbps },
    Kind { name: "share", unit: "%", factor: 100.0, of: |r| r.share },
];

impl Kind {
    fn value(&self, row: &SummaryRow) -> Option<Value> {
        let estimate = (self.of)(row)?;
        let estimate = estimate.scaled(self.factor);
        let digits = match (self.name, estimate.mean.abs()) {
            ("loss" | "share", _) => 1,
            ("jitter" | "goodput", m) if m < 100.0 => 3,
            ("RTT p50" | "RTT p99", m) if m < 100.0 => 3,
            _ => 1,
        };
        Some(Value { estimate, digits })
    }
}

impl Layout {
    /// The same table with fewer digits, and without intervals if so asked.
    pub fn shortened(&self, digits: usize, intervals: bool) -> Self {
        let mut layout = self.clone();
        for value in layout.rows.iter_mut().flat_map(|r| &mut r.cells).flatten() {
            *value = value.shortened(digits);
            if !intervals {
                value.estimate.interval = None;
            }
        }
        layout
    }

    /// The table of a run.
    pub fn of(manifest: &Manifest, results: &Results, summary: &Summary) -> Self {
        match Sources::of(results, manifest) {
            Some(sources) => by_scenario(manifest, summary, &sources),
            None => by_stream(summary),
        }
    }
}

/// The probe that each column comes from, where a row is a scenario.
struct Sources {
    loss: Option<String>,
    rtt: Option<String>,
    flow: Option<String>,
}

impl Sources {
    /// None where a probe has no stream of its own name, or where two probes measure the same kind of thing. Other streams of its cells
    /// are those of loads.
    fn of(results: &Results, manifest: &Manifest) -> Option<Self> {
        let mut probes: Vec<&str> = manifest.cells.iter().map(|c| c.id.probe.as_str()).collect();
        probes.sort_unstable();
        probes.dedup();
        let (mut one_way, mut round_trip, mut flow) = (Vec::new(), Vec::new(), Vec::new());
        for probe in probes {
            let mut own = results.rows.iter().filter(|r| r.cell.probe == probe).peekable();
            own.peek()?;
            let row = own.find(|r| r.stream == probe)?;
            match row.echo() {
                Some(echo) if echo.up_ms.is_some() => one_way.push(probe.to_owned()),
                Some(_) => round_trip.push(probe.to_owned()),
                None => flow.push(probe.to_owned()),
            }
        }
        if one_way.len() > 1 || round_trip.len() > 1 || flow.len() > 1 {
            return None;
        }
        let (one_way, round_trip) = (one_way.pop(), round_trip.pop());
        Some(Self {
            loss: one_way.clone().or_else(|| round_trip.clone()),
            rtt: round_trip.or(one_way),
            flow: flow.pop(),
        })
    }
}

fn by_scenario(manifest: &Manifest, summary: &Summary, sources: &Sources) -> Layout {
    let columns: Vec<(&Kind, &String)> = KINDS
        .iter()
        .filter_map(|kind| {
            let source = match kind.name {
                "loss" | "jitter" => &sources.loss,
                "RTT p50" | "RTT p99" => &sources.rtt,
                _ => &sources.flow,
            };
            source.as_ref().map(|source| (kind, source))
        })
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    for record in &manifest.cells {
        let scenario = &record.id.scenario;
        if rows.iter().any(|r| r.scenario == *scenario) {
            continue;
        }
        let cells = columns.iter().map(|(kind, source)| {
            let found = summary
                .rows
                .iter()
                .find(|r| r.scenario == *scenario && r.probe == **source && r.stream == **source);
            found.and_then(|row| kind.value(row))
        });
        let cells = cells.collect();
        rows.push(Row { scenario: scenario.clone(), stream: None, cells });
    }
    let column = |(kind, source): &(&Kind, &String)| Column {
        name: kind.name,
        unit: kind.unit,
        from: Some((*source).clone()),
    };
    Layout { columns: columns.iter().map(column).collect(), rows }
}

fn by_stream(summary: &Summary) -> Layout {
    let shown: Vec<&Kind> =
        KINDS.iter().filter(|k| summary.rows.iter().any(|r| (k.of)(r).is_some())).collect();
    let rows = summary.rows.iter().map(|row| Row {
        scenario: row.scenario.clone(),
        stream: Some((row.probe.clone(), row.stream.clone())),
        cells: shown.iter().map(|kind| kind.value(row)).collect(),
    });
    let column = |kind: &&Kind| Column { name: kind.name, unit: kind.unit, from: None };
    Layout { columns: shown.iter().map(column).collect(), rows: rows.collect() }
}
