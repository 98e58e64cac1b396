//! Check 60: congestion marks do not survive the path.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 60,
    name: "ecn-bleached",
    group: Group::Path,
    title: "congestion marks do not survive the path",
    evidence: "CE marks sent and received",
    rule: "sent and not received",
    severity: Severity::Note,
    why: "ECN works no more, and losses stand in its place",
    fix: "find the hop that rewrites the field (quell path)",
    source: "RFC 3168; RFC 9768",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let _ = facts;
    needs_peer()
}
