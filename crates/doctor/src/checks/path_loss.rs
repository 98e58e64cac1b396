use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "path-loss",
    group: CheckGroup::Path,
    title: "packets are lost on the way",
    evidence: "20 small packets of each of 20 flows, and the other end's count of them (--peer)",
    rule: "2 % of them, without those sent before the first answer of their flow. Flows that lose most beside others that \
         lose none are a bad member of equal paths, and don't count",
    severity: Severity::Warning,
    why: "each loss halves the rate of a classic sender; calls break up",
    remedies: &["find the hop with quell path; where a queue on that way is full, give it an AQM (quell shape)"],
    source: "RFC 8762, sequence numbers of both ends; Mathis et al. 1997: rate falls with the square root of loss",
    look,
};

/// Fewer than these are chance.
const FEW: u32 = 8;

fn look(facts: &Facts<'_>) -> CheckResult {
    let Some(peer) = facts.peer else { return needs_peer() };
    let mut flows: Vec<&StampFlow> = peer.flows.iter().filter(|flow| flow.loss() < 0.5).collect();
    if flows.is_empty() {
        // No member of several paths is the bad one then.
        flows.extend(&peer.flows);
    }
    let sum = |of: fn(&StampFlow) -> u32| flows.iter().map(|flow| of(flow)).sum::<u32>();
    let (sent, lost) = (sum(StampFlow::tried), sum(StampFlow::lost));
    if lost < FEW || lost * 50 < sent {
        return Ok(CheckOutcome::Fine);
    }
    let unsure: u32 = flows.iter().filter(|flow| flow.unanswered.is_none()).map(|flow| flow.lost()).sum();
    if lost - unsure < FEW || (lost - unsure) * 50 < sent {
        return Err(format!("{lost} of {sent} packets did not come back, and the other end does not know how many of them it left unanswered (--max-rate)"));
    }
    let (there, back) = flows.iter().fold((0, 0), |(there, back), flow| {
        let (more_there, more_back) = flow.lost_by_way().unwrap_or((0, 0));
        (there + more_there, back + more_back)
    });
    let says = match (there, back) {
        (0, 0) => "packets are lost; the direction is unknown",
        (there, back) if there >= 4 * back => "packets are lost on the way to the host",
        (there, back) if back >= 4 * there => "packets are lost on the way from the host",
        _ => "packets are lost in both directions",
    };
    let mut finding = CHECK
        .finding(format!("the path to {}", peer.host), says)
        .saw(Evidence::part("lost", lost.into(), sent.into(), "packets", "STAMP"))
        .saw(Evidence::count("there", there.into(), "STAMP"))
        .saw(Evidence::count("back", back.into(), "STAMP"));
    let unanswered = sum(|flow| flow.unanswered.unwrap_or(0));
    if unanswered > 0 {
        finding = finding.saw(Evidence::count("beside them, left unanswered by the other end", unanswered.into(), "STAMP"));
    }
    let before = sum(|flow| flow.before_first);
    if before > 0 {
        finding = finding.saw(Evidence::count("sent before a first answer", before.into(), "STAMP"));
    }
    outcome(&CHECK, [finding])
}
