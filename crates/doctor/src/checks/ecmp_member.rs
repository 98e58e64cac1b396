use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "ecmp-member",
    group: CheckGroup::Path,
    title: "loss depends on the source port",
    evidence: "loss of probes by their source port (--peer)",
    rule: "half or more of some ports' is lost, a tenth at most of all others'",
    severity: Severity::Warning,
    why: "one of several equal paths is broken",
    remedies: &["tell the operator which ports"],
    source: "RFC 2992",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let Some(peer) = facts.peer else { return needs_peer() };
    // What the other end left unanswered, and does not know how many, is not lost.
    let sure = peer.flows.iter().filter(|flow| flow.unanswered.is_some());
    let bad: Vec<_> = sure.filter(|flow| flow.loss() >= 0.5).collect();
    let good = peer.flows.iter().filter(|flow| flow.loss() <= 0.1).count();
    // A path that loses now and then loses of each flow; here most of some is lost, and next to nothing of others.
    if bad.len() < 2 || good < 2 || bad.len() + good < peer.flows.len() * 9 / 10 {
        return Ok(CheckOutcome::Fine);
    }
    let ports: Vec<String> = bad.iter().map(|flow| flow.port.to_string()).collect();
    let lost: f64 = bad.iter().map(|flow| flow.loss()).sum::<f64>() / bad.len() as f64;
    let finding = CHECK
        .finding(format!("the path to {}", peer.host), CHECK.title)
        .saw(Evidence::text("UDP source ports that lose", ports.join(" "), "STAMP"))
        .saw(Evidence::number("of theirs", lost * 100.0, "% lost", "STAMP"))
        .saw(Evidence::amount("beside", good as u64, "ports that do not", "STAMP"));
    outcome(&CHECK, [finding])
}
