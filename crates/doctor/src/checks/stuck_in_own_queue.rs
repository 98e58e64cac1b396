//! Check 24: TCP wanted to send again what had not yet left this host.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 24,
    name: "stuck-in-own-queue",
    group: Group::Saturation,
    title: "TCP wanted to send again what had not yet left this host",
    evidence: "TcpExt TCPSpuriousRtxHostQueues",
    rule: "any, and 10 an hour",
    severity: Severity::Warning,
    why: "packets wait so long in a queue or driver here that TCP takes them for lost",
    fix: "a shorter queue with an AQM (fq_codel, cake), and a rate below that of the device behind it",
    source: "Documentation/networking/snmp_counter.rst, TCPSpuriousRtxHostQueues",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let limit = Limit { least: 1, per_hour: 10.0 };
    rising(facts, &CHECK, &["TcpExt.TCPSpuriousRtxHostQueues"], limit, |finding, _| finding)
}
