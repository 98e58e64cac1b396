use super::prelude::*;

pub(super) const CHECK: Check = Check::of_cause(
    Cause::OwnQueue,
    CheckGroup::Saturation,
    "TCP_INFO rtt against min_rtt, while data is in flight; the backlog of own queues at both looks",
    look,
);

fn look(facts: &Facts<'_>) -> CheckResult {
    waiting(facts, &CHECK, round_trips)
}
