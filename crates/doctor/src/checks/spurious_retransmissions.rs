use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "spurious-retransmissions",
    group: CheckGroup::Errors,
    title: "much came twice of what was sent again, or was doubled by a path",
    evidence: "TcpExt TCPDSACKRecv, TCPDSACKOfoRecv; Tcp RetransSegs",
    rule: "more than 10, 60 an hour, and a fifth of all retransmissions",
    severity: Severity::Warning,
    why: "capacity and time are spent on what nobody needs: delays jump, or packets are reordered, or doubled on the way (then what was sent again was needed, perhaps)",
    remedies: &["look for what delays packets in bursts (Wi-Fi, sleeping CPUs, a long queue) or reorders them"],
    source: "RFC 2883; Documentation/networking/snmp_counter.rst, TCPDSACKRecv",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let again = facts.counter("Tcp.RetransSegs")?;
    let counters = ["TcpExt.TCPDSACKRecv", "TcpExt.TCPDSACKOfoRecv"];
    let (moved, _) = facts.counters(&counters)?;
    if percent(moved.total, again.total) < 20.0 && percent(moved.watched, again.watched) < 20.0 {
        return Ok(CheckOutcome::Fine);
    }
    rising(facts, &CHECK, &counters, Threshold { least: 11, per_hour: 60.0 }, |finding, _| {
        finding.saw(Evidence::count("RetransSegs", again.total, "/proc/net/snmp"))
    })
}
