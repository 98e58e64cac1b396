//! Check 59: a connection has no window scaling or no SACK, though this end offers them.

use super::prelude::*;

pub(super) const CHECK: Check = Check {
    number: 59,
    name: "options-refused",
    group: Group::Path,
    title: "a connection has no window scaling or no SACK, though this end offers them",
    evidence: "options of TCP_INFO against net.ipv4.tcp_window_scaling and tcp_sack",
    rule: "a connection that moved 100 kB",
    severity: Severity::Warning,
    why: "the other end, or a middlebox that strips options, holds it at 64 kB in flight or makes each loss dear",
    fix: "look at the other end's settings; if they are on there, a middlebox is in between: compare captures",
    source: "RFC 7323; RFC 2018; RFC 3449",
    look,
};

fn look(facts: &Facts<'_>) -> Look {
    const SACK: u8 = 2;
    const WINDOW_SCALING: u8 = 4;
    let mut findings = Vec::new();
    let offered = [
        ("tcp_window_scaling", WINDOW_SCALING, "window scaling"),
        ("tcp_sack", SACK, "SACK"),
    ];
    let mut lacking = Vec::new();
    for (name, bit, words) in offered {
        if facts.now.texts.number(&format!("net/ipv4/{name}"))? != 0 {
            lacking.push((bit, words));
        }
    }
    for c in facts.connections()?.iter().filter(|c| !c.is_local()) {
        let moved = c.info.bytes_acked.unwrap_or(0).max(c.info.bytes_received.unwrap_or(0));
        let without: Vec<&str> = lacking
            .iter()
            .filter(|(bit, _)| c.info.options & bit == 0)
            .map(|(_, words)| *words)
            .collect();
        if moved < 100_000 || without.is_empty() {
            continue;
        }
        let finding = CHECK
            .finding(facts.name(c.now), CHECK.title)
            .saw(Evidence::text("without", without.join(", "), "TCP_INFO"))
            .saw(Evidence::amount("moved", moved, "bytes", "TCP_INFO"));
        findings.push(finding);
    }
    told(&CHECK, findings.into_iter().take(5))
}
