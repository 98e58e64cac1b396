//! The claims of an experiment against what a run of it measured.
//!
//! ```text
//!   cells    ──► those that a claim speaks of: were they run, did something in them fail?  ──┐
//!   results  ──► values, by metric, cell and stream ──► Claim::check ──► verdict ────────────────┴─► record
//! ```

use crate::expect::{Claim, ClaimSource, Evidence, Measured};
use crate::kinds::Role;
use crate::run::STOPPED;
use crate::spec::Experiment;
use quell_model::manifest::ExpectationRecord;
use quell_model::metric::{Metric, MetricRange};
use quell_model::{CellId, CellRecord, CellStatus};

/// Gives all values of a metric that a run has: of each stream in each cell, none where there was nothing to measure.
pub type Values<'a> = &'a dyn Fn(Metric) -> Vec<(&'a CellId, &'a str, Option<MetricRange>)>;

/// Checks the claims whose cells were run: `--only` leaves some out, and a run that was stopped did not come to others.
pub fn judge<'a>(
    cells: &[CellRecord],
    experiment: &'a Experiment,
    values: Values<'a>,
) -> Vec<ExpectationRecord> {
    let found = JudgedValues { experiment, values };
    let claims = experiment.expect.iter().filter_map(|text| Claim::parse(text).ok());
    claims
        .filter(|claim| claim.sources().iter().all(|source| found.was_run(cells, source)))
        .map(|claim| {
            let verdict = claim.check(&found);
            // What was measured while a load or a probe was missing proves nothing.
            let missing = found.missing(cells, &claim);
            let held = verdict.held && missing.is_none();
            let found = match missing {
                Some(what) => format!("{}; {what}", verdict.found),
                None => verdict.found,
            };
            ExpectationRecord { claim: verdict.claim, held, found }
        })
        .collect()
}

struct JudgedValues<'a> {
    experiment: &'a Experiment,
    values: Values<'a>,
}

impl JudgedValues<'_> {
    /// Whether a cell is one of those that a source speaks of. A load runs beside every probe; what is said of a probe means the cell
    /// where it was measured.
    fn is_meant(&self, cell: &CellId, source: &ClaimSource) -> bool {
        let is_probe =
            || self.experiment.find(&source.probe).map(|it| it.role) == Some(Role::Probe);
        source.scenario.as_ref().is_none_or(|s| *s == cell.scenario)
            && (cell.has_probe(&source.probe) || !is_probe())
    }

    fn was_run(&self, cells: &[CellRecord], source: &ClaimSource) -> bool {
        let mut cells = cells.iter().filter(|c| self.is_meant(&c.id, source)).peekable();
        cells.peek().is_some()
            && cells.all(|c| {
                !matches!(c.status, CellStatus::Planned | CellStatus::Partial | CellStatus::Stopped)
                    // Before there was a word for it.
                    && c.reason.as_deref() != Some(STOPPED)
            })
    }

    fn missing(&self, cells: &[CellRecord], claim: &Claim) -> Option<String> {
        let meant = |id: &CellId| claim.sources().iter().any(|s| self.is_meant(id, s));
        let cells = cells.iter().filter(|c| meant(&c.id));
        let mut failed = cells.flat_map(|cell| cell.failed().map(move |(task, _)| (cell, task)));
        let (cell, task) = failed.next()?;
        let what = match task.id.strip_prefix("server/").unwrap_or(&task.id).split_once('/') {
            Some((kind, name)) => format!("{kind} `{name}`"),
            None => task.id.clone(),
        };
        let more = match failed.count() {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        Some(format!("{what} failed in {}{more}", cell.id))
    }
}

