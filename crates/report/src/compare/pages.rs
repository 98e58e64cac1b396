//! Whose time a page load is: in virtual time the network's alone, else the browser's own work too.

use super::factor::{Group, Member};
use super::measure::Set;
use crate::layout::NETWORK_SHARE;
use quell_model::metric::Metric;

/// What has to be said of page loads of which some were measured in virtual time.
pub(super) fn note(groups: &[Group], sets: &[Set]) -> Option<String> {
    let of_pages = |set: &&Set| set.measures.iter().any(|m| is_of_pages(m.metric));
    let sets: Vec<&Set> = sets.iter().filter(of_pages).collect();
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
