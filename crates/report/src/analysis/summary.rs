//! Results over repeats: the mean of each figure, with a bootstrap interval where there are at least three repeats.

use super::estimate::Estimate;
use super::{EchoResult, FlowResult, Results, StreamResult};
use quell_model::Manifest;

/// One row for each scenario, probe and stream, in the manifest's order.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The rows.
    pub rows: Vec<SummaryRow>,
}

/// One stream in one scenario, over its repeats. What does not apply to it, or was not measured, is none.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRow {
    /// The scenario.
    pub scenario: String,
    /// The probe of the cell.
    pub probe: String,
    /// The stream.
    pub stream: String,
    /// How many repeats have data.
    pub repeats: usize,
    /// Loss, as a part of 1.
    pub loss: Option<Estimate>,
    /// Jitter in milliseconds.
    pub jitter_ms: Option<Estimate>,
    /// Median RTT in milliseconds.
    pub rtt_p50_ms: Option<Estimate>,
    /// 99th percentile of the RTT in milliseconds.
    pub rtt_p99_ms: Option<Estimate>,
    /// Goodput in megabits per second.
    pub goodput_mbps: Option<Estimate>,
    /// Share of the goodput of all flows of the cell.
    pub share: Option<Estimate>,
}

impl Summary {
    /// Takes the repeats of each stream together. The manifest's seed makes the intervals repeatable.
    pub fn of(results: &Results, manifest: &Manifest) -> Self {
        let mut groups: Vec<(&StreamResult, Vec<&StreamResult>)> = Vec::new();
        for row in &results.rows {
            let same = |(first, _): &&mut (&StreamResult, Vec<&StreamResult>)| {
                first.cell.scenario == row.cell.scenario
                    && first.cell.probe == row.cell.probe
                    && first.stream == row.stream
            };
            match groups.iter_mut().find(same) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((row, vec![row])),
            }
        }
        let rows = groups.into_iter().map(|(first, rows)| {
            let over = |of: &dyn Fn(&StreamResult) -> Option<f64>| {
                let values: Vec<f64> = rows.iter().filter_map(|r| of(r)).collect();
                Estimate::of(&values, manifest.seed)
            };
            let echo = |of: fn(&EchoResult) -> Option<f64>| {
                over(&move |r: &StreamResult| r.echo().and_then(of))
            };
            let flow = |of: fn(&FlowResult) -> Option<f64>| {
                over(&move |r: &StreamResult| r.flow().and_then(of))
            };
            SummaryRow {
                scenario: first.cell.scenario.clone(),
                probe: first.cell.probe.clone(),
                stream: first.stream.clone(),
                repeats: rows.len(),
                loss: over(&StreamResult::loss_ratio).map(Estimate::at_most_all),
                jitter_ms: echo(|e| e.jitter_ms),
                rtt_p50_ms: echo(|e| e.rtt_ms.as_ref().map(|s| s.p50)),
                rtt_p99_ms: echo(|e| e.rtt_ms.as_ref().map(|s| s.p99)),
                goodput_mbps: flow(|f| f.goodput_mbps),
                share: flow(|f| f.share).map(Estimate::at_most_all),
            }
        });
        Self { rows: rows.collect() }
    }

    /// The row of one stream in one scenario, whichever probe's cell it is in.
    pub fn find(&self, scenario: &str, stream: &str) -> Option<&SummaryRow> {
        self.rows.iter().find(|r| r.scenario == scenario && r.stream == stream)
    }
}
