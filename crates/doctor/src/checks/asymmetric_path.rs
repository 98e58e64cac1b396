use super::prelude::*;
use crate::peer::hops;

pub(super) const CHECK: Check = Check {
    name: "asymmetric-path",
    group: CheckGroup::Path,
    title: "the two directions have different numbers of hops",
    evidence: "TTL of probes there, and of their answers here (--peer)",
    rule: "they differ for every flow",
    severity: Severity::Note,
    why: "each direction has its own faults; firewalls with state may see only one",
    remedies: &["look at both directions by themselves"],
    source: "RFC 3449",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let Some(peer) = facts.peer else { return needs_peer() };
    let known = |flow: &&StampFlow| flow.ttl_there.is_some_and(|ttl| ttl > 0) && flow.ttl_here.is_some();
    let mut ways: Vec<(u8, u8)> = peer
        .flows
        .iter()
        .filter(known)
        .map(|flow| (hops(flow.ttl_there.unwrap_or(0)), hops(flow.ttl_here.unwrap_or(0))))
        .collect();
    ways.sort_unstable();
    let (Some(first), Some(last)) = (ways.first(), ways.last()) else {
        return Err("the other end does not tell with which TTL packets arrive".to_owned());
    };
    // Flows over several paths may differ among themselves; none of them may be as long one way as the other.
    if ways.iter().any(|(there, back)| there == back) {
        return Ok(CheckOutcome::Fine);
    }
    let finding = CHECK
        .finding(format!("the path to {}", peer.host), CHECK.title)
        .saw(Evidence::amount("there", first.0.into(), "routers", "STAMP"))
        .saw(Evidence::amount("back", last.1.into(), "routers", "TTL of the answers"));
    outcome(&CHECK, [finding])
}
