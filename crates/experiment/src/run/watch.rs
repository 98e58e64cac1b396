//! How far a run came, read off the journals as they grow.
//!
//! Of a journal only its ticks are wanted. `quell_store::follow` would keep all that was measured in memory, of all cells, and put it in order
//! each time, in the program that measures; and it tells when there is something new, while a clock is drawn ten times a second anyway.

use quell_lab::cell::CellPlan;
use quell_model::{CellId, Event};
use quell_store::JournalReader;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, PartialEq)]
pub struct RunProgress {
    pub ended: usize,
    pub cells: usize,
    /// What is done of all time inside the experiment, 0 to 1.
    pub fraction: f64,
    /// Each scenario, in order, and what is done of its cells, 0 to 1.
    pub scenarios: Vec<(String, f64)>,
    /// How long it takes still, as far as can be told.
    pub left: Option<Duration>,
    pub elapsed: Duration,
}

pub(super) struct ProgressWatch {
    cells: Vec<CellProgress>,
    begun: Instant,
    total_ns: f64,
}

struct CellProgress {
    id: CellId,
    path: PathBuf,
    journal: JournalReader,
    length_ns: f64,
    warm_up_ns: f64,
    done_ns: f64,
    ended: bool,
}

impl ProgressWatch {
    pub(super) fn new(plans: &[CellPlan], journal: impl Fn(&CellPlan) -> PathBuf) -> Self {
        let cells: Vec<CellProgress> = plans
            .iter()
            .map(|plan| CellProgress {
                id: plan.id.clone(),
                path: journal(plan),
                journal: JournalReader::default(),
                length_ns: plan.length().nanos() as f64,
                warm_up_ns: plan.warm_up.nanos() as f64,
                done_ns: 0.0,
                ended: false,
            })
            .collect();
        let total_ns = cells.iter().map(|c| c.length_ns).sum();
        ProgressWatch { cells, begun: Instant::now(), total_ns }
    }

    pub(super) fn look(&mut self, ended: &[bool]) -> RunProgress {
        for (cell, ended) in self.cells.iter_mut().zip(ended) {
            if *ended {
                cell.ended = true;
                cell.done_ns = cell.length_ns;
            } else {
                cell.read();
            }
        }
        let done: f64 = self.cells.iter().map(|c| c.done_ns.min(c.length_ns)).sum();
        let fraction = if self.total_ns > 0.0 { done / self.total_ns } else { 0.0 };
        let elapsed = self.begun.elapsed();
        let left = (fraction > 0.02 && elapsed > Duration::from_millis(300))
            .then(|| elapsed.mul_f64((1.0 - fraction) / fraction));
        RunProgress {
            ended: self.cells.iter().filter(|c| c.ended).count(),
            cells: self.cells.len(),
            fraction,
            scenarios: self.scenarios(),
            left,
            elapsed,
        }
    }
}

impl ProgressWatch {
    fn scenarios(&self) -> Vec<(String, f64)> {
        let mut found: Vec<(String, f64, f64)> = Vec::new();
        for cell in &self.cells {
            let done = cell.done_ns.min(cell.length_ns);
            match found.iter_mut().find(|(name, _, _)| *name == cell.id.scenario) {
                Some((_, sum, all)) => {
                    *sum += done;
                    *all += cell.length_ns;
                }
                None => found.push((cell.id.scenario.clone(), done, cell.length_ns)),
            }
        }
        found.into_iter().map(|(name, sum, all)| (name, sum / all.max(1.0))).collect()
    }
}

impl CellProgress {
    fn read(&mut self) {
        let (done_ns, warm_up_ns) = (&mut self.done_ns, self.warm_up_ns);
        // A damaged journal is the affair of whoever finishes the run; here it only stops the progress.
        let _ = self.journal.read(&self.path, &self.id, |event| {
            if let Event::Tick { t_ns } = event {
                *done_ns = (t_ns as f64 + warm_up_ns).max(*done_ns);
            }
            Ok(())
        });
    }
}
