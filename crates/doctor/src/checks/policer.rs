use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::Policer,
    CheckGroup::Path,
    "what a quell flow of --during found; with -u its rate and burst",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    let found = facts.reported.iter().filter(|finding| finding.id == CHECK.name);
    let named = found.map(|finding| Finding {
        subject: format!("quell flow, {}", finding.subject),
        ..finding.clone()
    });
    Ok(CheckOutcome::of(named.collect()))
}
