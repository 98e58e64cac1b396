//! What is compared, and what came out: groups, and the differences of all that they have in common.

use super::factor::{self, CompareError, Group, Source, Wanted};
use super::measure::{self, Set};
use super::pages;

/// What is compared, and what came out.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// What tells the groups apart, as `run` or a field's name.
    pub by: String,
    /// The groups; the others are held against the first.
    pub groups: Vec<Group>,
    /// What is alike in all groups, each compared.
    pub sets: Vec<Set<'a>>,
    /// What has to be known to read it.
    pub notes: Vec<String>,
    pub differences: usize,
}

impl<'a> Comparison<'a> {
    /// Compares these runs.
    ///
    /// # Errors
    /// When there is nothing to compare: one group alone, no stream that all have, nothing measured in the same unit, no cell that ran to
    /// its end, or a name that nothing has.
    pub fn of(sources: &'a [Source<'a>], wanted: &Wanted) -> Result<Self, CompareError> {
        let factor::Sorted { by, groups, sets, mut notes } = factor::sort(sources, wanted)?;
        let sets = measure::all(&groups, sets, wanted, &mut notes)?;
        notes.extend(pages::note(&groups, &sets));
        let against = sets.iter().flat_map(|s| &s.measures).map(|m| m.against.len());
        let differences = against.sum();
        Ok(Self { by, groups, sets, notes, differences })
    }
}
