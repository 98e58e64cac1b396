use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "fragments",
    group: CheckGroup::Errors,
    title: "fragmented packets could not be put together",
    evidence: "Ip ReasmFails, Ip6ReasmFails, ReasmReqds",
    rule: "more than 4, 10 an hour, and one in 100 fragments",
    severity: Severity::Warning,
    why: "of a packet whose fragment is lost nothing arrives",
    remedies: &["avoid fragments: smaller datagrams, path MTU discovery; else raise net.ipv4.ipfrag_high_thresh"],
    source: "RFC 8900; Documentation/networking/ip-sysctl.rst, ipfrag_high_thresh",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let (asked, _) = facts.counters(&["Ip.ReasmReqds", "Ip6ReasmReqds"])?;
    let counters = ["Ip.ReasmFails", "Ip6ReasmFails"];
    let (failed, _) = facts.counters(&counters)?;
    if percent(failed.total, asked.total) < 1.0 && percent(failed.watched, asked.watched) < 1.0 {
        return Ok(CheckOutcome::Fine);
    }
    rising(facts, &CHECK, &counters, Threshold { least: 5, per_hour: 10.0 }, |finding, _| {
        finding.saw(Evidence::count("ReasmReqds", asked.total, "/proc/net/snmp"))
    })
}
