//! What a run shows, with what its experiment says of it: claims, published figures, rates of lines, swept fields, kernels.
//!
//! ```text
//!   run folder ──store──► Run ──report──► Results ─┐
//!        └── text of the experiment ──spec─────────┴─► JudgedRun ──► text, JSON, the page
//! ```

mod capacity;
mod swept;

use crate::judge::judge;
use crate::line_files;
use crate::spec::{Experiment, load_file};
pub use capacity::capacities;
use quell_report::figures::Capacity;
use quell_report::figures::sweep::Sweep;
use quell_report::{Results, html};
use quell_store::Run;
use std::collections::BTreeMap;
pub use swept::{swept, value_of};

/// A run with its results, its claims checked against them.
pub struct JudgedRun {
    /// Its `expectations` are what holds of these results.
    pub run: Run,
    pub results: Results,
    /// Figures that others published, by scenario.
    pub published: BTreeMap<String, String>,
    /// What those figures are; empty where there are none.
    pub published_columns: Vec<String>,
    pub swept: Vec<Sweep>,
    pub capacities: Vec<Capacity>,
    pub about: String,
    /// What the experiment's kernels changed, in sentences.
    pub kernel_changes: Vec<String>,
}

impl JudgedRun {
    /// Of a run whose experiment this version no longer reads, or that no experiment made, the results alone.
    pub fn of(mut run: Run) -> Self {
        let results = Results::from(&run);
        let Some(experiment) = experiment_of(&run) else {
            return Self {
                run,
                results,
                published: BTreeMap::new(),
                published_columns: Vec::new(),
                swept: Vec::new(),
                capacities: Vec::new(),
                about: String::new(),
                kernel_changes: Vec::new(),
            };
        };
        let mut published = experiment.published();
        // A swept scenario, or one on a kernel of many, is called otherwise, and is not what others measured.
        published.retain(|name, _| run.manifest.cells.iter().any(|c| c.id.scenario == *name));
        let columns = experiment.published_columns().into_iter().map(str::to_owned);
        let published_columns = columns.filter(|_| !published.is_empty()).collect();
        let kernel_changes = swept::kernels(&run, &results, &experiment);
        let swept = swept(&experiment, &run.manifest);
        let capacities = capacities(&run.manifest.experiment_text, &experiment);
        // A part alone proves nothing of the whole.
        if run.manifest.part.is_none() {
            run.manifest.expectations =
                judge(&run.manifest.cells, &experiment, &|metric| results.values(metric));
        }
        let about = experiment.about;
        Self {
            run,
            results,
            published,
            published_columns,
            swept,
            capacities,
            about,
            kernel_changes,
        }
    }

    /// The page of the run, with every packet in it to zoom in.
    pub fn page(&self) -> String {
        let given = html::Given {
            published: &self.published,
            about: &self.about,
            swept: &self.swept,
            capacities: &self.capacities,
            changed: &self.kernel_changes,
        };
        html::render(&self.run, &self.results, &given)
    }
}

/// The experiment of a run; none where this version can't read it any more, or it was measured by hand.
pub fn experiment_of(run: &Run) -> Option<Experiment> {
    let experiment = load_file::parse("manifest.json", &run.manifest.experiment_text).ok()?;
    experiment.with_line_files(&line_files::of_kept(&run.manifest.series).ok()?).ok()
}
