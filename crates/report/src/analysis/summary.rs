//! Results over repeats: the mean of each figure, but the 99th percentile of the packets of all repeats, with an interval where there are at least three repeats.

use super::estimate::Estimate;
use super::series::is_own;
use super::{Clocks, EchoResult, FlowResult, PageResult, Results, Spread, StreamResult};
use quell_model::{CellId, Manifest};
use quell_stats::Pooled;
use std::collections::HashMap;

/// One row for each scenario, probe and stream, in the manifest's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub rows: Vec<SummaryRow>,
    pub loads: Vec<LoadsRow>,
}

/// One stream in one scenario, over its repeats. What does not apply to it, or was not measured, is none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SummaryRow {
    pub scenario: String,
    pub probe: String,
    pub stream: String,
    pub repeats: usize,
    /// The line that its data shares with others, as `dsl up`.
    pub way: Option<String>,
    /// Loss, as a part of 1; at least so much, where [`Self::loss_at_most`] says more.
    pub loss: Option<Estimate>,
    pub loss_at_most: Option<Estimate>,
    /// Packets answered after the time that an answer was waited for, as a part of 1; none where there are none.
    pub late: Option<Estimate>,
    pub jitter_up_ms: Option<Estimate>,
    /// Jitter of the way back in milliseconds, of a stream that goes no other way.
    pub jitter_down_ms: Option<Estimate>,
    /// Jitter of the round trip in milliseconds, where the reflector tells no times.
    pub jitter_rtt_ms: Option<Estimate>,
    /// Median one-way delay to the reflector in milliseconds, where both ends have the same clock.
    pub up_p50_ms: Option<Estimate>,
    /// Median one-way delay back in milliseconds, where both ends have the same clock.
    pub down_p50_ms: Option<Estimate>,
    /// Median RTT in milliseconds; at least so much, where the next says more.
    pub rtt_p50_ms: Option<Estimate>,
    /// The most that it can be, where that is not the same; infinite where nobody knows.
    pub rtt_p50_at_most_ms: Option<Estimate>,
    /// 99th percentile of the RTT in milliseconds; at least so much, where the next says more.
    pub rtt_p99_ms: Option<Estimate>,
    pub rtt_p99_at_most_ms: Option<Estimate>,
    /// Whether, in some repeat, the delays are of fewer than half of the packets sent.
    pub of_a_minority: bool,
    pub goodput_mbps: Option<Estimate>,
    /// Share of what all streams of the cell carried the same way.
    pub share: Option<Estimate>,
    /// CPU time of both ends for each megabyte that arrived, in milliseconds.
    pub cpu_ms_per_mb: Option<Estimate>,
    /// Page loads: milliseconds until the document was read and parsed.
    pub page_doc_ms: Option<Estimate>,
    pub page_paint_ms: Option<Estimate>,
    pub page_load_ms: Option<Estimate>,
    /// Standard deviation of these within a cell.
    pub page_load_sd_ms: Option<Estimate>,
}

/// What all loads together carried one way beside a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadsRow {
    pub scenario: String,
    pub probe: String,
    /// The line, as `dsl up`; none where it is not known.
    pub way: Option<String>,
    /// Payload in megabits per second of the measurement.
    pub carried_mbps: Estimate,
}

impl Summary {
    pub fn of(results: &Results, manifest: &Manifest) -> Self {
        let mut groups: Vec<(&StreamResult, Vec<&StreamResult>)> = Vec::new();
        let mut known: HashMap<(&str, &str, &str), usize> = HashMap::new();
        for row in &results.rows {
            let key = (&*row.cell.scenario, &*row.cell.probe, &*row.stream);
            let at = *known.entry(key).or_insert_with(|| {
                groups.push((row, Vec::new()));
                groups.len() - 1
            });
            groups[at].1.push(row);
        }
        let rows = groups.into_iter().map(|(first, rows)| {
            let over = |of: &dyn Fn(&StreamResult) -> Option<f64>| {
                let values: Vec<f64> = rows.iter().filter_map(|r| of(r)).collect();
                Estimate::of(&values)
            };
            let echo = |of: fn(&EchoResult) -> Option<f64>| {
                over(&move |r: &StreamResult| r.echo().and_then(of))
            };
            let flow = |of: fn(&FlowResult) -> Option<f64>| {
                over(&move |r: &StreamResult| r.flow().and_then(of))
            };
            let pages = |of: fn(&PageResult) -> Option<f64>| {
                over(&move |r: &StreamResult| r.pages.as_deref().and_then(of))
            };
            let rtt = Pooled::new(rows.iter().filter_map(|r| Some(&*r.echo()?.rtt_each_ms)));
            SummaryRow {
                scenario: first.cell.scenario.clone(),
                probe: first.cell.probe.clone(),
                stream: first.stream.clone(),
                repeats: rows.len(),
                way: first.flow().and_then(|f| f.way.clone()),
                loss: loss(&rows).map(|(least, _)| least),
                loss_at_most: loss(&rows).and_then(|(least, most)| (most != least).then_some(most)),
                late: echo(late).filter(|late| late.value > 0.0).map(Estimate::at_most_all),
                jitter_up_ms: echo(|e| e.jitter_up_ms),
                jitter_down_ms: echo(|e| e.jitter_down_ms.filter(|_| e.jitter_up_ms.is_none())),
                jitter_rtt_ms: echo(|e| e.jitter_rtt_ms.filter(|_| e.jitter_up_ms.is_none())),
                up_p50_ms: echo(|e| exact(e, &e.up_ms)),
                down_p50_ms: echo(|e| exact(e, &e.down_ms)),
                rtt_p50_ms: echo(|e| e.rtt_ms.as_ref().map(|s| s.p50)),
                rtt_p50_at_most_ms: at_most(&rows, |s| s.p50),
                rtt_p99_ms: rtt.and_then(|rtt| Estimate::of_quantile(&rtt, 0.99)).map(|p99| {
                    // Of a path of more than a second the round trips that are known are the slower ones.
                    let least = rows.iter().filter_map(|r| Some(r.echo()?.rtt_range(|s| s.p99)?.0));
                    match at_most(&rows, |s| s.p99) {
                        Some(_) => {
                            Estimate { value: least.fold(p99.value, f64::min), interval: None }
                        }
                        None => p99,
                    }
                }),
                rtt_p99_at_most_ms: at_most(&rows, |s| s.p99),
                of_a_minority: rows
                    .iter()
                    .any(|r| r.echo().is_some_and(|e| e.counts.minority().is_some())),
                goodput_mbps: flow(|f| f.goodput_mbps),
                share: flow(|f| f.share).map(Estimate::at_most_all),
                cpu_ms_per_mb: flow(|f| f.cpu_ms_per_mb),
                page_doc_ms: pages(|p| p.doc_ms),
                page_paint_ms: pages(|p| p.paint_ms),
                page_load_ms: pages(|p| p.load_ms),
                page_load_sd_ms: pages(|p| p.load_sd_ms),
            }
        });
        Self { rows: rows.collect(), loads: loads(results, manifest) }
    }

