//! How far a run came, read off the journals as they grow.
//!
//! Of a journal only its ticks are wanted. `quell_store::follow` would keep all that was measured in memory, of all cells, and put it in order
//! each time, in the program that measures; and it tells when there is something new, while a clock is drawn ten times a second anyway.

use quell_lab::cell::CellPlan;
use quell_model::{CellId, Event};
use quell_store::JournalReader;
use std::collections::BTreeMap;
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
    looked: Duration,
    total_ns: f64,
}

struct CellProgress {
    id: CellId,
    path: PathBuf,
    journal: JournalReader,
    length_ns: f64,
    warm_up_ns: f64,
    done_ns: f64,
    /// For how long it has been at work, in seconds of this machine.
    worked: f64,
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
                worked: 0.0,
                ended: false,
            })
            .collect();
        let total_ns = cells.iter().map(|c| c.length_ns).sum();
        ProgressWatch { cells, begun: Instant::now(), looked: Duration::ZERO, total_ns }
    }

    pub(super) fn look(&mut self, ended: &[bool]) -> RunProgress {
        let elapsed = self.begun.elapsed();
        let since = elapsed.saturating_sub(self.looked).as_secs_f64();
        self.looked = elapsed;
        // They begin in order: behind one without a journal none has any.
        let mut has_begun = true;
        for (cell, ended) in self.cells.iter_mut().zip(ended) {
            if *ended {
                cell.ended = true;
                cell.done_ns = cell.length_ns;
            } else if has_begun {
                has_begun = cell.read();
                // Whoever ends between two looks has no time of its own; others of its scenario have the more.
                cell.worked += if cell.done_ns > 0.0 { since } else { 0.0 };
            }
        }
        let done: f64 = self.cells.iter().map(|c| c.done_ns.min(c.length_ns)).sum();
        let fraction = if self.total_ns > 0.0 { done / self.total_ns } else { 0.0 };
        let known = fraction > 0.02 && elapsed > Duration::from_millis(300);
        let left = self.work_left().filter(|_| known).map(|left| elapsed.mul_f64(left));
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
    /// The work that is left, as a multiple of what was done: cells of a scenario are alike, and one may take many times what another takes. None
    /// before any was seen at work.
    fn work_left(&self) -> Option<f64> {
        let mut paces: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        let (mut worked, mut done) = (0.0, 0.0);
        for cell in self.cells.iter().filter(|cell| cell.done_ns > cell.length_ns / 50.0) {
            let pace = paces.entry(&cell.id.scenario).or_default();
            *pace = (pace.0 + cell.worked, pace.1 + cell.done_ns);
            worked += cell.worked;
            done += cell.done_ns;
        }
        let left = self.cells.iter().map(|cell| {
            let (worked, done) = *paces.get(&*cell.id.scenario).unwrap_or(&(worked, done));
            (cell.length_ns - cell.done_ns).max(0.0) * worked / done
        });
        (worked > 0.0).then(|| left.sum::<f64>() / worked)
    }

    fn scenarios(&self) -> Vec<(String, f64)> {
        let mut found: Vec<(String, f64, f64)> = Vec::new();
        for cell in &self.cells {
            let done = cell.done_ns.min(cell.length_ns);
            match found.iter_mut().rev().find(|(name, _, _)| *name == cell.id.scenario) {
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
    /// Whether it has a journal.
    fn read(&mut self) -> bool {
        let (done_ns, warm_up_ns) = (&mut self.done_ns, self.warm_up_ns);
        // A damaged journal is the affair of whoever finishes the run; here it only stops the progress.
        let read = self.journal.read(&self.path, &self.id, |event| {
            if let Event::Tick { t_ns } = event {
                *done_ns = (t_ns as f64 + warm_up_ns).max(*done_ns);
            }
            Ok(())
        });
        read.unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_that_is_left_is_that_of_the_slow_scenario_and_not_of_the_mean() {
        let cell = |scenario: &str, done_ns, worked| CellProgress {
            id: CellId { scenario: scenario.into(), probe: "ping".into(), repeat: 0 },
            path: PathBuf::new(),
            journal: JournalReader::default(),
            length_ns: 10e9,
            warm_up_ns: 0.0,
            done_ns,
            worked,
            ended: false,
        };
        // Of the flood 5 of 20 s are done in 10 s: 30 s are left. All of the idle line took 1 s.
        let cells =
            vec![cell("idle", 10e9, 1.0), cell("flood", 5e9, 10.0), cell("flood", 0.0, 0.0)];
        let watch =
            ProgressWatch { cells, begun: Instant::now(), looked: Duration::ZERO, total_ns: 30e9 };
        assert_eq!(watch.work_left().map(|left| (left * 11.0).round()), Some(30.0));
    }
}
