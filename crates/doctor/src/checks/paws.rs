use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "paws",
    group: CheckGroup::Errors,
    title: "segments were refused since their timestamp is older than one that came before",
    evidence: "TcpExt PAWSEstab",
    rule: "more than 10, and 60 an hour",
    severity: Severity::Warning,
    why: "old duplicates are rightly refused; many mean that something in between mixes or rewrites timestamps",
    remedies: &["look for a NAT or a load balancer that puts several hosts behind one address and port"],
    source: "RFC 7323, section 5; Documentation/networking/snmp_counter.rst, PAWSEstab",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 11, per_hour: 60.0 };
    rising(facts, &CHECK, &["TcpExt.PAWSEstab"], limit, |finding, _| finding)
}
