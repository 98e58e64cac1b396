//! Analysis: results of a run from what the store holds, and nothing else. Everything that tables, figures and the page show is
//! computed here, by definitions that [`definitions`] names with their sources.
//!
//! ```text
//!   Run ──► Results       a row for each stream of each cell
//!       ──► Summary       the same over repeats, with intervals
//!       ──► series        what figures draw: points, distributions, rates over time
//! ```

pub(crate) mod counters;
mod definitions;
mod echo;
mod estimate;
mod flow;
mod lateness;
mod one_way;
mod page;
pub mod series;
mod settled;
pub(crate) mod shared_line;
mod stream_facts;
mod summary;
pub mod timeline;
mod value;
mod waiting;
mod window;

pub use definitions::{Definition, definitions};
pub use echo::{Counts, EchoFold, EchoResult, Transit, Way};
pub(crate) use estimate::FEWEST;
pub use estimate::{Estimate, IntervalEnds};
use flow::FlowFolds;
pub use flow::{FlowResult, HeldBack, OwnTime};
pub use lateness::{LATE_NS, Lateness};
pub use one_way::Clocks;
pub use page::PageResult;
pub use quell_stats::{BoxSummary, Summary as Spread};
pub use stream_facts::Facts;
pub use summary::{LoadsRow, Summary, SummaryRow};
pub use window::window_ns;

use quell_model::{CellId, FlowSample, Side, Subject, Told};
use quell_stats::Batch;
use quell_store::{CellData, Run};
use std::collections::BTreeMap;

/// The results of a run: a row for each stream of each cell, in the manifest's order of cells, echo streams before flows.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    pub rows: Vec<StreamResult>,
    /// What was told of streams whose rows tell less: the figures that another program printed at the end; what was sent where nobody
    /// knows what arrived.
    pub summaries: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StreamResult {
    pub cell: CellId,
    /// The stream's name: of a probe or of a load.
    pub stream: String,
    /// Its packets one by one, where they were reported so: those that are answered, and slow UDP loads.
    pub packets: Option<Box<EchoResult>>,
    pub data: Option<FlowResult>,
    pub pages: Option<Box<PageResult>>,
}

fn summaries_of(data: &CellData, flows: &BTreeMap<String, FlowResult>) -> Vec<String> {
    let printed = data.facts.iter().filter_map(|fact| match &fact.subject {
        Subject::Stream(stream, Told::Other(what)) if &**what == "summary" => {
            Some(format!("{stream}: {}", fact.value))
        }
        _ => None,
    });
    let is_known = |stream: &str| flows.get(stream).is_none_or(|flow| flow.goodput_mbps.is_some());
    let sent = data.flows.iter().filter_map(|series| {
        let sent = |sample: &&FlowSample| sample.side == Side::Sender;
        let mut all = series.samples.iter().filter(sent);
        let (first, last) = (all.next()?, all.next_back()?);
        let (mb, seconds) = (last.bytes as f64 / 1e6, (last.t_ns - first.t_ns) as f64 / 1e9);
        let stream = &series.stream;
        let said =
            || format!("{stream}: {mb:.2} MB sent in {seconds:.1} s; what arrived is unknown");
        (!is_known(stream)).then(said)
    });
    printed.chain(sent).collect()
}

impl Results {
    /// Analyses a run. Cells without data, as those of a killed run that were not begun, have no rows.
    pub fn from(run: &Run) -> Self {
        let (mut rows, mut summaries) = (Vec::new(), Vec::new());
        for (record, data) in run.iter() {
            let facts = Facts::of(data);
            let mut flows: BTreeMap<String, FlowResult> =
                FlowFolds::of(data).results(record, data).into_iter().collect();
            summaries.extend(summaries_of(data, &flows));
            let row = |stream: String, packets, data| StreamResult {
                cell: record.id.clone(),
                stream,
                packets,
                data,
                pages: None,
            };
            for series in &data.echoes {
                let result = EchoFold::of(&facts, series).result();
                let result = settled::counted(record, &facts, series, result);
                let flow = flows.remove(&series.stream);
                // Rows of data that goes one way tell its delay and its losses as forward, whichever way that is.
                let result = match &flow {
                    Some(flow) if flow.goes_down => result.turned(),
                    _ => result,
                };
                rows.push(row(series.stream.clone(), Some(Box::new(result)), flow));
            }
            rows.extend(flows.into_iter().map(|(stream, flow)| row(stream, None, Some(flow))));
            rows.extend(PageResult::of_all(data).into_iter().map(|(stream, pages)| StreamResult {
                pages: Some(Box::new(pages)),
                ..row(stream, None, None)
            }));
        }
        Self { rows, summaries }
    }

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

