use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "ecn-bleached",
    group: CheckGroup::Path,
    title: "congestion marks do not survive the path",
    evidence: "probes with ECT(0), and their answers, which have what arrived there (--peer)",
    rule: "most came back without",
    severity: Severity::Note,
    why: "ECN works no more, and losses stand in its place",
    remedies: &["find the hop that rewrites the field (quell path)"],
    source: "RFC 3168; RFC 9768",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    const ECT: u8 = 2;
    let Some(peer) = facts.peer else { return needs_peer() };
    let asked = peer.flows.iter().filter(|flow| flow.tos & 3 == ECT && flow.answered > 0);
    let (mut came, mut bare) = (0_u64, 0_u64);
    for flow in asked {
        for (tos, count) in &flow.returned {
            let count = u64::from(*count);
            if tos & 3 == 0 { bare += count } else { came += count }
        }
    }
    if came + bare == 0 {
        return Err("no answer came to the probes that offered ECN".to_owned());
    }
    if bare <= came {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding(format!("the path to {}", peer.host), CHECK.title)
        .saw(Evidence::amount("ECT(0)", came + bare, "sent and answered", "STAMP"))
        .saw(Evidence::amount("of these", bare, "came back without", "STAMP"));
    outcome(&CHECK, [finding])
}