impl Evidence for JudgedValues<'_> {
    fn values(&self, source: &ClaimSource) -> Vec<Measured> {
        let is_stream = |stream: &str| match &source.stream {
            Some(wanted) => wanted == stream,
            None => self
                .experiment
                .measured()
                .any(|it| it.kind.name() == source.probe && it.kind.has_stream(stream)),
        };
        (self.values)(source.metric)
            .into_iter()
            .filter(|(cell, stream, _)| self.is_meant(cell, source) && is_stream(stream))
            .map(|(cell, stream, value)| Measured {
                scenario: cell.scenario.clone(),
                stream: stream.to_owned(),
                repeat: cell.repeat,
                value,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use crate::spec::load_file;
    use quell_model::{Outcome, TaskRecord};

    /// Of home-link's scenario `bulk` each probe's cell, as it ended.
    fn cells(status: CellStatus, load: &Outcome) -> Vec<CellRecord> {
        let task = TaskRecord {
            id: "server/load/downloads".into(),
            host: "server".into(),
            outcome: Some(load.clone()),
        };
        let cell = |probe: &str| CellRecord {
            id: CellId { scenario: "bulk".into(), probe: probe.into(), repeat: 0 },
            seed: 1,
            status,
            reason: None,
            wall_s: None,
            virtual_s: None,
            window_ns: None,
            tasks: vec![task.clone()],
        };
        ["ping", "udp", "tcp"].map(cell).into()
    }

    /// What was found of one claim, where ping had a median of 20 ms and 30 ms beside the udp probe, and the load's three connections 1
    /// to 3 Mbit/s in each cell.
    fn judged(claim: &str, cells: &[CellRecord]) -> Option<(bool, String)> {
        let text = builtin::find("home-link").expect("it is built in");
        let mut experiment = load_file::parse("home-link", text).expect("it is right");
        experiment.expect = vec![claim.into()];
        if let Some(crate::kinds::Load::Tcp(load)) = experiment.load.first_mut() {
            (load.name, load.connections) = ("bulk".into(), 3);
        }
        let values = |metric: Metric| {
            let rows = cells.iter().flat_map(|cell| {
                let rtt = if cell.id.probe == "ping" { 0.02 } else { 0.03 };
                let rows = [("ping", rtt), ("bulk-1", 1e6), ("bulk-2", 2e6), ("bulk-10", 1.0)];
                rows.map(|(stream, value)| (&cell.id, stream, Some((value, value))))
            });
            let is_flow = metric == Metric::Goodput;
            rows.filter(|(_, stream, _)| stream.starts_with("bulk") == is_flow).collect()
        };
        let mut records = judge(cells, &experiment, &values);
        records.pop().map(|record| (record.held, record.found))
    }

    #[test]
    fn a_claim_of_a_probe_means_its_own_cell_and_one_of_a_load_each_of_its_connections() {
        let cells = cells(CellStatus::Complete, &Outcome::Done);
        let ping = judged("bulk.ping.rtt.p50 < 25ms", &cells).expect("its cell was run");
        assert!(ping.0, "beside udp it is none of the claim's: {ping:?}");
        let load = judged("bulk.bulk.goodput > 500kbit", &cells).expect("it ran everywhere");
        assert!(load.0, "bulk-10 is no connection of three: {load:?}");
        let second = judged("bulk.bulk/bulk-2.goodput > 1500kbit", &cells).expect("it ran");
        assert!(second.0, "{second:?}");
        assert!(!judged("bulk.bulk.goodput > 1500kbit", &cells).expect("it ran").0);
    }

    #[test]
    fn what_was_measured_while_a_load_was_missing_proves_nothing() {
        let cells = cells(CellStatus::Complete, &Outcome::Failed("the port is taken".into()));
        let (held, found) = judged("bulk.ping.rtt.p50 < 25ms", &cells).expect("its cell was run");
        assert!(!held && found.ends_with("; load `downloads` failed in bulk.ping.0"), "{found}");
        let (_, all) = judged("bulk.bulk.goodput > 500kbit", &cells).expect("it ran everywhere");
        assert!(all.ends_with("failed in bulk.ping.0 (and 2 more)"), "{all}");
    }

    #[test]
    fn a_claim_about_cells_that_were_not_run_to_their_end_is_not_judged() {
        for status in [CellStatus::Planned, CellStatus::Partial, CellStatus::Stopped] {
            assert_eq!(judged("bulk.ping.rtt.p50 < 25ms", &cells(status, &Outcome::Done)), None);
        }
        let other =
            judged("flood.ping.rtt.p50 < 25ms", &cells(CellStatus::Complete, &Outcome::Done));
        assert_eq!(other, None, "`--only bulk` left it out");
    }
}
