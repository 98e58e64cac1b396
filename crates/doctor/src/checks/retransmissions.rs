//! Check 31: much has to be sent again.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 31,
    name: "retransmissions",
    group: Group::Errors,
    title: "much has to be sent again",
    evidence: "Tcp RetransSegs against TcpExt TCPOrigDataSent",
    rule: "1 % of at least 1000 segments, or while watching 20 that are a tenth; the goal is 0.01 %",
    severity: Severity::Warning,
    why: "each loss halves the rate of a classic sender, and costs a round trip or a timeout",
    fix: "find where packets are lost: the checks of queues, rings and cables here, quell path on the way",
    source: "Documentation/networking/snmp_counter.rst, TCPOrigDataSent; the shares are our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let again = facts.moved("Tcp.RetransSegs")?;
    let sent = facts.moved("TcpExt.TCPOrigDataSent")?;
    let bad = |again: u64, sent: u64| sent >= 1000 && percent(again, sent) > 1.0;
    // A line that a neighbour floods lets so little through that a thousand are never sent.
    let much = again.watched >= 20 && percent(again.watched, sent.watched) >= 10.0;
    if !bad(again.total, sent.total) && !bad(again.watched, sent.watched) && !much {
        return Ok(Outcome::Fine);
    }
    let mut finding = CHECK.finding("this host", CHECK.title);
    finding.evidence = again.evidence("RetransSegs", "/proc/net/snmp");
    finding = finding
        .saw(Evidence::count("TCPOrigDataSent", sent.total, "/proc/net/netstat"))
        .saw(Evidence::number("share", percent(again.total, sent.total), "%", "calculated"));
    if sent.watched >= 100 || much {
        let share = percent(again.watched, sent.watched);
        finding = finding.saw(Evidence::number("while watching", share, "%", "calculated"));
    }
    told(&CHECK, [finding])
}
