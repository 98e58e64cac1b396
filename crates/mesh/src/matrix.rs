//! The pairs of a mesh by their last hour, the worst first.

use crate::events::{MeshFindings, PairChange};
use crate::folder::Pair;
use crate::history::{MeshHistory, PairHistory};
use quell_model::Sketch;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairState {
    /// Worse than usual, and it lasts.
    Worse,
    /// Nothing was measured in the last hour.
    Silent,
    AsUsual,
}

/// A pair as a line of the matrix. Times are seconds.
#[derive(Debug, Clone)]
pub struct MatrixRow<'a> {
    pub pair: &'a Pair,
    pub history: &'a PairHistory,
    pub changes: &'a [PairChange],
    pub state: PairState,
    pub loss: Option<f64>,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    /// Before the last hour.
    pub usual_p99: Option<f64>,
}

impl MatrixRow<'_> {
    /// Since when it is worse than usual; none where it is not.
    pub fn since(&self) -> Option<i64> {
        self.changes.iter().filter(|c| c.to_ns.is_none()).map(|c| c.from_ns).min()
    }
}

/// Whether packets came, and none in the last hour.
fn is_silent(pair: &PairHistory) -> bool {
    pair.last_hour.sent == 0 && !pair.minutes.is_empty()
}

/// All pairs: those that are worse than usual, those of which nothing is known, the rest; by loss, then by p99 against the usual.
pub fn matrix<'a>(mesh: &'a MeshHistory, findings: &'a MeshFindings) -> Vec<MatrixRow<'a>> {
    let seconds = |sketch: &Sketch, share| sketch.quantile(share).map(|ns| ns / 1e9);
    let row = |(pair, history): (&'a Pair, &'a PairHistory)| {
        let changes = findings.changes.get(pair).map_or(&[][..], Vec::as_slice);
        let state = if is_silent(history) {
            PairState::Silent
        } else if changes.iter().any(|change| change.to_ns.is_none()) {
            PairState::Worse
        } else {
            PairState::AsUsual
        };
        MatrixRow {
            pair,
            history,
            changes,
            state,
            loss: history.last_hour.loss(),
            p50: seconds(&history.last_hour, 0.5),
            p99: seconds(&history.last_hour, 0.99),
            usual_p99: seconds(&history.usual, 0.99),
        }
    };
    let mut rows: Vec<MatrixRow> = mesh.pairs.iter().map(row).collect();
    let slower =
        |row: &MatrixRow| row.p99.zip(row.usual_p99).map_or(1.0, |(now, usual)| now / usual);
    rows.sort_by(|a, b| {
        let loss = |row: &MatrixRow| row.loss.unwrap_or(0.0);
        let by_loss = || loss(b).total_cmp(&loss(a));
        a.state.cmp(&b.state).then_with(by_loss).then_with(|| slower(b).total_cmp(&slower(a)))
    });
    rows
}

/// What is to be said first.
pub fn headline(mesh: &MeshHistory, findings: &MeshFindings) -> String {
    let lasting = findings.incidents.iter().filter(|incident| incident.to_ns.is_none()).count();
    match findings.incidents.first().filter(|_| lasting > 0) {
        Some(first) => first.sentence(mesh.to_ns),
        None => {
            let sent: u64 = mesh.pairs.values().map(|pair| pair.last_hour.sent).sum();
            let lost: u64 = mesh.pairs.values().map(|pair| pair.last_hour.lost()).sum();
            let silent = mesh.pairs.values().filter(|pair| is_silent(pair)).count();
            let pairs = quell_units::fmt::plural(mesh.pairs.len(), "pair");
            let rest = if silent > 0 { format!(", of {silent} nothing") } else { String::new() };
            format!(
                "No pair is worse than usual: {pairs}, {lost} of {sent} packets lost in the last hour{rest}."
            )
        }
    }
}
