//! Analysis: results of a run from what the store holds, and nothing else. Everything that tables, figures and the page show is
//! computed here, by definitions that [`definitions`] names with their sources.
//!
//! ```text
//!   Run ──► Results       a row for each stream of each cell
//!       ──► Summary       the same over repeats, with intervals
//!       ──► series        what figures draw: points, distributions, rates over time
//! ```

mod definitions;
mod echo;
mod estimate;
mod flow;
mod late;
mod one_way;
pub mod series;
mod summary;
pub mod timeline;

pub use definitions::{Definition, definitions};
pub use echo::{EchoResult, Transit};
pub use estimate::Estimate;
pub use flow::{FlowResult, window_ns};
pub use late::Lateness;
pub use one_way::Clocks;
pub use quell_stats::{BoxSummary, Summary as Spread};
pub use summary::{Summary, SummaryRow};

use quell_model::CellId;
use quell_store::Run;

/// The results of a run: a row for each stream of each cell, in the manifest's order of cells, echo streams before flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The rows.
    pub rows: Vec<StreamResult>,
}

/// What one stream showed in one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamResult {
    /// The cell.
    pub cell: CellId,
    /// The stream's name: of a probe or of a load.
    pub stream: String,
    /// Its results.
    pub kind: StreamKind,
}

/// The results of a stream, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamKind {
    /// Packets that are answered.
    Echo(Box<EchoResult>),
    /// Data in one direction.
    Flow(FlowResult),
}

impl Results {
    /// Analyses a run. Cells without data, as those of a killed run that were not begun, have no rows.
    pub fn from(run: &Run) -> Self {
        let mut rows = Vec::new();
        for (record, data) in run.iter() {
            let mut row = |stream: &str, kind| {
                let (cell, stream) = (record.id.clone(), stream.to_owned());
                rows.push(StreamResult { cell, stream, kind });
            };
            for series in &data.echoes {
                let fact = |what: &str| {
                    let key = format!("stream/{}/{what}", series.stream);
                    data.facts.iter().find(|f| f.key == key).map(|f| f.value.as_str())
                };
                let result = match fact("clocks") == Some("apart") {
                    true => EchoResult::between_clocks(&series.samples),
                    false => EchoResult::of(&series.samples),
                };
                let result = result.with_losses(fact("losses"));
                row(&series.stream, StreamKind::Echo(Box::new(result)));
            }
            for (stream, result) in flow::results(record, data) {
                row(&stream, StreamKind::Flow(result));
            }
        }
        Self { rows }
    }

    /// The rows of one stream in one scenario, one a repeat.
    pub fn of<'a>(
        &'a self,
        scenario: &'a str,
        probe: &'a str,
        stream: &'a str,
    ) -> impl Iterator<Item = &'a StreamResult> {
        self.rows.iter().filter(move |r| {
            r.cell.scenario == scenario && r.cell.probe == probe && r.stream == stream
        })
    }
}

impl Results {
    /// What a reader of the figures has to know of how they came about: a machine that was short of CPU, clocks that were apart.
    pub fn warnings(&self) -> Vec<String> {
        let echoes = || self.rows.iter().filter_map(|r| Some((r, r.echo()?)));
        let late = echoes().fold(Lateness::default(), |sum, (_, e)| sum.and(e.lateness));
        let clocks =
            echoes().filter_map(|(r, e)| Some(format!("{}: {}", r.stream, e.clocks.said()?)));
        let minorities = echoes()
            .filter_map(|(r, e)| Some(format!("{} ({}): {}", r.stream, r.cell, e.minority()?)));
        let awaited = echoes().filter(|(_, e)| e.received_late > 0).map(|(r, e)| {
            format!(
                "{} ({}): {} of {} packets were answered after the time that an answer was waited for: late, not lost",
                r.stream, r.cell, e.received_late, e.sent
            )
        });
        late.said().into_iter().chain(clocks).chain(minorities).chain(awaited).collect()
    }
}

impl StreamResult {
    /// Packets sent, where packets are counted.
    pub fn sent(&self) -> Option<u64> {
        match &self.kind {
            StreamKind::Echo(e) => Some(e.sent),
            StreamKind::Flow(f) => f.sent,
        }
    }

    /// Packets received or answered, where packets are counted.
    pub fn received(&self) -> Option<u64> {
        match &self.kind {
            StreamKind::Echo(e) => Some(e.received),
            StreamKind::Flow(f) => f.received,
        }
    }

    /// The part of the packets that was lost.
    pub fn loss_ratio(&self) -> Option<f64> {
        match &self.kind {
            StreamKind::Echo(e) => e.loss_ratio,
            StreamKind::Flow(f) => f.loss_ratio,
        }
    }

    /// The echo stream's results, if it is one.
    pub fn echo(&self) -> Option<&EchoResult> {
        match &self.kind {
            StreamKind::Echo(e) => Some(e),
            StreamKind::Flow(_) => None,
        }
    }

    /// The flow's results, if it is one.
    pub fn flow(&self) -> Option<&FlowResult> {
        match &self.kind {
            StreamKind::Flow(f) => Some(f),
            StreamKind::Echo(_) => None,
        }
    }
}
