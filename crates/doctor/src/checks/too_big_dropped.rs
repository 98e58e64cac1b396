use super::prelude::*;
use quell_host::drops::TOO_BIG;

pub(super) const CHECK: Check = Check {
    name: "too-big-dropped",
    group: CheckGroup::Errors,
    title: "a rule on this machine drops what routers say of packets that are too big",
    evidence: "packets that the kernel dropped, ICMP type 3 code 4 and ICMPv6 type 2 (the drop monitor, with --during)",
    rule: "one, dropped by a rule of the firewall",
    severity: Severity::Serious,
    why: "who never hears that sends the same size again: connections open, and then hang",
    remedies: &["let ICMP type 3 code 4 and ICMPv6 type 2 in before the rules that drop ICMP; at a router let them pass"],
    source: "RFC 2923, section 2.1; RFC 4890, section 4.3.1",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let Some(drops) = facts.drops else {
        return Ok(CheckOutcome::NotApplicable("needs --during, and root".to_owned()));
    };
    let by_rule = drops.rows.iter().filter(|one| {
        one.row.reason.as_deref() == Some("NETFILTER_DROP") && one.row.flow.ends_with(TOO_BIG)
    });
    let findings = by_rule.map(|one| {
        let count = Evidence::count("dropped", one.packets, "drop_monitor");
        CHECK.finding(&one.row.flow, CHECK.title).saw(count)
    });
    outcome(&CHECK, findings)
}
