use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "receive-collapse",
    group: CheckGroup::Saturation,
    title: "receive buffers were too small for what came",
    evidence: "TcpExt PruneCalled, TCPRcvCollapsed, RcvPruned, OfoPruned",
    rule: "more than 10, and 60 an hour",
    severity: Severity::Warning,
    why: "the kernel copies queued data together to make room, which takes CPU, or throws it away, which takes a retransmission",
    remedies: &["let the kernel size the buffer: no SO_RCVBUF in the program; raise the third figure of tcp_rmem"],
    source: "Red Hat Enterprise Linux 10, network performance guide; Documentation/networking/snmp_counter.rst",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 11, per_hour: 60.0 };
    rising(facts, &CHECK, &["TcpExt.PruneCalled", "TcpExt.TCPRcvCollapsed", "TcpExt.RcvPruned", "TcpExt.OfoPruned"], limit, |finding, _| finding)
}
