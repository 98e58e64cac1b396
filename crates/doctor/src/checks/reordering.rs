use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "reordering",
    group: CheckGroup::Errors,
    title: "packets arrive in another order than they were sent in",
    evidence: "TcpExt TCPSACKReorder, TCPTSReorder, TCPRenoReorder",
    rule: "more than 10, 60 an hour, and one in 1000 segments sent",
    severity: Severity::Warning,
    why: "TCP takes late packets for lost and slows down until it learns better",
    remedies: &["hash whole flows onto the members of a bond or of equal-cost routes; no round-robin"],
    source: "Documentation/networking/snmp_counter.rst, TCPSACKReorder",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let (base, sent) = segments_sent(facts)?;
    let limit = Threshold { least: 11, per_hour: 60.0 };
    let counters = ["TcpExt.TCPSACKReorder", "TcpExt.TCPTSReorder", "TcpExt.TCPRenoReorder"];
    let (moved, _) = facts.counters(&counters)?;
    if percent(moved.total, sent.total) < 0.1 && percent(moved.watched, sent.watched) < 0.1 {
        return Ok(CheckOutcome::Fine);
    }
    let base = facts.counters(&[base])?.1;
    rising(facts, &CHECK, &counters, limit, |mut finding, _| {
        finding.evidence.extend(base);
        finding
    })
}
