use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "memory-aborts",
    group: CheckGroup::Errors,
    title: "connections were reset for want of memory",
    evidence: "TcpExt TCPAbortOnMemory",
    rule: "any",
    severity: Severity::Serious,
    why: "TCP was over the third figure of tcp_mem, or had too many orphans",
    remedies: &["find what holds the memory; raise tcp_mem or tcp_max_orphans"],
    source: "Documentation/networking/snmp_counter.rst, TCPAbortOnMemory",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 1, per_hour: 0.0 };
    rising(facts, &CHECK, &["TcpExt.TCPAbortOnMemory"], limit, |finding, _| finding)
}