    /// What loads carried beside the probe that measures goodput, else a call, else pings: a measurement that the table shows.
    pub(crate) fn loads_shown(&self) -> impl Iterator<Item = &LoadsRow> {
        let kinds: [fn(&SummaryRow) -> bool; 3] = [
            |row| row.goodput_mbps.is_some(),
            |row| row.jitter_up_ms.is_some(),
            |row| row.rtt_p50_ms.is_some(),
        ];
        let own = |row: &&SummaryRow| row.stream == row.probe;
        let has_loads = |row: &&SummaryRow| self.loads.iter().any(|l| l.probe == row.probe);
        let rows = || self.rows.iter().filter(own).filter(has_loads);
        let found = kinds.into_iter().find_map(|is| rows().find(|row| is(row)));
        let probe = found.map(|row| &row.probe).or(self.loads.first().map(|load| &load.probe));
        self.loads.iter().filter(move |load| Some(&load.probe) == probe)
    }

    /// The row of one stream in one scenario, whichever probe's cell it is in.
    pub fn find(&self, scenario: &str, stream: &str) -> Option<&SummaryRow> {
        self.rows.iter().find(|r| r.scenario == scenario && r.stream == stream)
    }
}

fn late(echo: &EchoResult) -> Option<f64> {
    (echo.counts.sent > 0).then(|| echo.counts.received_late as f64 / echo.counts.sent as f64)
}

fn loss(rows: &[&StreamResult]) -> Option<(Estimate, Estimate)> {
    let (least, most): (Vec<f64>, Vec<f64>) = rows.iter().filter_map(|r| r.loss_range()).unzip();
    let (fewest, all): (Vec<_>, Vec<_>) = rows
        .iter()
        .map(|r| r.batches())
        .map(|(fewest, all)| (fewest.to_vec(), all.to_vec()))
        .unzip();
    Some((Estimate::of_loss(&least, &fewest)?, Estimate::of_loss(&most, &all)?))
}

/// The most that a figure of the round trips can be in some repeat, where it is not known exactly in each.
fn at_most(rows: &[&StreamResult], of: fn(&Spread) -> f64) -> Option<Estimate> {
    let ranges = || rows.iter().filter_map(|r| r.echo()?.rtt_range(of));
    let value = ranges().map(|(_, most)| most).fold(0.0, f64::max);
    ranges().any(|(least, most)| most > least).then_some(Estimate { value, interval: None })
}

/// A median of one-way delays that needs no correction.
fn exact(echo: &EchoResult, delays: &Option<Spread>) -> Option<f64> {
    delays.as_ref().filter(|_| echo.clocks == Clocks::Same).map(|s| s.p50)
}

/// Loads of one cell are added up before repeats are compared: several in one cell are no repeats.
fn loads(results: &Results, manifest: &Manifest) -> Vec<LoadsRow> {
    let mut found: Vec<(&CellId, Option<&str>, f64)> = Vec::new();
    let mut known: HashMap<(&CellId, Option<&str>), usize> = HashMap::new();
    for row in &results.rows {
        let Some(carried) = row.flow().and_then(|f| f.carried_mbps) else { continue };
        if is_own(&row.stream, &row.cell.probe) {
            continue;
        }
        let way = row.flow().and_then(|f| f.way.as_deref());
        let at = *known.entry((&row.cell, way)).or_insert_with(|| {
            found.push((&row.cell, way, 0.0));
            found.len() - 1
        });
        found[at].2 += carried;
    }
    let mut rows: Vec<LoadsRow> = Vec::new();
    for record in &manifest.cells {
        let cell = &record.id;
        let same = |c: &CellId| c.scenario == cell.scenario && c.probe == cell.probe;
        for (_, way, _) in found.iter().filter(|(c, _, _)| *c == cell) {
            let known = |r: &LoadsRow| {
                r.scenario == cell.scenario && r.probe == cell.probe && r.way.as_deref() == *way
            };
            if rows.iter().any(known) {
                continue;
            }
            let values: Vec<f64> =
                found.iter().filter(|(c, w, _)| same(c) && w == way).map(|f| f.2).collect();
            if let Some(carried_mbps) = Estimate::of(&values) {
                let (scenario, probe) = (cell.scenario.clone(), cell.probe.clone());
                rows.push(LoadsRow { scenario, probe, way: way.map(str::to_owned), carried_mbps });
            }
        }
    }
    rows
}
