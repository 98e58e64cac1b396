//! Check 50: the sender's link is faster than the receiver's.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 50,
    name: "faster-than-receiver",
    group: Group::Configuration,
    title: "the sender's link is faster than the receiver's",
    evidence: "both ends' link speeds",
    rule: "the sender's is higher, and nothing paces",
    severity: Severity::Note,
    why: "bursts at the sender's speed overflow a queue on the way",
    fix: "pace: fq with maxrate, or SO_MAX_PACING_RATE",
    source: "fasterdata.es.net, packet pacing: 2 to 4 times gain",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    not_told(facts, "the speed of its link")
}
