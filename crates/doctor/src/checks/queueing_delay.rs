//! Check 25: packets of this connection wait in a queue on the way.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 25,
    name: "queueing-delay",
    group: Group::Saturation,
    title: "packets of this connection wait in a queue on the way",
    evidence: "TCP_INFO rtt against min_rtt, while data is in flight",
    rule: "50 ms more than the path needs, and than 8 of its segments take at its rate; or a second more",
    severity: Severity::Warning,
    why: "everything else through that queue waits as long: calls, games, pages",
    fix: "an AQM at the narrowest place, which is often one's own uplink: quell shape",
    source: "RFC 7567; the limit is our judgement",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    let mut findings = Vec::new();
    for c in facts.connections()?.iter().filter(|c| c.info.unacked > 0 && !c.is_local()) {
        let Some(least) = c.info.min_rtt.filter(|us| *us < u32::MAX) else { continue };
        // One segment in flight waits for a delayed acknowledgement as well.
        let more = c.info.rtt.saturating_sub(least);
        if more < 50_000 || c.info.unacked < 4 {
            continue;
        }
        // On a slow line a few segments take long, and TCP can't do with fewer: 8 are 97 ms at 1 Mbit/s.
        let rate = c.info.delivery_rate.unwrap_or(u64::MAX).max(1);
        let few = 8 * u64::from(c.info.snd_mss) * 1_000_000 / rate;
        if u64::from(more) < few.min(1_000_000) {
            continue;
        }
        let finding = CHECK
            .finding(facts.name(c.now), CHECK.title)
            .saw(Evidence::number("round trip now", f64::from(c.info.rtt) / 1e3, "ms", "TCP_INFO"))
            .saw(Evidence::number("least", f64::from(least) / 1e3, "ms", "TCP_INFO"))
            .saw(Evidence::amount("in flight", c.info.unacked.into(), "segments", "TCP_INFO"));
        findings.push((more, finding));
    }
    findings.sort_by_key(|(more, _)| std::cmp::Reverse(*more));
    told(&CHECK, findings.into_iter().take(3).map(|(_, finding)| finding))
}
