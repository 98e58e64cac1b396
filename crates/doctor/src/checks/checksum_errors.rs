use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "checksum-errors",
    group: CheckGroup::Errors,
    title: "packets arrived with wrong checksums",
    evidence: "InCsumErrors of Tcp, Udp, Icmp; Udp6InCsumErrors",
    rule: "more than 4, and 10 an hour",
    severity: Severity::Serious,
    why: "they are dropped; what damages packets beyond the link's own check is memory, an offload or a middlebox",
    remedies: &["switch checksum offload off at both ends by turns and look again; then cables, memory, and every device between"],
    source: "tcp(7); Documentation/networking/checksum-offloads.rst",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 5, per_hour: 10.0 };
    rising(facts, &CHECK, &["Tcp.InCsumErrors", "Udp.InCsumErrors", "Icmp.InCsumErrors", "Udp6InCsumErrors"], limit, |finding, _| finding)
}