    /// What a reader of the figures has to know of how they came about: a machine that was short of CPU, clocks that were apart.
    pub fn warnings(&self) -> Vec<String> {
        let echoes = || self.rows.iter().filter_map(|r| Some((r, r.echo()?)));
        let late = echoes().fold(Lateness::default(), |sum, (_, e)| sum.and(e.lateness));
        let clocks =
            echoes().filter_map(|(r, e)| Some(format!("{}: {}", r.stream, e.clocks.said()?)));
        let minorities = echoes()
            .filter_map(|(r, e)| Some(format!("{} ({}): {}", r.stream, r.cell, e.minority()?)));
        let awaited = echoes().filter(|(_, e)| e.counts.received_late > 0).map(|(r, e)| {
            format!(
                "{} ({}): {} of {} packets were answered after the time that an answer was waited for: late, not lost",
                r.stream, r.cell, e.counts.received_late, e.counts.sent
            )
        });
        let told = |of: fn(&EchoResult) -> Option<String>| {
            let rows = echoes().filter_map(move |(r, e)| Some((r, of(e)?)));
            rows.map(|(r, said)| format!("{} ({}): {said}", r.stream, r.cell)).collect()
        };
        let (unsure, not_sent) = (told(EchoResult::unsure), told(EchoResult::not_sent));
        let of_pages = |of: fn(&PageResult) -> Option<String>| {
            let rows = self.rows.iter().filter_map(move |r| Some((r, of(r.pages.as_ref()?)?)));
            rows.map(|(r, said)| format!("{} ({}): {said}", r.stream, r.cell)).collect()
        };
        let (pages, incomplete) = (of_pages(PageResult::missing), of_pages(PageResult::incomplete));
        let held_back = self
            .rows
            .iter()
            .filter_map(|r| Some(format!("{} ({}): {}", r.stream, r.cell, r.flow()?.held_back()?)));
        let held_back = held_back.collect();
        let kinds = [
            unsure,
            not_sent,
            held_back,
            pages,
            incomplete,
            minorities.collect(),
            awaited.collect(),
            self.own_times(),
        ]
        .map(brief);
        late.said().into_iter().chain(clocks).chain(kinds.into_iter().flatten()).collect()
    }

    /// What is to be said of flows that did not run all the time. Several that ran for a part are as a rule meant so (`start`, `duration`), and
    /// told in one sentence.
    fn own_times(&self) -> Vec<String> {
        let flows = || self.rows.iter().filter_map(|r| Some((r, r.flow()?.time)));
        let parts = flows().filter(|(_, time)| matches!(time, OwnTime::Part(..))).count();
        let mut is_first = true;
        let told = flows().filter_map(|(row, time)| {
            let said = format!("{}: the flow {} {}", row.cell, row.stream, time.said()?);
            match time {
                OwnTime::Part(from, to) if parts > 1 => std::mem::take(&mut is_first).then(|| {
                    format!(
                        "{parts} flows ran for a part of the measurement, for example {} in {} from {from:.1} s to {to:.1} s. Goodput is \
         of that time, the share of the whole measurement",
                        row.stream, row.cell
                    )
                }),
                _ => Some(said),
            }
        });
        told.collect()
    }
}

/// The first of many of a kind, and how many more there are.
fn brief(mut warnings: Vec<String>) -> Vec<String> {
    let more = warnings.len().saturating_sub(3);
    warnings.truncate(3);
    if let (Some(last), true) = (warnings.last_mut(), more > 0) {
        last.push_str(&format!(" (and {more} more of this kind)"));
    }
    warnings
}

impl StreamResult {
    /// Packets sent, where packets are counted. A flow's own counts know of all its packets; what single packets were reported ends with
    /// the last that arrived.
    pub fn sent(&self) -> Option<u64> {
        let pages = || self.pages.as_ref().map(|p| p.begun());
        let packets = || Some(self.counted()?.counts.sent);
        self.data.as_ref().and_then(|f| f.sent).or_else(packets).or_else(pages)
    }

    pub fn received(&self) -> Option<u64> {
        self.data
            .as_ref()
            .and_then(|f| f.received)
            .or_else(|| Some(self.counted()?.counts.received))
            .or_else(|| self.pages.as_ref().map(|p| p.loaded))
    }

    /// Its single packets, unless none of them is settled although some were answered.
    fn counted(&self) -> Option<&EchoResult> {
        self.echo()
            .filter(|echo| echo.counts.sent > 0 || echo.rtt_ms.is_none() && echo.up_ms.is_none())
    }

    pub fn loss_ratio(&self) -> Option<f64> {
        self.data
            .as_ref()
            .and_then(|f| f.loss_ratio)
            .or_else(|| self.packets.as_ref().and_then(|e| e.counts.loss_ratio()))
            .or_else(|| self.pages.as_ref().and_then(|p| p.loss_ratio()))
    }

    pub fn loss_range(&self) -> Option<(f64, f64)> {
        match self.loss_ratio() {
            Some(ratio) => Some((ratio, ratio)),
            None => self.packets.as_ref().and_then(|e| e.counts.loss_range()),
        }
    }

    /// Packets sent and lost by stretches of the measurement: the fewest that can be, and the most.
    pub(crate) fn batches(&self) -> (&[Batch], &[Batch]) {
        match (&self.packets, &self.data) {
            (_, Some(flow)) if flow.loss_ratio.is_some() => (&flow.batches, &flow.batches),
            (Some(echo), _) => (&echo.batches, &echo.batches_at_most),
            _ => (&[], &[]),
        }
    }

    pub fn echo(&self) -> Option<&EchoResult> {
        self.packets.as_deref()
    }

    /// Packets lost on the way up, and on the way down; none where the direction of some loss is not known. Datagrams of a flow go one
    /// way: what is lost of them is lost there.
    pub fn lost_ways(&self) -> Option<(u64, u64)> {
        match self.flow().filter(|f| f.sent.is_some()) {
            Some(flow) => flow.lost.map(|lost| if flow.goes_down { (0, lost) } else { (lost, 0) }),
            None => self.counted()?.counts.lost_ways(),
        }
    }

    /// RFC 3550's J after the last packet in milliseconds, and what it is of.
    pub fn jitter_last(&self) -> Option<(f64, Transit)> {
        let of_packets = || Some((self.echo()?.jitter_last_ms?, self.echo()?.jitter_of));
        of_packets().or_else(|| {
            let flow = self.flow()?;
            let of = if flow.goes_down { Transit::Down } else { Transit::Up };
            Some((flow.jitter_last_ms?, of))
        })
    }

    pub fn flow(&self) -> Option<&FlowResult> {
        self.data.as_ref()
    }
}
