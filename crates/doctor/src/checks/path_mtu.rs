//! Check 55: large packets fare differently by protocol.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 55,
    name: "path-mtu",
    group: Group::Path,
    title: "large packets fare differently by protocol",
    evidence: "pings with DF, TCP and UDP of the same size",
    rule: "one passes, another does not",
    severity: Severity::Note,
    why: "somewhere a hop treats them differently",
    fix: "mend the MTU of that hop",
    source: "RFC 8899; Documentation/networking/ip-sysctl.rst",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    not_told(facts, "packets of several sizes over TCP")
}
