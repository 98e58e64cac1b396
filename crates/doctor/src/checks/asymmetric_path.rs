//! Check 62: the two directions have different numbers of hops.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 62,
    name: "asymmetric-path",
    group: Group::Path,
    title: "the two directions have different numbers of hops",
    evidence: "TTL at both ends",
    rule: "they differ",
    severity: Severity::Note,
    why: "each direction has its own faults; firewalls with state may see only one",
    fix: "look at both directions by themselves",
    source: "RFC 3449",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let _ = facts;
    needs_peer()
}
