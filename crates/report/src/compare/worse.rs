//! What got worse, in sentences: for a check that fails.

use super::comparison::Comparison;
use super::measure::{Against, Measure, Towards, Verdict};
use super::text;

/// What got worse, a sentence each; none where nothing did. What is neither better nor worse does not count, and of what may differ by chance
/// only what differs beyond that.
pub fn sentences(comparison: &Comparison) -> Vec<String> {
    told(comparison, |verdict| matches!(verdict, Verdict::Surely(Towards::Worse)))
}

/// Of what nobody can tell whether it got worse, and why, a sentence each.
pub fn unknown(comparison: &Comparison) -> Vec<String> {
    told(comparison, |verdict| matches!(verdict, Verdict::Unknown(_)))
}

/// Whether nobody can tell it of anything.
pub fn is_all_unknown(comparison: &Comparison) -> bool {
    unknown(comparison).len() == comparison.differences
}

fn told(comparison: &Comparison, is_meant: impl Fn(Verdict) -> bool) -> Vec<String> {
    let first = &comparison.groups[0].label;
    let mut found = Vec::new();
    for set in &comparison.sets {
        let name = set.name();
        let sentence = |measure: &Measure, against: &Against| {
            let group = &comparison.groups[against.group].label;
            text::sentence(first, group, &name, measure, against)
        };
        for measure in &set.measures {
            let meant = measure.against.iter().filter(|against| is_meant(against.verdict));
            found.extend(meant.filter_map(|against| sentence(measure, against)));
        }
    }
    found
}
