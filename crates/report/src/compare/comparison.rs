//! What is compared, and what came out: groups, and the differences of all that they have in common.

use super::factor::{self, CompareError, Group, MeasuredRun, Member, Wanted};
use super::measure::{self, Against, Measure, Set, Verdict};
use crate::layout::NETWORK_SHARE;
use quell_model::metric::Metric;

#[derive(Debug)]
pub struct Comparison<'a> {
    /// What tells the groups apart, as `run` or a field's name.
    pub by: String,
    pub groups: Vec<Group>,
    /// What is alike in all groups, each compared.
    pub sets: Vec<Set<'a>>,
    pub notes: Vec<String>,
    pub differences: usize,
}

impl<'a> Comparison<'a> {
    /// Compares these runs.
    ///
    /// # Errors
    /// When there is nothing to compare: one group alone, no stream that all have, nothing measured in the same unit, no cell that ran to
    /// its end, or a name that nothing has.
    pub fn of(sources: &'a [MeasuredRun<'a>], wanted: &Wanted) -> Result<Self, CompareError> {
        let factor::Sorted { by, groups, sets, mut notes } = factor::sort(sources, wanted)?;
        let sets = measure::all(&groups, sets, wanted, &mut notes)?;
        notes.extend(of_pages(&groups, &sets));
        let against = sets.iter().flat_map(|s| &s.measures).map(|m| m.against.len());
        let differences = against.sum();
        Ok(Self { by, groups, sets, notes, differences })
    }

    /// Each figure of the first group, with each of another group that is held against it.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&Measure, &Against)> {
        let measures = self.sets.iter().flat_map(|set| &set.measures);
        measures.flat_map(|m| m.against.iter().map(move |a| (m, a)))
    }

    pub(super) fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.pairs().map(|(_, against)| against.verdict)
    }
}

/// What has to be said of page loads of which some were measured in virtual time.
pub(super) fn of_pages(groups: &[Group], sets: &[Set]) -> Option<String> {
    let has_pages = |set: &&Set| set.measures.iter().any(|m| is_of_pages(m.metric));
    let sets: Vec<&Set> = sets.iter().filter(has_pages).collect();
    let any = |is: &dyn Fn(&Member) -> bool| {
        let has = |group: &usize| sets.iter().any(|set| set.members[*group].iter().any(is));
        let found: Vec<&str> =
            (0..groups.len()).filter(has).map(|group| &*groups[group].label).collect();
        found.join(", ")
    };
    let is_virtual = |member: &Member| member.run.manifest.kernel.virtual_time;
    let (virtually, really) = (any(&is_virtual), any(&|member| !is_virtual(member)));
    match (virtually.is_empty(), really.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!("Times of page loads: {NETWORK_SHARE}.")),
        (false, false) => Some(format!(
            "Times of page loads are not the same thing on both sides. Of {virtually}: {NETWORK_SHARE}. Of {really}: all of it, with the \
             browser's own work."
        )),
    }
}

fn is_of_pages(metric: Metric) -> bool {
    use Metric::{Doc, Fcp, Lcp, Load, LoadSd, Paint};
    matches!(metric, Doc | Paint | Fcp | Lcp | Load | LoadSd)
}
