use super::prelude::*;

pub(super) const CHECK: Check = Check {
    name: "queue-drops",
    group: CheckGroup::Saturation,
    title: "a queue here was full and dropped packets",
    evidence: "drops of each queue (rtnetlink)",
    rule: "any while watching; since the start 10, and one in 1000; not of queues that drop by design; their limit reached is a note",
    severity: Severity::Warning,
    why: "this host sends faster than its link takes it",
    remedies: &["a queue that tells senders early and shares fairly: fq_codel or cake; or pacing: fq"],
    source: "fasterdata.es.net, packet pacing; RFC 7567",
    look,
};

fn look(facts: &Facts<'_>) -> CheckResult {
    let queues = facts.now.queues()?;
    let earlier = facts.before.and_then(|before| before.queues().ok()).unwrap_or_default();
    let mut findings = Vec::new();
    // What is told of a queue's drops by its parent is told once.
    for queue in queues.iter().filter(|queue| queue.root && !drops_by_design(queue, queues)) {
        let same = |other: &&quell_host::QueueCounters| {
            other.device == queue.device && other.root && other.kind == queue.kind
        };
        let before = earlier.iter().find(same).map(|queue| queue.drops);
        let moved = CounterReading::between(before, queue.drops);
        let seldom = percent(queue.drops, queue.packets.saturating_add(queue.drops)) < 0.1;
        let limit = Threshold { least: 10, per_hour: 10.0 };
        if moved.watched == 0 && (seldom || !facts.is_over(moved, limit)) {
            continue;
        }
        let mut finding = CHECK.finding(format!("{}, queue {}", queue.device, queue.kind), CHECK.title);
        finding.evidence = moved.evidence("dropped", "tc -s qdisc");
        finding = finding.saw(Evidence::amount("passed", queue.packets, "packets", "tc -s qdisc"));
        findings.push(finding.cure(Remedy::Queue {
            device: queue.device.clone(),
            queue: "fq_codel".to_owned(),
        }));
    }
    // One that tells senders early has a limit too; what it drops there it did not tell early enough.
    for queue in queues {
        let same = |other: &&quell_host::QueueCounters| {
            other.device == queue.device && other.parent == queue.parent && other.kind == queue.kind
        };
        let before = earlier.iter().find(same).and_then(|queue| queue.limit_drops);
        let Some(drops) = queue.limit_drops else { continue };
        let moved = CounterReading::between(before, drops);
        if drops == 0 || !facts.is_over(moved, Threshold { least: 1, per_hour: 1.0 }) {
            continue;
        }
        let subject = format!("{}, queue {}", queue.device, queue.kind);
        let mut finding = CHECK.finding(subject, "a queue reached its limit and dropped packets");
        finding.severity = Severity::Note;
        finding.remedies = vec![Remedy::advice("see who sends faster than this queue tells it to: `quell tree`")];
        let waiting = Evidence::amount("waiting", queue.backlog_packets, "packets", "tc -s qdisc");
        finding.evidence = moved.evidence("drop_overlimit", "tc -s qdisc");
        findings.push(finding.saw(waiting));
    }
    outcome(&CHECK, findings)
}

/// Queues that drop to tell senders, and netem, whose losses are somebody's wish. A shaper with one of them below it is one too.
fn drops_by_design(queue: &quell_host::QueueCounters, all: &[quell_host::QueueCounters]) -> bool {
    const KINDS: [&str; 12] = [
        "fq_codel", "codel", "cake", "cake_mq", "pie", "fq_pie", "red", "gred", "sfb", "choke",
        "dualpi2", "netem",
    ];
    let known = |queue: &quell_host::QueueCounters| KINDS.contains(&queue.kind.as_str());
    let below = |other: &&quell_host::QueueCounters| other.device == queue.device && !other.root;
    known(queue) || all.iter().filter(below).any(known)
}
