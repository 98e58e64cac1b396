use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "path-mtu",
    group: CheckGroup::Path,
    title: "large packets fare differently by protocol",
    evidence: "UDP of several sizes with DF, and 64 kB of TCP, in both directions; ICMP echo of the same sizes (--peer)",
    rule: "one passes, the other of the same size does not",
    severity: Severity::Note,
    why: "somewhere a hop treats them differently",
    remedies: &["mend the MTU of that hop"],
    source: "RFC 8899; Documentation/networking/ip-sysctl.rst",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    with_ends(facts, of_path)
}

fn of_path(ends: &BothEnds, path: &str) -> CheckResult {
    let ways = [("there", &ends.to_there), ("back", &ends.to_here)];
    let odd = ways.into_iter().filter(|(_, way)| {
        let udp = way.mtu().unwrap_or(0);
        match way.bulk {
            Some(true) => way.swallows().is_some_and(|(_, lost)| lost <= way.segment),
            Some(false) => udp >= way.segment && way.segment > 0,
            None => false,
        }
    });
    let finding = |(name, way): (&str, &PacketSizes)| {
        let bulk = if way.bulk == Some(true) { "arrive" } else { "don't arrive" };
        CHECK
            .finding(format!("{path}, the way {name}"), CHECK.title)
            .saw(Evidence::amount("UDP up to", way.mtu().unwrap_or(0).into(), "bytes arrives", "quell serve"))
            .saw(Evidence::text(
                "TCP",
                format!("packets of {} bytes {bulk}", way.segment),
                "TCP_INFO",
            ))
    };
    outcome(&CHECK, odd.map(finding).chain(of_echo(ends, path)).collect::<Vec<_>>())
}

/// ICMP that is dropped where UDP of that size passes both ways, or the other way round. Where no echo comes back at all, it is no question of
/// size.
fn of_echo(ends: &BothEnds, path: &str) -> Option<Finding> {
    let echo = ends.echo.as_ref()?;
    let icmp = echo.mtu()?;
    let udp = ends.to_there.mtu()?.min(ends.to_here.mtu()?);
    let less = echo.swallows().is_some_and(|(_, lost)| lost <= udp);
    let swallowed = |way: &PacketSizes| way.swallows().is_some_and(|(_, lost)| lost <= icmp);
    let more = swallowed(&ends.to_there) || swallowed(&ends.to_here);
    (less || more).then(|| {
        CHECK
            .finding(format!("{path} and back"), CHECK.title)
            .saw(Evidence::amount("ICMP echo up to", icmp.into(), "bytes comes back", "ICMP"))
            .saw(Evidence::amount("UDP up to", udp.into(), "bytes arrives in both directions", "quell serve"))
    })
}
