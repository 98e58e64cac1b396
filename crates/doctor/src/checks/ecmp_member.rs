//! Check 61: loss depends on the source port.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 61,
    name: "ecmp-member",
    group: Group::Path,
    title: "loss depends on the source port",
    evidence: "loss of probes by source port",
    rule: "some ports lose, others do not",
    severity: Severity::Note,
    why: "one of several equal paths is broken",
    fix: "tell the operator which ports",
    source: "RFC 2992",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let _ = facts;
    needs_peer()
}
