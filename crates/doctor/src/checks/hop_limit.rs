use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "hop-limit",
    group: CheckGroup::Errors,
    title: "packets of this host died on the way: their hop limit ran out",
    evidence: "Icmp InTimeExcds, Icmp6InTimeExcds, beside Tcp AttemptFails; ip_default_ttl, hop_limit",
    rule: "ip_default_ttl or a device's hop_limit below 32; or 3 while connections failed to open",
    severity: Severity::Warning,
    why: "a router drops what has made all its hops; where they are enough, routers send it in a circle",
    remedies: &["find the circle with quell path: two routers that take turns; mend their routes"],
    source: "RFC 792, time exceeded; RFC 1700: a TTL of 64; ip_forward of net/ipv4/ip_forward.c",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let counters = ["Icmp.InTimeExcds", "Icmp6InTimeExcds"];
    let (died, evidence) = facts.counters(&counters).unwrap_or_default();
    let devices = facts.devices().map(|all| all.map(|(device, _)| device.link.name.clone()));
    let keys = devices.into_iter().flatten().map(|name| format!("net/ipv6/conf/{name}/hop_limit"));
    let keys = std::iter::once("net/ipv4/ip_default_ttl".to_owned()).chain(keys);
    let limits = keys.filter_map(|key| Some((facts.now.texts.number(&key).ok()?, key)));
    let limits: Vec<(u64, String)> = limits.collect();
    let seen = |mut finding: Finding, limits: &[(u64, String)]| {
        finding.evidence.clone_from(&evidence);
        let limits = limits.iter();
        limits.fold(finding, |finding, (hops, key)| {
            finding.saw(Evidence::count(key.replace('/', "."), *hops, "/proc/sys"))
        })
    };
    let low: Vec<_> = limits.iter().filter(|(hops, _)| *hops < 32).cloned().collect();
    if !low.is_empty() {
        let says = "the hop limit of what this host sends is too small for the Internet";
        let finding = seen(CHECK.finding("this host", says), &low);
        let cures = low.iter().map(|(_, key)| Remedy::sysctl(key, "64"));
        return outcome(&CHECK, [cures.fold(finding, Finding::cure)]);
    }
    // A trace of a path counts as well, and opens nothing.
    let failed = facts.counter("Tcp.AttemptFails").unwrap_or_default();
    if died.watched < 3 || failed.watched == 0 {
        return Ok(CheckOutcome::Fine);
    }
    let first = limits.get(..1).unwrap_or_default();
    let failed =
        Evidence::amount("AttemptFails", failed.watched, "while watching", "/proc/net/snmp");
    outcome(&CHECK, [seen(CHECK.finding("this host", CHECK.title), first).saw(failed)])
}
