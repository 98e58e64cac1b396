use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "backlog-drops",
    group: CheckGroup::Saturation,
    title: "packets for a busy connection were dropped",
    evidence: "TcpExt TCPBacklogDrop, TCPRcvQDrop",
    rule: "any, and 10 an hour",
    severity: Severity::Warning,
    why: "the program held its socket, or left data in it, for so long that what came found no room; TCP sends it again",
    remedies: &["read faster, with larger reads; a larger receive buffer"],
    source: "Documentation/networking/snmp_counter.rst, TCPBacklogDrop, TCPRcvQDrop",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 1, per_hour: 10.0 };
    let counted = rising(facts, &CHECK, &["TcpExt.TCPBacklogDrop", "TcpExt.TCPRcvQDrop"], limit, |finding, _| finding);
    let sockets = facts.now.sockets().map_or(&[][..], |sockets| &sockets.tcp);
    or_dropped_at(counted, facts, &CHECK, sockets.iter())
}
