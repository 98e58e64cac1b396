use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "reverse-path-filter",
    group: CheckGroup::Errors,
    title: "packets were dropped: they came in by another interface than answers to them go out by",
    evidence: "TcpExt IPReversePathFilter",
    rule: "more than 4, and 60 an hour",
    severity: Severity::Warning,
    why: "a strict filter (rp_filter 1) takes paths that differ by direction for forged senders; connections over them do not open",
    remedies: &[
        "a route back by the interface that the packets come in by",
        "net.ipv4.conf.all.rp_filter=2, which takes what is reachable by any interface",
    ],
    source: "RFC 3704; Documentation/networking/ip-sysctl.rst, rp_filter; fib_validate_source of net/ipv4/fib_frontend.c",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 5, per_hour: 60.0 };
    rising(facts, &CHECK, &["TcpExt.IPReversePathFilter"], limit, |finding, _| finding)
}
