use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "class-changed",
    group: CheckGroup::Path,
    title: "the class of packets is changed on the way",
    evidence: "DSCP of probes as they were sent and as their answers of the same class came back (--peer)",
    rule: "every packet of a class came back with another",
    severity: Severity::Note,
    why: "what relies on its class, as calls do, is treated as everything else behind the hop that changes it",
    remedies: &["find the hop that rewrites the field (quell path); agree on classes with its operator"],
    source: "RFC 2474; RFC 8100",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let Some(peer) = facts.peer else { return needs_peer() };
    let mut findings = Vec::new();
    for flow in peer.flows.iter().filter(|flow| flow.tos >> 2 != 0 && flow.answered > 0) {
        if flow.returned.keys().any(|tos| tos >> 2 == flow.tos >> 2) {
            continue;
        }
        let mut finding = CHECK
            .finding(format!("the path to {}", peer.host), CHECK.title)
            .saw(Evidence::text("sent", class(flow.tos), "STAMP"));
        for (tos, count) in &flow.returned {
            finding = finding.saw(Evidence::amount(class(*tos), u64::from(*count), "came back", "STAMP"));
        }
        findings.push(finding);
    }
    // Once: with and without the bits of ECN it is the same class.
    findings.dedup_by_key(|finding| finding.evidence[0].clone());
    outcome(&CHECK, findings)
}

/// The class by its name, where it has one (RFC 4594).
fn class(tos: u8) -> String {
    match tos >> 2 {
        0 => "CS0".to_owned(),
        34 => "AF41".to_owned(),
        46 => "EF".to_owned(),
        other => format!("DSCP {other}"),
    }
}
