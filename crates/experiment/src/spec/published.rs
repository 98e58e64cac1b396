//! What others published for the scenarios of an experiment.

use super::Experiment;
use std::collections::BTreeMap;

/// Columns of published figures in the order of our own; others come after them by name.
const PUBLISHED: [&str; 4] = ["loss", "jitter", "ping", "tcp"];

impl Experiment {
    /// What the published figures are, in the order in which they are shown.
    pub fn published_columns(&self) -> Vec<&str> {
        let mut columns: Vec<&str> = Vec::new();
        for key in self.scenario.iter().flat_map(|s| s.published.keys()) {
            if !columns.contains(&key.as_str()) {
                columns.push(key);
            }
        }
        let place = |c: &str| PUBLISHED.iter().position(|p| *p == c).unwrap_or(PUBLISHED.len());
        columns.sort_by_key(|c| (place(c), *c));
        columns
    }

    /// What others published for each scenario, in a line: the values of [`Experiment::published_columns`].
    pub fn published(&self) -> BTreeMap<String, String> {
        let columns = self.published_columns();
        let line = |values: &BTreeMap<String, String>| {
            let values = columns.iter().map(|c| values.get(*c).map_or("–", String::as_str));
            values.collect::<Vec<_>>().join(", ")
        };
        self.scenario
            .iter()
            .filter(|s| !s.published.is_empty())
            .map(|s| (s.name.clone(), line(&s.published)))
            .collect()
    }
}
