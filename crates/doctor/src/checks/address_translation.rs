//! Check 58: the two ends see different addresses or ports.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 58,
    name: "address-translation",
    group: Group::Path,
    title: "the two ends see different addresses or ports",
    evidence: "the 5-tuple at both ends",
    rule: "they differ",
    severity: Severity::Note,
    why: "a translation stands between, and forgets idle connections",
    fix: "keepalives below the timeout of that state",
    source: "RFC 5382",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    not_told(facts, "the address that it sees")
}
