use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "syn-queue",
    group: CheckGroup::Saturation,
    title: "there was no room for half-open connections",
    evidence: "TcpExt TCPReqQFullDrop, TCPReqQFullDoCookies",
    rule: "any, and 10 an hour",
    severity: Severity::Warning,
    why: "more SYNs come than are answered in time: a burst of clients, or a SYN flood; without cookies clients have to wait",
    remedies: &["raise tcp_max_syn_backlog and the program's backlog; keep tcp_syncookies=1"],
    source: "Documentation/networking/ip-sysctl.rst, tcp_max_syn_backlog, tcp_syncookies",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 1, per_hour: 10.0 };
    rising(facts, &CHECK, &["TcpExt.TCPReqQFullDrop", "TcpExt.TCPReqQFullDoCookies"], limit, |finding, _| finding)
}
