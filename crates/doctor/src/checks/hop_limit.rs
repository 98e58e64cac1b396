use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "hop-limit",
    group: CheckGroup::Errors,
    title: "packets of this host died on the way: their hop limit ran out",
    evidence: "Icmp InTimeExcds, beside Tcp AttemptFails; ip_default_ttl",
    rule: "ip_default_ttl below 32; or 3 while connections failed to open",
    severity: Severity::Warning,
    why: "a router drops what has made all its hops; where they are enough, routers send it in a circle",
    remedies: &["find the circle with quell path: two routers that take turns; mend their routes"],
    source: "RFC 792, time exceeded; RFC 1700: a TTL of 64; ip_forward of net/ipv4/ip_forward.c",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let died = facts.counter("Icmp.InTimeExcds").unwrap_or_default();
    let first = facts.now.texts.number("net/ipv4/ip_default_ttl");
    let seen = |mut finding: Finding| {
        finding.evidence = died.evidence("InTimeExcds", "/proc/net/snmp");
        let ttl = first.as_ref().ok().map(|n| Evidence::count("ip_default_ttl", *n, "/proc/sys"));
        ttl.into_iter().fold(finding, Finding::saw)
    };
    if first.as_ref().is_ok_and(|hops| *hops < 32) {
        let says = "the hop limit of what this host sends is too small for the Internet";
        let finding = seen(CHECK.finding("this host", says));
        return outcome(&CHECK, [finding.cure(Remedy::sysctl("net/ipv4/ip_default_ttl", "64"))]);
    }
    // A trace of a path counts as well, and opens nothing.
    let failed = facts.counter("Tcp.AttemptFails").unwrap_or_default();
    if died.watched < 3 || failed.watched == 0 {
        return Ok(CheckOutcome::Fine);
    }
    outcome(&CHECK, [seen(CHECK.finding("this host", CHECK.title)).saw(Evidence::amount("AttemptFails", failed.watched, "while watching", "/proc/net/snmp"))])
}
