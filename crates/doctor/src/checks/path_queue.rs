use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::PathQueue,
    CheckGroup::Saturation,
    "TCP_INFO rtt against min_rtt, while data is in flight; the backlog of own queues at both looks",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    let mut findings = waiting(facts, &CHECK, round_trips)?.findings().to_vec();
    // To fill a path is no fault; that everything else through it waits as long is one.
    findings.iter_mut().for_each(|finding| finding.severity = Severity::Warning);
    Ok(CheckOutcome::of(findings))
}
