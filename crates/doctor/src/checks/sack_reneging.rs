use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "sack-reneging",
    group: CheckGroup::Errors,
    title: "a receiver threw away what it had acknowledged",
    evidence: "TcpExt TCPSACKReneging",
    rule: "any, and 1 an hour",
    severity: Severity::Warning,
    why: "all of it has to be sent again after a timeout; the receiver is out of memory, or a middlebox invents acknowledgements",
    remedies: &["look at the receiver's memory and at the devices between"],
    source: "RFC 2018, section 8; Documentation/networking/snmp_counter.rst, TCPSACKReneging",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let limit = Threshold { least: 1, per_hour: 1.0 };
    rising(facts, &CHECK, &["TcpExt.TCPSACKReneging"], limit, |finding, _| finding)
}
